/*
 * deepseek_v32.c
 *	  Calls of DeepSeek V3.2: <|DSML|invoke name="f"><|DSML|parameter name="k" string="true">v
 *	  with end tags, between <|DSML|function_calls> and its end tag.  The bars are U+FF5C.
 *
 * Tested by tests/parse/deepseek_v32.json.
 */
#include "parse/tool_int.h"

#define DSML	"\xEF\xBD\x9C" "DSML" "\xEF\xBD\x9C"

static const InvokeTags tags = {
	"<" DSML "invoke name=", "</" DSML "invoke>", "<" DSML "parameter name=", "</" DSML "parameter>", true
};

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		rest = {at, s.end};
	Span		skipped;
	Span		body;

	while (span_until(&rest, "<" DSML "function_calls>", &skipped))
	{
		/* the end tag of the last section may be missing */
		if (!span_until(&rest, "</" DSML "function_calls>", &body))
		{
			body = rest;
			rest.p = rest.end;
		}
		if (!tool_invokes(body, &tags, out))
			return false;
	}
	return true;
}

const ToolFormat tool_deepseek_v32 = {.marks = {"<" DSML "function_calls>"},.trim = true,.special = true,.parse = parse};
