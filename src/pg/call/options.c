/*
 * options.c
 *	  Options of a call: named arguments, params, session defaults.
 *
 * request_fields.def has a row for every option; the only options that this file knows by name are
 * those of the few rules that join two of them (options_finish).  A value is taken from the first
 * place that gives one: named argument, params, vllm.default_params, the model's generation config
 * (the engine), hard default (the engine).  A json null is "not given".  Every refusal is an ERROR
 * whose detail has the parameter and the value; the error for an unknown key lists the known ones.
 *
 * Functions with options of their own have their own table (pooling_options.c), which the same code
 * reads.
 *
 * default_params.c implements vllm.default_params.
 *
 * Tests: tests/sql/03_options.sql.
 */
#include "postgres.h"

#include <float.h>
#include <limits.h>

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "pg/call/output_shape.h"
#include "pg/client/client.h"
#include "pg/call/default_params.h"
#include "pg/util/encoding.h"
#include "pg/util/named_args.h"
#include "pg/util/number_array.h"
#include "pg/util/own_type.h"
#include "pg/util/option_hint.h"
#include "pg/call/options.h"
#include "ipc/beam_fields.h"
#include "ipc/traceparent.h"
#include "pg/vllm_pg.h"

static const OptDef optdefs[OPT_COUNT] = {
#define OPTION(name, type, tag, lo, hi, rule) \
	[OPT_##name] = {#name, OPT_TYPE_##type, tag, (double) (lo), (double) (hi), rule},
#define ALIAS(alias, name)
#define REMOVED(name, hint)
#include "pg/call/options.def"
#undef OPTION
#undef ALIAS
#undef REMOVED
};

static const struct
{
	const char *name;
	const char *hint;
}			removed[] = {
#define OPTION(name, type, tag, lo, hi, rule)
#define ALIAS(alias, name)
#define REMOVED(name, hint) {#name, hint},
#include "pg/call/options.def"
#undef OPTION
#undef ALIAS
#undef REMOVED
};

static const OptAlias aliases[] = {
#define OPTION(name, type, tag, lo, hi, rule)
#define ALIAS(alias, name) {#alias, #name},
#define REMOVED(name, hint)
#include "pg/call/options.def"
#undef OPTION
#undef ALIAS
#undef REMOVED
};

static const OptTable generate_options = {optdefs, OPT_COUNT, aliases, lengthof(aliases)};

/* the type's name in an error message */
static const char *const type_names[] = {
	[OPT_TYPE_INT] = "an integer",
	[OPT_TYPE_BIG] = "an integer",
	[OPT_TYPE_NUM] = "a number",
	[OPT_TYPE_BOOL] = "true or false",
	[OPT_TYPE_STR] = "a string",
	[OPT_TYPE_STRS] = "a string or an array of strings",
	[OPT_TYPE_IDS] = "an array of integers",
	[OPT_TYPE_JSON] = "json",
};

/* the SQL type of its argument */
static const Oid arg_types[] = {
	[OPT_TYPE_INT] = INT4OID,
	[OPT_TYPE_BIG] = INT8OID,
	[OPT_TYPE_NUM] = FLOAT8OID,
	[OPT_TYPE_BOOL] = BOOLOID,
	[OPT_TYPE_STR] = TEXTOID,
	[OPT_TYPE_STRS] = TEXTARRAYOID,
	[OPT_TYPE_IDS] = INT4ARRAYOID,
	[OPT_TYPE_JSON] = JSONOID,
};

void
options_refuse(const OptDef *d, const char *rule, const char *value)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s %s", d->name, rule),
			 errdetail("parameter=%s, value=%s", d->name, value)));
}

/* Return the rule that a whole number broke.  A range without an upper bound ends where int4 does. */
static const char *
int_rule(const OptDef *d, bool too_large)
{
	return too_large && d->type == OPT_TYPE_INT && d->hi == INT_MAX ?
		psprintf("must be at most %d", INT_MAX) : d->rule;
}

static void
set_int(const OptDef *d, OptValue *v, int64 i)
{
	/* BIG rows accept every int64; their bounds are doubles, which would round at the ends */
	if (d->type != OPT_TYPE_BIG && !(i >= d->lo && i <= d->hi))
		options_refuse(d, int_rule(d, i > d->hi), psprintf(INT64_FORMAT, i));
	v->i = i;
	v->set = true;
}

static void
set_num(const OptDef *d, OptValue *v, double num)
{
	if (!(num >= d->lo && num <= d->hi))	/* NaN too */
		options_refuse(d, d->rule, psprintf("%g", num));
	v->num = num;
	v->set = true;
}

static void
set_strs(const OptDef *d, OptValue *v, char **strs, int n)
{
	for (int i = 0; i < n; i++)
		if (d->type == OPT_TYPE_STRS && strs[i][0] == '\0')
			options_refuse(d, "cannot contain an empty string", "''");
	if ((d->tag == WTAG_TRACEPARENT && !traceparent_ok(strs[0], strlen(strs[0]))) ||
		(d->tag == WTAG_TRACESTATE && !tracestate_ok(strs[0], strlen(strs[0]))))
		options_refuse(d, d->rule, strs[0]);
	v->strs = strs;
	v->n = n;
	v->set = true;
}

static void
set_ids(const OptDef *d, OptValue *v, int32 *ids, int n)
{
	for (int i = 0; i < n; i++)
		if (ids[i] < d->lo)
			options_refuse(d, d->rule, psprintf("%d", ids[i]));
	v->ids = ids;
	v->n = n;
	v->set = true;
}

/* ---- named arguments ---- */

static void
set_array(const OptDef *d, OptValue *v, ArrayType *array)
{
	Datum	   *elems;
	bool	   *nulls;
	int			n;
	char	  **strs;

	if (array_contains_nulls(array))
		options_refuse(d, "cannot contain a null value", "null");
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elems, &nulls, &n);
	strs = palloc(sizeof(char *) * Max(n, 1));
	for (int i = 0; i < n; i++)
		strs[i] = TextDatumGetCString(elems[i]);
	set_strs(d, v, strs, n);
}

static void
set_id_array(const OptDef *d, OptValue *v, ArrayType *array)
{
	int			n;
	int64		bad;
	int32	   *ids;

	if (array_contains_nulls(array))
		options_refuse(d, "cannot contain a null value", "null");
	ids = number_array_ints(array, &n, &bad);
	if (ids == NULL)
		options_refuse(d, bad < d->lo ? d->rule : "has an id beyond any vocabulary",
					   psprintf(INT64_FORMAT, bad));
	set_ids(d, v, ids, n);
}

/*
 * Store a value as it is written.  null is "not given", so the session's defaults apply.  But
 * tool_choice null counts as given and replaces the session's default: llm_chat_run() must be able to
 * remove a forced choice.
 */
static void
set_json_text(const OptDef *d, OptValue *v, char *json)
{
	char	  **str;
	size_t		space = strspn(json, " \t\r\n");

	if (strncmp(json + space, "null", 4) == 0)
	{
		v->set = d->tag == WTAG_TOOL_CHOICE;
		v->n = 0;
		return;
	}
	str = palloc(sizeof(char *));
	*str = json;
	set_strs(d, v, str, 1);
}

void
options_argument(const OptDef *d, OptValue *v, Datum arg)
{
	char	  **str;

	switch (d->type)
	{
		case OPT_TYPE_INT:
			set_int(d, v, DatumGetInt32(arg));
			break;
		case OPT_TYPE_BIG:
			set_int(d, v, DatumGetInt64(arg));
			break;
		case OPT_TYPE_NUM:
			set_num(d, v, DatumGetFloat8(arg));
			break;
		case OPT_TYPE_BOOL:
			set_int(d, v, DatumGetBool(arg));
			break;
		case OPT_TYPE_STR:
			str = palloc(sizeof(char *));
			*str = TextDatumGetCString(arg);
			set_strs(d, v, str, 1);
			break;
		case OPT_TYPE_STRS:
			set_array(d, v, DatumGetArrayTypeP(arg));
			break;
		case OPT_TYPE_IDS:
			set_id_array(d, v, DatumGetArrayTypeP(arg));
			break;
		case OPT_TYPE_JSON:
			set_json_text(d, v, TextDatumGetCString(arg));
			break;
	}
}

/* ---- params and vllm.default_params ---- */

static char *
json_text(JsonbValue *j)
{
	switch (j->type)
	{
		case jbvNull:
			return pstrdup("null");
		case jbvBool:
			return pstrdup(j->val.boolean ? "true" : "false");
		case jbvNumeric:
			return numeric_normalize(j->val.numeric);
		case jbvString:
			return psprintf("\"%.*s\"", j->val.string.len, j->val.string.val);
		case jbvBinary:
			return JsonbToCString(NULL, j->val.binary.data, j->val.binary.len);
		default:
			return pstrdup("?");
	}
}

static void
wrong_type(const OptDef *d, JsonbValue *j)
{
	options_refuse(d, psprintf("must be %s", type_names[d->type]), json_text(j));
}

static int64
json_int(const OptDef *d, JsonbValue *j, JsonbValue *whole)
{
	char	   *s,
			   *end;
	int64		i;

	if (j->type != jbvNumeric)
		wrong_type(d, whole);
	s = numeric_normalize(j->val.numeric);
	errno = 0;
	i = strtoll(s, &end, 10);
	if (*end != '\0')
		wrong_type(d, whole);
	if (errno == ERANGE)
		options_refuse(d, int_rule(d, *s != '-'), s);
	return i;
}

static void
set_json_array(const OptDef *d, OptValue *v, JsonbValue *j)
{
	JsonbContainer *array;
	int			n;
	void	   *values;

	if (j->type != jbvBinary || !JsonContainerIsArray(j->val.binary.data))
		wrong_type(d, j);
	array = j->val.binary.data;
	n = JsonContainerSize(array);
	values = palloc0(Max(n, 1) * (d->type == OPT_TYPE_STRS ? sizeof(char *) : sizeof(int32)));
	for (int i = 0; i < n; i++)
	{
		JsonbValue *e = getIthJsonbValueFromContainer(array, i);

		if (d->type == OPT_TYPE_STRS)
		{
			if (e->type != jbvString)
				wrong_type(d, j);
			((char **) values)[i] = pnstrdup(e->val.string.val, e->val.string.len);
		}
		else
		{
			int64		id = json_int(d, e, j);

			if (id < d->lo || id > d->hi)
				options_refuse(d, id < d->lo ? d->rule : "must contain 32-bit integers", json_text(e));
			((int32 *) values)[i] = (int32) id;
		}
	}
	if (d->type == OPT_TYPE_STRS)
		set_strs(d, v, values, n);
	else
		set_ids(d, v, values, n);
}

static void
set_json(const OptDef *d, OptValue *v, JsonbValue *j)
{
	char	  **str;

	switch (d->type)
	{
		case OPT_TYPE_INT:
		case OPT_TYPE_BIG:
			/* as in vLLM: true asks for one of the likeliest tokens, false for none */
			if (j->type == jbvBool && (d->tag == WTAG_LOGPROBS || d->tag == WTAG_PROMPT_LOGPROBS))
			{
				if (j->val.boolean)
					set_int(d, v, 1);
				break;
			}
			set_int(d, v, json_int(d, j, j));
			break;
		case OPT_TYPE_NUM:
			if (j->type != jbvNumeric)
				wrong_type(d, j);
			set_num(d, v, DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow,
															 NumericGetDatum(j->val.numeric))));
			break;
		case OPT_TYPE_BOOL:
			if (j->type != jbvBool)
				wrong_type(d, j);
			set_int(d, v, j->val.boolean);
			break;
		case OPT_TYPE_STR:
		case OPT_TYPE_STRS:
			if (j->type == jbvString)
			{
				str = palloc(sizeof(char *));
				*str = pnstrdup(j->val.string.val, j->val.string.len);
				set_strs(d, v, str, 1);
				break;
			}
			if (d->type == OPT_TYPE_STR)
				wrong_type(d, j);
			/* FALLTHROUGH */
		case OPT_TYPE_IDS:
			set_json_array(d, v, j);
			break;
		case OPT_TYPE_JSON:
			break;				/* options_json() has its text */
	}
}

/* Return the value of an object's key as it is written there; if the key is repeated, the last one. */
static char *
json_as_written(const char *json, const char *key)
{
	return TextDatumGetCString(DirectFunctionCall2(json_object_field, CStringGetTextDatum(json),
												   CStringGetTextDatum(key)));
}

/* Raise the error for an unknown key, with the known ones and the most similar one. */
static void
unknown_parameter(const OptTable *t, const char *name)
{
	OptionHint	hint;

	for (int i = 0; t == &generate_options && i < (int) lengthof(removed); i++)
		if (strcmp(name, removed[i].name) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("parameter \"%s\" no longer exists", name),
					 errhint("%s", removed[i].hint)));

	option_hint_begin(&hint, name);
	for (int i = 0; i < t->n; i++)
		option_hint_add(&hint, t->defs[i].name);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized parameter \"%s\"", name),
			 option_hint_report(&hint, "parameters")));
}

/* Return the row of an option's name or alias. */
static int
find_option(const OptTable *t, const char *name)
{
	for (int i = 0; i < t->n_aliases; i++)
		if (strcmp(name, t->aliases[i].alias) == 0)
			name = t->aliases[i].name;
	for (int i = 0; i < t->n; i++)
		if (strcmp(name, t->defs[i].name) == 0)
			return i;
	unknown_parameter(t, name);
	return -1;					/* not reached */
}

void
options_json(const OptTable *t, OptValue *v, const char *json, const char *what)
{
	Jsonb	   *jb;
	JsonbIterator *it;
	JsonbValue	j;
	JsonbIteratorToken tok;

	/*
	 * jsonb_in would need forty times as much memory, can't be cancelled, and ends in an internal
	 * error
	 */
	if (strlen(json) > (Size) vllm_max_prompt_bytes * 1024)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%s of %zu bytes is too long", what, strlen(json)),
				 errdetail("The limit is %d kB (vllm.max_prompt_bytes).", vllm_max_prompt_bytes)));
	jb = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(json)));
	if (!JB_ROOT_IS_OBJECT(jb))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be a json object", what)));
	it = JsonbIteratorInit(&jb->root);
	(void) JsonbIteratorNext(&it, &j, true);	/* WJB_BEGIN_OBJECT */
	while ((tok = JsonbIteratorNext(&it, &j, true)) == WJB_KEY)
	{
		char	   *key = pnstrdup(j.val.string.val, j.val.string.len);
		int			i;

		(void) JsonbIteratorNext(&it, &j, true);	/* WJB_VALUE */
		i = find_option(t, key);
		if (j.type == jbvNull || v[i].set)
			continue;
		if (t->defs[i].type == OPT_TYPE_JSON)
			set_json_text(&t->defs[i], &v[i], json_as_written(json, key));
		else
			set_json(&t->defs[i], &v[i], &j);
	}
}

void
options_object(GenOptions *o, const char *json, const char *what)
{
	options_json(&generate_options, o->v, json, what);
}

const char *
options_name(OptId option)
{
	return optdefs[option].name;
}

/* ---- options of a call ---- */

/* vLLM's names of output kinds, and their numbers. */
static const char *const output_kinds[] = {"CUMULATIVE", "DELTA", "FINAL_ONLY"};

static int
output_kind(const char *kind)
{
	for (int i = 0; i < (int) lengthof(output_kinds); i++)
		if (strcmp(kind, psprintf("%d", i)) == 0 || strcmp(kind, psprintf("\"%s\"", output_kinds[i])) == 0)
			return i;
	options_refuse(&optdefs[OPT_output_kind], "must be CUMULATIVE (0), DELTA (1) or FINAL_ONLY (2)", kind);
	return -1;					/* not reached */
}

/* call: the options include the session's; an error in one of those says where it comes from. */
static void
refuse(const OptDef *d, const char *rule, const char *value, bool call)
{
	char	   *detail = psprintf("parameter=%s, value=%s", d->name, value);
	const char *hint = call ? default_params_hint(detail, NULL) : NULL;

	/* of two options that contradict each other, either may be the session's */
	if (call && hint == NULL && d == &optdefs[OPT_min_tokens])
		hint = default_params_hint("parameter=max_tokens", NULL);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s %s", d->name, rule),
			 errdetail("%s", detail),
			 hint != NULL ? errhint("%s", hint) : 0));
}

void
options_check_together(const GenOptions *o, bool call)
{
	const OptValue *v = o->v;

	if (v[OPT_on_error].set)
		(void) on_error_option(v[OPT_on_error].strs[0]);
	if (v[OPT_output_kind].set)
		(void) output_kind(v[OPT_output_kind].strs[0]);
	if (v[OPT_choice].set && v[OPT_choice].n == 0)
		refuse(&optdefs[OPT_choice], "must not be empty", "{}", call);
	if (v[OPT_min_tokens].set && v[OPT_max_tokens].set &&
		v[OPT_min_tokens].i > v[OPT_max_tokens].i)
		refuse(&optdefs[OPT_min_tokens],
			   psprintf("must not be greater than max_tokens (" INT64_FORMAT ")", v[OPT_max_tokens].i),
			   psprintf(INT64_FORMAT, v[OPT_min_tokens].i), call);
	if (v[OPT_cache_salt].set && (v[OPT_cache_salt].strs[0][0] == '\0' ||
								  pg_mbstrlen(v[OPT_cache_salt].strs[0]) > optdefs[OPT_cache_salt].hi))
		refuse(&optdefs[OPT_cache_salt], optdefs[OPT_cache_salt].rule,
			   psprintf("%d characters", pg_mbstrlen(v[OPT_cache_salt].strs[0])), call);
	/* best_of asks for the likeliest n of that many outputs */
	if (v[OPT_best_of].set && v[OPT_best_of].i != (v[OPT_n].set ? v[OPT_n].i : 1))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("best_of other than n is not supported"),
				 errdetail("parameter=best_of, value=" INT64_FORMAT, v[OPT_best_of].i),
				 errhint("Call llm_completions() with n and logprobs, and order the answers by "
						 "cumulative_logprob.")));
	if (v[OPT_detokenize].set && !v[OPT_detokenize].i && v[OPT_stop].set && v[OPT_stop].n > 0)
		refuse(&optdefs[OPT_detokenize], "must be true when stop strings are given", "false", call);
}

/* Apply the rules that join options, and the defaults that come from settings. */
static void
options_finish(GenOptions *o)
{
	OptValue   *v = o->v;

	if (!v[OPT_max_tokens].set && vllm_default_max_tokens > 0)
	{
		int			most = vclient_role_max_tokens();

		v[OPT_max_tokens].set = true;
		v[OPT_max_tokens].i = most > 0 ? Min(vllm_default_max_tokens, most) : vllm_default_max_tokens;
		o->default_max_tokens = true;
	}
	options_check_together(o, true);
	if (v[OPT_temperature].set && v[OPT_temperature].num > 0 && v[OPT_temperature].num < 0.01)
	{
		ereport(WARNING,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("temperature %g is too low, using 0.01", v[OPT_temperature].num),
				 errhint("Use 0 for greedy decoding.")));
		v[OPT_temperature].num = 0.01;
	}
	if (v[OPT_seed].set && v[OPT_seed].i == -1) /* as in vLLM: no seed */
		v[OPT_seed].set = false;
}

/* Kinds of arguments: an option's number, params, or none of these. */
#define ARG_PARAMS	2000
#define ARG_OTHER	(-1)

static bool
has_type(Oid type, OptType of)
{
	return type == arg_types[of] || (of == OPT_TYPE_JSON && is_own_json(type)) ||
		(of == OPT_TYPE_IDS && type == INT8ARRAYOID) || (of == OPT_TYPE_STRS && is_own_texts(type));
}

static int
argument_number(const char *name, Oid type)
{
	if (strcmp(name, "params") == 0 && has_type(type, OPT_TYPE_JSON))
		return ARG_PARAMS;
	for (int i = 0; i < OPT_COUNT; i++)
		if (strcmp(name, optdefs[i].name) == 0)
		{
			if (!has_type(type, optdefs[i].type))
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
						 errmsg("argument \"%s\" must be of type %s", name,
								format_type_be(arg_types[optdefs[i].type]))));
			return i;
		}
	return ARG_OTHER;
}

/* Return true for the options that constrain the output's form. */
static bool
names_a_kind(int option)
{
	return option == OPT_json_schema || option == OPT_regex || option == OPT_choice ||
		option == OPT_grammar || option == OPT_structured_outputs || option == OPT_response_format;
}

/* Return true if tools must be called, so that the output has a schema. */
static bool
must_call(const OptValue *v)
{
	const char *s = v->set && v->n > 0 ? v->strs[0] + strspn(v->strs[0], " \t\r\n") : "";

	return s[0] == '{' || strncmp(s, "\"required\"", 10) == 0;
}

/* Return true if the option, which is set, constrains the output. */
static bool
constrains(const GenOptions *o, int option)
{
	const char *json = optdefs[option].type == OPT_TYPE_JSON ? o->v[option].strs[0] : NULL;

	if (option == OPT_response_format)
		return !format_is_text(json);
	/* options without a kind constrain nothing */
	return option != OPT_structured_outputs || structured_parts(json).kind != NULL;
}

/* Return how the call itself constrains its output. */
static OwnShape
own_shape(const GenOptions *o)
{
	for (int i = 0; i < OPT_COUNT; i++)
		if (o->v[i].set && names_a_kind(i) && constrains(o, i))
			return SHAPE_KIND;
	if (must_call(&o->v[OPT_tool_choice]))
		return SHAPE_CALL;
	return o->v[OPT_response_format].set ? SHAPE_TEXT : SHAPE_NONE;
}

static void
set_structured_outputs(GenOptions *o, const char *kind, const char *options)
{
	OptValue   *v = &o->v[OPT_structured_outputs];

	v->set = true;
	v->n = 1;
	v->strs = palloc(sizeof(char *));
	v->strs[0] = psprintf("{%s%s%s}", kind != NULL ? kind : "", kind != NULL && options != NULL ? ", " : "",
						  options != NULL ? options : "");
}

/* Take the session's options of structured_outputs for a call that has a kind. */
static void
take_shape_options(GenOptions *o, const DefaultParams *d)
{
	if (d->outputs.options != NULL && !o->v[OPT_structured_outputs].set)
		set_structured_outputs(o, NULL, d->outputs.options);
}

/* Return true if the call may take this option from the session. */
static bool
takes_default(const GenOptions *o, const DefaultParams *d, int i)
{
	/* a caller who names a model doesn't want the session's adapter */
	if (o->v[i].set || (o->named_model && (i == OPT_model || i == OPT_lora)))
		return false;
	/*
	 * a beam search takes only the options that it supports; if the call itself gives others, that is
	 * an error
	 */
	if (o->v[OPT_beam_width].set &&
		(names_a_kind(i) || i == OPT_flat_logprobs || i == OPT_best_of ||
		 !(optdefs[i].tag == 0 || beams_take(optdefs[i].tag))))
		return false;
	if (!names_a_kind(i))
		return true;
	if (o->own_shape != SHAPE_NONE)
		return false;
	/*
	 * structured_outputs with options only constrains nothing, unless the session gives a kind
	 * elsewhere
	 */
	return i != OPT_structured_outputs || d->outputs.kind != NULL || d->o.v[OPT_json_schema].set ||
		d->o.v[OPT_regex].set || d->o.v[OPT_choice].set || d->o.v[OPT_grammar].set ||
		d->o.v[OPT_response_format].set;
}

static void
take_defaults(GenOptions *o)
{
	const DefaultParams *d = default_params();

	o->own_shape = own_shape(o);
	o->own_outputs = o->v[OPT_structured_outputs].set;
	o->named_model = o->v[OPT_model].set || o->v[OPT_lora].set;
	/* the session's kind with the call's options */
	if (d != NULL && d->outputs.kind != NULL && o->own_outputs && o->own_shape == SHAPE_NONE &&
		!o->v[OPT_beam_width].set)
		set_structured_outputs(o, d->outputs.kind,
							   structured_parts(o->v[OPT_structured_outputs].strs[0]).options);
	for (int i = 0; d != NULL && i < OPT_COUNT; i++)
		if (takes_default(o, d, i))
			o->v[i] = d->o.v[i];
	if (d != NULL && (o->own_shape == SHAPE_KIND || o->own_shape == SHAPE_CALL) && !o->v[OPT_beam_width].set)
		take_shape_options(o, d);
}

void
options_take_schema(GenOptions *o, char *schema)
{
	OptValue   *v = &o->v[OPT_json_schema];
	const DefaultParams *d = default_params();

	if (o->own_shape == SHAPE_KIND || o->own_shape == SHAPE_TEXT || o->own_outputs)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the answer already has a schema"),
				 errdetail("json_schema, regex, choice, grammar, structured_outputs and response_format "
						   "can't be given here.")));
	for (int i = 0; i < OPT_COUNT; i++)
		if (names_a_kind(i))
			o->v[i].set = false;
	v->set = true;
	v->n = 1;
	v->strs = palloc(sizeof(char *));
	v->strs[0] = schema;
	if (d != NULL)
		take_shape_options(o, d);
}

void
options_read(GenOptions *o, FunctionCallInfo fcinfo)
{
	char	   *params = NULL;
	int			n;
	const int16 *numbers = fn_arg_numbers(fcinfo, argument_number, &n);

	memset(o, 0, sizeof(*o));
	for (int i = 0; i < n; i++)
	{
		if (numbers[i] == ARG_OTHER || PG_ARGISNULL(i))
			continue;
		if (numbers[i] == ARG_PARAMS)
			params = TextDatumGetCString(PG_GETARG_DATUM(i));
		else
			options_argument(&optdefs[numbers[i]], &o->v[numbers[i]], PG_GETARG_DATUM(i));
	}
	if (params != NULL)
		options_json(&generate_options, o->v, params, "params");
	take_defaults(o);
	options_finish(o);
}

static void
no_room(const char *name, const char *what, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s is not supported by this function", what),
			 errdetail("parameter=%s", name),
			 errhint("%s", default_params_hint(psprintf("parameter=%s", name), hint))));
}

/* Each function supports some output kinds only. */
static void
check_output_kind(const char *kind, bool stream)
{
	int			n = output_kind(kind);

	/* CUMULATIVE and FINAL_ONLY are the same for a function that returns once */
	if (stream ? n != 1 : n == 1)
		no_room("output_kind", psprintf("output_kind %s", output_kinds[n]),
				stream ? "The rows of a stream hold only new tokens (DELTA)." :
				"llm_generate_stream() and llm_chat_stream() return only new tokens (DELTA).");
}

void
options_check_answers(const GenOptions *o, bool answers, bool beams, bool stream)
{
	static const OptId about_tokens[] = {OPT_logprobs, OPT_prompt_logprobs, OPT_logprob_token_ids};
	static const OptId about_beams[] = {OPT_beam_width, OPT_length_penalty};

	if (beams && o->v[OPT_flat_logprobs].set && o->v[OPT_flat_logprobs].i)
		no_room("flat_logprobs", "flat_logprobs",
				"llm_completions(), llm_output() and, of chats, llm_chat_full() return log-probabilities.");

	if (o->v[OPT_n].set && o->v[OPT_n].i > 1 && (!answers || beams))
		no_room("n", "n greater than 1",
				"llm_completions(), llm_output() and, of chats, llm_chat_full() return all answers.");
	for (int i = 0; i < (int) lengthof(about_tokens) && (!answers || beams); i++)
		if (o->v[about_tokens[i]].set)
			no_room(optdefs[about_tokens[i]].name, optdefs[about_tokens[i]].name,
					"llm_completions(), llm_output() and, of chats, llm_chat_full() return "
					"log-probabilities.");
	for (int i = 0; i < (int) lengthof(about_beams) && !beams; i++)
		if (o->v[about_beams[i]].set)
			no_room(optdefs[about_beams[i]].name, optdefs[about_beams[i]].name,
					"Use llm_beam_search() for a beam search.");
	if (stream && options_on_error(o) == ON_ERROR_NULL)
		no_room("on_error", "on_error", "Rows that a stream has already returned can't become NULL.");
	if (o->v[OPT_output_kind].set)
		check_output_kind(o->v[OPT_output_kind].strs[0], stream);
	if (beams && !o->v[OPT_beam_width].set)
		options_refuse(&optdefs[OPT_beam_width], "must be given", "null");
}

void
options_send(const OptTable *t, const OptValue *values, WireOut *out)
{
	for (int i = 0; i < t->n; i++)
	{
		const OptDef *d = &t->defs[i];
		const OptValue *v = &values[i];

		if (!v->set || d->tag == 0)
			continue;
		switch (d->type)
		{
			case OPT_TYPE_INT:
			case OPT_TYPE_BIG:
			case OPT_TYPE_BOOL:
				wire_put_int(out, d->tag, v->i);
				break;
			case OPT_TYPE_NUM:
				wire_put_num(out, d->tag, v->num);
				break;
			case OPT_TYPE_STR:
			case OPT_TYPE_STRS:
			case OPT_TYPE_JSON:
				for (int j = 0; j < v->n; j++)
					wire_put_text(out, d->tag, v->strs[j], strlen(v->strs[j]));
				break;
			case OPT_TYPE_IDS:
				wire_put_ints(out, d->tag, v->ids, v->n);
				break;
		}
	}
}

void
options_put(const GenOptions *o, WireOut *out)
{
	options_send(&generate_options, o->v, out);
}

const char *
options_model(const GenOptions *o)
{
	return o->v[OPT_model].set ? o->v[OPT_model].strs[0] : NULL;
}

const char *
options_lora(const GenOptions *o)
{
	return o->v[OPT_lora].set ? o->v[OPT_lora].strs[0] : NULL;
}

int
options_timeout_ms(const GenOptions *o)
{
	return o->v[OPT_timeout_ms].set ? (int) o->v[OPT_timeout_ms].i : 0;
}

OnError
options_on_error(const GenOptions *o)
{
	return o->v[OPT_on_error].set ? on_error_option(o->v[OPT_on_error].strs[0]) : ON_ERROR_SETTING;
}

bool
options_limit_thoughts(const GenOptions *o)
{
	return o->v[OPT_thinking_token_budget].set && o->v[OPT_thinking_token_budget].i >= 0;
}

bool
options_deterministic(const GenOptions *o)
{
	const OptValue *t = &o->v[OPT_temperature];

	/* without a temperature the model's default decides, which the backend doesn't know */
	return o->v[OPT_seed].set || (t->set && t->num == 0);
}
