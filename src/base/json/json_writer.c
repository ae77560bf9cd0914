/*
 * json_writer.c
 *	  Write JSON text (json_writer.h).
 *
 * json_escape() alone decides which characters need an escape and which escape: responses, arguments of
 * tool calls and templates all use it.
 *
 * Tested by tests/unit/server/api/test_api.c.
 */
#include "base/json/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8char.h"

static void
begin_value(JsonOut *j)
{
	if (j->comma)
		buf_addc(j->b, ',');
	j->comma = true;
}

void
json_open(JsonOut *j, char bracket)
{
	begin_value(j);
	buf_addc(j->b, bracket);
	j->comma = false;
}

void
json_close(JsonOut *j, char bracket)
{
	buf_addc(j->b, bracket);
	j->comma = true;
}

size_t
json_escape(uint32_t c, bool ascii, char *to)
{
	static const char plain[] = "\"\\\n\r\t\b\f";
	static const char letter[] = "\"\\nrtbf";
	const char *p = c > 0 && c < 0x80 ? strchr(plain, (int) c) : NULL;

	ALWAYS(c <= 0x10FFFF);		/* a longer escape would not fit */
	if (p != NULL)
		return (size_t) snprintf(to, JSON_ESCAPE_MOST, "\\%c", letter[p - plain]);
	if (c < 0x20 || (ascii && c >= 0x80 && c < 0x10000))
		return (size_t) snprintf(to, JSON_ESCAPE_MOST, "\\u%04x", c);
	if (ascii && c >= 0x10000)
		return (size_t) snprintf(to, JSON_ESCAPE_MOST, "\\u%04x\\u%04x", 0xD7C0 + (c >> 10),
								 0xDC00 | (c & 0x3FF));
	return 0;
}

/*
 * Return the index of the first byte of s[i..n) that needs an escape.  No byte of a UTF-8 character
 * above ASCII does.
 */
static size_t
plain_end(const char *s, size_t n, size_t i)
{
	while (i < n && (unsigned char) s[i] >= 0x20 && s[i] != '"' && s[i] != '\\')
		i++;
	return i;
}

void
json_add_escaped(Buf *b, const char *s, size_t n)
{
	char		esc[JSON_ESCAPE_MOST];

	for (size_t i = 0; i < n; i++)
	{
		size_t		to = plain_end(s, n, i);

		buf_add(b, s + i, to - i);
		i = to;
		if (i < n)
			buf_add(b, esc, json_escape((unsigned char) s[i], false, esc));
	}
}

void
json_add_quoted(Buf *b, const char *s, size_t n)
{
	buf_addc(b, '"');
	json_add_escaped(b, s, n);
	buf_addc(b, '"');
}

void
json_str(JsonOut *j, const char *s, size_t n)
{
	size_t		from = 0;
	size_t		i = 0;

	if (n == 0)
		s = "";
	begin_value(j);
	buf_addc(j->b, '"');
	while (i < n)
	{
		int			len = s[i] == 0x7F ? 0 : utf8_char(s + i, s + n);

		if (len > 0)
		{
			i += (size_t) len;
			continue;
		}
		/* DEL is escaped, too, since users look at outputs in terminals */
		json_add_escaped(j->b, s + from, i - from);
		buf_addstr(j->b, s[i] == 0x7F ? "\\u007f" : "\xEF\xBF\xBD");
		from = ++i;
	}
	json_add_escaped(j->b, s + from, n - from);
	buf_addc(j->b, '"');
}

void
json_cstr(JsonOut *j, const char *s)
{
	if (s == NULL)
		json_null(j);
	else
		json_str(j, s, strlen(s));
}

void
json_colon(JsonOut *j)
{
	buf_addc(j->b, ':');
	j->comma = false;
}

void
json_key(JsonOut *j, const char *key)
{
	json_cstr(j, key);
	json_colon(j);
}

void
json_raw(JsonOut *j, const char *s, size_t n)
{
	begin_value(j);
	buf_add(j->b, s, n);
}

void
json_int(JsonOut *j, int64_t v)
{
	begin_value(j);
	buf_printf(j->b, "%" PRId64, v);
}

void
json_bool(JsonOut *j, bool v)
{
	begin_value(j);
	buf_addstr(j->b, v ? "true" : "false");
}

void
json_null(JsonOut *j)
{
	begin_value(j);
	buf_addstr(j->b, "null");
}

void
json_float(JsonOut *j, float v)
{
	char		text[32];

	if (!isfinite(v))
	{
		json_null(j);
		return;
	}
	for (int digits = 6; digits <= 9; digits++)
	{
		snprintf(text, sizeof(text), "%.*g", digits, (double) v);
		if (strtof(text, NULL) == v)
			break;
	}
	json_raw(j, text, strlen(text));
}

void
json_double(JsonOut *j, double v)
{
	char		text[40];

	if (!isfinite(v))
	{
		json_null(j);
		return;
	}
	for (int digits = 15; digits <= 17; digits++)
	{
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	json_raw(j, text, strlen(text));
}

void
json_key_cstr(JsonOut *j, const char *key, const char *s)
{
	json_key(j, key);
	json_cstr(j, s);
}

void
json_key_int(JsonOut *j, const char *key, int64_t v)
{
	json_key(j, key);
	json_int(j, v);
}

void
json_key_null(JsonOut *j, const char *key)
{
	json_key(j, key);
	json_null(j);
}
