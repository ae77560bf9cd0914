/*
 * glm45.c
 *	  Calls of GLM 4.5: <tool_call>NAME, a newline, then <arg_key>k</arg_key>
 *	  <arg_value>v</arg_value> pairs, </tool_call>.
 *
 * A value of a parameter that the schema calls a string is text as it stands; any other
 * is JSON, or a Python literal, or text.
 *
 * Tested by tests/parse/glm45.json and glm47.json.
 */
#include "parse/glm.h"

#define KEY		"<arg_key>"

/* The name in front of the pairs. */
static bool
take_name(Span *body, bool newline, Span *name)
{
	const char *end = newline ? NULL : span_find(body, KEY);
	Span		head = *body;

	if (newline)
		return span_until(body, "\n", name);
	head.end = end != NULL ? end : body->end;
	body->p = head.end;
	*name = head;
	return true;
}

static bool
pair(Span *body, Span tool, const cJSON *tools, Buf *args)
{
	Span		key;
	Span		value;
	unsigned	types;

	if (!span_take(body, KEY) || !span_until(body, "</arg_key>", &key))
		return false;
	span_space(body);
	if (!span_take(body, "<arg_value>") || !span_until(body, "</arg_value>", &value))
		return false;
	key = span_trim(key);
	types = tool_type_of(tools, tool, key);
	tool_key(args, key);
	if (types == TT_STRING)
		tool_typed(value, types, args);
	else
		tool_guessed(value, args);
	return true;
}

bool
glm_calls(Span s, bool newline, ToolOut *out)
{
	Span		skipped;
	Span		body;
	Span		name;

	while (span_until(&s, "<tool_call>", &skipped))
	{
		ToolCall   *c;

		if (!span_until(&s, "</tool_call>", &body) || !take_name(&body, newline, &name) ||
			(c = tool_named(out, span_trim(name))) == NULL)
			return false;
		name = (Span) {c->name.data, c->name.data + c->name.len};
		buf_addc(&c->args, '{');
		for (span_space(&body); body.p < body.end; span_space(&body))
			if (!pair(&body, name, out->tools, &c->args))
				return false;
		buf_addc(&c->args, '}');
	}
	return true;
}

static bool
parse(Span s, const char *at, ToolOut *out)
{
	return glm_calls((Span) {at, s.end}, true, out);
}

const ToolFormat tool_glm45 = {.marks = {"<tool_call>"},.special = true,.parse = parse};
