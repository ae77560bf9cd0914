/*
 * phi4_mini_json.c
 *	  Calls of Phi-4-mini: functools[{"name", "arguments"}, ...].
 *
 * Tested by tests/parse/phi4_mini_json.json.
 */
#include "parse/tool_int.h"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		rest = {at, s.end};

	span_take(&rest, "functools");
	return tool_json_array(&rest, TJ_ARGUMENTS | TJ_PARAMETERS, out);
}

const ToolFormat tool_phi4_mini_json = {.marks = {"functools["},.trim = true,.parse = parse};
