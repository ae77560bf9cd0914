/*
 * minimax_m2.c
 *	  Calls of MiniMax-M2: <minimax:tool_call><invoke name="f"><parameter name="k">v</parameter>
 *	  </invoke></minimax:tool_call>; types come from the tools' schemas.
 *
 * Tested by tests/parse/minimax_m2.json.
 */
#include "parse/tool_int.h"

static const InvokeTags tags = {"<invoke name=", "</invoke>", "<parameter name=", "</parameter>", false};

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		rest = {at, s.end};
	Span		skipped;
	Span		body;

	while (span_until(&rest, "<minimax:tool_call>", &skipped))
		if (!span_until(&rest, "</minimax:tool_call>", &body) || !tool_invokes(body, &tags, out))
			return false;
	return true;
}

const ToolFormat tool_minimax_m2 = {.marks = {"<minimax:tool_call>"},.special = true,.parse = parse};
