/*
 * tool_granite_20b_fc.c
 *	  Calls of Granite 20B FunctionCalling: <function_call> before each {"name", "arguments"};
 *	  what follows an object is ignored.
 *
 * Tested by tests/parse/granite-20b-fc.json.
 */
#include "parsers/tool/tool_internal.h"

static const ToolOp ops[] = {
	{OP_SEEK,.lit = "<function_call>"},
	{OP_OBJECT,.flags = TJ_ARGUMENTS},
	{OP_BEHIND,.lit = "<function_call>"},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_granite_20b_fc = {.marks = {"<function_call>"},.special = true,.ops = ops};
