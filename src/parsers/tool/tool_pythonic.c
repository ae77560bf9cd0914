/*
 * tool_pythonic.c
 *	  Calls in Python's syntax: the whole output is [f(a=1), g(b='x')].
 *
 * Tested by tests/parse/pythonic.json.
 */
#include "parsers/tool/tool_internal.h"

static const ToolOp ops[] = {
	{OP_LIT,.lit = "["},
	{.kind = OP_PYTHON},
	{OP_ELEMENT,.flags = PY_CALL},
	{.kind = OP_DONE},
	{OP_IF,.lit = ",",.to = 7},
	{OP_LIT,.lit = "]"},
	{.kind = OP_SEEK},			/* nothing: the text ends */
	/* 7: a comma may stand behind the last */
	{OP_IF,.lit = "]",.to = 6},
	{OP_GOTO,.to = 1}
};

const ToolFormat tool_pythonic = {.lead = {"["},.signs = {"("},.ops = ops};
