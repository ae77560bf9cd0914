/*
 * tool_tags.c
 *	  The op that reads arguments between tags: <parameter=K>V</parameter>, and the like.
 *
 * It only looks like XML: values are raw text, and may contain other tags.  Text between two arguments
 * is skipped, unless it has a sign of an argument: a tag, JSON, or an equals sign.  Then an argument is
 * damaged or written in another way, or a value contained its end tag, and a call with the remaining
 * arguments would not be what the model meant.  The same holds for a call without arguments that has any
 * text, and for one whose arguments continue after its end.  For the same reason a text with a duplicate
 * key is no call, nor is one that ends before the call's end tag.
 *
 * A string is emitted as it is generated, any other value when it is complete.
 *
 * Tested by the cases of tests/parse/ and tests/unit/parsers/test_parse_calls.c.
 */
#include "base/assert.h"
#include "parsers/tool/tool_internal.h"

#define MAX_SPACE	256			/* bytes between a call's end tag and the text that confirms it */

enum
{
	BEGIN, NEXT, KEY, VALUE_TAG, VALUE, TEXT, AFTER
};

Span
tool_unquoted(Span s)
{
	s = span_trim(s);
	if (s.end - s.p >= 2 && (*s.p == '"' || *s.p == '\'') && s.end[-1] == *s.p)
		return (Span) {s.p + 1, s.end - 1};
	return s;
}

static bool
is_word(Span s, const char *word)
{
	return strlen(word) == (size_t) (s.end - s.p) && span_is(&s, word);
}

/* Read `"k" string="true"`: return the name, and whether the value is a string; -1 = not given. */
static Span
attributes(Span s, int *string)
{
	const char *at = span_find(&s, " string=");
	Span		how;

	if (at == NULL)
		return tool_unquoted(s);
	how = tool_unquoted((Span) {at + strlen(" string="), s.end});
	if (!is_word(how, "true") && !is_word(how, "false"))
		return s;
	*string = is_word(how, "true");
	return tool_unquoted((Span) {s.p, at});
}

static ToolStep
step_to(ToolRun *r, int sub, size_t pos)
{
	tool_run_at(r, pos);
	r->sub = sub;
	return STEP_ON;
}

static void
send(ToolRun *r)
{
	callout_send(&r->out, tool_run_sum(r), 0);
}

/* ---- keys ---- */

/* Find the next argument, or the end. */
static ToolStep
next(ToolRun *r, const ArgTags *t)
{
	const char *lits[2 + TAG_ENDS] = {t->param, t->end};
	size_t		from = r->scan;
	Span		before;
	int			which;
	Match		m;

	memcpy(lits + 2, t->also_end, sizeof(t->also_end));
	m = tool_run_find(r, lits, 2 + TAG_ENDS, &which);
	if (m == NO || tool_run_has(tool_run_span(r, from, r->scan), "<{[="))
		return STEP_BAD;
	if (m == PERHAPS)
		return STEP_MORE;
	if (which == 0)
		return step_to(r, KEY, r->scan + strlen(t->param));
	before = span_trim(tool_run_span(r, r->pos, r->scan));
	if (r->keys.n == 0 && before.p < before.end)
		return STEP_BAD;
	buf_addc(&r->out.args, '}');
	return step_to(r, AFTER, r->scan + (which == 1 ? strlen(t->end) : 0));
}

static ToolStep
key(ToolRun *r, const ArgTags *t)
{
	size_t		from = r->scan;
	int			which;
	Match		m = tool_run_find(r, &t->key_end, 1, &which);
	Span		k = tool_run_span(r, r->pos, r->scan);
	Span		tool = {r->out.name.data, r->out.name.data + r->out.name.len};

	if (m == NO || memchr(r->text->data + from, '<', r->scan - from) != NULL)
		return STEP_BAD;
	if (m == PERHAPS)
		return STEP_MORE;
	r->string = -1;
	k = t->string_attribute ? attributes(k, &r->string) : t->unquote ? tool_unquoted(k) : span_trim(k);
	/* a key with unknown attributes, or with a part of what follows it, is not the model's key */
	if (k.p == k.end || tool_run_has(k, "\"={}<>") || !tool_keys_add(&r->keys, k))
		return STEP_BAD;
	r->types = r->string == 1 ? TT_STRING : tool_type_of(r->tools, tool, k);
	tool_key(&r->out.args, r->keys.n == 1, k);
	return step_to(r, t->value != NULL ? VALUE_TAG : VALUE, r->scan + strlen(t->key_end));
}

/* ---- values ---- */

/* Return true if the value is text, whatever it looks like. */
static bool
is_string(const ToolRun *r, const ArgTags *t)
{
	return r->string != 0 && (r->types == TT_STRING || (r->types == 0 && !t->infer));
}

static bool
unwraps(const ToolRun *r, const ArgTags *t)
{
	return t->unwrap && r->string == -1;
}

static ToolStep
begin_value(ToolRun *r, const ArgTags *t)
{
	if (r->pos == r->text->len)
		return r->last ? STEP_BAD : STEP_MORE;
	r->value = r->pos + (unwraps(r, t) && r->text->data[r->pos] == '\n');
	r->sent = r->value;
	if (is_string(r, t))
		buf_addc(&r->out.args, '"');
	return step_to(r, TEXT, r->value);
}

/* Add text up to `to` to the value. */
static void
more_text(ToolRun *r, const ArgTags *t, size_t to)
{
	ALWAYS(r->value <= r->sent && r->sent <= r->text->len && r->value <= to && to <= r->text->len);
	if (unwraps(r, t) && to > r->sent && r->text->data[to - 1] == '\n')
		to--;
	if (!is_string(r, t) || to <= r->sent)
		return;
	json_add_escaped(&r->out.args, r->text->data + r->sent, to - r->sent);
	r->sent = to;
	send(r);
}

/* End a value; return false if an object in it has a duplicate key. */
static bool
end_value(ToolRun *r, const ArgTags *t, size_t end)
{
	Span		v;
	size_t		from;

	more_text(r, t, end);
	if (unwraps(r, t) && end > r->value && r->text->data[end - 1] == '\n')
		end--;
	v = tool_run_span(r, r->value, end);
	from = r->out.args.len;
	if (is_string(r, t))
	{
		buf_addc(&r->out.args, '"');
		send(r);
		return true;
	}
	if (r->string == 0 || t->infer)
		tool_inferred(v, &r->out.args);
	else
		tool_typed(v, r->types, &r->out.args);
	if (!tool_keys_unique(&r->inner, (Span) {r->out.args.data + from, r->out.args.data + r->out.args.len}))
		return false;
	send(r);
	return true;
}

/*
 * Decide whether the call ends here, or this is a value's text, by what follows, perhaps after some
 * white space.
 */
static Match
really_ends(const ToolRun *r, const ArgTags *t)
{
	size_t		from = r->scan + strlen(t->end);
	size_t		at = from;
	Match		best = NO;

	while (at < r->text->len && at - from < MAX_SPACE && span_is_space(r->text->data[at]))
		at++;
	if (at == r->text->len)
		return r->last ? YES : PERHAPS;
	for (int i = 0; i < TAG_ENDS && t->also_end[i] != NULL && best != YES; i++)
	{
		Match		m = tool_run_is(r, at, t->also_end[i]);

		best = m > best ? m : best;
	}
	return best;
}

static ToolStep
text(ToolRun *r, const ArgTags *t)
{
	const char *lits[] = {t->param_end, t->param, t->open ? t->end : NULL};
	int			which;
	Match		m = tool_run_find(r, lits, 3, &which);
	Match		ends;

	if (m == YES && which == 2)
	{
		ends = really_ends(r, t);
		if (ends == NO)
		{
			r->scan++;
			return STEP_ON;
		}
		m = ends;
	}
	/* this value's end tag is damaged: the next argument would become a part of it */
	if (m == YES && which == 1 && (!t->open || r->text->data[r->scan - 1] != '\n'))
		return STEP_BAD;
	more_text(r, t, r->scan);
	if (m == PERHAPS)
		return STEP_MORE;
	if (m == NO)
		return STEP_BAD;
	if (!end_value(r, t, r->scan))
		return STEP_BAD;
	return step_to(r, NEXT, r->scan + (which == 0 ? strlen(t->param_end) : 0));
}

ToolStep
tool_op_tags(ToolRun *r, const ArgTags *t)
{
	Match		m;

	switch (r->sub)
	{
		case BEGIN:
			keyset_reset(&r->keys);
			buf_addc(&r->out.args, '{');
			send(r);
			return step_to(r, NEXT, r->pos);
		case NEXT:
			return next(r, t);
		case KEY:
			return key(r, t);
		case VALUE_TAG:
			m = tool_run_here(r, t->value);
			if (m != YES)
				return m == NO ? STEP_BAD : STEP_MORE;
			return step_to(r, VALUE, r->pos + strlen(t->value));
		case VALUE:
			return begin_value(r, t);
		case AFTER:
			return tool_run_after(r, t->after, TAG_ENDS, "\"[", "<{");
		default:
			return text(r, t);
	}
}
