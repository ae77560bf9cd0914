/*
 * tool_llama3_json.c
 *	  Calls of Llama 3 and 4: {"name", "parameters"} (or "arguments", not both), perhaps
 *	  behind <|python_tag|>, several joined by semicolons.
 *
 * Text around the calls is dropped, which can't be done with what was shown: so all of an
 * output waits for its end.
 *
 * Tested by tests/parse/llama3_json.json.
 */
#include "parsers/tool/tool_internal.h"

static const ToolOp ops[] = {
	{OP_OPT,.lit = "<|python_tag|>"},
	{OP_OBJECT,.flags = TJ_ARGUMENTS | TJ_PARAMETERS},
	{OP_BEHIND,.lit = "{"},
	{.kind = OP_DONE},
	{OP_SEEK,.lit = "{",.flags = OP_PEEK},
	{OP_GOTO,.to = 1}
};

const ToolFormat tool_llama3_json = {.marks = {"{", "<|python_tag|>"},.special = true,.ops = ops};
