/*
 * tool_deepseek_v32.c
 *	  Calls of DeepSeek V3.2: <|DSML|invoke name="f"><|DSML|parameter name="k" string="true">v
 *	  with end tags, between <|DSML|function_calls> and its end tag.  The bars are U+FF5C.
 *
 * Tested by tests/parse/deepseek_v32.json.
 */
#include "parsers/tool/tool_internal.h"

#define DSML	"\xEF\xBD\x9C" "DSML" "\xEF\xBD\x9C"

static const ArgTags tags = {
	.param = "<" DSML "parameter name=",.key_end = ">",.param_end = "</" DSML "parameter>",
	.end = "</" DSML "invoke>",.behind = {"<" DSML "invoke name=", "</" DSML "function_calls>"},
	.unquote = true,.string_attribute = true,.unwrap = true
};

static const ToolOp ops[] = {
	{OP_SEEK,.lit = "<" DSML "function_calls>"},
	{OP_LIT,.lit = "<" DSML "invoke name="},
	{OP_NAME,.lit = ">"},
	{OP_TAGS,.tags = &tags},
	{.kind = OP_DONE},
	{OP_SEEK,.lit = "<" DSML "invoke name=", "</" DSML "function_calls>",.to = 0,.flags = OP_NO_TAG},
	{OP_GOTO,.to = 2}
};

const ToolFormat tool_deepseek_v32 = {
	.marks = {"<" DSML "function_calls>"},.trim = true,.special = true,
	.signs = {"<" DSML "parameter name=", "</" DSML "invoke>"},.ops = ops
};
