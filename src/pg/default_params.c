/*
 * default_params.c
 *	  vllm.default_params: what the session says where a call doesn't.
 *
 * The setting is parsed when it is set, and a value that no call could use is refused then; and once
 * more, at a text's first use, into options that are kept until the text changes.
 *
 * What an answer must look like goes as a group.  A call that names a kind of its own (a schema, a
 * regular expression, ..., a tool that must be called) takes none of the session's, but
 * the session's options of structured_outputs hold beside it, unless it has its own.  Such options
 * alone constrain nothing, so a call without a kind is as without them.
 *
 * Tests: tests/sql/27_structured.sql, tests/sql/03_options.sql.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/memutils.h"

#include "pg/default_params.h"
#include "pg/json_tree.h"
#include "pg/vllm_pg.h"

static const char *const kinds[] = {"json", "regex", "choice", "grammar", "json_object", "structural_tag"};
static const char *const shape_options[] = {
	"disable_any_whitespace", "disable_additional_properties", "whitespace_pattern", "strict", "enable_in_reasoning"
};

static bool
is_among(const char *key, const char *const *list, int n)
{
	for (int i = 0; i < n; i++)
		if (strcmp(key, list[i]) == 0)
			return true;
	return false;
}

static JsonNode *
object_of(const char *json, const char *name)
{
	JsonNode   *tree = json_tree(cstring_to_text(json));

	if (tree->kind != JSON_OBJECT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be a json object", name),
				 errdetail("parameter=%s, value=%.60s", name, json)));
	return tree;
}

/* structured_outputs without its kind, and whether there is one. */
static void
take_apart(DefaultParams *d, const char *json)
{
	StringInfoData rest;

	initStringInfo(&rest);
	for (const JsonNode *m = object_of(json, "structured_outputs")->first; m != NULL; m = m->next)
	{
		bool		kind = is_among(m->key, kinds, lengthof(kinds));

		if (!kind && !is_among(m->key, shape_options, lengthof(shape_options)))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("unrecognized key \"%s\" in structured_outputs", m->key),
					 errhint("Known keys are json, regex, choice, grammar, json_object, structural_tag, disable_any_whitespace, "
							 "disable_additional_properties, whitespace_pattern, strict and enable_in_reasoning.")));
		if (m->kind == JSON_NULL)
			continue;
		d->outputs_name_a_kind = d->outputs_name_a_kind || kind;
		if (kind)
			continue;
		appendStringInfoString(&rest, rest.len > 0 ? ", " : "{");
		escape_json(&rest, m->key);
		appendStringInfo(&rest, ": %.*s", m->raw_len, m->raw);
	}
	if (rest.len == 0)
		return;
	appendStringInfoChar(&rest, '}');
	d->shape_options = rest.data;
}

static DefaultParams *
parse(const char *text)
{
	static const OptId objects[] = {OPT_logit_bias, OPT_repetition_detection, OPT_extra_args, OPT_response_format};
	DefaultParams *d = palloc0(sizeof(DefaultParams));

	options_object(&d->o, text, "vllm.default_params");
	for (int i = 0; i < (int) lengthof(objects); i++)
		if (d->o.v[objects[i]].set)
			(void) object_of(d->o.v[objects[i]].strs[0], options_name(objects[i]));
	if (d->o.v[OPT_structured_outputs].set)
		take_apart(d, d->o.v[OPT_structured_outputs].strs[0]);
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

/* Does the setting's text parse?  Parsing holds nothing but memory, so its errors are caught without a subtransaction. */
bool
check_default_params(char **newval, void **extra, GucSource source)
{
	MemoryContext old = CurrentMemoryContext;
	MemoryContext cxt;
	ErrorData  *volatile e = NULL;

	if (*newval == NULL || **newval == '\0')
		return true;
	cxt = AllocSetContextCreate(old, "check of vllm.default_params", ALLOCSET_SMALL_SIZES);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		(void) parse(*newval);
	}
	PG_CATCH();
	{
		int			category = ERRCODE_TO_CATEGORY(geterrcode());

		if (category != ERRCODE_DATA_EXCEPTION && category != ERRCODE_FEATURE_NOT_SUPPORTED && category != ERRCODE_PROGRAM_LIMIT_EXCEEDED)
			PG_RE_THROW();
		MemoryContextSwitchTo(old);
		e = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	if (e == NULL)
		return true;
	GUC_check_errdetail("%s%s%s", e->message, e->detail != NULL ? ": " : ".", e->detail != NULL ? e->detail : "");
	GUC_check_errhint("%s", e->hint != NULL ? e->hint : "Give a json object of options, such as {\"temperature\": 0}.");
	return false;
}
