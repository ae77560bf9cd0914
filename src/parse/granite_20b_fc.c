/*
 * granite_20b_fc.c
 *	  Calls of Granite 20B FunctionCalling: <function_call> before each {"name", "arguments"};
 *	  what follows an object is ignored.
 *
 * Tested by tests/parse/granite-20b-fc.json.
 */
#include "parse/tool_int.h"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		rest = {at, s.end};
	Span		skipped;

	while (span_until(&rest, "<function_call>", &skipped))
		if (!tool_json_object(&rest, TJ_ARGUMENTS, out))
			return false;
	return true;
}

const ToolFormat tool_granite_20b_fc = {.marks = {"<function_call>"},.special = true,.parse = parse};
