/*
 * qwen3_coder.c
 *	  Calls of Qwen3-Coder: <tool_call><function=NAME><parameter=K>value</parameter></function>
 *	  </tool_call>; the outer tags, and end tags, may be missing.
 *
 * Tested by tests/parse/qwen3_coder.json.
 */
#include "parse/tool_int.h"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	return tool_function_tags((Span) {at, s.end}, "</tool_call>", out);
}

const ToolFormat tool_qwen3_coder = {.marks = {"<tool_call>", "<function="},.special = true,.parse = parse};
