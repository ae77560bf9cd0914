/*
 * tool_jamba.c
 *	  Calls of Jamba: <tool_calls>[{"name", "arguments"}, ...]</tool_calls>, once.
 *
 * Tested by tests/parse/jamba.json.
 */
#include "parsers/tool/tool_internal.h"

static const ToolOp ops[] = {
	{OP_SEEK,.lit = "<tool_calls>"},
	{OP_LIT,.lit = "["},
	{OP_OBJECT,.flags = TJ_ARGUMENTS},
	{.kind = OP_ELEMENT},
	{.kind = OP_DONE},
	{OP_IF,.lit = ",",.to = 2},
	{OP_LIT,.lit = "]"},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_jamba = {.marks = {"<tool_calls>"},.trim = true,.special = true,.ops = ops};
