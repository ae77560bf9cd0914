/*
 * llama4_pythonic.c
 *	  Calls of Llama 4 in Python's syntax: [f(a=1), g(b='x')], perhaps between
 *	  <|python_start|> and <|python_end|>.
 *
 * Tested by tests/parse/llama4_pythonic.json.
 */
#include "parse/tool_int.h"

#define START	"<|python_start|>"
#define END		"<|python_end|>"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		list = span_trim((Span) {at, s.end});

	span_take(&list, START);
	if ((size_t) (list.end - list.p) >= strlen(END) && memcmp(list.end - strlen(END), END, strlen(END)) == 0)
		list.end -= strlen(END);
	list = span_trim(list);
	return list.end - list.p > 2 && *list.p == '[' && list.end[-1] == ']' &&
		tool_python_calls((Span) {list.p + 1, list.end - 1}, false, out);
}

const ToolFormat tool_llama4_pythonic = {.lead = {"[", START},.special = true,.parse = parse};
