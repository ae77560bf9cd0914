/*
 * tool_step3.c
 *	  Calls of Step-3: a section of calls, in each behind `function` and a separator
 *	  <steptml:invoke name="f"><steptml:parameter name="k">v</steptml:parameter></steptml:invoke>.
 *	  The marks' bars are U+FF5C.
 *
 * Tested by tests/parse/step3.json.
 */
#include "parsers/tool/tool_internal.h"

#define BAR		"\xEF\xBD\x9C"

static const ArgTags tags = {
	.param = "<steptml:parameter name=",.key_end = ">",.param_end = "</steptml:parameter>",
	.end = "</steptml:invoke>",.behind = {"<" BAR "tool_call"},.unquote = true,.unwrap = true
};

static const ToolOp ops[] = {
	{OP_SEEK,.lit = "<" BAR "tool_call_begin" BAR ">"},
	{OP_SKIP,.lit = "<" BAR "tool_sep" BAR ">"},
	{OP_LIT,.lit = "<steptml:invoke name="},
	{OP_NAME,.lit = ">"},
	{OP_TAGS,.tags = &tags},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_step3 = {
	.marks = {"<" BAR "tool_calls_begin" BAR ">"},.special = true,
	.signs = {"<steptml:parameter name=", "</steptml:invoke>"},.ops = ops
};
