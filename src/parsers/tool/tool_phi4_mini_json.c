/*
 * tool_phi4_mini_json.c
 *	  Calls of Phi-4-mini: functools[{"name", "arguments"}, ...].
 *
 * Tested by tests/parse/phi4_mini_json.json.
 */
#include "parsers/tool/tool_internal.h"

static const ToolOp ops[] = {
	{OP_SEEK,.lit = "functools"},
	{OP_LIT,.lit = "["},
	{OP_OBJECT,.flags = TJ_ARGUMENTS | TJ_PARAMETERS},
	{.kind = OP_ELEMENT},
	{.kind = OP_DONE},
	{OP_IF,.lit = ",",.to = 2},
	{OP_LIT,.lit = "]"},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_phi4_mini_json = {.marks = {"functools["},.trim = true,.ops = ops};
