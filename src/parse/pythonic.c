/*
 * pythonic.c
 *	  Calls in Python's syntax: the whole output is [f(a=1), g(b='x')].
 *
 * Tested by tests/parse/pythonic.json.
 */
#include "parse/tool_int.h"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		list = span_trim((Span) {at, s.end});

	return list.end - list.p > 2 && list.end[-1] == ']' && tool_python_calls((Span) {list.p + 1, list.end - 1}, false, out);
}

const ToolFormat tool_pythonic = {.lead = {"["},.parse = parse};
