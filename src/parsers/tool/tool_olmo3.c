/*
 * tool_olmo3.c
 *	  Calls of Olmo 3: between <function_calls> and </function_calls> one call a line in
 *	  Python's syntax; true, false and null are literals, too.
 *
 * Tested by tests/parse/olmo3.json.
 */
#include "parsers/tool/tool_internal.h"

static const ToolOp ops[] = {
	{OP_SEEK,.lit = "<function_calls>"},
	{OP_IF,.lit = "</function_calls>",.to = 0},
	{OP_PYTHON,.flags = PY_JSON},
	{OP_ELEMENT,.flags = PY_CALL},
	{.kind = OP_DONE},
	{OP_OPT,.lit = ","},
	{OP_GOTO,.to = 1}
};

const ToolFormat tool_olmo3 = {.marks = {"<function_calls>"},.trim = true,.signs = {"("},.ops = ops};
