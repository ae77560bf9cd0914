/*
 * tool_seed_oss.c
 *	  Calls of Seed-OSS: <seed:tool_call><function=NAME><parameter=K>value</parameter></function>
 *	  </seed:tool_call>.
 *
 * Tested by tests/parse/seed_oss.json.
 */
#include "parsers/tool/tool_internal.h"

static const ArgTags tags = {
	.param = "<parameter=",.key_end = ">",.param_end = "</parameter>",
	.end = "</function>",.also_end = {"</seed:tool_call>", "<function=", "<seed:tool_call>"},
	.behind = {"</seed:tool_call>", "<function=", "<seed:tool_call>", "<|"},
	.unquote = true,.unwrap = true,.open = true
};

static const ToolOp ops[] = {
	{OP_SEEK,.lit = "<seed:tool_call>", "<function=",.to = 2},
	{OP_LIT,.lit = "<function="},
	{OP_NAME,.lit = ">"},
	{OP_TAGS,.tags = &tags},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_seed_oss = {
	.marks = {"<seed:tool_call>"},.special = true,
	.signs = {"<parameter=", "</function>"},.ops = ops
};
