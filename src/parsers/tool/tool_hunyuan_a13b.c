/*
 * tool_hunyuan_a13b.c
 *	  Calls of Hunyuan-A13B: <tool_calls>[{"name", "arguments"}, ...]</tool_calls>, not within
 *	  its thoughts.  The first pair that holds an array counts.
 *
 * Tested by tests/parse/hunyuan_a13b.json.
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

const ToolFormat tool_hunyuan_a13b = {.marks = {"<tool_calls>"},.skip_think = true,.trim = true,.again = true,
									  .ops = ops};
