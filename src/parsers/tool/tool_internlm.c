/*
 * tool_internlm.c
 *	  Calls of InternLM 2.5: <|action_start|><|plugin|>{"name", "parameters"}<|action_end|>, one.
 *
 * Tested by tests/parse/internlm.json.
 */
#include "parsers/tool/tool_internal.h"

#define START	"<|action_start|><|plugin|>"

static const ToolOp ops[] = {
	{OP_SEEK,.lit = START},
	{OP_OBJECT,.flags = TJ_PARAMETERS | TJ_ARGUMENTS | TJ_OPTIONAL},
	{OP_LIT_END,.lit = "<|action_end|>"},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_internlm = {.marks = {START},.special = true,.ops = ops};
