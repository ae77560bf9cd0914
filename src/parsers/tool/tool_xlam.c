/*
 * tool_xlam.c
 *	  Calls of Salesforce's xLAM: an array of {"name", "arguments"}, as the whole output or
 *	  behind </think>, in a fenced block, behind [TOOL_CALLS] up to the end of the line, or
 *	  between <tool_call> and </tool_call>.  The first of these that holds an array counts;
 *	  what follows it is content, too.
 *
 * Tested by tests/parse/xlam.json.
 */
#include "parsers/tool/tool_internal.h"

static const ToolOp ops[] = {
	{OP_IF,.lit = "```json",.to = 4},
	{OP_IF,.lit = "```",.to = 4},
	{OP_IF,.lit = "[TOOL_CALLS]",.to = 4},
	{OP_OPT,.lit = "<tool_call>"},
	{OP_LIT,.lit = "["},
	{OP_OBJECT,.flags = TJ_ARGUMENTS | TJ_TEXT},
	{.kind = OP_ELEMENT},
	{.kind = OP_DONE},
	{OP_IF,.lit = ",",.to = 5},
	{OP_LIT,.lit = "]"},
	{OP_OPT,.lit = "```"},
	{OP_OPT,.lit = "</tool_call>"},
	{.kind = OP_TAIL}
};

const ToolFormat tool_xlam = {
	.marks = {"```", "[TOOL_CALLS]", "<tool_call>"},.lead = {"["},.lead_after_think = true,.trim = true,
	.again = true,.ops = ops
};
