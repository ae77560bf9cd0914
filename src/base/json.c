/*
 * json.c
 *	  Counting the values of a JSON text.
 *
 * A value is the whole text, the first thing behind a bracket, or behind a comma: so
 * there are no more than opening brackets and commas outside of strings, and one.  A
 * parser that reads from left to right is in a string where this is in one, up to the
 * first mistake, at which it stops.
 *
 * Tested by tests/unit/test_load_conf.c.
 */
#include "base/json.h"

/* The quote that ends the string which begins at s[i], or n. */
static size_t
string_end(const char *s, size_t n, size_t i)
{
	for (i++; i < n && s[i] != '"'; i++)
		if (s[i] == '\\')
			i++;
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
