/*
 * glm47.c
 *	  Calls of GLM 4.7: as GLM 4.5's, but the newline behind the name may be missing, and
 *	  there may be no arguments.
 *
 * Tested by tests/parse/glm47.json.
 */
#include "parse/glm.h"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	return glm_calls((Span) {at, s.end}, false, out);
}

const ToolFormat tool_glm47 = {.marks = {"<tool_call>"},.special = true,.parse = parse};
