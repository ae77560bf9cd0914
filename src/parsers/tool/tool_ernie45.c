/*
 * tool_ernie45.c
 *	  Calls of ERNIE 4.5: as Hermes', each with its end tag.  What stands before them may
 *	  be a whole <response>, whose tags and last newlines are not content.
 *
 * Tested by tests/parse/ernie45.json.
 */
#include "parsers/tool/tool_internal.h"

static const ToolOp ops[] = {
	{OP_SEEK,.lit = "<tool_call>"},
	{OP_OBJECT,.flags = TJ_ARGUMENTS},
	{OP_LIT,.lit = "</tool_call>"},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_ernie45 = {.marks = {"<tool_call>"},.trim = true,.special = true,.ops = ops};
