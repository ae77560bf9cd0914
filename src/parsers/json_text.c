/*
 * json_text.c
 *	  JSON texts within text (json_text.h).
 *
 * Tested by tests/unit/parsers/test_parse.c and, through the formats, tests/parse/.
 */
#include "parsers/json_text.h"

#include <stdint.h>

#include "base/json/json_writer.h"
#include "base/utf8char.h"

static void
space(Span *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r'))
		s->p++;
}

/* ---- strings ---- */

static bool
hex4(Span *s, unsigned *out)
{
	*out = 0;
	if (s->end - s->p < 4)
		return false;
	for (int i = 0; i < 4; i++)
	{
		char		c = *s->p++;
		int			d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 :
			c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;

		if (d < 0)
			return false;
		*out = *out << 4 | (unsigned) d;
	}
	return true;
}

/* \uXXXX, perhaps two for one character; half a pair becomes U+FFFD, for text must be UTF-8. */
static bool
unicode_escape(Span *s, Buf *out)
{
	char		utf8[4];
	unsigned	c,
				low;

	if (!hex4(s, &c))
		return false;
	if (c >= 0xD800 && c < 0xDC00 && s->end - s->p >= 6 && s->p[0] == '\\' && s->p[1] == 'u')
	{
		Span		t = {s->p + 2, s->end};

		if (!hex4(&t, &low))
			return false;
		if (low >= 0xDC00 && low < 0xE000)
		{
			s->p = t.p;
			c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
		}
	}
	buf_add(out, utf8, utf8_put(utf8, c >= 0xD800 && c < 0xE000 ? 0xFFFD : c));
	return true;
}

static bool
string(Span *s, Buf *out, bool lax)
{
	if (s->p >= s->end || *s->p != '"')
		return false;
	for (s->p++; s->p < s->end; )
	{
		const char *from = s->p;
		char		c;

		while (s->p < s->end && *s->p != '"' && *s->p != '\\' && (lax || (unsigned char) *s->p >= 0x20))
			s->p++;
		buf_add(out, from, (size_t) (s->p - from));
		if (s->p >= s->end)
			return false;
		c = *s->p++;
		if (c == '"')
			return true;
		if (c != '\\' || s->p >= s->end)
			return false;
		c = *s->p++;
		switch (c)
		{
			case '"':
			case '\\':
			case '/':
				buf_addc(out, c);
				break;
			case 'b':
				buf_addc(out, '\b');
				break;
			case 'f':
				buf_addc(out, '\f');
				break;
			case 'n':
				buf_addc(out, '\n');
				break;
			case 'r':
				buf_addc(out, '\r');
				break;
			case 't':
				buf_addc(out, '\t');
				break;
			case 'u':
				if (!unicode_escape(s, out))
					return false;
				break;
			default:
				return false;
		}
	}
	return false;
}

bool
jtext_string(Span *s, Buf *out)
{
	space(s);
	return string(s, out, false);
}

static bool
copy_string(Span *s, Buf *out, bool lax)
{
	Buf			text = {0};
	bool		ok = string(s, &text, lax);

	if (ok && out != NULL)
		json_add_quoted(out, text.data, text.len);
	buf_free(&text);
	return ok;
}

/* ---- values ---- */

static bool
digits(Span *s)
{
	const char *from = s->p;

	while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
		s->p++;
	return s->p > from;
}

static bool
number(Span *s, Buf *out)
{
	const char *from = s->p;

	span_take(s, "-");
	if (!span_take(s, "0") && !digits(s))
		return false;
	if (span_is(s, "."))
	{
		/* "1.": the dot belongs to what follows */
		s->p++;
		if (!digits(s))
			return false;
	}
	if (s->p < s->end && (*s->p == 'e' || *s->p == 'E'))
	{
		s->p++;
		if (s->p < s->end && (*s->p == '+' || *s->p == '-'))
			s->p++;
		if (!digits(s))
			return false;
	}
	if (out != NULL)
		buf_add(out, from, (size_t) (s->p - from));
	return true;
}

static bool value(Span *s, Buf *out, bool lax, int depth);

/* Members or elements up to `close`; *s is behind the opening bracket. */
static bool
container(Span *s, Buf *out, bool lax, int depth, bool object)
{
	const char *close = object ? "}" : "]";

	if (out != NULL)
		buf_addc(out, object ? '{' : '[');
	space(s);
	for (int i = 0; !span_take(s, close); i++)
	{
		if (i > 0)
		{
			if (!span_take(s, ","))
				return false;
			if (out != NULL)
				buf_add(out, ", ", 2);
			space(s);
		}
		if (object)
		{
			if (!copy_string(s, out, lax))
				return false;
			space(s);
			if (!span_take(s, ":"))
				return false;
			if (out != NULL)
				buf_add(out, ": ", 2);
		}
		if (!value(s, out, lax, depth + 1))
			return false;
		space(s);
	}
	if (out != NULL)
		buf_addc(out, *close);
	return true;
}

static bool
value(Span *s, Buf *out, bool lax, int depth)
{
	static const char *const words[] = {"true", "false", "null"};

	space(s);
	if (s->p >= s->end || depth > JTEXT_DEPTH)
		return false;
	if (*s->p == '"')
		return copy_string(s, out, lax);
	if (*s->p == '{' || *s->p == '[')
		return container(s, out, lax, depth, *s->p++ == '{');
	for (int i = 0; i < 3; i++)
		if (span_take(s, words[i]))
		{
			if (out != NULL)
				buf_addstr(out, words[i]);
			return true;
		}
	return number(s, out);
}

bool
jtext_value(Span *s, Buf *out)
{
	return value(s, out, false, 0);
}

bool
jtext_value_lax(Span *s, Buf *out)
{
	return value(s, out, true, 0);
}

bool
jtext_whole(Span s, Buf *out)
{
	size_t		len = out->len;

	if (value(&s, out, false, 0))
	{
		space(&s);
		if (s.p == s.end)
			return true;
	}
	out->len = len;
	if (out->data != NULL)
		out->data[len] = '\0';
	return false;
}
