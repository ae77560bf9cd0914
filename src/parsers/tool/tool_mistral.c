/*
 * tool_mistral.c
 *	  Calls of Mistral's models.  Tokenizers before v11: [TOOL_CALLS] once, and an array of
 *	  {"name", "arguments"}.  From v11 on: [TOOL_CALLS] before each call, its name, perhaps
 *	  [ARGS], and its arguments.  The text tells which it is.
 *
 * Ids are nine letters and digits; the templates check that.
 *
 * Tested by tests/parse/mistral.json.
 */
#include "parsers/tool/tool_internal.h"

#define CALLS	"[TOOL_CALLS]"

static const ToolOp ops[] = {
	{OP_SEEK,.lit = CALLS},
	{OP_IF,.lit = "[",.to = 10},
	{OP_IF,.lit = "{",.flags = OP_PEEK,.to = 6},
	{OP_NAME,.lit = "{",.flags = OP_PEEK | OP_ARGS_MARK},
	{.kind = OP_ARGS},
	{OP_GOTO,.to = 7},
	{OP_OBJECT,.flags = TJ_ARGUMENTS},
	{OP_BEHIND,.lit = CALLS},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0},
	/* 10: an array */
	{OP_OBJECT,.flags = TJ_ARGUMENTS},
	{.kind = OP_ELEMENT},
	{.kind = OP_DONE},
	{OP_IF,.lit = ",",.to = 10},
	{OP_LIT,.lit = "]"},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_mistral = {.marks = {CALLS},.special = true,.short_ids = true,.ops = ops};
