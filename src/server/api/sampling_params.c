/*
 * sampling_params.c
 *	  Sampling parameters of a body, as fields of an inner request's message.
 *
 * They are the rows with BODY() of request_fields.def.  The core checks ranges that depend on the model,
 * as for any request.
 *
 * Tested by tests/unit/server/api/test_api.c.
 */
#include "server/api/api_internal.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/json/json.h"

/* ---- sampling parameters ---- */

typedef enum ParamType
{
	P_NUM, P_INT, P_BIG, P_BOOL, P_STR, P_STRS, P_IDS, P_JSON
} ParamType;

typedef struct Param
{
	const char *name;			/* NULL: read elsewhere, or not a member of bodies */
	WireTag		tag;
	ParamType	type;
	double		min, max;		/* limits of a number, or of a string's characters; 0 = no limit */
	const char *rule;
} Param;

#define NAME_BODY(key) #key
#define NAME_KEY(key) NULL

static const Param params[] = {
#define FIELD(tag, number, name, type, least, most, rule, body, ...) \
	{NAME_##body, WTAG_##tag, P_##type, (double) (least), (double) (most), rule},
#define CALL_OPTION(...)
#include "ipc/request_fields.def"
#undef FIELD
#undef CALL_OPTION
};

/* Parameters that this version does not support, and the value at which they have no effect. */
typedef struct LaterParam
{
	const char *name;
	double		neutral;
} LaterParam;

static const LaterParam later[] = {
	{"routed_experts_prompt_start", 0},
	{"kv_transfer_params", 0},
	{"ec_transfer_params", 0},
};

static bool
bad_number(const Param *p, const ApiMember *m, Err *e)
{
	int			n = (int) (m->raw.n < 64 ? m->raw.n : 64);

	if (p->type == P_INT)
		err_set(e, ERR_INVALID, "%s must be an integer between %.0f and %.0f, got %.*s", p->name, p->min,
				p->max, n, m->raw.s);
	else if (p->min == DBL_MIN && p->max == DBL_MAX)
		err_set(e, ERR_INVALID, "%s must be a number greater than 0, got %.*s", p->name, n, m->raw.s);
	else if (p->min == DBL_MIN)
		err_set(e, ERR_INVALID, "%s must be a number greater than 0 and at most %g, got %.*s", p->name,
				p->max, n, m->raw.s);
	else
		err_set(e, ERR_INVALID, "%s must be a number between %g and %g, got %.*s", p->name, p->min, p->max, n,
				m->raw.s);
	return err_detail(e, "parameter=%s", p->name);
}

static bool
put_number(const Param *p, const ApiMember *m, WireOut *o, Err *e)
{
	double		v = m->v->num;

	if (!json_is_number(m->v) || !(v >= p->min && v <= p->max) || (p->type == P_INT && v != floor(v)))
		return bad_number(p, m, e);
	if (p->type == P_INT)
		wire_put_int(o, p->tag, (int64_t) v);
	else
		wire_put_num(o, p->tag, v);
	return true;
}

/* Write a string, or an array of strings. */
static bool
put_strings(const Param *p, const Json *v, WireOut *o, Err *e)
{
	if (json_is_string(v))
	{
		wire_put_str(o, p->tag, v->s, strlen(v->s));
		return true;
	}
	if (!json_is_array(v))
		return api_bad(e, p->name, "must be a string or an array of strings");
	for (const Json *x = v->child; x != NULL; x = x->next)
	{
		if (!json_is_string(x))
			return api_bad(e, p->name, "must be a string or an array of strings");
		wire_put_str(o, p->tag, x->s, strlen(x->s));
	}
	return true;
}

static size_t
n_chars(const char *s)
{
	size_t		n = 0;

	for (; *s != '\0'; s++)
		n += (*s & 0xC0) != 0x80;
	return n;
}

static bool
put_param(const Param *p, const ApiMember *m, WireOut *o, Err *e)
{
	switch (p->type)
	{
		case P_NUM:
		case P_INT:
			return put_number(p, m, o, e);
		case P_BOOL:
			if (!json_is_bool(m->v))
				return api_bad(e, p->name, "must be true or false");
			wire_put_int(o, p->tag, json_is_true(m->v));
			return true;
		case P_STR:
			if (!json_is_string(m->v))
				return api_bad(e, p->name, "must be a string");
			if (p->max > 0 && (m->v->s[0] == '\0' || n_chars(m->v->s) > (size_t) p->max))
				return api_bad(e, p->name, p->rule);
			wire_put_str(o, p->tag, m->v->s, strlen(m->v->s));
			return true;
		case P_STRS:
			return put_strings(p, m->v, o, e);
		case P_JSON:
			if (!json_is_object(m->v))
				return api_bad(e, p->name, p->tag != WTAG_LOGIT_BIAS ? "must be an object" :
							   "must be an object of token ids and numbers, such as {\"1234\": -100}");
			wire_put_str(o, p->tag, m->raw.s, m->raw.n);
			return true;
		case P_IDS:
			if (!json_is_array(m->v))
				return api_bad(e, p->name, "must be an array of token ids");
			if (m->v->child == NULL)
				return p->tag != WTAG_ALLOWED_TOKEN_IDS || api_bad(e, p->name, "must not be empty");
			return api_put_ids(o, p->tag, m->v, p->name, e);
		case P_BIG:				/* SQL functions only */
			break;
	}
	return true;
}

static bool
is_nothing(const Json *v, double neutral)
{
	return (json_is_number(v) && v->num == neutral) ||
		(json_is_bool(v) && json_is_true(v) == (neutral == 1)) ||
		((json_is_array(v) || json_is_object(v)) && v->child == NULL);
}

/* Refuse names that older versions of vLLM had. */
static bool
refuse_guided(ApiCall *a, Err *e)
{
	static const char *const names[][2] = {
		{"guided_json", "json"}, {"guided_regex", "regex"}, {"guided_choice", "choice"},
		{"guided_grammar", "grammar"},
		{"guided_whitespace_pattern", "whitespace_pattern"}, {"structural_tag", "structural_tag"},
		{"guided_decoding_backend", NULL}
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		if (apibody_get(&a->body, names[i][0]) == NULL)
			continue;
		api_bad(e, names[i][0], "is not a field any more");
		if (names[i][1] == NULL)
			return err_hint(e, "There is one engine for structured output.");
		return err_hint(e, "Use structured_outputs with the key \"%s\".", names[i][1]);
	}
	return true;
}

bool
api_params(ApiCall *a, WireOut *o, Err *e)
{
	if (!refuse_guided(a, e))
		return false;
	for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++)
	{
		const ApiMember *m = params[i].name != NULL ? apibody_get(&a->body, params[i].name) : NULL;

		if (m != NULL && !put_param(&params[i], m, o, e))
			return false;
	}
	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++)
	{
		const ApiMember *m = apibody_get(&a->body, later[i].name);

		if (m == NULL || is_nothing(m->v, later[i].neutral))
			continue;
		err_set(e, ERR_UNSUPPORTED, "%s is not supported", later[i].name);
		return err_detail(e, "parameter=%s", later[i].name);
	}
	return true;
}

/* ---- a chat's fields ---- */

static void
put_raw(ApiCall *a, WireOut *o, const char *name, WireTag tag)
{
	const ApiMember *m = apibody_get(&a->body, name);

	if (m != NULL)
		wire_put_str(o, tag, m->raw.s, m->raw.n);
}

static bool
put_template(ApiCall *a, WireOut *o, Err *e)
{
	const char *source = NULL;

	/* below, an error tells a member of another type from one that is not given */
	ASSERT(e->cls == ERR_NONE);
	if (!apibody_str(&a->body, "chat_template", &source, e) || source == NULL)
		return source == NULL && e->cls == ERR_NONE;
	if (!a->req->trust_template)
	{
		api_bad(e, "chat_template", "of a request is not trusted");
		return err_hint(e, "Set vllm.trust_request_chat_template to on.");
	}
	wire_put_str(o, WTAG_CHAT_TEMPLATE, source, strlen(source));
	return true;
}

/* Check that each message has a role, and a text or parts; the assistant's may be missing. */
static bool
check_messages(const Json *messages, Err *e)
{
	for (const Json *m = messages->child; m != NULL; m = m->next)
	{
		const char *role = json_str_of(json_get(m, "role"));
		const Json *content = json_get(m, "content");
		bool		none = content == NULL || json_is_null(content);

		if (!json_is_object(m) || role == NULL)
			return api_bad(e, "messages", "must be objects with a role");
		if (none ? strcmp(role, "assistant") != 0 : !json_is_string(content) && !json_is_array(content))
			return api_bad(e, "messages", "must have a content: a string, or an array of parts");
	}
	return true;
}

bool
api_chat_fields(ApiCall *a, WireOut *o, bool generation_prompt, Err *e)
{
	static const char *const refused[] = {"mm_processor_kwargs", "media_io_kwargs", NULL};
	const ApiMember *messages = apibody_get(&a->body, "messages");
	bool		go_on = false;
	bool		special = false;

	e->cls = ERR_NONE;
	if (messages == NULL || !json_is_array(messages->v) || messages->v->child == NULL)
		return api_bad(e, "messages", "must be an array of at least one message");
	if (!check_messages(messages->v, e))
		return false;
	if (!apibody_bool(&a->body, "add_generation_prompt", &generation_prompt, e) ||
		!apibody_bool(&a->body, "continue_final_message", &go_on, e) ||
		!apibody_bool(&a->body, "add_special_tokens", &special, e) ||
		!apibody_refuse(&a->body, refused, e) || !put_template(a, o, e))
		return false;
	if (go_on && generation_prompt)
		return api_bad(e, "continue_final_message", "and add_generation_prompt exclude each other");
	if (special)
	{
		err_set(e, ERR_UNSUPPORTED, "add_special_tokens of a chat is not supported");
		err_detail(e, "parameter=add_special_tokens");
		return err_hint(e, "A chat template writes the special tokens itself.");
	}
	wire_put_str(o, WTAG_MESSAGES, messages->raw.s, messages->raw.n);
	put_raw(a, o, "tools", WTAG_TOOLS);
	put_raw(a, o, "documents", WTAG_DOCUMENTS);
	put_raw(a, o, "chat_template_kwargs", WTAG_CHAT_KWARGS);
	wire_put_int(o, WTAG_GENERATION_PROMPT, generation_prompt);
	wire_put_int(o, WTAG_CONTINUE_FINAL, go_on);
	return true;
}
