/*
 * xlam.c
 *	  Calls of Salesforce's xLAM: an array of {"name", "arguments"}, as the whole output or
 *	  behind </think>, in a fenced block, behind [TOOL_CALLS] up to the end of the line, or
 *	  between <tool_call> and </tool_call>.  The first of these that holds an array counts;
 *	  what follows it is content, too.
 *
 * Tested by tests/parse/xlam.json.
 */
#include "parse/tool_int.h"

typedef struct Wrap
{
	const char *open;
	const char *close;			/* NULL: the end of the line */
} Wrap;

static const Wrap wraps[] = {{"```json", "```"}, {"```", "```"}, {"[TOOL_CALLS]", NULL}, {"<tool_call>", "</tool_call>"}};

/* All of s is an array of calls. */
static bool
whole_array(Span s, ToolOut *out)
{
	tool_keep(out, 0);
	s = span_trim(s);
	if (!tool_json_array(&s, TJ_ARGUMENTS | TJ_TEXT, out))
		return false;
	return s.p == s.end && out->n > 0;
}

/* One block that begins at *s; it is read in any case. */
static bool
block(Span *s, ToolOut *out)
{
	for (size_t i = 0; i < sizeof(wraps) / sizeof(wraps[0]); i++)
		if (span_take(s, wraps[i].open))
		{
			Span		body = *s;

			if (!span_until(s, wraps[i].close != NULL ? wraps[i].close : "\n", &body))
			{
				if (wraps[i].close != NULL)
					body.p = body.end;
				s->p = s->end;
			}
			return whole_array(body, out);
		}
	s->p++;
	return false;
}

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		rest = {at, s.end};
	Span		tail;

	if (*at == '[' && !span_is(&rest, "[TOOL_CALLS]") && whole_array(rest, out))
		return true;
	while (rest.p < rest.end)
	{
		const char *from = rest.p;

		if (!block(&rest, out))
			continue;
		if (from > at)
			out->content_end = (size_t) (from - s.p);
		tail = span_trim(rest);
		buf_add(&out->tail, tail.p, (size_t) (tail.end - tail.p));
		return true;
	}
	return false;
}

const ToolFormat tool_xlam = {
	.marks = {"```", "[TOOL_CALLS]", "<tool_call>"},.lead = {"["},.lead_after_think = true,.trim = true,.parse = parse
};
