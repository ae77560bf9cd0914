/*
 * tool_gigachat3.c
 *	  Calls of GigaChat 3: `function call<|role_sep|>` and a newline, or <|function_call|>,
 *	  then one {"name", "arguments"}, whose arguments are an object.  Content ends at
 *	  <|message_sep|>; </s> at the end is not part of anything.
 *
 * Tested by tests/parse/gigachat3.json.
 */
#include "parsers/tool/tool_internal.h"

#define CALL	"function call<|role_sep|>"
#define TOKEN	"<|function_call|>"
#define SEP		"<|message_sep|>"
#define END		"</s>"

static const ToolOp ops[] = {
	{OP_OPT,.lit = SEP},
	{OP_IF,.lit = TOKEN,.to = 5},
	{OP_IF,.lit = CALL,.to = 5},
	{OP_OPT,.lit = END},
	{.kind = OP_BARE},
	{OP_OBJECT,.flags = TJ_ARGUMENTS | TJ_OBJECT | TJ_LAX},
	{OP_BEHIND,.lit = TOKEN, CALL},
	{.kind = OP_DONE},
	{OP_SEEK,.lit = TOKEN, CALL,.to = 5},
	{OP_GOTO,.to = 5}
};

const ToolFormat tool_gigachat3 = {.marks = {CALL, TOKEN, SEP, END},.special = true,.again = true,.ops = ops};
