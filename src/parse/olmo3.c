/*
 * olmo3.c
 *	  Calls of Olmo 3: between <function_calls> and </function_calls> one call a line in
 *	  Python's syntax; true, false and null are literals, too.
 *
 * Tested by tests/parse/olmo3.json.
 */
#include "parse/tool_int.h"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		rest = {at, s.end};
	Span		body;
	Span		line;

	span_take(&rest, "<function_calls>");
	if (!span_until(&rest, "</function_calls>", &body))
		return false;
	while (span_until(&body, "\n", &line))
		if (!tool_python_calls(line, true, out))
			return false;
	return tool_python_calls(body, true, out);
}

const ToolFormat tool_olmo3 = {.marks = {"<function_calls>"},.trim = true,.parse = parse};
