/*
 * toolchoice.c
 *	  The JSON schema of calls that must be made (toolchoice.h).
 *
 * Tested by tests/unit/test_answer.c, tests/sql/29_tools.sql.
 */
#include "engine/toolchoice.h"

#include <cjson/cJSON.h>
#include <string.h>

static bool
bad(Err *e, const char *param, const char *what, const char *value)
{
	err_set(e, ERR_INVALID, what, value);
	return err_detail(e, "parameter=%s", param);
}

/* Move definitions to *defs. */
static bool
hoist(cJSON *schema, const char *key, cJSON *defs, Err *e)
{
	cJSON	   *own = cJSON_DetachItemFromObjectCaseSensitive(schema, key);
	bool		ok = true;

	while (ok && cJSON_IsObject(own) && own->child != NULL)
	{
		cJSON	   *d = cJSON_DetachItemViaPointer(own, own->child);
		const cJSON *there = cJSON_GetObjectItemCaseSensitive(defs, d->string);

		if (there == NULL)
			cJSON_AddItemToObject(defs, d->string, d);
		else
		{
			ok = cJSON_Compare(there, d, true) || bad(e, "tools", "tools define \"%.60s\" in different ways", d->string);
			cJSON_Delete(d);
		}
	}
	cJSON_Delete(own);
	return ok;
}

/* A function's parameters, its definitions moved to *defs; NULL with *e set. */
static cJSON *
parameters(const cJSON *function, cJSON *defs, cJSON *old, Err *e)
{
	cJSON	   *p = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(function, "parameters"), true);

	if (p == NULL || cJSON_IsNull(p))
	{
		cJSON_Delete(p);
		p = cJSON_CreateObject();
		cJSON_AddStringToObject(p, "type", "object");
		cJSON_AddItemToObject(p, "properties", cJSON_CreateObject());
	}
	if (!cJSON_IsObject(p))
		bad(e, "tools", "the parameters of tool \"%.60s\" must be a JSON schema, an object",
			cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(function, "name")));
	else if (hoist(p, "$defs", defs, e) && hoist(p, "definitions", old, e))
		return p;
	cJSON_Delete(p);
	return NULL;
}

/* {"name": NAME, "parameters": SCHEMA} */
static cJSON *
call_schema(const char *name, cJSON *params)
{
	cJSON	   *s = cJSON_CreateObject();
	cJSON	   *properties = cJSON_CreateObject();
	cJSON	   *one = cJSON_CreateObject();
	cJSON	   *required = cJSON_CreateArray();

	cJSON_AddItemToObject(one, "const", cJSON_CreateString(name));
	cJSON_AddItemToObject(properties, "name", one);
	cJSON_AddItemToObject(properties, "parameters", params);
	cJSON_AddStringToObject(s, "type", "object");
	cJSON_AddItemToObject(s, "properties", properties);
	cJSON_AddItemToArray(required, cJSON_CreateString("name"));
	cJSON_AddItemToArray(required, cJSON_CreateString("parameters"));
	cJSON_AddItemToObject(s, "required", required);
	return s;
}

/* Add each tool's schema to *any, or only the named one's parameters; false with *e set. */
static bool
collect(const cJSON *tools, const char *named, cJSON *any, cJSON *defs, cJSON *old, Err *e)
{
	const cJSON *t;

	cJSON_ArrayForEach(t, tools)
	{
		const cJSON *f = cJSON_GetObjectItemCaseSensitive(t, "function");
		const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(f, "name"));
		cJSON	   *p;

		if (name == NULL || name[0] == '\0')
			return bad(e, "tools", "each of tools must have a function with a name%s", "");
		if (named != NULL && strcmp(name, named) != 0)
			continue;
		p = parameters(f, defs, old, e);
		if (p == NULL)
			return false;
		cJSON_AddItemToArray(any, named != NULL ? p : call_schema(name, p));
	}
	if (cJSON_GetArraySize(any) > 0)
		return true;
	return named != NULL ? bad(e, "tool_choice", "tool_choice names \"%.60s\", which is not among the tools", named) :
		bad(e, "tools", "tools must be an array of at least one tool%s", "");
}

static cJSON *
list_schema(cJSON *any, bool one_call)
{
	cJSON	   *s = cJSON_CreateObject();
	cJSON	   *items = cJSON_CreateObject();

	cJSON_AddItemToObject(items, "anyOf", any);
	cJSON_AddStringToObject(s, "type", "array");
	cJSON_AddNumberToObject(s, "minItems", 1);
	if (one_call)
		cJSON_AddNumberToObject(s, "maxItems", 1);
	cJSON_AddItemToObject(s, "items", items);
	return s;
}

static void
add_definitions(cJSON *schema, const char *key, cJSON *defs)
{
	if (defs->child != NULL)
		cJSON_AddItemToObject(schema, key, defs);
	else
		cJSON_Delete(defs);
}

bool
toolchoice_schema(const char *tools, size_t n, const char *named, bool one_call, Buf *out, Err *e)
{
	cJSON	   *root = cJSON_ParseWithLength(tools, n);
	cJSON	   *any = cJSON_CreateArray();
	cJSON	   *defs = cJSON_CreateObject();
	cJSON	   *old = cJSON_CreateObject();
	bool		ok = collect(root, named, any, defs, old, e);
	cJSON	   *schema = NULL;
	char	   *text = NULL;

	cJSON_Delete(root);
	if (ok && named != NULL)
		schema = cJSON_DetachItemFromArray(any, 0);
	else if (ok)
	{
		schema = list_schema(any, one_call);
		any = NULL;
	}
	if (ok)
	{
		add_definitions(schema, "$defs", defs);
		add_definitions(schema, "definitions", old);
		text = cJSON_PrintUnformatted(schema);
		buf_addstr(out, text);
	}
	else
	{
		cJSON_Delete(defs);
		cJSON_Delete(old);
	}
	cJSON_free(text);
	cJSON_Delete(schema);
	cJSON_Delete(any);
	return ok;
}
