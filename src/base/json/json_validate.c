/*
 * json_validate.c
 *	  Is a text JSON?
 *
 * Texts of others are looked at before they go on: a body that isn't JSON would be quoted in a server's log, one that is more
 * than one value could add members that nobody was asked for, and who reads values in place relies on brackets and quotes
 * that match.  They may be long, so they are checked where they are: no tree is made, nothing is allocated, and there is no
 * recursion: `open` has one bit for each level, 1 = object.
 *
 * Tested by tests/unit/base/test_jsoncheck.c.
 */
#include "base/json/json_validate.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8char.h"

typedef struct JsonValidateScan
{
	const char *s;
	const char *end;
	JsonCheck  *c;
	size_t		key_len;
	bool		is_key;			/* the next value is that of c->key */
	unsigned	depth;
	uint64_t	open[JSON_DEPTH_MOST / 64];
} JsonValidateScan;

/* ---- values that have none inside ---- */

static bool
is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static void
space(JsonValidateScan *c)
{
	while (c->s < c->end && (*c->s == ' ' || *c->s == '\t' || *c->s == '\n' || *c->s == '\r'))
		c->s++;
}

/* Behind a backslash. */
static bool
escape(JsonValidateScan *c)
{
	if (c->s == c->end)
		return false;
	if (*c->s != 'u')
	{
		if (*c->s == '\0' || strchr("\"\\/bfnrt", *c->s) == NULL)
			return false;
		c->s++;
		return true;
	}
	for (int i = 1; i <= 4; i++)
		if (c->end - c->s <= i || !is_hex(c->s[i]))
			return false;
	c->s += 5;
	return true;
}

static bool
string(JsonValidateScan *c)
{
	if (c->s == c->end || *c->s != '"')
		return false;
	c->s++;
	while (c->s < c->end && *c->s != '"')
	{
		unsigned char u = (unsigned char) *c->s;
		int			n = 1;

		if (u < 0x20)
			return false;
		if (u == '\\')
		{
			c->s++;
			if (!escape(c))
				return false;
			continue;
		}
		if (u >= 0x80)
			n = utf8_char(c->s, c->end);
		if (n == 0)
			return false;
		c->s += n;
	}
	return c->s < c->end && *c->s++ == '"';
}

static bool
digits(JsonValidateScan *c)
{
	const char *from = c->s;

	while (c->s < c->end && *c->s >= '0' && *c->s <= '9')
		c->s++;
	return c->s > from;
}

static bool
number(JsonValidateScan *c)
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
word(JsonValidateScan *c, const char *w)
{
	size_t		n = strlen(w);

	if ((size_t) (c->end - c->s) < n || memcmp(c->s, w, n) != 0)
		return false;
	c->s += n;
	return true;
}

static bool
scalar(JsonValidateScan *c)
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

/* ---- levels ---- */

static bool
in_object(const JsonValidateScan *c)
{
	return (c->open[(c->depth - 1) / 64] >> ((c->depth - 1) % 64) & 1) != 0;
}

/* Over the bracket that is here. */
static bool
open_level(JsonValidateScan *c)
{
	uint64_t	bit = UINT64_C(1) << (c->depth % 64);

	if (c->depth == (unsigned) c->c->depth)
		return false;
	if (*c->s == '{')
		c->open[c->depth / 64] |= bit;
	else
		c->open[c->depth / 64] &= ~bit;
	c->depth++;
	c->s++;
	return true;
}

/* A member's name and its colon. */
static bool
member(JsonValidateScan *c)
{
	const char *from;

	space(c);
	from = c->s;
	if (!string(c))
		return false;
	c->is_key = c->depth == 1 && c->c->key != NULL && (size_t) (c->s - from) == c->key_len + 2 &&
		memcmp(from + 1, c->c->key, c->key_len) == 0;
	space(c);
	if (c->s == c->end || *c->s != ':')
		return false;
	c->s++;
	return true;
}

/* Behind a value: commas and the ends of levels.  *more: another value follows. */
static bool
after_value(JsonValidateScan *c, bool *more)
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
			return !in_object(c) || member(c);
		}
		if (*c->s != (in_object(c) ? '}' : ']'))
			return false;
		c->s++;
		c->depth--;
	}
}

static bool
scan(JsonValidateScan *c)
{
	bool		more = true;

	while (more)
	{
		space(c);
		if (c->is_key)
			c->c->value = c->s;
		c->is_key = false;
		if (c->s < c->end && (*c->s == '{' || *c->s == '['))
		{
			if (!open_level(c))
				return false;
			space(c);
			if (c->s == c->end)
				return false;
			if (*c->s != (in_object(c) ? '}' : ']'))
			{
				if (in_object(c) && !member(c))
					return false;
				continue;
			}
		}
		else if (!scalar(c))
			return false;
		if (!after_value(c, &more))
			return false;
	}
	return true;
}

bool
json_check(const char *s, size_t n, JsonCheck *c)
{
	JsonValidateScan scanned = {.s = s,.end = s + n,.c = c};
	bool		ok;

	if (c->key != NULL)
		scanned.key_len = strlen(c->key);
	c->value = NULL;
	ok = scan(&scanned);
	c->at = (size_t) (scanned.s - s);
	return ok;
}

bool
json_ok(const char *s, size_t n, int depth)
{
	return json_check(s, n, &(JsonCheck) {.depth = depth});
}
