/*
 * tool_granite.c
 *	  Calls of Granite 3: the output is [{"name", "arguments"}, ...], perhaps behind
 *	  <|tool_call|> (3.0) or <tool_call> (3.1).
 *
 * Tested by tests/parse/granite.json.
 */
#include "parsers/tool/tool_internal.h"

static const ToolOp ops[] = {
	{OP_OPT,.lit = "<|tool_call|>"},
	{OP_OPT,.lit = "<tool_call>"},
	{OP_LIT,.lit = "["},
	{OP_OBJECT,.flags = TJ_ARGUMENTS},
	{.kind = OP_ELEMENT},
	{.kind = OP_DONE},
	{OP_IF,.lit = ",",.to = 3},
	{OP_LIT,.lit = "]"},
	{OP_SEEK,.lit = "<|tool_call|>", "<tool_call>",.to = 2},
	{OP_GOTO,.to = 2}
};

const ToolFormat tool_granite = {.lead = {"[", "<|tool_call|>", "<tool_call>"},.special = true,.ops = ops};
