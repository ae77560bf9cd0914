/*
 * ernie45.c
 *	  Calls of ERNIE 4.5: as Hermes', each with its end tag.  What stands before them may
 *	  be a whole <response>, whose tags and last newlines are not content.
 *
 * Tested by tests/parse/ernie45.json.
 */
#include "parse/tool_int.h"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	return tool_json_blocks((Span) {at, s.end}, "<tool_call>", "</tool_call>", false, out);
}

const ToolFormat tool_ernie45 = {.marks = {"<tool_call>"},.trim = true,.special = true,.parse = parse};
