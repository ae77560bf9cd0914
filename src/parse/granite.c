/*
 * granite.c
 *	  Calls of Granite 3: the output is [{"name", "arguments"}, ...], perhaps behind
 *	  <|tool_call|> (3.0) or <tool_call> (3.1).
 *
 * Tested by tests/parse/granite.json.
 */
#include "parse/tool_int.h"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		list = span_trim((Span) {at, s.end});

	if (!span_take(&list, "<|tool_call|>"))
		span_take(&list, "<tool_call>");
	if (!tool_json_array(&list, TJ_ARGUMENTS, out))
		return false;
	span_space(&list);
	return list.p == list.end;
}

const ToolFormat tool_granite = {.lead = {"[", "<|tool_call|>", "<tool_call>"},.special = true,.parse = parse};
