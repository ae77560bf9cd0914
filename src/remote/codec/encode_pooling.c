/*
 * encode_pooling.c
 *	  Bodies of /embeddings, /score, /rerank, /classify and /pooling, for one request or several.
 *
 * An instruction is prepended to each text here, because endpoints take complete texts.  Coalesced pairs
 * have the same first text, which is sent once.
 *
 * Tested by tests/unit/remote/codec/test_remote_body.c and test_remote_body_more.c.
 */
#include <string.h>

#include "remote/codec/encode_internal.h"

static bool
is(StrView s, const char *word)
{
	return s.n == strlen(word) && memcmp(s.s, word, s.n) == 0;
}

/* Return the path for the request's task.  NULL: *e. */
static const char *
place(const RequestFields *a, const ROptions *o, RShape *shape, bool *off_v1, Err *e)
{
	const Dialect *d = o->dialect;
	const char *path = NULL;

	*off_v1 = false;
	if (is(a->task, "embed"))
	{
		*shape = RSHAPE_EMBEDDINGS;
		path = o->embeddings_path;
	}
	else if (is(a->task, "score"))
	{
		*shape = o->score_path != NULL ? RSHAPE_SCORE : RSHAPE_RERANK;
		path = o->score_path != NULL ? o->score_path : o->rerank_path;
	}
	else if (is(a->task, "classify"))
	{
		*shape = RSHAPE_CLASSIFY;
		path = d->classify;
		*off_v1 = true;
	}
	else
	{
		*shape = RSHAPE_POOLING;
		path = d->pooling;
		*off_v1 = true;
	}
	if (path == NULL)
		body_refuse(o, e, "the task \"%.*s\" is not supported by the endpoint of model \"%s\"",
					(int) a->task.n, a->task.s, o->name);
	return path;
}

/* Return the instruction that precedes each text; the last field counts. */
static StrView
instruction_of(const RequestFields *a)
{
	WireIn		in = {.p = a->fields,.end = a->fields + a->len};
	WireField	f;
	StrView		found = {0};

	while (wire_next(&in, &f) > 0)
		if (f.tag == WTAG_INSTRUCTION)
			found = (StrView) {f.s, f.n};
	return found;
}

static bool
put_input(Maker *m, StrView lead, StrView text)
{
	Buf			b = {0};
	bool		ok;

	if (lead.n == 0)
		return body_text(m, "input", text.s, text.n);
	buf_add(&b, lead.s, lead.n);
	buf_add(&b, text.s, text.n);
	ok = body_text(m, "input", b.data, b.len);
	buf_free(&b);
	return ok;
}

/* Write one text alone, or an array of the texts of all requests. */
static bool
put_texts(Maker *m, const RequestFields *const *requests, int n, bool second, bool always_array)
{
	StrView		lead = second ? (StrView) {0} : instruction_of(m->a);
	bool		ok = true;

	if (n > 1 || always_array)
		json_open(&m->j, '[');
	for (int i = 0; ok && i < n; i++)
		ok = put_input(m, lead, second ? requests[i]->pair : requests[i]->prompt);
	if (n > 1 || always_array)
		json_close(&m->j, ']');
	return ok;
}

static bool
put_pairs(Maker *m, const RequestFields *const *requests, int n)
{
	bool		rerank = m->call->shape == RSHAPE_RERANK;

	for (int i = 0; i < n; i++)
		if (requests[i]->pair.s == NULL)
			return err_set(m->e, ERR_INTERNAL, "score request without a second text");
	json_key(&m->j, rerank ? "query" : "text_1");
	if (!body_text(m, "query", m->a->prompt.s, m->a->prompt.n))
		return false;
	json_key(&m->j, rerank ? "documents" : "text_2");
	return put_texts(m, requests, n, true, rerank);
}

bool
body_pool(const RequestFields *const *requests, int n, const ROptions *o, RCalls *calls, Err *e)
{
	const RequestFields *a = requests[0];
	RShape		shape;
	bool		off_v1;
	const char *path = place(a, o, &shape, &off_v1, e);
	Maker		m;

	if (path == NULL || body_begin(&m, a, o, calls, shape, path, e) == NULL)
		return false;
	m.call->n_requests = n;
	m.call->off_v1 = off_v1;
	if (a->want_ids)
		return body_refuse(o, e, "the tokens of the input are not reported by the endpoint of model "
								 "\"%s\"", o->name);
	if (shape == RSHAPE_SCORE || shape == RSHAPE_RERANK)
	{
		if (!put_pairs(&m, requests, n))
			return false;
	}
	else
	{
		json_key(&m.j, "input");
		if (!put_texts(&m, requests, n, false, true))
			return false;
	}
	if (shape == RSHAPE_POOLING && !is(a->task, "reward"))
	{
		json_key(&m.j, "task");
		json_str(&m.j, a->task.s, a->task.n);
	}
	/*
	 * base64 is exact and has a third of the bytes; but for vectors of tokens it wouldn't show the
	 * number of vectors
	 */
	if ((shape == RSHAPE_EMBEDDINGS && (m.caps & CAP_ENCODING)) || shape == RSHAPE_POOLING)
		json_key_cstr(&m.j, "encoding_format", shape == RSHAPE_POOLING ? "float" : "base64");
	if (!body_fields(&m))
		return false;
	body_end(&m);
	return true;
}
