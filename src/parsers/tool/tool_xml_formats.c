/*
 * tool_xml_formats.c
 *	  Formats of tool calls that are tags, with a tag for each argument: one ToolFormat each
 *	  (tool_internal.h). tool_tags.c reads the arguments.
 *
 * Types come from the tools' schemas, except for DeepSeek V3.2, whose tags say what is a string, and
 * GLM.
 *
 * Each is tested by tests/parse/NAME.json.
 */
#include "parsers/tool/tool_internal.h"

/* The bar in marks of DeepSeek and Step-3, U+FF5C. */
#define BAR		"\xEF\xBD\x9C"

/* ---- the name within the tag: <function=NAME><parameter=K>value</parameter></function> ---- */

/* These tags between the outer tags `start` and `stop`. */
#define FUNCTION_TAGS(start, stop) { \
	.param = "<parameter=",.key_end = ">",.param_end = "</parameter>", \
	.end = "</function>",.also_end = {stop, "<function=", start}, \
	.after = {stop, "<function=", start, "<|"},.unquote = true,.unwrap = true,.open = true \
}

#define FUNCTION_OPS(start, argtags) { \
	{OP_SEEK,.lit = start, "<function=",.to = 2}, \
	{OP_LIT,.lit = "<function="}, \
	{OP_NAME,.lit = ">"}, \
	{OP_TAGS,.tags = argtags}, \
	{.kind = OP_DONE}, \
	{OP_GOTO,.to = 0} \
}

/* Qwen3-Coder: between <tool_call> and </tool_call>; these, and end tags, may be missing. */
static const ArgTags qwen3_coder_tags = FUNCTION_TAGS("<tool_call>", "</tool_call>");
static const ToolOp qwen3_coder_ops[] = FUNCTION_OPS("<tool_call>", &qwen3_coder_tags);

const ToolFormat tool_qwen3_coder = {
	.marks = {"<tool_call>", "<function="},.special = true,
	.signs = {"<parameter=", "</function>"},.ops = qwen3_coder_ops
};

/* Seed-OSS: between <seed:tool_call> and </seed:tool_call>. */
static const ArgTags seed_oss_tags = FUNCTION_TAGS("<seed:tool_call>", "</seed:tool_call>");
static const ToolOp seed_oss_ops[] = FUNCTION_OPS("<seed:tool_call>", &seed_oss_tags);

const ToolFormat tool_seed_oss = {
	.marks = {"<seed:tool_call>"},.special = true,
	.signs = {"<parameter=", "</function>"},.ops = seed_oss_ops
};

/* ---- the name as an attribute: <invoke name="f"><parameter name="k">v</parameter></invoke> ---- */

/* Calls between the outer tags `start` and `stop`, each in `invoke`, the beginning of its tag. */
#define INVOKE_OPS(start, stop, invoke, argtags) { \
	{OP_SEEK,.lit = start}, \
	{OP_LIT,.lit = invoke}, \
	{OP_NAME,.lit = ">"}, \
	{OP_TAGS,.tags = argtags}, \
	{.kind = OP_DONE}, \
	{OP_SEEK,.lit = invoke, stop,.to = 0,.flags = OP_NO_TAG}, \
	{OP_GOTO,.to = 2} \
}

/* MiniMax-M2: between <minimax:tool_call> and </minimax:tool_call>. */
static const ArgTags minimax_m2_tags = {
	.param = "<parameter name=",.key_end = ">",.param_end = "</parameter>",
	.end = "</invoke>",.after = {"<invoke name=", "</minimax:tool_call>"},.unquote = true,.unwrap = true
};
static const ToolOp minimax_m2_ops[] =
	INVOKE_OPS("<minimax:tool_call>", "</minimax:tool_call>", "<invoke name=", &minimax_m2_tags);

const ToolFormat tool_minimax_m2 = {
	.marks = {"<minimax:tool_call>"},.special = true,
	.signs = {"<parameter name=", "</invoke>"},.ops = minimax_m2_ops
};

/*
 * DeepSeek V3.2: <|DSML|invoke name="f"><|DSML|parameter name="k" string="true">v with end tags, between
 * <|DSML|function_calls> and its end tag.
 */
#define DSML	BAR "DSML" BAR

static const ArgTags deepseek_v32_tags = {
	.param = "<" DSML "parameter name=",.key_end = ">",.param_end = "</" DSML "parameter>",
	.end = "</" DSML "invoke>",.after = {"<" DSML "invoke name=", "</" DSML "function_calls>"},
	.unquote = true,.string_attribute = true,.unwrap = true
};
static const ToolOp deepseek_v32_ops[] =
	INVOKE_OPS("<" DSML "function_calls>", "</" DSML "function_calls>", "<" DSML "invoke name=",
			   &deepseek_v32_tags);

const ToolFormat tool_deepseek_v32 = {
	.marks = {"<" DSML "function_calls>"},.trim = true,.special = true,
	.signs = {"<" DSML "parameter name=", "</" DSML "invoke>"},.ops = deepseek_v32_ops
};

/*
 * Step-3: a section of calls, each after `function` and a separator <steptml:invoke
 * name="f"><steptml:parameter name="k">v</steptml:parameter></steptml:invoke>.
 */
static const ArgTags step3_tags = {
	.param = "<steptml:parameter name=",.key_end = ">",.param_end = "</steptml:parameter>",
	.end = "</steptml:invoke>",.after = {"<" BAR "tool_call"},.unquote = true,.unwrap = true
};
static const ToolOp step3_ops[] = {
	{OP_SEEK,.lit = "<" BAR "tool_call_begin" BAR ">"},
	{OP_SKIP,.lit = "<" BAR "tool_sep" BAR ">"},
	{OP_LIT,.lit = "<steptml:invoke name="},
	{OP_NAME,.lit = ">"},
	{OP_TAGS,.tags = &step3_tags},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_step3 = {
	.marks = {"<" BAR "tool_calls_begin" BAR ">"},.special = true,
	.signs = {"<steptml:parameter name=", "</steptml:invoke>"},.ops = step3_ops
};

/* ---- keys and values in separate tags ---- */

/*
 * GLM 4.5: <tool_call>NAME, a newline, then <arg_key>k</arg_key><arg_value>v</arg_value> pairs,
 * </tool_call>.
 *
 * A value of a parameter that the schema calls a string is literal text; any other is JSON, or a Python
 * literal, or text.
 */
static const ArgTags glm_tags = {
	.param = "<arg_key>",.key_end = "</arg_key>",.value = "<arg_value>",.param_end = "</arg_value>",
	.end = "</tool_call>",.after = {"<tool_call>", "<|"},.infer = true
};
static const ToolOp glm45_ops[] = {
	{OP_SEEK,.lit = "<tool_call>"},
	{OP_NAME,.lit = "\n"},
	{OP_TAGS,.tags = &glm_tags},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_glm45 = {
	.marks = {"<tool_call>"},.special = true,
	.signs = {"<arg_key>", "</tool_call>"},.ops = glm45_ops
};

/* GLM 4.7: as GLM 4.5, but the newline after the name may be missing, and there may be no arguments. */
static const ToolOp glm47_ops[] = {
	{OP_SEEK,.lit = "<tool_call>"},
	{OP_NAME,.lit = "<arg_key>", "</tool_call>",.flags = OP_PEEK},
	{OP_TAGS,.tags = &glm_tags},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_glm47 = {
	.marks = {"<tool_call>"},.special = true,
	.signs = {"<arg_key>", "</tool_call>"},.ops = glm47_ops
};
