/*
 * hunyuan_a13b.c
 *	  Calls of Hunyuan-A13B: <tool_calls>[{"name", "arguments"}, ...]</tool_calls>, not within
 *	  its thoughts.  The first pair that holds an array counts.
 *
 * Tested by tests/parse/hunyuan_a13b.json.
 */
#include "parse/tool_int.h"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		rest = {at, s.end};
	Span		before;
	Span		body;

	while (span_until(&rest, "<tool_calls>", &before) && span_until(&rest, "</tool_calls>", &body))
	{
		tool_keep(out, 0);
		if (tool_json_array(&body, TJ_ARGUMENTS, out) && out->n > 0)
		{
			span_space(&body);
			if (body.p == body.end)
			{
				if (before.end > at)
					out->content_end = (size_t) (before.end - s.p);
				return true;
			}
		}
	}
	return false;
}

const ToolFormat tool_hunyuan_a13b = {
	.marks = {"<tool_calls>"},.skip_think = true,.trim = true,.parse = parse
};
