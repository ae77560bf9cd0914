/*
 * tool_minimax_m2.c
 *	  Calls of MiniMax-M2: <minimax:tool_call><invoke name="f"><parameter name="k">v</parameter>
 *	  </invoke></minimax:tool_call>; types come from the tools' schemas.
 *
 * Tested by tests/parse/minimax_m2.json.
 */
#include "parsers/tool/tool_internal.h"

static const ArgTags tags = {
	.param = "<parameter name=",.key_end = ">",.param_end = "</parameter>",
	.end = "</invoke>",.behind = {"<invoke name=", "</minimax:tool_call>"},.unquote = true,.unwrap = true
};

static const ToolOp ops[] = {
	{OP_SEEK,.lit = "<minimax:tool_call>"},
	{OP_LIT,.lit = "<invoke name="},
	{OP_NAME,.lit = ">"},
	{OP_TAGS,.tags = &tags},
	{.kind = OP_DONE},
	{OP_SEEK,.lit = "<invoke name=", "</minimax:tool_call>",.to = 0,.flags = OP_NO_TAG},
	{OP_GOTO,.to = 2}
};

const ToolFormat tool_minimax_m2 = {
	.marks = {"<minimax:tool_call>"},.special = true,
	.signs = {"<parameter name=", "</invoke>"},.ops = ops
};
