/*
 * llama3_json.c
 *	  Calls of Llama 3 and 4: {"name", "parameters"} (or "arguments", not both), perhaps
 *	  behind <|python_tag|>, several joined by semicolons.
 *
 * Text around the calls is dropped, which can't be done with what was shown: so all of an
 * output waits for its end.
 *
 * Tested by tests/parse/llama3_json.json.
 */
#include "parse/tool_int.h"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		rest = s;
	Span		skipped;

	(void) at;
	out->content_end = 0;
	while (span_until(&rest, "{", &skipped))
	{
		rest.p--;
		if (!tool_json_object(&rest, TJ_ARGUMENTS | TJ_PARAMETERS | TJ_EXCLUSIVE, out))
			return false;
	}
	return true;
}

const ToolFormat tool_llama3_json = {.all = true,.special = true,.parse = parse};
