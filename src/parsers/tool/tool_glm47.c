/*
 * tool_glm47.c
 *	  Calls of GLM 4.7: as GLM 4.5's, but the newline behind the name may be missing, and
 *	  there may be no arguments.
 *
 * Tested by tests/parse/glm47.json.
 */
#include "parsers/tool/tool_glm.h"

static const ToolOp ops[] = {
	{OP_SEEK,.lit = "<tool_call>"},
	{OP_NAME,.lit = "<arg_key>", "</tool_call>",.flags = OP_PEEK},
	{OP_TAGS,.tags = &glm_tags},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_glm47 = {
	.marks = {"<tool_call>"},.special = true,
	.signs = {"<arg_key>", "</tool_call>"},.ops = ops
};
