/*
 * tool_pythonic_formats.c
 *	  Formats of tool calls in Python's syntax, f(a=1): one ToolFormat each (tool_internal.h).
 *	  tool_python.c reads a call.
 *
 * Each is tested by tests/parse/NAME.json.
 */
#include "parsers/tool/tool_internal.h"

/* pythonic: the whole output is [f(a=1), g(b='x')]. */
static const ToolOp pythonic_ops[] = {
	{OP_LIT,.lit = "["},
	{.kind = OP_PYTHON},
	{OP_ELEMENT,.flags = PY_CALL},
	{.kind = OP_DONE},
	{OP_IF,.lit = ",",.to = 7},
	{OP_LIT,.lit = "]"},
	{.kind = OP_SEEK},			/* seeks nothing: the text ends */
	/* op 7: a trailing comma is allowed */
	{OP_IF,.lit = "]",.to = 6},
	{OP_GOTO,.to = 1}
};

const ToolFormat tool_pythonic = {.lead = {"["},.signs = {"("},.ops = pythonic_ops};

/* Llama 4: the same, perhaps between <|python_start|> and <|python_end|>. */
#define LLAMA4_START	"<|python_start|>"

static const ToolOp llama4_pythonic_ops[] = {
	{OP_OPT,.lit = LLAMA4_START},
	{OP_LIT,.lit = "["},
	{.kind = OP_PYTHON},
	{OP_ELEMENT,.flags = PY_CALL},
	{.kind = OP_DONE},
	{OP_IF,.lit = ",",.to = 9},
	{OP_LIT,.lit = "]"},
	{OP_SEEK,.lit = LLAMA4_START},
	{OP_GOTO,.to = 1},
	/* op 9: a trailing comma is allowed */
	{OP_IF,.lit = "]",.to = 7},
	{OP_GOTO,.to = 2}
};

const ToolFormat tool_llama4_pythonic = {
	.lead = {"[", LLAMA4_START},.special = true,.signs = {"("},.ops = llama4_pythonic_ops
};

/*
 * Olmo 3: between <function_calls> and </function_calls> one call a line; true, false and null are
 * literals, too.
 */
static const ToolOp olmo3_ops[] = {
	{OP_SEEK,.lit = "<function_calls>"},
	{OP_IF,.lit = "</function_calls>",.to = 0},
	{OP_PYTHON,.flags = PY_JSON},
	{OP_ELEMENT,.flags = PY_CALL},
	{.kind = OP_DONE},
	{OP_OPT,.lit = ","},
	{OP_GOTO,.to = 1}
};

const ToolFormat tool_olmo3 = {.marks = {"<function_calls>"},.trim = true,.signs = {"("},.ops = olmo3_ops};
