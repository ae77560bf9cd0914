/*
 * jsontext.c
 *	  Checks texts that are put into a body as they are.
 *
 * Schemas, messages and tools are handed on as they were written, with their order and all digits.  So each is read
 * to its end first: a text that is not one JSON value could add members to the body that nobody was asked for.  No
 * tree is made, and nothing is allocated.
 *
 * Tested by tests/unit/test_remote_body.c.
 */
#include "remote/jsontext.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8char.h"

#define MAX_DEPTH	1000

bool
utf8_text_ok(const char *s, size_t n)
{
	for (size_t i = 0; i < n;)
	{
		int			len = utf8_char(s + i, s + n);

		if (len == 0)
			return false;
		i += (size_t) len;
	}
	return true;
}

typedef struct Text
{
	const char *p;
	const char *end;
} Text;

static void
skip_space(Text *t)
{
	while (t->p < t->end && (*t->p == ' ' || *t->p == '\t' || *t->p == '\n' || *t->p == '\r'))
		t->p++;
}

static bool
skip_char(Text *t, char c)
{
	if (t->p == t->end || *t->p != c)
		return false;
	t->p++;
	return true;
}

static bool
skip_word(Text *t, const char *word)
{
	size_t		n = strlen(word);

	if ((size_t) (t->end - t->p) < n || memcmp(t->p, word, n) != 0)
		return false;
	t->p += n;
	return true;
}

static bool
skip_digits(Text *t)
{
	const char *from = t->p;

	while (t->p < t->end && *t->p >= '0' && *t->p <= '9')
		t->p++;
	return t->p > from;
}

static bool
skip_number(Text *t)
{
	(void) skip_char(t, '-');
	if (!skip_char(t, '0') && !skip_digits(t))
		return false;
	if (skip_char(t, '.') && !skip_digits(t))
		return false;
	if (skip_char(t, 'e') || skip_char(t, 'E'))
	{
		if (!skip_char(t, '-'))
			(void) skip_char(t, '+');
		return skip_digits(t);
	}
	return true;
}

static bool
skip_escape(Text *t)
{
	if (t->p == t->end)
		return false;
	if (*t->p != 'u')
		return strchr("\"\\/bfnrt", *t->p++) != NULL && t->p[-1] != '\0';
	t->p++;
	for (int i = 0; i < 4; i++, t->p++)
		if (t->p == t->end || !((*t->p >= '0' && *t->p <= '9') || (*t->p >= 'a' && *t->p <= 'f') || (*t->p >= 'A' && *t->p <= 'F')))
			return false;
	return true;
}

static bool
skip_string(Text *t)
{
	if (!skip_char(t, '"'))
		return false;
	while (t->p < t->end)
	{
		unsigned char c = (unsigned char) *t->p;
		int			len;

		if (c == '"')
		{
			t->p++;
			return true;
		}
		if (c < 0x20)
			return false;
		if (c == '\\')
		{
			t->p++;
			if (!skip_escape(t))
				return false;
			continue;
		}
		len = utf8_char(t->p, t->end);
		if (len == 0)
			return false;
		t->p += len;
	}
	return false;
}

static bool
skip_scalar(Text *t)
{
	switch (t->p < t->end ? *t->p : '\0')
	{
		case '"':
			return skip_string(t);
		case 't':
			return skip_word(t, "true");
		case 'f':
			return skip_word(t, "false");
		case 'n':
			return skip_word(t, "null");
		default:
			return skip_number(t);
	}
}

/* The key of a member, and its colon. */
static bool
skip_key(Text *t)
{
	skip_space(t);
	if (!skip_string(t))
		return false;
	skip_space(t);
	return skip_char(t, ':');
}

bool
json_text_ok(const char *s, size_t n)
{
	Text		t = {s, s + n};
	uint8_t		object[MAX_DEPTH];	/* is it an object, of each level that is open? */
	int			depth = 0;

	for (;;)
	{
		bool		value = true;

		skip_space(&t);
		if (t.p < t.end && (*t.p == '{' || *t.p == '['))
		{
			char		open = *t.p++;

			if (depth == MAX_DEPTH)
				return false;
			object[depth++] = open == '{';
			skip_space(&t);
			value = skip_char(&t, open == '{' ? '}' : ']');
			if (value)
				depth--;
			else if (open == '{' && !skip_key(&t))
				return false;
		}
		else if (!skip_scalar(&t))
			return false;
		/* behind a value: what it ends, too */
		while (value)
		{
			skip_space(&t);
			if (depth == 0)
				return t.p == t.end;
			if (skip_char(&t, ','))
			{
				if (object[depth - 1] && !skip_key(&t))
					return false;
				value = false;
			}
			else if (skip_char(&t, object[depth - 1] ? '}' : ']'))
				depth--;
			else
				return false;
		}
	}
}
