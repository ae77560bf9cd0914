/*
 * deepseek_v3.c
 *	  Calls of DeepSeek V3 and R1: a section of calls, each `function`, a separator, the name,
 *	  a newline, and its arguments in a fenced json block.  In the marks, bars are U+FF5C
 *	  and low lines U+2581.
 *
 * Tested by tests/parse/deepseek_v3.json.
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
		if (!span_until(&rest, DS_CALL_END, &body) || !span_until(&body, DS_SEP, &skipped) ||
			!span_until(&body, "\n", &name) || (c = tool_named(out, span_trim(name))) == NULL)
			return false;
		body = span_trim(body);
		if (span_take(&body, "```json"))
		{
			if (body.end - body.p < 3 || memcmp(body.end - 3, "```", 3) != 0)
				return false;
			body.end -= 3;
		}
		if (!tool_json_args(body, c))
			return false;
	}
	return true;
}

const ToolFormat tool_deepseek_v3 = {.marks = {DS_CALLS},.special = true,.parse = parse};
