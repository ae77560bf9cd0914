/*
 * context_length.c
 *	  How long a model's context is, where its options don't say and somebody needs to know.
 *
 * A completion without max_tokens is asked for with a number (encode_generate.c).  So the first such
 * request's job is a GET of the endpoint's list of models, with the limits, tries and errors of any other
 * call; the others stand by.  Then all go back to the front of the queue.  A list that doesn't tell, as
 * another database's of a model that isn't loaded there, is followed by a second question: vLLM's answer
 * about the tokens of a text has the length, too.  If that doesn't tell the requests are refused; if the
 * endpoint can't be asked all have that error.
 *
 * What was told (llm_load_model learns it, too) is kept with the model's options for an hour, but not beyond
 * a failure: another endpoint may be at that url then.
 *
 * Tested by tests/unit/remote/test_remote_length.c.
 */
#include "base/alloc.h"
#include "remote/codec/dialect.h"
#include "remote/dispatcher_internal.h"

#define KNOWN_US	INT64_C(3600000000)

static bool
wanted(RModel *m, const PendingRequest *a)
{
	if (m->o->told_len > 0 && m->l->now_us - m->told_us >= KNOWN_US)
		m->o->told_len = 0;
	return a->asked != LENGTH_ALL && body_wants_length(&a->w, m->o);
}

bool
length_stands_by(RModel *m, PendingRequest *a)
{
	if (m->sizer == NULL || !wanted(m, a))
		return false;
	a->waits_for_length = true;
	return true;
}

void
length_begin(CallGroup *j)
{
	if (j->n > 1 || !wanted(j->m, j->requests[0]))
		return;
	j->sizes = true;
	/* not the request's adapter: it has its base's length */
	j->question = (RequestFields) {
		.kind = j->requests[0]->asked == LENGTH_NOTHING ? WK_MODEL_LOAD : WK_TOKENIZE,.prompt = {"x", 1},
			.max_tokens = -1,.idempotent = true
	};
	j->w[0] = &j->question;
}

void
length_learn(RModel *m, const Buf *fields)
{
	WireIn		in = {fields->data, fields->data + fields->len};
	WireField	f;

	m->o->told_len = 0;
	while (fields->len > 0 && wire_next(&in, &f) > 0)
		if (f.tag == WTAG_MAX_MODEL_LEN && f.i > 0 && f.i <= INT32_MAX)
			m->o->told_len = (int) f.i;
	m->told_us = m->l->now_us;
}

void
length_forget(RModel *m)
{
	m->o->told_len = 0;
}

/* Those who stand by no more, the first one first; *n of them. */
static PendingRequest **
stand_down(RModel *m, int *n)
{
	Dispatcher *l = m->l;
	PendingRequest **v = mem_alloc(((size_t) l->n_requests + 1) * sizeof(*v));
	int			at = 0;

	/* the newest is the first of the dispatcher's */
	for (PendingRequest *a = l->requests; a != NULL; a = a->next)
		if (a->m == m && a->waits_for_length)
			v[at++] = a;
	for (int i = 0; i < at; i++)
		v[i]->waits_for_length = false;
	for (int i = 0; i < at / 2; i++)
	{
		PendingRequest *a = v[i];

		v[i] = v[at - 1 - i];
		v[at - 1 - i] = a;
	}
	*n = at;
	return v;
}

void
length_over(RModel *m, LengthAsked asked)
{
	int			n;
	PendingRequest **v = stand_down(m, &n);

	m->sizer = NULL;
	for (int i = 0; i < n; i++)
	{
		if (v[i]->asked < asked)
			v[i]->asked = asked;
		pending_requeue(v[i]);
	}
	mem_free(v);
}

void
length_told(CallGroup *j, const Buf *fields)
{
	static const Buf nothing = {0};
	RModel	   *m = j->m;
	PendingRequest *a = j->requests[0];
	bool		tokens = j->question.kind == WK_MODEL_LOAD && (m->o->dialect->caps & CAP_VLLM) != 0 &&
		m->o->tokenize_path != NULL;

	length_learn(m, fields != NULL ? fields : &nothing);
	a->asked = m->o->told_len > 0 ? LENGTH_NOTHING : tokens ? LENGTH_LIST : LENGTH_ALL;
	/* no call of its own has been tried yet */
	a->tries = a->charged = 0;
	a->called_us = 0;
	pending_requeue(a);
	length_over(m, a->asked);
	job_kill(j);
}

bool
length_failed(CallGroup *j, const Err *e, const ErrorExtra *x)
{
	int			n;
	PendingRequest **v;

	switch (e->cls)
	{
			/* no such list, or not a word of the model in it */
		case ERR_NOT_FOUND:
		case ERR_PROTOCOL:
		case ERR_UNSUPPORTED:
		case ERR_INVALID:
			length_told(j, NULL);
			return true;
		default:
			break;
	}
	v = stand_down(j->m, &n);
	for (int i = 0; i < n; i++)
		pending_error(v[i], e, x);
	mem_free(v);
	return false;
}
