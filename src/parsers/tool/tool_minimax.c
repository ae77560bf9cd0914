/*
 * tool_minimax.c
 *	  Calls of MiniMax-M1: between <tool_calls> and </tool_calls> (which may be missing) one
 *	  JSON object a line.  Calls within its thoughts are none, nor are lines that aren't JSON.
 *
 * Tested by tests/parse/minimax.json.
 */
#include "parsers/tool/tool_internal.h"

static const ToolOp ops[] = {
	{OP_SEEK,.lit = "<tool_calls>"},
	{OP_IF,.lit = "</tool_calls>",.to = 0},
	{OP_IF,.lit = "{",.flags = OP_PEEK,.to = 5},
	{OP_SEEK,.lit = "\n", "</tool_calls>",.flags = OP_NO_BRACE,.to = 0},
	{OP_GOTO,.to = 1},
	{OP_OBJECT,.flags = TJ_ARGUMENTS},
	{OP_BEHIND,.lit = "{", "</tool_calls>"},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 1}
};

const ToolFormat tool_minimax = {.marks = {"<tool_calls>"},.skip_think = true,.trim = true,.ops = ops};
