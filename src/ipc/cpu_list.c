/*
 * cpu_list.c
 *	  Parse a list of CPUs.
 *
 * Tested by tests/unit/runtime/test_cpus.c.
 */
#include "ipc/cpu_list.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *
skip_blanks(const char *s)
{
	while (*s == ' ' || *s == '\t')
		s++;
	return s;
}

/* Parse a number of at most four digits; returns NULL if there is none. */
static const char *
number(const char *s, int *out)
{
	int			n = 0;

	s = skip_blanks(s);
	*out = 0;
	while (isdigit((unsigned char) s[n]) && n < 5)
		*out = *out * 10 + (s[n++] - '0');
	return n == 0 || n == 5 ? NULL : skip_blanks(s + n);
}

/* Parse one part of the list; returns the rest of the text, NULL = malformed. */
static const char *
part(const char *s, int *first, int *last, int *step)
{
	*step = 1;
	if ((s = number(s, first)) == NULL)
		return NULL;
	*last = *first;
	if (*s != '-')
		return s;
	if ((s = number(s + 1, last)) == NULL || *s != ':')
		return s;
	s = number(s + 1, step);
	return *step > 0 ? s : NULL;
}

int
cpulist_parse(const char *s, int *cpus, char *why, size_t why_size)
{
	bool		seen[CPULIST_CPUS] = {false};
	const char *at = s;
	int			n = 0;

	if (strlen(s) >= CPULIST_LEN)
	{
		snprintf(why, why_size, "The list is longer than %d characters", CPULIST_LEN - 1);
		return CPULIST_BAD;
	}
	if (*skip_blanks(s) == '\0')
		return 0;
	if (strcmp(s, "auto") == 0)
		return CPULIST_AUTO;
	for (;;)
	{
		int			first,
					last,
					step;
		const char *end = part(at, &first, &last, &step);

		if (end == NULL || (*end != ',' && *end != '\0'))
		{
			snprintf(why, why_size, "\"%.64s\" does not begin with a CPU number (0 .. %d), a range or a "
									"range with a step",
					 skip_blanks(at), CPULIST_CPUS - 1);
			return CPULIST_BAD;
		}
		if (first > last || last >= CPULIST_CPUS)
		{
			if (first > last)
				snprintf(why, why_size, "Range %d-%d is empty", first, last);
			else
				snprintf(why, why_size, "CPU %d is outside the valid range (0 .. %d)", last,
						 CPULIST_CPUS - 1);
			return CPULIST_BAD;
		}
		for (int c = first; c <= last; c += step)
		{
			if (seen[c])
			{
				snprintf(why, why_size, "CPU %d is listed twice", c);
				return CPULIST_BAD;
			}
			seen[c] = true;
			cpus[n++] = c;
		}
		if (*end == '\0')
			return n;
		at = end + 1;
	}
}
