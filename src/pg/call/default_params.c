/*
 * default_params.c
 *	  vllm.default_params: the session's defaults for options that a call doesn't give.
 *
 * The setting is parsed when it is set, and a value that no call could use is refused then.  It is
 * parsed again at the first use of a text; the resulting options are kept until the text changes.
 *
 * A backend can check names, types, ranges, enumerations, and options that contradict each other.  It
 * cannot check values that depend on the model (ids beyond its vocabulary, a logits processor's
 * extra_args).  Nor can it check what is written in regex, grammar, json_schema, whitespace_pattern
 * and the same members elsewhere, because the compiler of grammars is in the engine and not linked
 * into PostgreSQL.  Such a value is an error of each call that takes it, and the error's hint names
 * this setting (default_params_hint()).
 *
 * The options that constrain the output's form are taken as a group.  A call that gives a kind of its
 * own (a schema, a regular expression, ..., a tool that must be called) takes none of the session's
 * kinds.  The session's options of structured_outputs still apply to it, unless it has its own.  Such
 * options alone constrain nothing, so they have no effect on a call without a kind.
 *
 * Tests: tests/sql/27_structured.sql, tests/sql/03_options.sql.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "pg/call/output_shape.h"
#include "pg/call/default_params.h"
#include "pg/util/json_tree.h"
#include "pg/util/setting_check.h"
#include "pg/vllm_pg.h"

#define MAX_TOOL_NAME	255		/* bytes, as in src/server/request/output_parsers.h */

static void
refuse(const char *name, const char *rule, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s %s", name, rule),
			 errdetail("parameter=%s", name),
			 hint != NULL ? errhint("%s", hint) : 0));
}

/* ---- values of one option ---- */

/* Return true for a whole number from 0 to the largest of 32 bits. */
static bool
is_whole(const JsonNode *v, double *out)
{
	*out = v->kind == JSON_NUMBER ? strtod(v->text, NULL) : -1;
	return *out >= 0 && *out <= PG_INT32_MAX && *out == floor(*out);
}

static void
check_bias(const char *json)
{
	for (const JsonNode *m = option_object(json, "logit_bias")->first; m != NULL; m = m->next)
	{
		size_t		digits = strspn(m->key, "0123456789");

		if (digits == 0 || digits > 10 || m->key[digits] != '\0' || strtoll(m->key, NULL, 10) > PG_INT32_MAX)
			refuse("logit_bias", psprintf("must have token ids as keys, got \"%s\"",
										  shown(m->key, strlen(m->key))),
				   "An id is a non-negative integer; llm_tokenize() returns the ids of a text.");
		if (m->kind != JSON_NUMBER || !isfinite(strtod(m->text, NULL)))
			refuse("logit_bias",
				   psprintf("must have finite numbers as values, got %s for token %s",
							shown(m->raw, m->raw_len), m->key),
				   "A number from -100 (almost never) to 100 (almost always) is added to the token's logit; "
				   "other numbers are clamped to this range.");
	}
}

static void
check_repetition(const char *json)
{
	static const char *const names[] = {"min_pattern_size", "max_pattern_size", "min_count"};
	double		v[lengthof(names)] = {0};

	for (const JsonNode *m = option_object(json, "repetition_detection")->first; m != NULL; m = m->next)
	{
		int			i = 0;

		while (i < (int) lengthof(names) && strcmp(m->key, names[i]) != 0)
			i++;
		if (i == lengthof(names))
			refuse("repetition_detection", psprintf("has no field \"%s\"", shown(m->key, strlen(m->key))),
				   "Its fields are max_pattern_size, min_pattern_size and min_count.");
		if (!is_whole(m, &v[i]))
			refuse(psprintf("repetition_detection.%s", m->key), "must be a whole number that is not negative",
				   NULL);
	}
	if (v[0] > v[1])
		refuse("repetition_detection",
			   psprintf("needs 0 <= min_pattern_size <= max_pattern_size, got %.0f and %.0f", v[0], v[1]),
			   NULL);
	if (v[1] > 0 && v[2] < 2)
		refuse("repetition_detection", psprintf("needs a min_count of at least 2, got %.0f", v[2]), NULL);
}

/* "none", "auto", "required", or an object that names a function */
static void
check_tool_choice(const char *json)
{
	const JsonNode *v = json_tree(cstring_to_text(json));
	const JsonNode *f = v->kind == JSON_OBJECT ? json_tree_get(v, "function") : NULL;
	const JsonNode *name = v->kind != JSON_OBJECT ? NULL : f == NULL ? json_tree_get(v, "name") :
		f->kind == JSON_OBJECT ? json_tree_get(f, "name") : NULL;

	if (v->kind == JSON_STRING &&
		(strcmp(v->text, "none") == 0 || strcmp(v->text, "auto") == 0 || strcmp(v->text, "required") == 0))
		return;
	if (name == NULL || name->kind != JSON_STRING || name->text[0] == '\0' ||
		strlen(name->text) > MAX_TOOL_NAME)
		refuse("tool_choice", "must be \"none\", \"auto\", \"required\" or "
			   "{\"type\": \"function\", \"function\": {\"name\": ...}}", NULL);
}

static void
check_values(const GenOptions *o)
{
	const OptValue *v = o->v;

	if (v[OPT_logit_bias].set)
		check_bias(v[OPT_logit_bias].strs[0]);
	if (v[OPT_repetition_detection].set)
		check_repetition(v[OPT_repetition_detection].strs[0]);
	if (v[OPT_extra_args].set)
		(void) option_object(v[OPT_extra_args].strs[0], "extra_args");
	if (v[OPT_tool_choice].set && v[OPT_tool_choice].n > 0)
		check_tool_choice(v[OPT_tool_choice].strs[0]);
	if (v[OPT_allowed_token_ids].set && v[OPT_allowed_token_ids].n == 0)
		refuse("allowed_token_ids", "must not be empty", NULL);
	if (v[OPT_truncate].set && v[OPT_truncate].i == 0)
		refuse("truncate", "must be -1 (what leaves room for the answer) or at least 1", NULL);
	if (v[OPT_truncation_side].set && strcmp(v[OPT_truncation_side].strs[0], "left") != 0 &&
		strcmp(v[OPT_truncation_side].strs[0], "right") != 0)
		refuse("truncation_side", "must be left or right", NULL);
	if (v[OPT_n].set && v[OPT_n].i > 1 && v[OPT_temperature].set && v[OPT_temperature].num == 0)
		refuse("n", psprintf("must be 1 when temperature is 0, got " INT64_FORMAT, v[OPT_n].i),
			   "With temperature 0 all answers would be the same.");
	options_check_together(o, false);
	answer_shape_check(o);
}

static DefaultParams *
parse(const char *text)
{
	DefaultParams *d = palloc0(sizeof(DefaultParams));

	options_object(&d->o, text, "vllm.default_params");
	check_values(&d->o);
	if (d->o.v[OPT_structured_outputs].set)
		d->outputs = structured_parts(d->o.v[OPT_structured_outputs].strs[0]);
	return d;
}

static void
context(void *arg)
{
	errcontext("setting \"vllm.default_params\"");
}

const DefaultParams *
default_params(void)
{
	static MemoryContext cxt = NULL;
	static DefaultParams *kept = NULL;
	static char *parsed_text = NULL;
	ErrorContextCallback callback = {error_context_stack, context, NULL};
	MemoryContext old;
	DefaultParams *fresh;

	if (vllm_default_params == NULL || vllm_default_params[0] == '\0')
		return NULL;
	if (kept && strcmp(parsed_text, vllm_default_params) == 0)
		return kept;

	kept = NULL;
	if (cxt == NULL)
		cxt = AllocSetContextCreate(TopMemoryContext, "vllm.default_params", ALLOCSET_SMALL_SIZES);
	MemoryContextReset(cxt);
	old = MemoryContextSwitchTo(cxt);
	parsed_text = pstrdup(vllm_default_params);
	error_context_stack = &callback;
	fresh = parse(parsed_text);
	error_context_stack = callback.previous;
	MemoryContextSwitchTo(old);
	kept = fresh;
	return kept;
}

const char *
default_params_hint(const char *detail, const char *hint)
{
	static const char start[] = "parameter=";
	const DefaultParams *d;
	size_t		n;

	if (detail == NULL || strncmp(detail, start, sizeof(start) - 1) != 0 || (d = default_params()) == NULL)
		return hint;
	detail += sizeof(start) - 1;
	n = strcspn(detail, ".:, ");
	for (int i = 0; i < OPT_COUNT; i++)
	{
		/* the engine's name of the option */
		const char *name = i == OPT_truncate ? "truncate_prompt_tokens" : options_name(i);

		if (d->o.v[i].set && strlen(name) == n && strncmp(detail, name, n) == 0)
			return psprintf("%s%sA call that does not give %s itself takes it from vllm.default_params.",
							hint != NULL ? hint : "", hint != NULL ? " " : "", name);
	}
	return hint;
}

static void
parse_only(const char *text, const void *arg)
{
	(void) parse(text);
}

/* Refuse a setting whose text can't be parsed. */
bool
check_default_params(char **newval, void **extra, GucSource source)
{
	ErrorData  *e;

	if (*newval == NULL || **newval == '\0')
		return true;
	e = setting_error(parse_only, *newval, NULL);
	if (e == NULL)
		return true;
	GUC_check_errdetail("%s%s%s", e->message, e->detail != NULL ? ": " : ".",
						e->detail != NULL ? e->detail : "");
	GUC_check_errhint("%s", e->hint != NULL ? e->hint : "Give a json object of options, such as "
														"{\"temperature\": 0}.");
	return false;
}
