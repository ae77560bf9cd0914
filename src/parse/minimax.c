/*
 * minimax.c
 *	  Calls of MiniMax-M1: between <tool_calls> and </tool_calls> (which may be missing) one
 *	  JSON object a line.  Calls within its thoughts are none, nor are lines that aren't JSON.
 *
 * Tested by tests/parse/minimax.json.
 */
#include "parse/tool_int.h"

static void
line(Span l, ToolOut *out)
{
	int			n = out->n;
	bool		ok;

	l = span_trim(l);
	if (l.p == l.end || *l.p != '{')
		return;
	ok = tool_json_object(&l, TJ_ARGUMENTS, out);
	span_space(&l);
	if (!ok || l.p != l.end)
		tool_keep(out, n);
}

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		rest = {at, s.end};
	Span		skipped;

	while (span_until(&rest, "<tool_calls>", &skipped))
	{
		Span		body = rest;
		Span		l;

		if (span_until(&rest, "</tool_calls>", &l))
			body = l;
		else
			rest.p = rest.end;
		while (span_until(&body, "\n", &l))
			line(l, out);
		line(body, out);
	}
	return true;
}

const ToolFormat tool_minimax = {.marks = {"<tool_calls>"},.skip_think = true,.trim = true,.parse = parse};
