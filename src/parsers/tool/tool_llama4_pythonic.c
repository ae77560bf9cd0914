/*
 * tool_llama4_pythonic.c
 *	  Calls of Llama 4 in Python's syntax: [f(a=1), g(b='x')], perhaps between
 *	  <|python_start|> and <|python_end|>.
 *
 * Tested by tests/parse/llama4_pythonic.json.
 */
#include "parsers/tool/tool_internal.h"

#define START	"<|python_start|>"

static const ToolOp ops[] = {
	{OP_OPT,.lit = START},
	{OP_LIT,.lit = "["},
	{.kind = OP_PYTHON},
	{OP_ELEMENT,.flags = PY_CALL},
	{.kind = OP_DONE},
	{OP_IF,.lit = ",",.to = 9},
	{OP_LIT,.lit = "]"},
	{OP_SEEK,.lit = START},
	{OP_GOTO,.to = 1},
	/* 9: a comma may stand behind the last */
	{OP_IF,.lit = "]",.to = 7},
	{OP_GOTO,.to = 2}
};

const ToolFormat tool_llama4_pythonic = {.lead = {"[", START},.special = true,.signs = {"("},.ops = ops};
