/*
 * tool_deepseek_v3.c
 *	  Calls of DeepSeek V3 and R1: a section of calls, each `function`, a separator, the name,
 *	  a newline, and its arguments in a fenced json block.  In the marks, bars are U+FF5C
 *	  and low lines U+2581.
 *
 * Tested by tests/parse/deepseek_v3.json.
 */
#include "parsers/tool/tool_deepseek.h"

static const ToolOp ops[] = {
	{OP_SEEK,.lit = DS_CALL},
	{OP_SKIP,.lit = DS_SEP},
	{OP_NAME,.lit = "\n"},
	{OP_IF,.lit = "```json",.to = 6},
	{.kind = OP_ARGS},
	{OP_GOTO,.to = 8},
	{.kind = OP_ARGS},
	{OP_LIT,.lit = "```"},
	{OP_LIT,.lit = DS_CALL_END},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_deepseek_v3 = {
	.marks = {DS_CALLS},.special = true,
	.signs = {"{", DS_CALL_END},.ops = ops
};
