/*
 * tool_xml.c
 *	  Calls written with tags: <function=NAME><parameter=K>V</parameter></function>, and
 *	  <invoke name="f"><parameter name="k">v</parameter></invoke> in several spellings.
 *
 * It only looks like XML: values are raw text, and may hold tags of other kinds.
 *
 * Tested by the cases of tests/parse/.
 */
#include "parse/tool_int.h"

/* A value's text: one newline at either end belongs to the tags. */
static Span
unwrapped(Span v)
{
	if (v.p < v.end && *v.p == '\n')
		v.p++;
	if (v.p < v.end && v.end[-1] == '\n')
		v.end--;
	return v;
}

/* ---- <function=NAME> ---- */

#define FUNCTION		"<function="
#define FUNCTION_END	"</function>"
#define PARAM			"<parameter="
#define PARAM_END		"</parameter>"

typedef struct Tags
{
	Finder		param;
	Finder		param_end;
	Finder		function_end;
} Tags;

/* Does a function end here, or is this a value's text?  What follows it tells. */
static bool
really_ends(Span s, const char *close)
{
	span_take(&s, FUNCTION_END);
	span_space(&s);
	return s.p == s.end || span_is(&s, close) || span_is(&s, FUNCTION);
}

/*
 * Where the value that begins at s ends: at its end tag, or, if that is missing, at the
 * next parameter or the function's end.
 */
static const char *
value_end(Span s, Tags *t, const char *close)
{
	const char *end = finder_next(&t->param_end, &s);
	const char *param = finder_next(&t->param, &s);

	end = param < end ? param : end;
	for (;;)
	{
		const char *f = finder_next(&t->function_end, &s);

		if (f >= end)
			return end;
		if (end == s.end || really_ends((Span) {f, s.end}, close))
			return f;
		s.p = f + 1;
	}
}

/* <parameter=K>V</parameter>; *s is behind "<parameter=" */
static bool
parameter(Span *s, Tags *t, const char *close, Span tool, Buf *args, const cJSON *tools)
{
	Span		key;
	Span		value;

	if (!span_until(s, ">", &key))
		return false;
	key = span_trim(key);
	value = (Span) {s->p, value_end(*s, t, close)};
	s->p = value.end;
	span_take(s, PARAM_END);
	tool_key(args, key);
	tool_typed(unwrapped(value), tool_type_of(tools, tool, key), args);
	return true;
}

bool
tool_function_tags(Span s, const char *close, ToolOut *out)
{
	Tags		t = {{.lit = PARAM}, {.lit = PARAM_END}, {.lit = FUNCTION_END}};
	Span		skipped;
	Span		name;

	while (span_until(&s, FUNCTION, &skipped))
	{
		ToolCall   *c = span_until(&s, ">", &name) ? tool_named(out, span_trim(name)) : NULL;

		if (c == NULL)
			return false;
		name = (Span) {c->name.data, c->name.data + c->name.len};
		buf_addc(&c->args, '{');
		for (span_space(&s); span_take(&s, PARAM); span_space(&s))
			if (!parameter(&s, &t, close, name, &c->args, out->tools))
				return false;
		buf_addc(&c->args, '}');
		/* text between is passed over */
		if (s.p < s.end && !span_is(&s, FUNCTION_END) && !span_is(&s, close) && !span_is(&s, FUNCTION))
			s.p = finder_next(&t.function_end, &s);
		span_take(&s, FUNCTION_END);
	}
	return true;
}

/* ---- <invoke name="f"> ---- */

/* What an attribute says, without the quotes that it may have. */
static Span
unquoted(Span s)
{
	s = span_trim(s);
	if (s.end - s.p >= 2 && (*s.p == '"' || *s.p == '\'') && s.end[-1] == *s.p)
		return (Span) {s.p + 1, s.end - 1};
	return s;
}

/* `"k" string="true"`: the name, and whether it says that the value is a string; -1 = no word of it */
static Span
attributes(Span s, int *string)
{
	const char *at = span_find(&s, " string=");
	Span		how;

	*string = -1;
	if (at == NULL)
		return unquoted(s);
	how = unquoted((Span) {at + strlen(" string="), s.end});
	*string = span_is(&how, "true");
	return unquoted((Span) {s.p, at});
}

/* *s is behind the parameter's opening text, `ends` finds its end. */
static bool
invoke_param(Span *s, const InvokeTags *t, Finder *ends, Span tool, Buf *args, const cJSON *tools)
{
	Span		key;
	Span		value;
	unsigned	types;
	int			string = -1;

	if (!span_until(s, ">", &key))
		return false;
	key = t->string_attribute ? attributes(key, &string) : unquoted(key);
	value = (Span) {s->p, finder_next(ends, s)};
	if (value.end == s->end)
		return false;
	s->p = value.end + strlen(t->param_end);
	types = tool_type_of(tools, tool, key);
	tool_key(args, key);
	if (string == 1)
		tool_typed(value, TT_STRING, args);
	else if (string == 0)
		tool_guessed(value, args);
	else
		tool_typed(unwrapped(value), types, args);
	return true;
}

bool
tool_invokes(Span s, const InvokeTags *t, ToolOut *out)
{
	Finder		ends = {.lit = t->param_end};
	Span		skipped;
	Span		name;

	while (span_until(&s, t->invoke, &skipped))
	{
		ToolCall   *c = span_until(&s, ">", &name) ? tool_named(out, unquoted(name)) : NULL;

		if (c == NULL)
			return false;
		name = (Span) {c->name.data, c->name.data + c->name.len};
		buf_addc(&c->args, '{');
		for (span_space(&s); span_take(&s, t->param); span_space(&s))
			if (!invoke_param(&s, t, &ends, name, &c->args, out->tools))
				return false;
		buf_addc(&c->args, '}');
		if (!span_take(&s, t->invoke_end))
			return false;
	}
	return true;
}
