/*
 * tool_qwen3_coder.c
 *	  Calls of Qwen3-Coder: <tool_call><function=NAME><parameter=K>value</parameter></function>
 *	  </tool_call>; the outer tags, and end tags, may be missing.
 *
 * Tested by tests/parse/qwen3_coder.json.
 */
#include "parsers/tool/tool_internal.h"

static const ArgTags tags = {
	.param = "<parameter=",.key_end = ">",.param_end = "</parameter>",
	.end = "</function>",.also_end = {"</tool_call>", "<function=", "<tool_call>"},
	.behind = {"</tool_call>", "<function=", "<tool_call>", "<|"},.unquote = true,.unwrap = true,.open = true
};

static const ToolOp ops[] = {
	{OP_SEEK,.lit = "<tool_call>", "<function=",.to = 2},
	{OP_LIT,.lit = "<function="},
	{OP_NAME,.lit = ">"},
	{OP_TAGS,.tags = &tags},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_qwen3_coder = {
	.marks = {"<tool_call>", "<function="},.special = true,
	.signs = {"<parameter=", "</function>"},.ops = ops
};
