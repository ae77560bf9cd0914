/*
 * tool_python.c
 *	  Convert calls in Python's syntax, f(a=1, b=['x', None]), and its literals, to JSON.
 *
 * Only literals are accepted: strings (prefixes r and u, triple quotes, several adjacent ones), numbers
 * with a sign, True, False, None, lists, tuples, and dicts whose keys are literals.  Names, operators
 * and calls as values are refused: nothing is evaluated.
 *
 * Tested by the cases of tests/parse/.
 */
#include <stdio.h>

#include "base/assert.h"
#include "base/utf8char.h"
#include "parsers/tool/tool_internal.h"

static bool literal(Span *s, bool json, Buf *out, int depth);

static bool
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Read a name; with `dots` it may contain dots. */
static bool
name(Span *s, bool dots, Span *out)
{
	out->p = s->p;
	if (s->p >= s->end || !is_letter(*s->p))
		return false;
	while (s->p < s->end && (is_letter(*s->p) || is_digit(*s->p) ||
							 (dots && *s->p == '.' && s->p + 1 < s->end && is_letter(s->p[1]))))
		s->p++;
	out->end = s->p;
	return true;
}

/* ---- strings ---- */

/* Read n hexadecimal digits. */
static bool
hex(Span *s, int n, unsigned *out)
{
	*out = 0;
	for (int i = 0; i < n; i++)
	{
		char		c = s->p < s->end ? *s->p++ : 0;
		int			d = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' &&
			c <= 'F' ? c - 'A' + 10 : -1;

		if (d < 0)
			return false;
		*out = *out << 4 | (unsigned) d;
	}
	return true;
}

/* Append the character; half a surrogate pair becomes U+FFFD, as text must be UTF-8. */
static bool
character(Buf *out, unsigned c)
{
	char		utf8[4];

	if (c > 0x10FFFF)
		return false;
	buf_add(out, utf8, utf8_put(utf8, c >= 0xD800 && c < 0xE000 ? 0xFFFD : c));
	return true;
}

static bool
escape(Span *s, Buf *out)
{
	static const char simple[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
	char		c = *s->p++;
	unsigned	u;

	if (c == '\n')
		return true;
	for (const char *p = simple; *p != '\0'; p += 2)
		if (*p == c)
		{
			buf_addc(out, p[1]);
			return true;
		}
	if (c == 'x' || c == 'u' || c == 'U')
	{
		if (!hex(s, c == 'x' ? 2 : c == 'u' ? 4 : 8, &u))
			return false;
		/* as in JSON, a surrogate pair for one character */
		if (u >= 0xD800 && u < 0xDC00 && span_is(s, "\\u"))
		{
			Span		t = {s->p + 2, s->end};
			unsigned	low;

			if (hex(&t, 4, &low) && low >= 0xDC00 && low < 0xE000)
			{
				s->p = t.p;
				u = 0x10000 + ((u - 0xD800) << 10) + (low - 0xDC00);
			}
		}
		return character(out, u);
	}
	if (c >= '0' && c <= '7')
	{
		u = (unsigned) (c - '0');
		for (int i = 0; i < 2 && s->p < s->end && *s->p >= '0' && *s->p <= '7'; i++)
			u = u * 8 + (unsigned) (*s->p++ - '0');
		return character(out, u);
	}
	/* not an escape: the backslash stays */
	buf_addc(out, '\\');
	buf_addc(out, c);
	return c != 'N';
}

/* Read one string with its quotes; raw: a backslash is literal. */
static bool
one_string(Span *s, bool raw, Buf *out)
{
	char		quote[4] = {*s->p, 0, 0, 0};

	if (s->end - s->p >= 3 && s->p[1] == quote[0] && s->p[2] == quote[0])
		quote[1] = quote[2] = quote[0];
	s->p += strlen(quote);
	while (s->p < s->end)
	{
		if (span_take(s, quote))
			return true;
		if (*s->p == '\n' && quote[1] == '\0')
			return false;
		if (*s->p != '\\')
		{
			buf_addc(out, *s->p++);
			continue;
		}
		if (s->p + 1 >= s->end)
			return false;
		if (raw)
			buf_add(out, s->p, 2);
		s->p += raw ? 2 : 1;
		if (!raw && !escape(s, out))
			return false;
	}
	return false;
}

/* Return where a string begins; *raw: it has the prefix r.  NULL: there is none. */
static const char *
string_begin(const Span *s, bool *raw)
{
	const char *p = s->p;

	*raw = p < s->end && (*p == 'r' || *p == 'R');
	if (p < s->end && (*raw || *p == 'u' || *p == 'U'))
		p++;
	return p < s->end && (*p == '\'' || *p == '"') ? p : NULL;
}

static bool
strings(Span *s, Buf *out)
{
	Buf			text = {0};
	const char *p;
	bool		raw;
	bool		ok = true;

	while (ok && (p = string_begin(s, &raw)) != NULL)
	{
		s->p = p;
		ok = one_string(s, raw, &text);
		span_space(s);
	}
	if (ok)
		json_add_quoted(out, text.data, text.len);
	buf_free(&text);
	return ok;
}

/* ---- numbers ---- */

/* Read digits, with single underscores between. */
static size_t
digits(Span *s, Buf *out)
{
	size_t		n = 0;

	while (s->p < s->end &&
		   (is_digit(*s->p) || (*s->p == '_' && n > 0 && s->p + 1 < s->end && is_digit(s->p[1]))))
	{
		if (*s->p != '_')
			buf_addc(out, *s->p);
		s->p++;
		n++;
	}
	return n;
}

/* Read 12, 1_000, 1.5, 1., .5, 1e9 and write it as JSON. */
static bool
number(Span *s, Buf *out)
{
	size_t		from = out->len;
	size_t		n = digits(s, out);
	bool		fraction = false;

	if (n > 1 && out->data[from] == '0')
		return false;
	if (n == 0)
		buf_addc(out, '0');
	if (span_take(s, "."))
	{
		buf_addc(out, '.');
		fraction = digits(s, out) > 0;
		if (!fraction)
			buf_addc(out, '0');
	}
	if (n == 0 && !fraction)
		return false;
	if (s->p < s->end && (*s->p == 'e' || *s->p == 'E'))
	{
		buf_addc(out, *s->p++);
		if (s->p < s->end && (*s->p == '-' || *s->p == '+'))
			buf_addc(out, *s->p++);
		if (digits(s, out) == 0)
			return false;
	}
	return s->p >= s->end || !is_letter(*s->p);
}

/* ---- containers ---- */

/* Read elements up to close; a trailing comma is allowed.  ( x ) is x, not a tuple. */
static bool
elements(Span *s, bool json, const char *close, Buf *out, int depth)
{
	size_t		from = out->len;
	bool		comma = false;
	int			n;

	buf_addc(out, '[');
	span_space(s);
	for (n = 0; !span_take(s, close); n++)
	{
		if (n > 0)
			buf_add(out, ", ", 2);
		if (!literal(s, json, out, depth + 1))
			return false;
		span_space(s);
		comma = span_take(s, ",");
		if (!comma && !span_is(s, close))
			return false;
		span_space(s);
	}
	if (*close != ')' || n != 1 || comma)
		buf_addc(out, ']');
	else
	{
		memmove(out->data + from, out->data + from + 1, out->len - from);
		out->len--;
	}
	return true;
}

/* Read a key; one that is no string is converted to a string. */
static bool
key(Span *s, bool json, Buf *out, int depth)
{
	Buf			text = {0};
	bool		ok = s->p < s->end && *s->p != '[' && *s->p != '{' && *s->p != '(' &&
		literal(s, json, &text, depth + 1);

	if (ok && text.data[0] == '"')
		buf_add(out, text.data, text.len);
	else if (ok)
		json_add_quoted(out, text.data, text.len);
	buf_free(&text);
	return ok;
}

static bool
dict(Span *s, bool json, Buf *out, int depth)
{
	buf_addc(out, '{');
	span_space(s);
	for (int i = 0; !span_take(s, "}"); i++)
	{
		if (i > 0)
			buf_add(out, ", ", 2);
		if (!key(s, json, out, depth))
			return false;
		span_space(s);
		if (!span_take(s, ":"))
			return false;
		buf_add(out, ": ", 2);
		if (!literal(s, json, out, depth + 1))
			return false;
		span_space(s);
		if (!span_take(s, ",") && !span_is(s, "}"))
			return false;
		span_space(s);
	}
	buf_addc(out, '}');
	return true;
}

static bool
word(Span *s, bool json, Buf *out)
{
	static const struct
	{
		const char *word;
		const char *text;
		bool		json;
	}			words[] = {{"True", "true", false}, {"False", "false", false}, {"None", "null", false},
	{"true", "true", true}, {"false", "false", true}, {"null", "null", true}};
	Span		w;

	if (!name(s, false, &w))
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if ((json || !words[i].json) && strlen(words[i].word) == (size_t) (w.end - w.p) &&
			span_is(&w, words[i].word))
		{
			buf_addstr(out, words[i].text);
			return true;
		}
	return false;
}

static bool
literal(Span *s, bool json, Buf *out, int depth)
{
	bool		raw;

	span_space(s);
	if (s->p >= s->end || depth > JPUSH_DEPTH)
		return false;
	if (string_begin(s, &raw) != NULL)
		return strings(s, out);
	if (span_take(s, "["))
		return elements(s, json, "]", out, depth);
	if (span_take(s, "{"))
		return dict(s, json, out, depth);
	if (span_take(s, "("))
		return elements(s, json, ")", out, depth);
	if (*s->p == '-' || *s->p == '+')
	{
		if (*s->p++ == '-')
			buf_addc(out, '-');
		span_space(s);
		return number(s, out);
	}
	return is_digit(*s->p) || *s->p == '.' ? number(s, out) : word(s, json, out);
}

bool
tool_python_literal(Span s, Buf *out)
{
	size_t		len = out->len;

	if (literal(&s, false, out, 0))
	{
		span_space(&s);
		if (s.p == s.end)
			return true;
	}
	buf_cut(out, len);
	return false;
}

/* ---- calls ---- */

/* Read f(a=1), all of s. */
static bool
call(Span s, bool json, CallOut *out, KeySet *keys)
{
	Span		n;

	if (!name(&s, true, &n) || !callout_named(out, n))
		return false;
	span_space(&s);
	if (!span_take(&s, "("))
		return false;
	buf_addc(&out->args, '{');
	keyset_reset(keys);
	for (span_space(&s); !span_take(&s, ")"); span_space(&s))
	{
		if (!name(&s, false, &n) || !tool_keys_add(keys, n))
			return false;
		tool_key(&out->args, keys->n == 1, n);
		span_space(&s);
		if (!span_take(&s, "=") || !literal(&s, json, &out->args, 0))
			return false;
		span_space(&s);
		if (!span_take(&s, ",") && !span_is(&s, ")"))
			return false;
	}
	buf_addc(&out->args, '}');
	return s.p == s.end;
}

/* Return true if this byte may occur before the call's parenthesis. */
static bool
of_name(const ToolRun *r, char c)
{
	bool		first = r->scan == r->pos;
	bool		space = !first && span_is_space(r->text->data[r->scan - 1]);

	if (is_letter(c))
		return !space;
	return !first && (c == '(' || span_is_space(c) || (!space && (is_digit(c) || c == '.')));
}

/* Skip one byte of a call, or a string's triple quotes; return false if the following bytes are needed
 * to decide. */
static bool
over(ToolRun *r)
{
	const char *p = r->text->data + r->scan;
	size_t		have = r->text->len - r->scan;
	char		three[4] = {*p, *p, *p, '\0'};

	ASSERT(r->depth > 0 && have > 0);	/* within a call's brackets */
	if (r->quote != '\0' && *p == '\\')
	{
		if (have < 2)
			return false;
		r->scan += 2;
		return true;
	}
	if (r->quote != '\0' ? *p == r->quote : *p == '\'' || *p == '"')
	{
		Match		m = r->quote != '\0' && !r->triple ? NO : tool_run_is(r, r->scan, three);

		if (m == PERHAPS)
			return false;
		if (r->quote == '\0')
			r->triple = m == YES;
		if (r->quote == '\0' || m == YES || !r->triple)
			r->quote = r->quote == '\0' ? *p : '\0';
		r->scan += m == YES ? 3 : 1;
		return true;
	}
	if (r->quote == '\0')
		r->depth += strchr("([{", *p) != NULL && *p != '\0' ? 1 : strchr(")]}", *p) != NULL &&
			*p != '\0' ? -1 : 0;
	r->scan++;
	return true;
}

enum
{
	BEGIN, FRONT, WITHIN
};

static bool
begin_call(ToolRun *r)
{
	(void) tool_run_here(r, "");
	if (r->pos == r->text->len)
		return false;
	if (!r->in_unit)
		r->unit = r->pos;
	r->in_unit = true;
	r->depth = 0;
	r->quote = '\0';
	tool_run_at(r, r->pos);
	r->sub = FRONT;
	return true;
}

/* A call is read when it is complete: up to its last bracket outside of strings. */
ToolStep
tool_op_python(ToolRun *r, unsigned flags)
{
	ToolStep	short_of = r->last ? STEP_BAD : STEP_MORE;

	if (r->sub == BEGIN && !begin_call(r))
		return short_of;
	for (; r->sub == FRONT && r->scan < r->text->len; r->scan++)
	{
		if (!of_name(r, r->text->data[r->scan]))
			return STEP_BAD;
		if (r->text->data[r->scan] == '(')
		{
			r->depth = 1;
			r->sub = WITHIN;
		}
	}
	while (r->depth > 0 && r->scan < r->text->len && over(r))
		;
	if (r->sub == FRONT || r->depth > 0)
		return short_of;
	ALWAYS(r->pos < r->scan && r->scan <= r->text->len);
	if (!call(tool_run_span(r, r->pos, r->scan), (flags & PY_JSON) != 0, &r->out, &r->keys) ||
		!tool_keys_unique(&r->inner, (Span) {r->out.args.data, r->out.args.data + r->out.args.len}))
		return STEP_BAD;
	r->pos = r->scan;
	return tool_run_next(r);
}
