/*
 * tool_choice.c
 *	  The JSON schema of tool calls that the model must make (tool_choice.h).
 *
 * The parameters of a tool are copied as they were written, with all digits.  If they have references
 * they get an "$id", so that "#" still means the tool's own schema, and not that of the list.
 *
 * Tested by tests/unit/server/request/test_answer.c, tests/sql/29_tools.sql.
 */
#include "server/request/tool_choice.h"

#include <string.h>

#include "base/json/json.h"
#include "base/json/json_scan.h"
#include "base/json/json_value.h"

static bool
bad(Err *e, const char *param, const char *what, const char *value)
{
	err_set(e, ERR_INVALID, what, value);
	return err_detail(e, "parameter=%s", param);
}

/* ---- checks ---- */

#define MAX_VALUES	10000		/* JSON values of all tools, because definitions are searched one by one */

/* Add a tool's definitions to those of the others. */
static bool
join_definitions(const Json *params, const char *key, Json *all, Err *e)
{
	const Json *d;

	json_each(d, json_get(params, key))
	{
		const Json *there = d->key != NULL ? json_get(all, d->key) : NULL;

		if (there != NULL && !json_equal(there, d))
			return bad(e, "tools", "tools define \"%.60s\" in different ways", d->key);
		if (there == NULL && d->key != NULL)
			json_add_copy(all, d->key, d);
	}
	return true;
}

static bool
check_parameters(const Json *function, Json *defs, Json *old, Err *e)
{
	const Json *p = json_get(function, "parameters");

	if (p == NULL || json_is_null(p))
		return true;
	if (!json_is_object(p))
		return bad(e, "tools", "the parameters of tool \"%.60s\" must be a JSON schema, an object",
				   json_str_of(json_get(function, "name")));
	return join_definitions(p, "$defs", defs, e) && join_definitions(p, "definitions", old, e);
}

/* Check the tools that may be called: all, or the named one. */
static bool
check_tools(const Json *tools, const char *named, Err *e)
{
	Json	   *defs = json_new(JSON_IS_OBJECT);
	Json	   *old = json_new(JSON_IS_OBJECT);
	const Json *t;
	bool		ok = true;
	int			n = 0;

	json_each(t, tools)
	{
		const Json *f = json_get(t, "function");
		const char *name = json_str_of(json_get(f, "name"));

		if (name == NULL || name[0] == '\0')
			ok = bad(e, "tools", "each of tools must have a function with a name%s", "");
		if (!ok)
			break;
		if (named != NULL && strcmp(name, named) != 0)
			continue;
		n++;
		ok = check_parameters(f, defs, old, e);
	}
	json_free(defs);
	json_free(old);
	if (!ok || n > 0)
		return ok;
	return named != NULL ? bad(e, "tool_choice", "tool_choice names \"%.60s\", which is not among the tools",
							   named) :
		bad(e, "tools", "tools must be an array of at least one tool%s", "");
}

/* ---- the schema ---- */

/* Return the first member with this name, unparsed. */
static StrView
member(StrView object, const char *name)
{
	JsonMembers m;
	StrView		key,
				value;

	if (object.s != NULL && json_members(&m, object.s, object.n))
		while (json_member(&m, &key, &value) > 0)
			if (key.n == strlen(name) && memcmp(key.s, name, key.n) == 0)
				return value;
	return (StrView) {0};
}

/* no: index of the tool.  root: the schema is the named tool's alone, so it needs no "$id". */
static void
put_parameters(StrView params, int no, bool root, Buf *out)
{
	if (params.s == NULL || params.s[0] != '{')
	{
		buf_addstr(out, "{\"type\":\"object\",\"properties\":{}}");
		return;
	}
	if (root || memmem(params.s, params.n, "$ref", 4) == NULL || member(params, "$id").s != NULL)
	{
		buf_add(out, params.s, params.n);
		return;
	}
	/* the object has members, since it has a reference */
	buf_printf(out, "{\"$id\":\"tool:%d\",", no);
	buf_add(out, params.s + 1, params.n - 1);
}

static bool
is_name(StrView name, const char *named)
{
	Buf			text = {0};
	bool		yes = json_text(name, &text) && strcmp(text.data, named) == 0;

	buf_free(&text);
	return yes;
}

/* Write each tool's schema, separated by commas, or only the named one's parameters. */
static void
put_tools(const char *tools, size_t n, const char *named, Buf *out)
{
	JsonMembers m;
	StrView		tool;
	int			no = 0;

	if (!json_elements(&m, tools, n))
		return;
	while (json_element(&m, &tool) > 0)
	{
		StrView		function = member(tool, "function");
		StrView		name = member(function, "name");

		if (name.s == NULL || (named != NULL && !is_name(name, named)))
			continue;
		if (named == NULL)
		{
			buf_printf(out, "%s{\"type\":\"object\",\"properties\":{\"name\":{\"const\":", no > 0 ? "," : "");
			buf_add(out, name.s, name.n);
			buf_addstr(out, "},\"parameters\":");
		}
		put_parameters(member(function, "parameters"), no++, named != NULL, out);
		if (named != NULL)
			return;
		buf_addstr(out, "},\"required\":[\"name\",\"parameters\"]}");
	}
}

bool
toolchoice_schema(const char *tools, size_t n, const char *named, bool one_call, Buf *out, Err *e)
{
	Json	   *root;
	bool		ok;

	if (json_values(tools, n, MAX_VALUES) > MAX_VALUES)
	{
		err_set(e, ERR_TOO_LONG, "tools have more than %d JSON values", MAX_VALUES);
		return err_detail(e, "parameter=tools");
	}
	root = json_parse(tools, n);
	ok = check_tools(json_is_array(root) ? root : NULL, named, e);
	json_free(root);
	if (!ok)
		return false;
	if (named == NULL)
		buf_printf(out, "{\"type\":\"array\",\"minItems\":1,%s\"items\":{\"anyOf\":[",
				   one_call ? "\"maxItems\":1," : "");
	put_tools(tools, n, named, out);
	if (named == NULL)
		buf_addstr(out, "]}}");
	return true;
}
