/*
 * output_shape.c
 *	  The backend's own checks of options for structured output.
 *
 * The engine reads and checks these options for every call
 * (src/server/request/structured_options.c).  The backend needs to know two things before: which
 * parts of vllm.default_params a call takes, and whether a value of that setting is wrong for every
 * call.  For the latter it checks names, types, enumerations and that there is one kind.  It cannot
 * check the text of a regular expression, a grammar or a JSON schema: their compiler is in the
 * engine, and no part of it is linked into PostgreSQL.
 *
 * Tests: tests/sql/27_structured.sql.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/json.h"

#include "pg/call/output_shape.h"

static const char *const kinds[] = {"json", "regex", "choice", "grammar", "json_object", "structural_tag"};
static const char *const shape_options[] = {
	"disable_any_whitespace", "disable_additional_properties", "whitespace_pattern", "strict",
	"enable_in_reasoning"
};

static bool
is_among(const char *key, const char *const *list, int n)
{
	for (int i = 0; i < n; i++)
		if (strcmp(key, list[i]) == 0)
			return true;
	return false;
}

static void
refuse(const char *name, const char *rule)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s %s", name, rule),
			 errdetail("parameter=%s", name)));
}

char *
shown(const char *s, int len)
{
	return pnstrdup(s, pg_mbcliplen(s, (int) len, 60));
}

const JsonNode *
option_object(const char *json, const char *name)
{
	JsonNode   *tree = json_tree(cstring_to_text(json));

	if (tree->kind != JSON_OBJECT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be a json object", name),
				 errdetail("parameter=%s, value=%s", name, shown(json, strlen(json)))));
	return tree;
}

static void
add_member(char **list, const JsonNode *m)
{
	StringInfoData s;

	initStringInfo(&s);
	if (*list != NULL)
		appendStringInfo(&s, "%s, ", *list);
	escape_json(&s, m->key);
	appendStringInfo(&s, ": %.*s", m->raw_len, m->raw);
	*list = s.data;
}

StructuredParts
structured_parts(const char *json)
{
	StructuredParts p = {0};

	for (const JsonNode *m = option_object(json, "structured_outputs")->first; m != NULL; m = m->next)
	{
		bool		kind = is_among(m->key, kinds, lengthof(kinds));

		if (!kind && !is_among(m->key, shape_options, lengthof(shape_options)))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("unrecognized key \"%s\" in structured_outputs", shown(m->key, strlen(m->key))),
					 errdetail("parameter=structured_outputs"),
					 errhint("Known keys are json, regex, choice, grammar, json_object, structural_tag, "
							 "disable_any_whitespace, disable_additional_properties, whitespace_pattern, "
							 "strict and enable_in_reasoning.")));
		if (m->kind != JSON_NULL)
			add_member(kind ? &p.kind : &p.options, m);
	}
	return p;
}

bool
format_is_text(const char *json)
{
	const JsonNode *tree = json_tree(cstring_to_text(json));
	const JsonNode *type = tree->kind == JSON_OBJECT ? json_tree_get(tree, "type") : NULL;

	return type != NULL && type->kind == JSON_STRING && strcmp(type->text, "text") == 0;
}

/* ---- checks of values ---- */

static bool
is_blank(const char *s)
{
	return s[strspn(s, " \t\r\n")] == '\0';
}

/* Record a kind; ERROR if there is another one already.  *first: the one found first. */
static void
take_kind(const char **first, const char *name)
{
	if (*first != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("you can only use one kind of structured output, but %s and %s are given", *first,
						name),
				 errdetail("parameter=%s", name)));
	*first = name;
}

/* Check a schema: an object or a boolean, or a string that contains one. */
static void
check_schema(const JsonNode *v, const char *name)
{
	if (v->kind == JSON_STRING)
	{
		const char *s = v->text + strspn(v->text, " \t\r\n");

		if (*s != '{' && *s != 't' && *s != 'f')
			refuse(name, "must be a JSON object, or a string that holds one");
		v = json_tree(cstring_to_text(s));
	}
	if (v->kind != JSON_OBJECT && v->kind != JSON_BOOL)
		refuse(name, "must be a JSON object");
}

static void
check_text(const char *text, const char *name, bool blanks_will_do)
{
	if (*text == '\0' || (!blanks_will_do && is_blank(text)))
		refuse(name, "must not be empty");
}

static void
check_choice(const JsonNode *v, const char *name)
{
	if (v->kind != JSON_ARRAY)
		refuse(name, "must be an array of strings");
	if (v->first == NULL)
		refuse(name, "must not be empty");
	for (const JsonNode *e = v->first; e != NULL; e = e->next)
		if (e->kind != JSON_STRING)
			refuse(name, "must be an array of strings");
}

static void
check_outputs_kind(const JsonNode *v, const char *name)
{
	if (strcmp(v->key, "json") == 0 || strcmp(v->key, "structural_tag") == 0)
		check_schema(v, name);
	else if (strcmp(v->key, "choice") == 0)
		check_choice(v, name);
	else if (strcmp(v->key, "json_object") == 0)
	{
		if (v->kind != JSON_BOOL || strcmp(v->text, "true") != 0)
			refuse(name, "must be true");
	}
	else if (v->kind != JSON_STRING)
		refuse(name, "must be a string");
	else
		check_text(v->text, name, strcmp(v->key, "regex") == 0);
}

static void
check_outputs(const char *json, const char **first)
{
	(void) structured_parts(json);
	for (const JsonNode *m = option_object(json, "structured_outputs")->first; m != NULL; m = m->next)
	{
		const char *name = psprintf("structured_outputs.%s", m->key);

		if (m->kind == JSON_NULL)
			continue;
		if (is_among(m->key, kinds, lengthof(kinds)))
		{
			check_outputs_kind(m, name);
			take_kind(first, name);
		}
		else if (strcmp(m->key, "whitespace_pattern") == 0)
		{
			if (m->kind != JSON_STRING)
				refuse(name, "must be a string");
		}
		else if (m->kind != JSON_BOOL)
			refuse(name, "must be true or false");
	}
}

/* {name, description, schema, strict} */
static void
check_format_schema(const JsonNode *object)
{
	static const char *const known[] = {"name", "description", "schema", "strict"};
	const JsonNode *schema;
	const JsonNode *strict;

	if (object == NULL || object->kind != JSON_OBJECT)
		refuse("response_format.json_schema", "must be a JSON object");
	for (const JsonNode *m = object->first; m != NULL; m = m->next)
		if (m->kind != JSON_NULL && !is_among(m->key, known, lengthof(known)))
			refuse("response_format.json_schema",
				   psprintf("has an unrecognized key \"%s\"", shown(m->key, strlen(m->key))));
	strict = json_tree_get(object, "strict");
	if (strict != NULL && strict->kind != JSON_NULL && strict->kind != JSON_BOOL)
		refuse("response_format.json_schema.strict", "must be true or false");
	schema = json_tree_get(object, "schema");
	if (schema == NULL || schema->kind == JSON_NULL)
		refuse("response_format.json_schema", "must have a \"schema\"");
	check_schema(schema, "response_format.json_schema.schema");
}

static void
check_format(const char *json, const char **first)
{
	static const char *const types[] = {"text", "json_object", "json_schema", "structural_tag"};
	const JsonNode *format = option_object(json, "response_format");
	const JsonNode *type = json_tree_get(format, "type");

	if (type == NULL)
		refuse("response_format", "must have a \"type\"");
	if (type->kind != JSON_STRING || !is_among(type->text, types, lengthof(types)))
		refuse("response_format.type",
			   psprintf("must be text, json_object, json_schema or structural_tag, got %s",
						shown(type->raw, type->raw_len)));
	if (strcmp(type->text, "json_schema") == 0)
		check_format_schema(json_tree_get(format, "json_schema"));
	if (strcmp(type->text, "text") != 0)
		take_kind(first, "response_format");
}

void
answer_shape_check(const GenOptions *o)
{
	const OptValue *v = o->v;
	const char *first = NULL;

	if (v[OPT_json_schema].set)
	{
		check_schema(json_tree(cstring_to_text(v[OPT_json_schema].strs[0])), "json_schema");
		take_kind(&first, "json_schema");
	}
	if (v[OPT_regex].set)
	{
		check_text(v[OPT_regex].strs[0], "regex", true);
		take_kind(&first, "regex");
	}
	if (v[OPT_choice].set)
		take_kind(&first, "choice");
	if (v[OPT_grammar].set)
	{
		check_text(v[OPT_grammar].strs[0], "grammar", false);
		take_kind(&first, "grammar");
	}
	if (v[OPT_structured_outputs].set)
		check_outputs(v[OPT_structured_outputs].strs[0], &first);
	if (v[OPT_response_format].set)
		check_format(v[OPT_response_format].strs[0], &first);
}
