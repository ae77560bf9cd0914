/*
 * generation.c
 *	  Common members of the bodies that generate: n, seeds, usage, finish reasons.
 *
 * A prompt is an item, whose n choices share it.  With a seed, choice i has seed + i, as in vLLM.
 *
 * Tested by tests/unit/server/api/test_api.c and tests/sql/30_bodies.sql.
 */
#include "server/api/api_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/json/json.h"

#define MAX_N			16384	/* choices of a prompt, as in vLLM */

/* Read {"include_usage": bool, "continuous_usage_stats": bool}. */
static bool
read_stream_options(ApiCall *a, ApiGen *g, Err *e)
{
	const ApiMember *m = apibody_get(&a->body, "stream_options");

	if (m == NULL)
		return true;
	if (!a->stream)
		return api_bad(e, "stream_options", "can only be given when the answer is streamed");
	if (!json_is_object(m->v))
		return api_bad(e, "stream_options", "must be an object");
	for (const Json *v = m->v->child; v != NULL; v = v->next)
	{
		bool		usage = strcmp(v->key, "include_usage") == 0;
		bool		always = strcmp(v->key, "continuous_usage_stats") == 0;

		if ((usage || always) && !json_is_bool(v) && !json_is_null(v))
			return api_bad(e, "stream_options", "has a value that is neither true nor false");
		if (usage)
			g->usage = json_is_true(v);
		else if (always)
			g->usage_always = json_is_true(v);
	}
	g->usage_always = g->usage_always && g->usage;
	return true;
}

/* Read n: the number of choices, or of the best beams of a beam search. */
static bool
put_n(ApiCall *a, ApiGen *g, WireOut *o, Err *e)
{
	const ApiMember *best = apibody_get(&a->body, "best_of");
	const ApiMember *penalty = apibody_get(&a->body, "length_penalty");
	bool		beams = false;

	if (!apibody_int(&a->body, "n", 1, MAX_N, &g->n, e) ||
		!apibody_bool(&a->body, "use_beam_search", &beams, e))
		return false;
	if (best != NULL && !(json_is_number(best->v) && best->v->num == (double) g->n))
	{
		err_set(e, ERR_UNSUPPORTED, "best_of is not supported");
		return err_detail(e, "parameter=best_of");
	}
	if (beams && a->stream)
		return api_bad(e, "use_beam_search", "can't be used when the answer is streamed");
	wire_put_int(o, beams ? WTAG_BEAM_WIDTH : WTAG_N, g->n);
	if (penalty == NULL)
		return true;
	if (!json_is_number(penalty->v))
		return api_bad(e, "length_penalty", "must be a number");
	if (beams)
		wire_put_num(o, WTAG_LENGTH_PENALTY, penalty->v->num);
	else if (penalty->v->num != 1)
		return api_bad(e, "length_penalty", "needs use_beam_search");
	return true;
}

static bool
put_logprob_ids(ApiCall *a, WireOut *o, Err *e)
{
	const ApiMember *m = apibody_get(&a->body, "logprob_token_ids");

	if (m == NULL)
		return true;
	if (!json_is_array(m->v))
		return api_bad(e, "logprob_token_ids", "must be an array of token ids");
	return m->v->child == NULL || api_put_ids(o, WTAG_LOGPROB_TOKEN_IDS, m->v, "logprob_token_ids", e);
}

bool
apigen_read(ApiCall *a, ApiGen *g, Err *e)
{
	static const char *const ignored[] = {"user", "metadata", "store", "service_tier", "safety_identifier",
	"prompt_cache_key", "session_id", NULL};
	int64_t		seed = -1;
	WireOut		o = chan_out(&g->params);

	g->n = 1;
	g->logprobs = g->prompt_logprobs = API_NO_LOGPROBS;
	if (!put_n(a, g, &o, e) || !put_logprob_ids(a, &o, e) ||
		!apibody_int(&a->body, "seed", INT64_MIN, INT64_MAX, &seed, e) ||
		!apibody_int(&a->body, "prompt_logprobs", -1, INT32_MAX, &g->prompt_logprobs, e) ||
		!apibody_bool(&a->body, "return_token_ids", &g->want_ids, e) ||
		!apibody_bool(&a->body, "return_tokens_as_token_ids", &g->as_ids, e) ||
		!read_stream_options(a, g, e) || !api_params(a, &o, e))
		return false;
	if (a->stream && g->prompt_logprobs != API_NO_LOGPROBS)
		return api_bad(e, "prompt_logprobs", "are not available when the answer is streamed");
	if (seed != -1)
		wire_put_int(&o, WTAG_SEED, seed);
	if (apibody_get(&a->body, "stop") != NULL)
		g->stop = apibody_get(&a->body, "stop")->v;
	apibody_ignore(&a->body, ignored);
	wire_put_int(&o, WTAG_WHOLE_LENGTH, 1);
	wire_put_int(&o, WTAG_WANT_ANSWERS, 1);
	wire_put_int(&o, WTAG_STREAM, a->stream);
	wire_put_int(&o, WTAG_WANT_IDS, g->want_ids || g->usage_always);
	return true;
}

void
apigen_put_logprobs(ApiGen *g)
{
	WireOut		o = chan_out(&g->params);

	if (g->logprobs != API_NO_LOGPROBS)
		wire_put_int(&o, WTAG_LOGPROBS, g->logprobs);
	if (g->prompt_logprobs != API_NO_LOGPROBS)
		wire_put_int(&o, WTAG_PROMPT_LOGPROBS, g->prompt_logprobs);
}

void
apigen_put_truncation(const ApiGen *g, WireOut *o)
{
	WireIn		in = {.p = g->params.data,.end = g->params.data + g->params.len};
	WireField	f;

	while (g->params.len > 0 && wire_next(&in, &f) > 0)
		if (f.tag == WTAG_TRUNCATE_PROMPT_TOKENS || f.tag == WTAG_MAX_TOKENS)
			wire_put_int(o, f.tag, f.i);
		else if (f.tag == WTAG_TRUNCATION_SIDE)
			wire_put_str(o, f.tag, f.s, f.n);
}

void
apigen_free(ApiGen *g)
{
	buf_free(&g->params);
	mem_free(g->sent);
}

void
apigen_item(ApiCall *a, const ApiGen *g, int prompt, const Buf *fields, int role)
{
	ApiItem    *it = api_item(a, WK_GENERATE, role, prompt);

	buf_add(&it->in, fields->data, fields->len);
	buf_add(&it->in, g->params.data, g->params.len);
}

void
apigen_chunk_usage(JsonOut *j, const ApiGen *g, const ApiItem *it, int64_t completion)
{
	ApiUsage	u = {.prompt = it->prompt_tokens,.completion = completion,.reasoning = -1};

	if (!g->usage)
		return;
	json_key(j, "usage");
	if (g->usage_always)
		api_write_usage(j, &u);
	else
		json_null(j);
}

void
apigen_usage_chunk(ApiCall *a, const char *object, const ApiUsage *u)
{
	Buf			out = {0};
	JsonOut		j = {.b = &out};

	json_open(&j, '{');
	api_write_head(a, &j, object);
	json_key(&j, "choices");
	json_open(&j, '[');
	json_close(&j, ']');
	json_key(&j, "usage");
	api_write_usage(&j, u);
	json_close(&j, '}');
	api_chunk(a, &out);
	buf_free(&out);
}

bool
apigen_is_stop(const Json *stop, StrView reason)
{
	const Json *v = json_is_array(stop) ? stop->child : stop;

	for (; v != NULL; v = json_is_array(stop) ? v->next : NULL)
		if (json_is_string(v) && strlen(v->s) == reason.n && memcmp(v->s, reason.s, reason.n) == 0)
			return true;
	return false;
}

void
apigen_write_finish(JsonOut *j, const ApiGen *g, const ApiAnswer *r)
{
	json_key(j, "finish_reason");
	if (r != NULL && r->finish_reason.s != NULL)
		json_str(j, r->finish_reason.s, r->finish_reason.n);
	else
		json_null(j);
	json_key(j, "stop_reason");
	if (r == NULL || r->stop_reason.s == NULL)
		json_null(j);
	else if (r->stop_reason.n > 0 && r->stop_reason.n < 12 && !apigen_is_stop(g->stop, r->stop_reason) &&
			 strspn(r->stop_reason.s, "0123456789") >= r->stop_reason.n)
		json_raw(j, r->stop_reason.s, r->stop_reason.n);
	else
		json_str(j, r->stop_reason.s, r->stop_reason.n);
}

void
api_write_ids(JsonOut *j, const WireField *ids)
{
	json_open(j, '[');
	for (size_t i = 0; i < ids->n; i++)
		json_int(j, wire_int_at(ids, i));
	json_close(j, ']');
}

void
api_write_head(const ApiCall *a, JsonOut *j, const char *object)
{
	json_key_cstr(j, "id", a->id);
	json_key_cstr(j, "object", object);
	json_key_int(j, "created", a->created);
	json_key_cstr(j, "model", a->model);
}
