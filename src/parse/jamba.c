/*
 * jamba.c
 *	  Calls of Jamba: <tool_calls>[{"name", "arguments"}, ...]</tool_calls>, once.
 *
 * Tested by tests/parse/jamba.json.
 */
#include "parse/tool_int.h"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		body = {at, s.end};

	if (!span_take(&body, "<tool_calls>") || !tool_json_array(&body, TJ_ARGUMENTS, out))
		return false;
	span_space(&body);
	return span_is(&body, "</tool_calls>");
}

const ToolFormat tool_jamba = {.marks = {"<tool_calls>"},.trim = true,.special = true,.parse = parse};
