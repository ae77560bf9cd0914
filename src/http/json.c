/*
 * json.c
 *	  Is a body JSON, and does it ask for a stream?
 *
 * A body that is not JSON must not get as far as the server: its complaint would quote the body in the server's log.
 * Bodies may be long, so they are checked in place, without a tree and without recursion: `open` has one bit for each
 * level, 1 = object.
 *
 * Tests: tests/unit/test_http.c.
 */
#include "http/json.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8char.h"

typedef struct Scan
{
	const char *s;
	const char *end;
	uint64_t	open[JSON_DEPTH / 64];
	int			depth;
} Scan;

static bool
is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static void
space(Scan *c)
{
	while (c->s < c->end && (*c->s == ' ' || *c->s == '\t' || *c->s == '\n' || *c->s == '\r'))
		c->s++;
}

/* Behind a backslash. */
static bool
escape(Scan *c)
{
	if (c->s == c->end)
		return false;
	if (*c->s != 'u')
		return strchr("\"\\/bfnrt", *c->s) != NULL && *c->s++ != '\0';
	for (int i = 1; i <= 4; i++)
		if (c->end - c->s <= i || !is_hex(c->s[i]))
			return false;
	c->s += 5;
	return true;
}

static bool
string(Scan *c)
{
	if (c->s == c->end || *c->s != '"')
		return false;
	c->s++;
	while (c->s < c->end && *c->s != '"')
	{
		int			n;

		if ((unsigned char) *c->s < 0x20)
			return false;
		if (*c->s == '\\')
		{
			c->s++;
			if (!escape(c))
				return false;
			continue;
		}
		n = utf8_char(c->s, c->end);
		if (n == 0)
			return false;
		c->s += n;
	}
	return c->s < c->end && *c->s++ == '"';
}

static bool
digits(Scan *c)
{
	const char *from = c->s;

	while (c->s < c->end && *c->s >= '0' && *c->s <= '9')
		c->s++;
	return c->s > from;
}

static bool
number(Scan *c)
{
	if (c->s < c->end && *c->s == '-')
		c->s++;
	if (c->s < c->end && *c->s == '0')
		c->s++;
	else if (!digits(c))
		return false;
	if (c->s < c->end && *c->s == '.')
	{
		c->s++;
		if (!digits(c))
			return false;
	}
	if (c->s < c->end && (*c->s == 'e' || *c->s == 'E'))
	{
		c->s++;
		if (c->s < c->end && (*c->s == '+' || *c->s == '-'))
			c->s++;
		return digits(c);
	}
	return true;
}

static bool
word(Scan *c, const char *w)
{
	size_t		n = strlen(w);

	if ((size_t) (c->end - c->s) < n || memcmp(c->s, w, n) != 0)
		return false;
	c->s += n;
	return true;
}

/* A value that has none inside. */
static bool
scalar(Scan *c)
{
	if (c->s == c->end)
		return false;
	switch (*c->s)
	{
		case '"':
			return string(c);
		case 't':
			return word(c, "true");
		case 'f':
			return word(c, "false");
		case 'n':
			return word(c, "null");
		default:
			return number(c);
	}
}

static bool
in_object(const Scan *c)
{
	return (c->open[(c->depth - 1) / 64] >> ((c->depth - 1) % 64) & 1) != 0;
}

static bool
open_level(Scan *c, bool object)
{
	uint64_t	bit = UINT64_C(1) << (c->depth % 64);

	if (c->depth == JSON_DEPTH)
		return false;
	if (object)
		c->open[c->depth / 64] |= bit;
	else
		c->open[c->depth / 64] &= ~bit;
	c->depth++;
	c->s++;
	return true;
}

/* A member's name and its colon, and whether it is the outermost object's `key`. */
static bool
member(Scan *c, const char *key, bool *is_key)
{
	const char *from;

	space(c);
	from = c->s;
	if (!string(c))
		return false;
	*is_key = c->depth == 1 && (size_t) (c->s - from) == strlen(key) + 2 && memcmp(from + 1, key, strlen(key)) == 0;
	space(c);
	return c->s < c->end && *c->s++ == ':';
}

/* Behind a value: commas and the ends of levels.  *more: another value follows. */
static bool
after_value(Scan *c, const char *key, bool *is_key, bool *more)
{
	*more = false;
	for (;;)
	{
		space(c);
		if (c->depth == 0)
			return c->s == c->end;
		if (c->s == c->end)
			return false;
		if (*c->s == ',')
		{
			c->s++;
			*more = true;
			return !in_object(c) || member(c, key, is_key);
		}
		if (*c->s != (in_object(c) ? '}' : ']'))
			return false;
		c->s++;
		c->depth--;
	}
}

static bool
scan(Scan *c, const char *key, bool *flag)
{
	bool		is_key = false;
	bool		more = true;

	while (more)
	{
		space(c);
		if (c->s < c->end && (*c->s == '{' || *c->s == '['))
		{
			bool		object = *c->s == '{';

			if (is_key)
				*flag = false;
			is_key = false;
			if (!open_level(c, object))
				return false;
			space(c);
			if (c->s == c->end)
				return false;
			if (*c->s != (object ? '}' : ']'))
			{
				if (object && !member(c, key, &is_key))
					return false;
				continue;
			}
		}
		else
		{
			if (is_key)
				*flag = c->s < c->end && *c->s == 't';
			is_key = false;
			if (!scalar(c))
				return false;
		}
		if (!after_value(c, key, &is_key, &more))
			return false;
	}
	return true;
}

bool
json_check(const char *s, size_t n, const char *key, bool *flag, size_t *at)
{
	Scan		c = {.s = s,.end = s + n};
	bool		ok;

	*flag = false;
	ok = scan(&c, key, flag);
	*at = (size_t) (c.s - s);
	return ok;
}
