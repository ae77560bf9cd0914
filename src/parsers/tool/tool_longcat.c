/*
 * tool_longcat.c
 *	  Calls of LongCat-Flash: as Hermes', between <longcat_tool_call> and its end tag.
 *
 * Tested by tests/parse/longcat.json.
 */
#include "parsers/tool/tool_internal.h"

static const ToolOp ops[] = {
	{OP_SEEK,.lit = "<longcat_tool_call>"},
	{OP_OBJECT,.flags = TJ_ARGUMENTS},
	{OP_LIT_END,.lit = "</longcat_tool_call>"},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_longcat = {.marks = {"<longcat_tool_call>"},.special = true,.ops = ops};
