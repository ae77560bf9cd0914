/*
 * tool_glm45.c
 *	  Calls of GLM 4.5: <tool_call>NAME, a newline, then <arg_key>k</arg_key>
 *	  <arg_value>v</arg_value> pairs, </tool_call>.
 *
 * A value of a parameter that the schema calls a string is text as it stands; any other
 * is JSON, or a Python literal, or text.
 *
 * Tested by tests/parse/glm45.json and glm47.json.
 */
#include "parsers/tool/tool_glm.h"

const ArgTags glm_tags = {
	.param = "<arg_key>",.key_end = "</arg_key>",.value = "<arg_value>",.param_end = "</arg_value>",
	.end = "</tool_call>",.behind = {"<tool_call>", "<|"},.guess = true
};

static const ToolOp ops[] = {
	{OP_SEEK,.lit = "<tool_call>"},
	{OP_NAME,.lit = "\n"},
	{OP_TAGS,.tags = &glm_tags},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_glm45 = {
	.marks = {"<tool_call>"},.special = true,
	.signs = {"<arg_key>", "</tool_call>"},.ops = ops
};
