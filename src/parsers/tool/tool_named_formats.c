/*
 * tool_named_formats.c
 *	  Formats of tool calls whose name comes before the JSON of the arguments: one ToolFormat each
 *	  (tool_internal.h).
 *
 * Each is tested by tests/parse/NAME.json.
 */
#include "parsers/tool/tool_internal.h"

/* Marks of DeepSeek: bars are U+FF5C, underscores U+2581. */
#define DS_BAR		"\xEF\xBD\x9C"
#define DS_LOW		"\xE2\x96\x81"
#define DS_CALLS	"<" DS_BAR "tool" DS_LOW "calls" DS_LOW "begin" DS_BAR ">"
#define DS_CALL		"<" DS_BAR "tool" DS_LOW "call" DS_LOW "begin" DS_BAR ">"
#define DS_CALL_END "<" DS_BAR "tool" DS_LOW "call" DS_LOW "end" DS_BAR ">"
#define DS_SEP		"<" DS_BAR "tool" DS_LOW "sep" DS_BAR ">"

/*
 * DeepSeek V3 and R1: a section of calls, each `function`, a separator, the name, a newline, and its
 * arguments in a fenced json block.
 */
static const ToolOp deepseek_v3_ops[] = {
	{OP_SEEK,.lit = DS_CALL},
	{OP_SKIP,.lit = DS_SEP},
	{OP_NAME,.lit = "\n"},
	{OP_IF,.lit = "```json",.to = 6},
	{.kind = OP_ARGS},
	{OP_GOTO,.to = 8},
	{.kind = OP_ARGS},
	{OP_LIT,.lit = "```"},
	{OP_LIT,.lit = DS_CALL_END},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_deepseek_v3 = {
	.marks = {DS_CALLS},.special = true,
	.signs = {"{", DS_CALL_END},.ops = deepseek_v3_ops
};

/* DeepSeek V3.1: the marks of V3, and in each call the name, a separator and bare JSON. */
static const ToolOp deepseek_v31_ops[] = {
	{OP_SEEK,.lit = DS_CALL},
	{OP_NAME,.lit = DS_SEP},
	{.kind = OP_ARGS},
	{OP_LIT,.lit = DS_CALL_END},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_deepseek_v31 = {
	.marks = {DS_CALLS},.special = true,
	.signs = {"{", DS_CALL_END},.ops = deepseek_v31_ops
};

/*
 * Kimi K2: a section of calls, each `functions.NAME:INDEX` and JSON between marks.  That text is the
 * call's id, which the template needs.
 */
static const ToolOp kimi_k2_ops[] = {
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
	.signs = {"{", "<|tool_call_end|>"},.ops = kimi_k2_ops
};

/*
 * Mistral's models.  Tokenizers before v11: [TOOL_CALLS] once, and an array of {"name", "arguments"}.
 * From v11 on: [TOOL_CALLS] before each call, its name, perhaps [ARGS], and its arguments.  The text
 * shows which of the two it is.
 *
 * Ids are nine letters and digits; the templates check that.
 */
#define MISTRAL_CALLS	"[TOOL_CALLS]"

static const ToolOp mistral_ops[] = {
	{OP_SEEK,.lit = MISTRAL_CALLS},
	{OP_IF,.lit = "[",.to = 10},
	{OP_IF,.lit = "{",.flags = OP_PEEK,.to = 6},
	{OP_NAME,.lit = "{",.flags = OP_PEEK | OP_ARGS_MARK},
	{.kind = OP_ARGS},
	{OP_GOTO,.to = 7},
	{OP_OBJECT,.flags = TJ_ARGUMENTS},
	{OP_AFTER,.lit = MISTRAL_CALLS},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0},
	/* op 10: an array */
	{OP_OBJECT,.flags = TJ_ARGUMENTS},
	{.kind = OP_ELEMENT},
	{.kind = OP_DONE},
	{OP_IF,.lit = ",",.to = 10},
	{OP_LIT,.lit = "]"},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_mistral = {
	.marks = {MISTRAL_CALLS},.special = true,.short_ids = true,.ops = mistral_ops
};

/* gpt-oss: messages of the harmony format (harmony.h). */
const ToolFormat tool_openai = {.harmony = true,.special = true};
