/*
 * json_reader.c
 *	  Read JSON text in place (json_reader.h).
 *
 * Untrusted texts are checked before they are passed on.  An endpoint could quote a body that is not
 * JSON in its log, a text of more than one value could add members to a request that embeds it, and code
 * that reads values in place relies on balanced brackets and quotes (json_scan.h).  Texts may be long
 * and hostile: the reader visits each byte once and keeps the open brackets as a stack of bits.
 *
 * Tested by tests/unit/base/json/test_jsoncheck.c.
 */
#include "base/assert.h"
#include "base/json/json_reader.h"

#include <string.h>

#include "base/utf8char.h"

/* What may come next. */
enum
{
	VALUE,						/* a value */
	FIRST,						/* a container's first item, or its closing bracket */
	ITEM,						/* an item, after a comma */
	NEXT						/* a comma or a closing bracket, after a value */
};

void
json_begin(JsonReader *r, const char *s, size_t n, int depth)
{
	ALWAYS(depth >= 0 && depth <= JSON_DEPTH_MOST);
	memset(r, 0, sizeof(*r));
	r->p = s;
	r->end = s + n;
	r->most = depth;
}

static bool
bad(JsonReader *r, const char *why)
{
	r->why = why;
	return false;
}

static JsonToken
bad_token(JsonReader *r, const char *why)
{
	r->why = why;
	return JSON_BAD;
}

static void
space(JsonReader *r)
{
	while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
		r->p++;
}

/* ---- values without nesting ---- */

int32_t
json_hex4(const char *s, const char *end)
{
	int32_t		v = 0;

	if (end - s < 4)
		return -1;
	for (int i = 0; i < 4; i++)
	{
		char		c = s[i];
		int			d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 :
			c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;

		if (d < 0)
			return -1;
		v = v * 16 + d;
	}
	return v;
}

/* Read an escape; r->p is after the backslash. */
static bool
escape(JsonReader *r)
{
	r->escaped = true;
	if (r->p == r->end)
		return bad(r, "incomplete escape");
	if (*r->p != 'u')
	{
		if (*r->p == '\0' || strchr("\"\\/bfnrt", *r->p) == NULL)
			return bad(r, "invalid escape");
		r->p++;
		return true;
	}
	if (json_hex4(r->p + 1, r->end) < 0)
		return bad(r, r->end - r->p < 5 ? "incomplete escape" : "invalid escape");
	r->p += 5;
	return true;
}

/* Read a string; r->p is at its opening quote. */
static bool
string(JsonReader *r)
{
	r->escaped = false;
	r->s = ++r->p;
	while (r->p < r->end && *r->p != '"')
	{
		unsigned char u = (unsigned char) *r->p;
		int			n = 1;

		if (u < 0x20)
			return bad(r, "a control character in a string");
		if (u == '\\')
		{
			r->p++;
			if (!escape(r))
				return false;
			continue;
		}
		if (u >= 0x80)
			n = utf8_char(r->p, r->end);
		if (n == 0)
			return bad(r, "invalid UTF-8");
		r->p += n;
	}
	if (r->p == r->end)
		return bad(r, "a string without an end");
	r->n = (size_t) (r->p++ - r->s);
	return true;
}

static bool
digits(JsonReader *r)
{
	const char *from = r->p;

	while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
		r->p++;
	return r->p > from;
}

static bool
number(JsonReader *r)
{
	if (r->p < r->end && *r->p == '-')
		r->p++;
	if (r->p < r->end && *r->p == '0')
	{
		r->p++;
		if (r->p < r->end && *r->p >= '0' && *r->p <= '9')
			return bad(r, "a number that begins with 0");
	}
	else if (!digits(r))
		return bad(r, "unexpected character");
	if (r->p < r->end && *r->p == '.')
	{
		r->p++;
		if (!digits(r))
			return bad(r, "a number without digits behind the point");
	}
	if (r->p < r->end && (*r->p == 'e' || *r->p == 'E'))
	{
		r->p++;
		if (r->p < r->end && (*r->p == '+' || *r->p == '-'))
			r->p++;
		if (!digits(r))
			return bad(r, "a number without exponent");
	}
	return true;
}

static JsonToken
scalar(JsonReader *r)
{
	static const struct
	{
		const char *text;
		size_t		n;
		JsonToken	token;
	}			words[] = {{"null", 4, JSON_NULL}, {"false", 5, JSON_FALSE}, {"true", 4, JSON_TRUE}};

	r->expect = NEXT;
	if (*r->p == '"')
		return string(r) ? JSON_STRING : JSON_BAD;
	r->s = r->p;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if ((size_t) (r->end - r->p) >= words[i].n && memcmp(r->p, words[i].text, words[i].n) == 0)
		{
			r->p += words[i].n;
			r->n = words[i].n;
			return words[i].token;
		}
	if (!number(r))
		return JSON_BAD;
	r->n = (size_t) (r->p - r->s);
	return JSON_NUMBER;
}

/* ---- levels ---- */

static bool
in_object(const JsonReader *r)
{
	ASSERT(r->depth > 0);
	return (r->open[(r->depth - 1) / 64] >> ((r->depth - 1) % 64) & 1) != 0;
}

/* Read the opening bracket at r->p. */
static JsonToken
open_level(JsonReader *r)
{
	uint64_t	bit = UINT64_C(1) << (r->depth % 64);
	bool		object = *r->p == '{';

	if (r->depth == r->most)
	{
		r->too_deep = true;
		return bad_token(r, "values nest too deeply");
	}
	if (object)
		r->open[r->depth / 64] |= bit;
	else
		r->open[r->depth / 64] &= ~bit;
	r->depth++;
	r->s = r->p++;
	r->n = 1;
	r->expect = FIRST;
	return object ? JSON_OBJECT : JSON_ARRAY;
}

static JsonToken
close_level(JsonReader *r)
{
	r->s = r->p++;
	r->n = 1;
	r->depth--;
	r->expect = NEXT;
	return JSON_CLOSE;
}

/* Read a member's name and its colon. */
static JsonToken
key(JsonReader *r)
{
	if (r->p == r->end || *r->p != '"')
		return bad_token(r, "a key is expected");
	if (!string(r))
		return JSON_BAD;
	space(r);
	if (r->p == r->end || *r->p != ':')
		return bad_token(r, "':' is expected");
	r->p++;
	r->expect = VALUE;
	return JSON_KEY;
}

JsonToken
json_next(JsonReader *r)
{
	space(r);
	if (r->p == r->end)
	{
		if (r->expect == NEXT && r->depth == 0)
			return JSON_END;
		return bad_token(r, "unexpected end");
	}
	if (r->expect == FIRST || (r->expect == NEXT && r->depth > 0))
	{
		if (*r->p == (in_object(r) ? '}' : ']'))
			return close_level(r);
		if (r->expect == NEXT && *r->p == ',')
		{
			r->p++;
			space(r);
			r->expect = ITEM;
		}
	}
	if (r->expect == NEXT)
		return bad_token(r, "unexpected character");
	if (r->expect != VALUE && in_object(r))
		return key(r);
	if (r->p == r->end)
		return bad_token(r, "unexpected end");
	return *r->p == '{' || *r->p == '[' ? open_level(r) : scalar(r);
}

/* ---- decoding a string ---- */

/* Decode the escape whose "\u" was just read; sets *s to the byte after it. */
static bool
unicode_escape(const char **s, const char *end, unsigned flags, char **to)
{
	int32_t		cp = json_hex4(*s, end);
	int32_t		low;

	if (cp < 0 || (cp == 0 && (flags & JSON_NUL_OK) == 0))
		return false;
	*s += 4;
	if (cp >= 0xD800 && cp < 0xDC00 && end - *s >= 6 && (*s)[0] == '\\' && (*s)[1] == 'u')
	{
		low = json_hex4(*s + 2, end);
		if (low >= 0xDC00 && low < 0xE000)
		{
			*s += 6;
			cp = 0x10000 + ((cp & 0x3FF) << 10 | (low & 0x3FF));
		}
	}
	if (cp >= 0xD800 && cp < 0xE000)
	{
		if ((flags & JSON_HALVES_OK) == 0)
			return false;
		cp = 0xFFFD;
	}
	*to += utf8_put(*to, (uint32_t) cp);
	return true;
}

bool
json_unescape(const char *s, size_t n, unsigned flags, char *to, size_t *len)
{
	static const char from[] = "\"\\/bfnrt";
	static const char plain[] = "\"\\/\b\f\n\r\t";
	const char *end = s + n;
	char	   *o = to;

	while (s < end)
	{
		const char *stop = memchr(s, '\\', (size_t) (end - s));
		const char *at;

		if (stop == NULL)
			stop = end;
		memmove(o, s, (size_t) (stop - s));
		o += stop - s;
		s = stop;
		if (s == end)
			break;
		if (end - s < 2)
			return false;
		s += 2;
		if (s[-1] == 'u')
		{
			if (!unicode_escape(&s, end, flags, &o))
				return false;
			continue;
		}
		at = s[-1] == '\0' ? NULL : strchr(from, s[-1]);
		if (at == NULL)
			return false;
		*o++ = plain[at - from];
	}
	*len = (size_t) (o - to);
	return true;
}

/* ---- checking whole texts ---- */

bool
json_check(const char *s, size_t n, JsonCheck *c)
{
	size_t		key_len = c->key != NULL ? strlen(c->key) : 0;
	JsonReader	r;
	JsonToken	t;

	c->value = NULL;
	json_begin(&r, s, n, c->depth);
	while ((t = json_next(&r)) > JSON_END)
		if (t == JSON_KEY && r.depth == 1 && c->key != NULL && r.n == key_len &&
			memcmp(r.s, c->key, key_len) == 0)
		{
			space(&r);
			c->value = r.p;
		}
	c->at = (size_t) (r.p - s);
	return t == JSON_END;
}

bool
json_ok(const char *s, size_t n, int depth)
{
	return json_check(s, n, &(JsonCheck) {.depth = depth});
}
