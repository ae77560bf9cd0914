/*
 * deepseek_v31.c
 *	  Calls of DeepSeek V3.1: the marks of V3, and in each call the name, a separator and
 *	  bare JSON.
 *
 * Tested by tests/parse/deepseek_v31.json.
 */
#include "parse/deepseek.h"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		rest = {at, s.end};
	Span		skipped;
	Span		body;
	Span		name;
	ToolCall   *c;

	while (span_until(&rest, DS_CALL, &skipped))
	{
		if (!span_until(&rest, DS_CALL_END, &body) || !span_until(&body, DS_SEP, &name) ||
			(c = tool_named(out, span_trim(name))) == NULL || !tool_json_args(body, c))
			return false;
	}
	return true;
}

const ToolFormat tool_deepseek_v31 = {.marks = {DS_CALLS},.special = true,.parse = parse};
