/*
 * tool_kimi_k2.c
 *	  Calls of Kimi K2: a section of calls, each `functions.NAME:INDEX` and JSON between
 *	  marks.  That text is the call's id: the template wants it back.
 *
 * Tested by tests/parse/kimi_k2.json.
 */
#include "parsers/tool/tool_internal.h"

static const ToolOp ops[] = {
	{OP_SEEK,.lit = "<|tool_call_begin|>"},
	{OP_ID,.lit = "<|tool_call_argument_begin|>"},
	{.kind = OP_ARGS},
	{OP_LIT,.lit = "<|tool_call_end|>"},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_kimi_k2 = {
	.marks = {"<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"},.special = true,
	.named_ids = true,
	.signs = {"{", "<|tool_call_end|>"},.ops = ops
};
