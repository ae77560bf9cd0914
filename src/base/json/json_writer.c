/*
 * json_writer.c
 *	  Writes JSON text (json_writer.h).
 *
 * Tested by tests/unit/server/test_api.c.
 */
#include "base/json/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void
escape(Buf *b, unsigned char c)
{
	switch (c)
	{
		case '"':
			buf_addstr(b, "\\\"");
			break;
		case '\\':
			buf_addstr(b, "\\\\");
			break;
		case '\n':
			buf_addstr(b, "\\n");
			break;
		case '\r':
			buf_addstr(b, "\\r");
			break;
		case '\t':
			buf_addstr(b, "\\t");
			break;
		default:
			buf_printf(b, "\\u%04x", c);
			break;
	}
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
		unsigned char c = (unsigned char) s[i];
		int			len = utf8_char(s + i, s + n);

		if (len > 0 && c >= 0x20 && c != '"' && c != '\\' && c != 0x7F)
		{
			i += (size_t) len;
			continue;
		}
		buf_add(j->b, s + from, i - from);
		if (len > 0)
			escape(j->b, c);
		else
			buf_addstr(j->b, "\xEF\xBF\xBD");
		from = ++i;
	}
	buf_add(j->b, s + from, n - from);
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
