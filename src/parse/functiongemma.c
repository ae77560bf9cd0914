/*
 * functiongemma.c
 *	  Calls of FunctionGemma: <start_function_call>call:NAME{k:<escape>v<escape>,n:1}
 *	  <end_function_call>; the last end tag may be missing.
 *
 * Each value is JSON if it can be, else text; without <escape> it ends at the next comma or
 * at the closing brace.
 *
 * Tested by tests/parse/functiongemma.json.
 */
#include "parse/tool_int.h"

#define ESCAPE	"<escape>"

static void
value(Span v, Buf *args)
{
	if (!jtext_whole(span_trim(v), args))
		jtext_quote(args, v.p, (size_t) (v.end - v.p));
}

/* A value without marks: JSON as far as it goes, else up to a comma or brace. */
static void
bare(Span *s, Buf *args)
{
	size_t		len = args->len;
	Span		t = *s;

	if (jtext_value(&t, args))
	{
		span_space(&t);
		if (t.p < t.end && (*t.p == ',' || *t.p == '}'))
		{
			s->p = t.p;
			return;
		}
	}
	args->len = len;
	t = *s;
	while (s->p < s->end && *s->p != ',' && *s->p != '}')
		s->p++;
	value((Span) {t.p, s->p}, args);
}

static bool
arguments(Span *s, Buf *args)
{
	Span		key;
	Span		v;

	buf_addc(args, '{');
	for (span_space(s); !span_take(s, "}"); span_space(s))
	{
		if (!span_until(s, ":", &key))
			return false;
		key = span_trim(key);
		if (key.p == key.end)
			return false;
		tool_key(args, key);
		span_space(s);
		if (span_take(s, ESCAPE))
		{
			if (!span_until(s, ESCAPE, &v))
				return false;
			value(v, args);
		}
		else
			bare(s, args);
		span_space(s);
		if (!span_take(s, ",") && !span_is(s, "}"))
			return false;
	}
	buf_addc(args, '}');
	return true;
}

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		rest = {at, s.end};
	Span		name;
	ToolCall   *c;

	while (span_until(&rest, "<start_function_call>", &name))
	{
		if (!span_take(&rest, "call:") || !span_until(&rest, "{", &name) ||
			(c = tool_named(out, span_trim(name))) == NULL || !arguments(&rest, &c->args))
			return false;
		span_space(&rest);
		if (!span_take(&rest, "<end_function_call>") && rest.p < rest.end)
			return false;
	}
	return true;
}

const ToolFormat tool_functiongemma = {.marks = {"<start_function_call>"},.special = true,.parse = parse};
