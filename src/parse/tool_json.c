/*
 * tool_json.c
 *	  Calls that are JSON objects: one, several in an array, or each between marks.
 *
 * Tested by the cases of tests/parse/.
 */
#include "parse/tool_int.h"

static bool
arguments(const JMember *a, const JMember *p, unsigned flags, Buf *out)
{
	bool		use_a = (flags & TJ_ARGUMENTS) && a->given;
	bool		use_p = (flags & TJ_PARAMETERS) && p->given;
	const Buf  *b = use_a && !(use_p && (flags & TJ_LATTER)) ? a->out : use_p ? p->out : NULL;

	if ((flags & TJ_EXCLUSIVE) && a->given && p->given)
		return false;
	if (b == NULL)
	{
		buf_addstr(out, "{}");
		return (flags & TJ_OPTIONAL) != 0;
	}
	if ((flags & TJ_OBJECT) && b->data[0] != '{')
		return false;
	if ((flags & TJ_TEXT) && b->data[0] == '"')
		return jtext_string(&(Span) {b->data, b->data + b->len}, out);
	buf_add(out, b->data, b->len);
	return true;
}

bool
tool_json_object(Span *s, unsigned flags, ToolOut *out)
{
	Buf			name = {0};
	Buf			args = {0};
	Buf			params = {0};
	JMember		m[] = {{"name", true, &name, false}, {"arguments", false, &args, false}, {"parameters", false, &params, false}};
	bool		ok = jtext_object(s, m, 3, (flags & TJ_LAX) != 0) && m[0].given;
	ToolCall   *c = ok ? tool_named(out, (Span) {name.data, name.data + name.len}) : NULL;

	ok = c != NULL && arguments(&m[1], &m[2], flags, &c->args);
	buf_free(&name);
	buf_free(&args);
	buf_free(&params);
	return ok;
}

bool
tool_json_array(Span *s, unsigned flags, ToolOut *out)
{
	span_space(s);
	if (!span_take(s, "["))
		return false;
	span_space(s);
	for (int i = 0; !span_take(s, "]"); i++)
	{
		if ((i > 0 && !span_take(s, ",")) || !tool_json_object(s, flags, out))
			return false;
		span_space(s);
	}
	return true;
}

bool
tool_json_blocks(Span s, const char *open, const char *close, bool open_end, ToolOut *out)
{
	Span		skipped;

	while (span_until(&s, open, &skipped))
	{
		if (!tool_json_object(&s, TJ_ARGUMENTS, out))
			return false;
		span_space(&s);
		if (!span_take(&s, close) && !(open_end && s.p == s.end))
			return false;
	}
	return true;
}

bool
tool_json_args(Span s, ToolCall *c)
{
	return jtext_whole(span_trim(s), &c->args);
}
