/*
 * tool_deepseek_v31.c
 *	  Calls of DeepSeek V3.1: the marks of V3, and in each call the name, a separator and
 *	  bare JSON.
 *
 * Tested by tests/parse/deepseek_v31.json.
 */
#include "parsers/tool/tool_deepseek.h"

static const ToolOp ops[] = {
	{OP_SEEK,.lit = DS_CALL},
	{OP_NAME,.lit = DS_SEP},
	{.kind = OP_ARGS},
	{OP_LIT,.lit = DS_CALL_END},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_deepseek_v31 = {
	.marks = {DS_CALLS},.special = true,
	.signs = {"{", DS_CALL_END},.ops = ops
};
