/*
 * decode_models.c
 *	  Checks whether our model is among the models that an endpoint serves (decode.h).
 *
 *	{"data": [{"id": "Qwen/Qwen3-32B", "max_model_len": 40960}, ...]}
 *
 * llama.cpp's "meta" has more.  If the model, or the adapter, is missing, the error is ERR_NOT_FOUND
 * with the available names.
 *
 * Tested by tests/unit/remote/codec/test_remote_reply_more.c.
 */
#include <limits.h>
#include <string.h>

#include "remote/codec/decode_internal.h"

#define MAX_NAMES	20			/* in the error's detail */

typedef struct DecodeModelsFound
{
	bool		it;
	int64_t		max_model_len;	/* -1 = not reported */
	int64_t		n_params;
	int64_t		weight_bytes;
} DecodeModelsFound;

static void
take_facts(StrView v, DecodeModelsFound *found)
{
	static const char *const names[] = {"max_model_len", "meta", "context_length", "context_window"};
	static const char *const meta[] = {"n_ctx", "n_ctx_train", "n_params", "size"};
	StrView		f[4];
	StrView		m[4];

	json_fields(v, names, 4, f);
	if (!json_whole(f[0], 1, INT32_MAX, &found->max_model_len) &&
		!json_whole(f[2], 1, INT32_MAX, &found->max_model_len))
		(void) json_whole(f[3], 1, INT32_MAX, &found->max_model_len);
	if (!json_fields(f[1], meta, 4, m))
		return;
	if (found->max_model_len < 0 && !json_whole(m[0], 1, INT32_MAX, &found->max_model_len))
		(void) json_whole(m[1], 1, INT32_MAX, &found->max_model_len);
	(void) json_whole(m[2], 0, INT64_C(1) << 50, &found->n_params);
	(void) json_whole(m[3], 0, INT64_C(1) << 50, &found->weight_bytes);
}

/* Append a name that comes from the endpoint, cleaned for display. */
static void
add_name(Buf *list, const Buf *name, int at)
{
	if (at > MAX_NAMES)
		return;
	buf_addstr(list, at > 0 ? ", " : "");
	if (at == MAX_NAMES)
		buf_addstr(list, "...");
	else
	{
		buf_addc(list, '"');
		reply_clean(list, name->data, name->len, 200);
		buf_addc(list, '"');
	}
}

static bool
find_model(const DecodedReply *r, StrView list, const char *want, size_t n, DecodeModelsFound *found,
		   Buf *names, Err *e)
{
	static const char *const keys[] = {"id"};
	JsonMembers m;
	StrView		v;
	StrView		id;
	Buf			name = {0};
	int			at = 0;

	json_elements(&m, list.s, list.n);
	while (json_element(&m, &v) > 0)
	{
		buf_reset(&name);
		if (!json_fields(v, keys, 1, &id) || !json_text(id, &name))
		{
			buf_free(&name);
			return reply_bad(r, e, "has a model without an id");
		}
		buf_reserve(&name, 1);
		add_name(names, &name, at++);
		if (name.len == n && memcmp(name.data, want, n) == 0)
		{
			found->it = true;
			take_facts(v, found);
		}
	}
	buf_free(&name);
	return true;
}

static bool
models_whole(DecodedReply *r, RPart *p, StrView v, Err *e)
{
	static const char *const keys[] = {"error", "data", "models"};
	const RequestFields *a = r->requests[p->request];
	const char *want = a->lora.n > 0 ? a->lora.s : r->o->model;
	size_t		n = a->lora.n > 0 ? a->lora.n : strlen(r->o->model);
	StrView		f[3];
	DecodeModelsFound found = {false, -1, -1, -1};
	Buf			names = {0};
	Buf			clean = {0};
	Buf			b = {0};
	WireOut		o = reply_out(&b);
	bool		ok;

	if (!json_fields(v, keys, 3, f))
		return reply_bad(r, e, "is no object");
	if (f[0].s != NULL)
		return reply_refused(r, f[0], e);
	if (json_kind(f[1]) != '[')
		return reply_bad(r, e, "has no list of models");
	ok = find_model(r, f[1], want, n, &found, &names, e);
	if (ok && !found.it)
	{
		reply_clean(&clean, want, n, 200);
		ok = err_set(e, ERR_NOT_FOUND, "the endpoint of model \"%.64s\" does not serve \"%s\"", r->o->name,
					 clean.data != NULL ? clean.data : "");
		buf_reset(&clean);
		reply_clean(&clean, names.data != NULL ? names.data : "no model", names.data != NULL ? names.len : 8,
					480);
		err_detail(e, "It serves %s.", clean.data);
		err_hint(e, "Option \"model\" is the model's name at the endpoint.");
	}
	if (ok)
	{
		if (r->o->max_model_len > 0)
			found.max_model_len = r->o->max_model_len;
		if (found.max_model_len > 0)
			wire_put_int(&o, WTAG_MAX_MODEL_LEN, found.max_model_len);
		if (found.weight_bytes >= 0)
			wire_put_int(&o, WTAG_WEIGHT_BYTES, found.weight_bytes);
		if (found.n_params >= 0)
			wire_put_int(&o, WTAG_N_PARAMS, found.n_params);
		reply_done(r, p->request, &b);
	}
	buf_free(&names);
	buf_free(&clean);
	buf_free(&b);
	return ok;
}

const ReplyShape reply_models = {.whole = models_whole};
