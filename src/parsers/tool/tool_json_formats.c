/*
 * tool_json_formats.c
 *	  Formats of tool calls that are JSON objects {"name", "arguments"} between marks: one ToolFormat
 *	  each (tool_internal.h).
 *
 * Most are objects one after the other (OBJECT_OPS) or an array of objects (ARRAY_OPS), and differ in
 * the marks; the others have their own ops.  An op refers to others by index.
 *
 * Each is tested by tests/parse/NAME.json.
 */
#include "parsers/tool/tool_internal.h"

/* After each start mark one object with these keys; then end, by end_op. */
#define OBJECT_OPS(start, keys, end_op, end) { \
	{OP_SEEK,.lit = start}, \
	{OP_OBJECT,.flags = keys}, \
	{end_op,.lit = end}, \
	{.kind = OP_DONE}, \
	{OP_GOTO,.to = 0} \
}

/* After each start mark an array of objects with these keys. */
#define ARRAY_OPS(start, keys) { \
	{OP_SEEK,.lit = start}, \
	{OP_LIT,.lit = "["}, \
	{OP_OBJECT,.flags = keys}, \
	{.kind = OP_ELEMENT}, \
	{.kind = OP_DONE}, \
	{OP_IF,.lit = ",",.to = 2}, \
	{OP_LIT,.lit = "]"}, \
	{OP_GOTO,.to = 0} \
}

/* ---- objects, each after a mark ---- */

/*
 * Hermes, Qwen2.5, QwQ, Granite 4: <tool_call>{"name", "arguments"}</tool_call>, repeated; the last end tag
 * may be missing.
 */
static const ToolOp hermes_ops[] = OBJECT_OPS("<tool_call>", TJ_ARGUMENTS, OP_LIT_END, "</tool_call>");

const ToolFormat tool_hermes = {.marks = {"<tool_call>"},.special = true,.ops = hermes_ops};

/*
 * ERNIE 4.5: as Hermes', each with its end tag.  A complete <response> may come before them, whose tags
 * and last newlines are not content.
 */
static const ToolOp ernie45_ops[] = OBJECT_OPS("<tool_call>", TJ_ARGUMENTS, OP_LIT, "</tool_call>");

const ToolFormat tool_ernie45 = {.marks = {"<tool_call>"},.trim = true,.special = true,.ops = ernie45_ops};

/* LongCat-Flash: as Hermes', between <longcat_tool_call> and its end tag. */
static const ToolOp longcat_ops[] =
	OBJECT_OPS("<longcat_tool_call>", TJ_ARGUMENTS, OP_LIT_END, "</longcat_tool_call>");

const ToolFormat tool_longcat = {.marks = {"<longcat_tool_call>"},.special = true,.ops = longcat_ops};

/* Granite 20B FunctionCalling: <function_call> before each object; what follows an object is ignored. */
static const ToolOp granite_20b_fc_ops[] =
	OBJECT_OPS("<function_call>", TJ_ARGUMENTS, OP_AFTER, "<function_call>");

const ToolFormat tool_granite_20b_fc = {
	.marks = {"<function_call>"},.special = true,.ops = granite_20b_fc_ops
};

/* InternLM 2.5: <|action_start|><|plugin|>{"name", "parameters"}<|action_end|>, one. */
#define INTERNLM_START	"<|action_start|><|plugin|>"

static const ToolOp internlm_ops[] =
	OBJECT_OPS(INTERNLM_START, TJ_PARAMETERS | TJ_ARGUMENTS | TJ_OPTIONAL, OP_LIT_END, "<|action_end|>");

const ToolFormat tool_internlm = {.marks = {INTERNLM_START},.special = true,.ops = internlm_ops};

/*
 * Llama 3 and 4: {"name", "parameters"} (or "arguments", not both), perhaps after <|python_tag|>,
 * several joined by semicolons.
 *
 * Text around the calls is dropped, which isn't possible with text that has been emitted: so the whole
 * output is held back until its end.
 */
static const ToolOp llama3_json_ops[] = {
	{OP_OPT,.lit = "<|python_tag|>"},
	{OP_OBJECT,.flags = TJ_ARGUMENTS | TJ_PARAMETERS},
	{OP_AFTER,.lit = "{"},
	{.kind = OP_DONE},
	{OP_SEEK,.lit = "{",.flags = OP_PEEK},
	{OP_GOTO,.to = 1}
};

const ToolFormat tool_llama3_json = {.marks = {"{", "<|python_tag|>"},.special = true,.ops = llama3_json_ops};

/*
 * GigaChat 3: `function call<|role_sep|>` and a newline, or <|function_call|>, then one object, whose
 * arguments are an object.  Content ends at <|message_sep|>; </s> at the end is dropped.
 */
#define GIGACHAT_CALL	"function call<|role_sep|>"
#define GIGACHAT_TOKEN	"<|function_call|>"
#define GIGACHAT_SEP	"<|message_sep|>"
#define GIGACHAT_END	"</s>"

static const ToolOp gigachat3_ops[] = {
	{OP_OPT,.lit = GIGACHAT_SEP},
	{OP_IF,.lit = GIGACHAT_TOKEN,.to = 5},
	{OP_IF,.lit = GIGACHAT_CALL,.to = 5},
	{OP_OPT,.lit = GIGACHAT_END},
	{.kind = OP_BARE},
	{OP_OBJECT,.flags = TJ_ARGUMENTS | TJ_OBJECT | TJ_LAX},
	{OP_AFTER,.lit = GIGACHAT_TOKEN, GIGACHAT_CALL},
	{.kind = OP_DONE},
	{OP_SEEK,.lit = GIGACHAT_TOKEN, GIGACHAT_CALL,.to = 5},
	{OP_GOTO,.to = 5}
};

const ToolFormat tool_gigachat3 = {
	.marks = {GIGACHAT_CALL, GIGACHAT_TOKEN, GIGACHAT_SEP, GIGACHAT_END},.special = true,.again = true,
	.ops = gigachat3_ops
};

/*
 * MiniMax-M1: between <tool_calls> and </tool_calls> (which may be missing) one object a line.  Calls
 * within its reasoning are ignored, and so are lines that aren't JSON.
 */
static const ToolOp minimax_ops[] = {
	{OP_SEEK,.lit = "<tool_calls>"},
	{OP_IF,.lit = "</tool_calls>",.to = 0},
	{OP_IF,.lit = "{",.flags = OP_PEEK,.to = 5},
	{OP_SEEK,.lit = "\n", "</tool_calls>",.flags = OP_NO_BRACE,.to = 0},
	{OP_GOTO,.to = 1},
	{OP_OBJECT,.flags = TJ_ARGUMENTS},
	{OP_AFTER,.lit = "{", "</tool_calls>"},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 1}
};

const ToolFormat tool_minimax = {
	.marks = {"<tool_calls>"},.skip_think = true,.trim = true,.ops = minimax_ops
};

/* ---- arrays of objects ---- */

static const ToolOp tool_calls_ops[] = ARRAY_OPS("<tool_calls>", TJ_ARGUMENTS);

/* Jamba: <tool_calls>[{"name", "arguments"}, ...]</tool_calls>, once. */
const ToolFormat tool_jamba = {.marks = {"<tool_calls>"},.trim = true,.special = true,.ops = tool_calls_ops};

/* Hunyuan-A13B: as Jamba's, not within its reasoning.  The first pair of tags that contains an array
 * counts. */
const ToolFormat tool_hunyuan_a13b = {
	.marks = {"<tool_calls>"},.skip_think = true,.trim = true,.again = true,.ops = tool_calls_ops
};

/* Phi-4-mini: functools[{"name", "arguments"}, ...]. */
static const ToolOp phi4_mini_json_ops[] = ARRAY_OPS("functools", TJ_ARGUMENTS | TJ_PARAMETERS);

const ToolFormat tool_phi4_mini_json = {.marks = {"functools["},.trim = true,.ops = phi4_mini_json_ops};

/* Granite 3: the output is an array, perhaps after <|tool_call|> (3.0) or <tool_call> (3.1). */
static const ToolOp granite_ops[] = {
	{OP_OPT,.lit = "<|tool_call|>"},
	{OP_OPT,.lit = "<tool_call>"},
	{OP_LIT,.lit = "["},
	{OP_OBJECT,.flags = TJ_ARGUMENTS},
	{.kind = OP_ELEMENT},
	{.kind = OP_DONE},
	{OP_IF,.lit = ",",.to = 3},
	{OP_LIT,.lit = "]"},
	{OP_SEEK,.lit = "<|tool_call|>", "<tool_call>",.to = 2},
	{OP_GOTO,.to = 2}
};

const ToolFormat tool_granite = {
	.lead = {"[", "<|tool_call|>", "<tool_call>"},.special = true,.ops = granite_ops
};

/*
 * Salesforce's xLAM: an array as the whole output or after </think>, in a fenced block, after
 * [TOOL_CALLS] up to the end of the line, or between <tool_call> and </tool_call>.  The first of these
 * that contains an array counts; what follows it is also content.
 */
static const ToolOp xlam_ops[] = {
	{OP_IF,.lit = "```json",.to = 4},
	{OP_IF,.lit = "```",.to = 4},
	{OP_IF,.lit = "[TOOL_CALLS]",.to = 4},
	{OP_OPT,.lit = "<tool_call>"},
	{OP_LIT,.lit = "["},
	{OP_OBJECT,.flags = TJ_ARGUMENTS | TJ_TEXT},
	{.kind = OP_ELEMENT},
	{.kind = OP_DONE},
	{OP_IF,.lit = ",",.to = 5},
	{OP_LIT,.lit = "]"},
	{OP_OPT,.lit = "```"},
	{OP_OPT,.lit = "</tool_call>"},
	{.kind = OP_TAIL}
};

const ToolFormat tool_xlam = {
	.marks = {"```", "[TOOL_CALLS]", "<tool_call>"},.lead = {"["},.lead_after_think = true,.trim = true,
	.again = true,.ops = xlam_ops
};
