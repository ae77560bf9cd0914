/*
 * seed_oss.c
 *	  Calls of Seed-OSS: <seed:tool_call><function=NAME><parameter=K>value</parameter></function>
 *	  </seed:tool_call>.
 *
 * Tested by tests/parse/seed_oss.json.
 */
#include "parse/tool_int.h"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	return tool_function_tags((Span) {at, s.end}, "</seed:tool_call>", out);
}

const ToolFormat tool_seed_oss = {.marks = {"<seed:tool_call>"},.special = true,.parse = parse};
