/*
 * tool_hermes.c
 *	  Calls of Hermes, Qwen2.5, QwQ, Granite 4: <tool_call>{"name", "arguments"}</tool_call>,
 *	  repeated; the last end tag may be missing.
 *
 * Tested by tests/parse/hermes.json.
 */
#include "parsers/tool/tool_internal.h"

static const ToolOp ops[] = {
	{OP_SEEK,.lit = "<tool_call>"},
	{OP_OBJECT,.flags = TJ_ARGUMENTS},
	{OP_LIT_END,.lit = "</tool_call>"},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_hermes = {.marks = {"<tool_call>"},.special = true,.ops = ops};
