/*
 * encode.c
 *	  Encodes requests as calls to an endpoint: which calls, and the common beginning of their bodies.
 *
 * The user's texts are checked before they become part of a body (base/json/json_reader.h): invalid
 * UTF-8 would be changed on the way, and invalid JSON could change the meaning of the body around it.
 *
 * COALESCING.  Inputs of several requests go into one call if the endpoint takes lists, and if the
 * requests are equal in every field except their input and the fields about the caller: the same model,
 * urls and secret, and the same role, so that no input can spoil the call of another role.
 *
 * Tested by tests/unit/remote/codec/test_remote_body.c and test_remote_body_more.c.
 */
#include "remote/codec/encode.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/json/json_reader.h"
#include "base/alloc.h"
#include "base/utf8char.h"
#include "remote/codec/encode_internal.h"

/* ---- for the encoders ---- */

bool
body_refuse(const ROptions *o, Err *e, const char *fmt,...)
{
	va_list		ap;
	char		text[512];

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err_set(e, ERR_UNSUPPORTED, "%s", text);
	err_detail(e, "Its dialect is \"%s\".", o->dialect->name);
	return err_hint(e, "If the endpoint supports more than that, set the model's option {\"dialect\": ...}.");
}

const char *
body_model(const RequestFields *a, const ROptions *o, Err *e)
{
	Buf			names = {0};

	if (a->lora.n == 0)
		return o->model;
	for (int i = 0; i < o->n_lora_modules; i++)
		if (strlen(o->lora_modules[i]) == a->lora.n && memcmp(o->lora_modules[i], a->lora.s, a->lora.n) == 0)
			return o->lora_modules[i];
	for (int i = 0; i < o->n_lora_modules; i++)
		buf_printf(&names, "%s%s", i > 0 ? ", " : "", o->lora_modules[i]);
	err_set(e, ERR_NOT_FOUND, "the endpoint of model \"%s\" has no adapter \"%.*s\"", o->name,
			(int) a->lora.n, a->lora.s);
	if (names.len > 0)
		err_hint(e, "Its option \"lora_modules\" names %s.", names.data);
	else
		err_hint(e, "Its option \"lora_modules\" names those that the endpoint serves.");
	buf_free(&names);
	return NULL;
}

RCall *
body_begin(Maker *m, const RequestFields *a, const ROptions *o, RCalls *calls, RShape shape,
		   const char *path, Err *e)
{
	const char *model = body_model(a, o, e);

	if (model == NULL)
		return NULL;
	calls->v = mem_realloc(calls->v, (size_t) (calls->n + 1) * sizeof(RCall));
	m->call = &calls->v[calls->n++];
	memset(m->call, 0, sizeof(*m->call));
	m->call->shape = shape;
	m->call->path = path;
	m->call->n_requests = 1;
	m->a = a;
	m->o = o;
	m->caps = o->dialect->caps;
	m->e = e;
	m->j = (JsonOut) {&m->call->body, false};
	json_open(&m->j, '{');
	json_key_cstr(&m->j, "model", model);
	return m->call;
}

/* A token is about four bytes; encode_generate.c adds the tokens that the output may take. */
void
body_end(Maker *m)
{
	json_close(&m->j, '}');
	m->call->tokens += (int64_t) m->call->body.len / 4;
}

bool
body_text(Maker *m, const char *name, const char *s, size_t n)
{
	if (!utf8_text_ok(s, n))
	{
		err_set(m->e, ERR_INVALID, "%s must be UTF-8 to be sent to an endpoint", name);
		return err_detail(m->e, "parameter=%s", name);
	}
	json_str(&m->j, s, n);
	return true;
}

bool
body_json(Maker *m, const char *name, const char *s, size_t n, char open)
{
	size_t		at = 0;

	while (at < n && (s[at] == ' ' || s[at] == '\t' || s[at] == '\n' || s[at] == '\r'))
		at++;
	if (!json_ok(s, n, BODY_DEPTH) || (open != 0 && s[at] != open))
	{
		err_set(m->e, ERR_INVALID, "%s must be %s", name, open == '{' ? "a JSON object" : open == '['
				? "a JSON array" : "JSON");
		return err_detail(m->e, "parameter=%s", name);
	}
	json_raw(&m->j, s + at, n - at);
	return true;
}

void
body_ids(Maker *m, StrView ids)
{
	WireField	f = {.type = WT_INTS,.s = ids.s,.n = ids.n};

	json_open(&m->j, '[');
	for (size_t i = 0; i < ids.n; i++)
		json_int(&m->j, wire_int_at(&f, i));
	json_close(&m->j, ']');
}

/* ---- limits ---- */

int
body_role_tokens(const RequestFields *a)
{
	WireIn		in = {.p = a->fields,.end = a->fields + a->len};
	WireField	f;
	int			most = 0;

	while (wire_next(&in, &f) > 0)
		if (f.tag == WTAG_ROLE_MAX_TOKENS)
			most = f.i > 0 && f.i <= INT_MAX ? (int) f.i : 0;
	return most;
}

bool
body_role_refuse(int most, double got, Err *e)
{
	err_set(e, ERR_INVALID, "max_tokens must be at most %d for this role, got %.0f", most, got);
	err_detail(e, "parameter=max_tokens, value=%.0f", got);
	return err_hint(e, "The limit is the role's setting vllm.role_max_tokens.");
}

/* ---- coalescing ---- */

/* Longer inputs are sent alone, which limits the size of a call. */
#define MAX_GATHERED	((size_t) 64 << 20)

bool
body_can_join(const RequestFields *a, const ROptions *o)
{
	return a->kind == WK_POOL && o->max_batch_inputs > 1 &&
		a->prompt.n + a->pair.n <= MAX_GATHERED / (size_t) o->max_batch_inputs;
}

/*
 * May this field differ between coalesced requests?  That holds for the input, and for fields about the
 * caller and the time.
 */
static bool
may_differ(const WireField *f, bool pair)
{
	switch (f->tag)
	{
		case WTAG_PROMPT:
			return !pair;
		case WTAG_PAIR:
		case WTAG_NOTE:
		case WTAG_TRACEPARENT:
		case WTAG_TRACESTATE:
		case WTAG_SESSION:
		case WTAG_REQUEST_ID:
			return true;
		default:
			return false;
	}
}

static int
next_compared(WireIn *in, WireField *f, bool pair)
{
	int			got;

	while ((got = wire_next(in, f)) > 0 && may_differ(f, pair))
		;
	return got;
}

static bool
same_field(const WireField *a, const WireField *b)
{
	if (a->tag != b->tag || a->type != b->type)
		return false;
	if (a->type == WT_INT)
		return a->i == b->i;
	if (a->type == WT_NUM)
		return memcmp(&a->num, &b->num, sizeof(double)) == 0;
	return a->n == b->n && (a->n == 0 || memcmp(a->s, b->s, a->n * (a->type == WT_STR ? 1 : 4)) == 0);
}

bool
body_same(const RequestFields *a, const RequestFields *b)
{
	WireIn		x = {.p = a->fields,.end = a->fields + a->len};
	WireIn		y = {.p = b->fields,.end = b->fields + b->len};
	bool		pair = a->pair.s != NULL;

	if (a->kind != b->kind || a->model_hash != b->model_hash || pair != (b->pair.s != NULL))
		return false;
	for (;;)
	{
		WireField	f,
					g;
		int			more = next_compared(&x, &f, pair);

		if (more != next_compared(&y, &g, pair) || more < 0)
			return false;
		if (more == 0)
			return true;
		if (!same_field(&f, &g))
			return false;
	}
}

/* ---- calls ---- */

/* Make the call that lists the endpoint's models. */
static bool
body_models(const RequestFields *a, const ROptions *o, RCalls *calls, Err *e)
{
	Maker		m;

	if (body_begin(&m, a, o, calls, RSHAPE_MODELS, o->models_path, e) == NULL)
		return false;
	m.call->get = true;
	buf_reset(&m.call->body);
	return true;
}

static bool
refuse_kind(const RequestFields *a, const ROptions *o, Err *e)
{
	switch (a->kind)
	{
		case WK_CHAT_RENDER:
			return body_refuse(o, e, "the endpoint of model \"%s\" does not render chat templates",
							   o->name) ||
				err_hint(e, "A local model with the same files does.");
		case WK_CHUNK:
			return body_refuse(o, e, "the endpoint of model \"%s\" does not cut texts into chunks",
							   o->name) ||
				err_hint(e, "A local model with the same tokenizer does.");
		case WK_MODEL_INSPECT:
			return body_refuse(o, e, "model \"%s\" is a remote model and has no files to inspect",
							   o->name) || err_hint(e, "%s", "");
		case WK_LORA_CHECK:
		case WK_LORA_LOAD:
		case WK_LORA_UNLOAD:
		case WK_LORA_LIST:
			return body_refuse(o, e, "adapters of model \"%s\" are its endpoint's", o->name) ||
				err_hint(e, "Its option \"lora_modules\" names those that the endpoint serves.");
		default:
			return err_set(e, ERR_UNSUPPORTED, "this is not supported for the remote model \"%s\"", o->name);
	}
}

static bool
make(const RequestFields *const *requests, int n, const ROptions *o, RCalls *calls, Err *e)
{
	const RequestFields *a = requests[0];

	switch (a->kind)
	{
		case WK_GENERATE:
			return body_generate(a, o, calls, e);
		case WK_POOL:
			return body_pool(requests, n, o, calls, e);
		case WK_LOGPROBS:
			return body_choose(a, o, calls, e);
		case WK_TOKENIZE:
		case WK_DETOKENIZE:
			return body_tokenize(a, o, calls, e);
		case WK_API:
			return body_api(a, o, calls, e);
		case WK_MODEL_CHECK:
		case WK_MODEL_LOAD:
			return body_models(a, o, calls, e);
		default:
			return refuse_kind(a, o, e);
	}
}

bool
body_make(const RequestFields *const *requests, int n, const ROptions *o, RCalls *calls, Err *e)
{
	memset(calls, 0, sizeof(*calls));
	ALWAYS(n > 0);
	if (n > 1 && requests[0]->kind != WK_POOL)
		return err_set(e, ERR_INTERNAL, "requests in one call that don't gather");
	if (make(requests, n, o, calls, e))
		return true;
	body_free(calls);
	return false;
}

void
body_free(RCalls *calls)
{
	for (int i = 0; i < calls->n; i++)
		buf_free(&calls->v[i].body);
	mem_free(calls->v);
	memset(calls, 0, sizeof(*calls));
}
