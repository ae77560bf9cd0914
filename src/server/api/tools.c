/*
 * tools.c
 *	  Tools and reasoning of bodies: the fields for the template and the parsers, and the tool calls of
 *	  an output.
 *
 * Chats, /v1/responses and Anthropic's messages each have a format of their own for tools and
 * tool_choice; a message has a chat's (output_parsers.h).  With tools and no tool_choice the choice is
 * "auto", which is an error if no parser is configured.
 *
 * Tested by tests/unit/server/api/test_api.c and tests/sql/30_bodies.sql.
 */
#include <string.h>

#include "base/assert.h"
#include "base/json/json.h"
#include "server/api/api_internal.h"

static bool
is_word(const Json *v, const char *word)
{
	return json_is_string(v) && strcmp(v->s, word) == 0;
}

static bool
needs_tools(Err *e)
{
	api_bad(e, "tool_choice", "needs tools");
	return err_hint(e, "Give the functions that may be called as \"tools\", or leave tool_choice out.");
}

static bool
not_a_function(Err *e)
{
	err_set(e, ERR_UNSUPPORTED, "tools other than functions are not supported");
	return err_detail(e, "parameter=tools");
}

/* Check {"name": ..., "description": ..., SCHEMA: {...}}. */
static bool
check_function(const Json *f, const char *schema, Err *e)
{
	const char *name = api_str(f, "name");
	const Json *description = json_get(f, "description");
	const Json *parameters = json_get(f, schema);

	if (name == NULL || name[0] == '\0')
		return api_bad(e, "tools", "must each have a name");
	if (description != NULL && !json_is_null(description) && !json_is_string(description))
		return api_bad(e, "tools", "have a description that is no string");
	if (parameters != NULL && !json_is_null(parameters) && !json_is_object(parameters))
		return api_bad(e, "tools", "have parameters that are no JSON schema, an object");
	return true;
}

/* ---- chats ---- */

bool
api_check_tools(ApiCall *a, Err *e)
{
	const ApiMember *tools = apibody_get(&a->body, "tools");
	const ApiMember *choice = apibody_get(&a->body, "tool_choice");

	if (tools != NULL && (!json_is_array(tools->v) || tools->v->child == NULL))
		return api_bad(e, "tools", "must be an array of at least one tool");
	if (choice != NULL && tools == NULL && !is_word(choice->v, "none"))
		return needs_tools(e);
	for (const Json *v = tools != NULL ? tools->v->child : NULL; v != NULL; v = v->next)
	{
		const Json *type = json_get(v, "type");
		const Json *function = json_get(v, "function");

		if (type != NULL && !is_word(type, "function"))
			return not_a_function(e);
		if (!json_is_object(function))
			return api_bad(e, "tools", "must each have a function, an object");
		if (!check_function(function, "parameters", e))
			return false;
	}
	return true;
}

void
api_put_parsers(ApiCall *a, WireOut *o)
{
	if (a->req->tool_parser.s != NULL)
		wire_put_str(o, WTAG_TOOL_PARSER, a->req->tool_parser.s, a->req->tool_parser.n);
	if (a->req->reasoning_parser.s != NULL)
		wire_put_str(o, WTAG_REASONING_PARSER, a->req->reasoning_parser.s, a->req->reasoning_parser.n);
}

bool
api_put_parsing(ApiCall *a, WireOut *o, Err *e)
{
	const ApiMember *tools = apibody_get(&a->body, "tools");
	const ApiMember *choice = apibody_get(&a->body, "tool_choice");
	bool		parallel = true;
	bool		reasoning = true;

	if (!apibody_bool(&a->body, "parallel_tool_calls", &parallel, e) ||
		!apibody_bool(&a->body, "include_reasoning", &reasoning, e))
		return false;
	if (tools != NULL && tools->v->child != NULL && choice != NULL)
		wire_put_str(o, WTAG_TOOL_CHOICE, choice->raw.s, choice->raw.n);
	else if (tools != NULL && tools->v->child != NULL)
		wire_put_str(o, WTAG_TOOL_CHOICE, "\"auto\"", strlen("\"auto\""));
	wire_put_int(o, WTAG_PARALLEL_TOOL_CALLS, parallel);
	wire_put_int(o, WTAG_INCLUDE_REASONING, reasoning);
	api_put_parsers(a, o);
	return true;
}

bool
api_put_effort(WireOut *o, const char *name, const char *effort, Err *e)
{
	static const char *const known[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};

	for (size_t i = 0; effort != NULL && i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(effort, known[i]) == 0)
		{
			wire_put_str(o, WTAG_REASONING_EFFORT, effort, strlen(effort));
			return true;
		}
	return effort == NULL || api_bad(e, name, "must be none, minimal, low, medium, high, xhigh or max");
}

/* ---- /v1/responses ---- */

/* Convert {"type": "function", "name": ..., ...} to {"type": "function", "function": {"name": ..., ...}}. */
static void
write_function(StrView tool, JsonOut *j)
{
	json_open(j, '{');
	json_key_cstr(j, "type", "function");
	json_key(j, "function");
	json_open(j, '{');
	api_write_members(j, tool, "type");
	json_close(j, '}');
	json_close(j, '}');
}

bool
api_put_tools(ApiCall *a, WireOut *o, Err *e)
{
	const ApiMember *tools = apibody_get(&a->body, "tools");
	const ApiMember *choice = apibody_get(&a->body, "tool_choice");
	bool		none = tools == NULL || tools->v->child == NULL;
	bool		ok = true;
	JsonMembers m;
	StrView		raw;
	Buf			out = {0};
	JsonOut		j = {.b = &out};

	if (tools != NULL && !json_is_array(tools->v))
		return api_bad(e, "tools", "must be an array of tools");
	if (choice != NULL && none && !is_word(choice->v, "none") && !is_word(choice->v, "auto"))
		return needs_tools(e);
	if (choice != NULL && json_is_object(choice->v) && !is_word(json_get(choice->v, "type"), "function"))
		return api_bad(e, "tool_choice", "must be none, auto, required or of the type function");
	if (none)
		return true;
	json_open(&j, '[');
	(void) json_elements(&m, tools->raw.s, tools->raw.n);
	for (const Json *v = tools->v->child; v != NULL && ok; v = v->next)
	{
		ok = is_word(json_get(v, "type"), "function") ? check_function(v, "parameters", e) :
			not_a_function(e);
		if (ok && json_element(&m, &raw) > 0)
			write_function(raw, &j);
	}
	json_close(&j, ']');
	if (ok)
		wire_put_str(o, WTAG_TOOLS, out.data, out.len);
	buf_free(&out);
	return ok;
}

/* ---- Anthropic's messages ---- */

/* raw: the tool, unparsed */
static void
write_anthropic(const Json *tool, StrView raw, JsonOut *j)
{
	StrView		schema = api_raw_member(raw, "input_schema");

	json_open(j, '{');
	json_key_cstr(j, "type", "function");
	json_key(j, "function");
	json_open(j, '{');
	json_key_cstr(j, "name", api_str(tool, "name"));
	if (api_str(tool, "description") != NULL)
		json_key_cstr(j, "description", api_str(tool, "description"));
	json_key(j, "parameters");
	json_open(j, '{');
	if (api_raw_member(schema, "type").s == NULL)
		json_key_cstr(j, "type", "object");
	if (schema.s != NULL)
		api_write_members(j, schema, "");
	json_close(j, '}');
	json_close(j, '}');
	json_close(j, '}');
}

/* Read {"type": "auto" | "any" | "tool" | "none", "name": ..., "disable_parallel_tool_use": ...}. */
static bool
put_anthropic_choice(const Json *choice, WireOut *o, Err *e)
{
	const Json *type = json_get(choice, "type");
	const char *name = api_str(choice, "name");
	Buf			out = {0};
	JsonOut		j = {.b = &out};

	if (choice == NULL || is_word(type, "auto"))
		json_cstr(&j, "auto");
	else if (is_word(type, "any"))
		json_cstr(&j, "required");
	else if (is_word(type, "none"))
		json_cstr(&j, "none");
	else if (is_word(type, "tool") && name != NULL)
	{
		json_open(&j, '{');
		json_key_cstr(&j, "type", "function");
		json_key(&j, "function");
		json_open(&j, '{');
		json_key_cstr(&j, "name", name);
		json_close(&j, '}');
		json_close(&j, '}');
	}
	else
		return api_bad(e, "tool_choice", "must be of the type auto, any or none, or tool with a name");
	wire_put_str(o, WTAG_TOOL_CHOICE, out.data, out.len);
	wire_put_int(o, WTAG_PARALLEL_TOOL_CALLS, !json_is_true(json_get(choice, "disable_parallel_tool_use")));
	buf_free(&out);
	return true;
}

bool
api_put_anthropic_tools(ApiCall *a, WireOut *o, Err *e)
{
	const ApiMember *tools = apibody_get(&a->body, "tools");
	const ApiMember *choice = apibody_get(&a->body, "tool_choice");
	bool		ok = true;
	JsonMembers m;
	StrView		raw;
	Buf			out = {0};
	JsonOut		j = {.b = &out};

	api_put_parsers(a, o);
	if (tools != NULL && !json_is_array(tools->v))
		return api_bad(e, "tools", "must be an array of tools");
	if (tools == NULL || tools->v->child == NULL)
		return choice == NULL || is_word(json_get(choice->v, "type"), "none") ||
			needs_tools(e);
	json_open(&j, '[');
	(void) json_elements(&m, tools->raw.s, tools->raw.n);
	for (const Json *v = tools->v->child; v != NULL && ok; v = v->next)
	{
		const Json *type = json_get(v, "type");

		ok = type == NULL || json_is_null(type) ||
			is_word(type, "custom") ? check_function(v, "input_schema", e) : not_a_function(e);
		if (ok && json_element(&m, &raw) > 0)
			write_anthropic(v, raw, &j);
	}
	json_close(&j, ']');
	if (ok)
		wire_put_str(o, WTAG_TOOLS, out.data, out.len);
	buf_free(&out);
	return ok && put_anthropic_choice(choice != NULL ? choice->v : NULL, o, e);
}

/* ---- the calls of an output ---- */

Json *
api_calls(StrView calls)
{
	return calls.n > 0 ? json_parse(calls.s, calls.n) : NULL;
}

const char *
api_call_id(const Json *call)
{
	return api_str(call, "id");
}

const char *
api_call_name(const Json *call)
{
	return api_str(json_get(call, "function"), "name");
}

const char *
api_call_arguments(const Json *call)
{
	const char *arguments = api_str(json_get(call, "function"), "arguments");

	return arguments != NULL ? arguments : "";
}

StrView
api_text_before(const ApiAnswer *r, int i, size_t *shown)
{
	size_t		from = *shown;
	size_t		to = (size_t) i < r->calls_at.n ? (size_t) wire_int_at(&r->calls_at, (size_t) i) : r->text.n;

	ALWAYS(from <= r->text.n);
	to = to > r->text.n ? r->text.n : to;
	*shown = to > from ? to : from;
	return (StrView) {r->text.s != NULL ? r->text.s + from : NULL, *shown - from};
}

StrView
api_text_after(const ApiAnswer *r, size_t shown)
{
	ALWAYS(shown <= r->text.n);
	return (StrView) {r->text.s != NULL ? r->text.s + shown : NULL, r->text.n - shown};
}
