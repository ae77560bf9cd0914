/*
 * longcat.c
 *	  Calls of LongCat-Flash: as Hermes', between <longcat_tool_call> and its end tag.
 *
 * Tested by tests/parse/longcat.json.
 */
#include "parse/tool_int.h"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	return tool_json_blocks((Span) {at, s.end}, "<longcat_tool_call>", "</longcat_tool_call>", true, out);
}

const ToolFormat tool_longcat = {.marks = {"<longcat_tool_call>"},.special = true,.parse = parse};
