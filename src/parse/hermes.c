/*
 * hermes.c
 *	  Calls of Hermes, Qwen2.5, QwQ, Granite 4: <tool_call>{"name", "arguments"}</tool_call>,
 *	  repeated; the last end tag may be missing.
 *
 * Tested by tests/parse/hermes.json.
 */
#include "parse/tool_int.h"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	return tool_json_blocks((Span) {at, s.end}, "<tool_call>", "</tool_call>", true, out);
}

const ToolFormat tool_hermes = {.marks = {"<tool_call>"},.special = true,.parse = parse};
