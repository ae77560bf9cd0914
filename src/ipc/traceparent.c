/*
 * traceparent.c
 *	  Trace contexts of the W3C (Recommendation "Trace Context", sections 3.2 and 3.3).
 *
 * Tested by tests/unit/ipc/test_wire.c.
 */
#include "ipc/traceparent.h"

#include <string.h>

#define MAX_MEMBERS	32			/* limit of members of a tracestate */
#define MAX_KEY		256
#define MAX_VALUE	256

static bool
is_lower_hex(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f')))
			return false;
	return true;
}

static bool
all_zero(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] != '0')
			return false;
	return true;
}

bool
traceparent_ok(const char *s, size_t n)
{
	if (n < TRACEPARENT_LEN || s[2] != '-' || s[35] != '-' || s[52] != '-' ||
		!is_lower_hex(s, 2) || !is_lower_hex(s + 3, 32) || !is_lower_hex(s + 36, 16) ||
		!is_lower_hex(s + 53, 2))
		return false;
	if (memcmp(s, "ff", 2) == 0 || all_zero(s + 3, 32) || all_zero(s + 36, 16))
		return false;
	return n == TRACEPARENT_LEN || (memcmp(s, "00", 2) != 0 && s[TRACEPARENT_LEN] == '-');
}

/* A key has letters, digits and a few signs, or is two such parts joined by "@": "tenant@system". */
static bool
is_key(const char *s, size_t n)
{
	int			ats = 0;

	if (n == 0 || n > MAX_KEY || !((s[0] >= 'a' && s[0] <= 'z') || (s[0] >= '0' && s[0] <= '9')))
		return false;
	for (size_t i = 0; i < n; i++)
	{
		ats += s[i] == '@';
		if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= '0' && s[i] <= '9') ||
			  memchr("_-*/@", s[i], 5) != NULL))
			return false;
	}
	return ats <= 1;
}

static bool
is_value(const char *s, size_t n)
{
	if (n == 0 || n > MAX_VALUE || s[n - 1] == ' ')
		return false;
	for (size_t i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] > '~' || s[i] == '=')
			return false;
	return true;
}

/* A tracestate is a list of key=value; members may be empty or surrounded by blanks. */
bool
tracestate_ok(const char *s, size_t n)
{
	const char *end = s + n;
	int			members = 0;

	if (n > TRACESTATE_LEN)
		return false;
	while (s < end)
	{
		const char *comma = memchr(s, ',', (size_t) (end - s));
		const char *stop = comma != NULL ? comma : end;
		const char *next = comma != NULL ? comma + 1 : end;
		const char *eq;

		while (s < stop && (*s == ' ' || *s == '\t'))
			s++;
		while (s < stop && (stop[-1] == ' ' || stop[-1] == '\t'))
			stop--;
		if (s < stop)
		{
			eq = memchr(s, '=', (size_t) (stop - s));
			if (++members > MAX_MEMBERS || eq == NULL || !is_key(s, (size_t) (eq - s)) ||
				!is_value(eq + 1, (size_t) (stop - eq - 1)))
				return false;
		}
		s = next;
	}
	return true;
}
