/*
 * tool_functiongemma.c
 *	  Calls of FunctionGemma: <start_function_call>call:NAME{k:<escape>v<escape>,n:1}
 *	  <end_function_call>; the last end tag may be missing.
 *
 * Each value is JSON if possible, else text; without <escape> it ends at the next comma or at the
 * closing brace.
 *
 * Tested by tests/parse/functiongemma.json.
 */
#include "parsers/tool/tool_internal.h"

#define ESCAPE	"<escape>"
#define END		"<end_function_call>"

static void
value(Span v, Buf *args)
{
	if (!jpush_whole(span_trim(v), args))
		json_add_quoted(args, v.p, (size_t) (v.end - v.p));
}

/* Return true if white space, a word and a colon follow, i.e. another key: then a comma is missing. */
static bool
has_key(Span s)
{
	bool		word = false;

	for (const char *p = s.p; p < s.end; p++)
	{
		if (*p == ':' && word)
			return true;
		word = !span_is_space(*p) && *p != ':' && (word || (p > s.p && span_is_space(p[-1])));
	}
	return false;
}

/* Read a value without marks: JSON if it is valid, else text up to a comma or brace. */
static bool
bare(Span *s, Buf *args)
{
	size_t		len = args->len;
	Span		t = *s;
	JPush		j = {0};

	if (jpush(&j, &t, true, args) == JPUSH_DONE)
	{
		span_space(&t);
		if (t.p < t.end && (*t.p == ',' || *t.p == '}'))
		{
			s->p = t.p;
			return true;
		}
	}
	buf_cut(args, len);
	/* damaged JSON would be cut at a comma or brace */
	if (s->p < s->end && strchr("{[\"", *s->p) != NULL && *s->p != '\0')
		return false;
	t = *s;
	while (s->p < s->end && *s->p != ',' && *s->p != '}')
		s->p++;
	value((Span) {t.p, s->p}, args);
	return !has_key((Span) {t.p, s->p});
}

/* Return true if s has no character that surrounds keys. */
static bool
is_key(Span s)
{
	for (; s.p < s.end; s.p++)
		if (span_is_space(*s.p) || strchr(",{}<>\"", *s.p) != NULL)
			return false;
	return true;
}

static bool
arguments(Span *s, Buf *args, KeySet *keys)
{
	Span		key;
	Span		v;

	buf_addc(args, '{');
	for (span_space(s); !span_take(s, "}"); span_space(s))
	{
		if (!span_until(s, ":", &key))
			return false;
		key = span_trim(key);
		if (key.p == key.end || !is_key(key) || !tool_keys_add(keys, key))
			return false;
		tool_key(args, keys->n == 1, key);
		span_space(s);
		if (span_take(s, ESCAPE))
		{
			if (!span_until(s, ESCAPE, &v))
				return false;
			value(v, args);
		}
		else if (!bare(s, args))
			return false;
		span_space(s);
		if (!span_take(s, ",") && !span_is(s, "}"))
			return false;
	}
	buf_addc(args, '}');
	return true;
}

/* Find the call's text first: it ends at an end mark that is not within <escape>. */
ToolStep
tool_op_gemma(ToolRun *r)
{
	static const char *const lits[] = {ESCAPE, END};
	int			which;
	Match		m = tool_run_find(r, lits, 2, &which);
	Span		body;

	if (m == PERHAPS)
		return STEP_MORE;
	if (m == YES && (which == 0 || r->sub == 1))
	{
		r->sub = which == 0 ? !r->sub : r->sub;
		r->scan += strlen(lits[which]);
		return STEP_ON;
	}
	body = tool_run_span(r, r->pos, r->scan);
	keyset_reset(&r->keys);
	if (r->sub == 1 || !arguments(&body, &r->out.args, &r->keys) ||
		!tool_keys_unique(&r->inner, (Span) {r->out.args.data, r->out.args.data + r->out.args.len}))
		return STEP_BAD;
	span_space(&body);
	/* the end mark may be truncated */
	if (m == NO && body.p < body.end && (size_t) (body.end - body.p) < strlen(END) &&
		memcmp(body.p, END, (size_t) (body.end - body.p)) == 0)
		body.p = body.end;
	if (body.p != body.end)
		return STEP_BAD;
	tool_run_at(r, r->scan + (m == YES ? strlen(END) : 0));
	return tool_run_next(r);
}

static const ToolOp ops[] = {
	{OP_SEEK,.lit = "<start_function_call>"},
	{OP_LIT,.lit = "call:"},
	{OP_NAME,.lit = "{"},
	{.kind = OP_GEMMA},
	{.kind = OP_DONE},
	{OP_GOTO,.to = 0}
};

const ToolFormat tool_functiongemma = {
	.marks = {"<start_function_call>"},.special = true,
	.signs = {"{", END},.ops = ops
};
