/*
 * json_scan.c
 *	  Count the values of a JSON text, and find the members of an object.
 *
 * Counting: a value is either the whole text, or follows an opening bracket or a comma.  So a text has
 * at most one value more than it has opening brackets and commas outside of strings.  A parser that
 * reads from left to right agrees with this scan on what is inside a string, up to the first error,
 * where the parser stops.
 *
 * Member iteration is for code that passes a value on as it is written: a tree would lose the digits of
 * large numbers.
 *
 * Tested by tests/unit/loader/test_load_conf.c and test_structured.c.
 */
#include "base/json/json_scan.h"

#include <string.h>

#include "base/assert.h"

/* Return the index of the quote that ends the string which begins at s[i], or n. */
static size_t
string_end(const char *s, size_t n, size_t i)
{
	const char *quote = s + i;

	ASSERT(i < n && *quote == '"');
	for (i++; i < n;)
	{
		const char *slash;

		/* a quote once found remains the next one until a backslash escapes it */
		if (quote < s + i)
			quote = memchr(s + i, '"', n - i);
		if (quote == NULL)
			return n;
		slash = memchr(s + i, '\\', (size_t) (quote - s) - i);
		if (slash == NULL)
			return (size_t) (quote - s);
		i = (size_t) (slash - s) + 2;
	}
	return i;
}

size_t
json_values(const char *s, size_t n, size_t max)
{
	size_t		count = 1;

	for (size_t i = 0; i < n && count <= max; i++)
		if (s[i] == '"')
			i = string_end(s, n, i);
		else if (s[i] == ',' || s[i] == '[' || s[i] == '{')
			count++;
	return count;
}

bool
json_has_nul(const char *s, size_t n)
{
	for (size_t i = 0; i + 5 < n; i++)
		if (s[i] == '\\')
		{
			if (memcmp(s + i + 1, "u0000", 5) == 0)
				return true;
			i++;
		}
	return memchr(s, '\0', n) != NULL;
}

/* ---- members ---- */

static void
skip_space(JsonMembers *m)
{
	while (m->p < m->end && (*m->p == ' ' || *m->p == '\t' || *m->p == '\n' || *m->p == '\r'))
		m->p++;
}

static bool
skip_char(JsonMembers *m, char c)
{
	skip_space(m);
	if (m->p >= m->end || *m->p != c)
		return false;
	m->p++;
	return true;
}

/* Skip a string; m->p is at its opening quote. */
static bool
skip_string(JsonMembers *m)
{
	size_t		n = (size_t) (m->end - m->p);
	size_t		to = string_end(m->p, n, 0);

	if (to >= n)
		return false;
	m->p += to + 1;
	return true;
}

/* Skip a value: up to its last bracket or quote, or up to a byte that cannot belong to it. */
static bool
skip_value(JsonMembers *m)
{
	size_t		depth = 0;
	const char *from = m->p;

	while (m->p < m->end)
	{
		char		c = *m->p;

		if (c == '"')
		{
			if (!skip_string(m))
				return false;
		}
		else if (depth == 0 && (c == ',' || c == '}' || c == ']' || strchr(" \t\n\r", c) != NULL))
			return m->p > from;
		else if (depth > 0 && c != '{' && c != '[' && c != '}' && c != ']')
		{
			/* fast path: most bytes of an array of numbers */
			m->p++;
			continue;
		}
		else
		{
			ASSERT(depth > 0 || (c != '}' && c != ']'));
			depth += c == '{' || c == '[';
			depth -= c == '}' || c == ']';
			m->p++;
			if (depth > 0 || (c != '}' && c != ']'))
				continue;
		}
		if (depth == 0)
			return true;
	}
	return false;
}

bool
json_members(JsonMembers *m, const char *s, size_t n)
{
	*m = (JsonMembers) {s, s + n, true};
	return skip_char(m, '{');
}

/* Go to the next item, after its comma.  Returns 0 at the container's end if nothing follows it. */
static int
next_item(JsonMembers *m, char end)
{
	if (skip_char(m, end))
	{
		skip_space(m);
		return m->p == m->end ? 0 : -1;
	}
	if (!m->first && !skip_char(m, ','))
		return -1;
	m->first = false;
	skip_space(m);
	return 1;
}

static bool
take_value(JsonMembers *m, StrView *value)
{
	const char *at = m->p;

	if (!skip_value(m))
		return false;
	ALWAYS(m->p > at && m->p <= m->end);	/* a value has a byte or more */
	*value = (StrView) {at, (size_t) (m->p - at)};
	return true;
}

int
json_member(JsonMembers *m, StrView *key, StrView *value)
{
	int			got = next_item(m, '}');
	const char *at = m->p;

	if (got < 1)
		return got;
	if (at >= m->end || *at != '"' || !skip_string(m))
		return -1;
	*key = (StrView) {at + 1, (size_t) (m->p - at) - 2};
	if (!skip_char(m, ':'))
		return -1;
	skip_space(m);
	return take_value(m, value) ? 1 : -1;
}

bool
json_elements(JsonMembers *m, const char *s, size_t n)
{
	*m = (JsonMembers) {s, s + n, true};
	return skip_char(m, '[');
}

int
json_element(JsonMembers *m, StrView *value)
{
	int			got = next_item(m, ']');

	return got < 1 ? got : take_value(m, value) ? 1 : -1;
}
