/*
 * decimal.c
 *	  Exact decimals (decimal.h).
 */
#include "grammar/schema/decimal.h"

#include <stdint.h>
#include <string.h>

#define MAX_EXP		1000000000L
#define MAX_SHIFT	2000		/* digits that a test for a multiple follows */

/* Read an exponent: a sign and digits. */
static bool
read_exp(const char *s, const char *end, long *to)
{
	bool		neg = false;
	long		x = 0;

	if (s < end && (*s == '+' || *s == '-'))
		neg = *s++ == '-';
	for (; s < end; s++)
	{
		x = x * 10 + (*s - '0');
		if (x > MAX_EXP)
			return false;
	}
	*to = neg ? -x : x;
	return true;
}

bool
dec_read(const char *s, size_t n, char buf[DEC_MAX_TEXT], Dec *to)
{
	const char *end = s + n;
	long		point = 0,		/* digits before the point, from the first nonzero one */
				exp = 0;
	bool		fraction = false;

	if (n > DEC_MAX_TEXT)
		return false;
	*to = (Dec) {.d = buf};
	if (s < end && *s == '-')
	{
		to->neg = true;
		s++;
	}
	for (; s < end && *s != 'e' && *s != 'E'; s++)
	{
		if (*s == '.')
		{
			fraction = true;
			continue;
		}
		if (to->n == 0 && *s == '0')
			point -= fraction;
		else
		{
			buf[to->n++] = *s;
			point += !fraction;
		}
	}
	if (s < end && !read_exp(s + 1, end, &exp))
		return false;
	while (to->n > 0 && buf[to->n - 1] == '0')
		to->n--;
	if (to->n == 0)
		*to = (Dec) {.d = buf};
	else
		to->exp = point + exp;
	return true;
}

int
dec_cmp(const Dec *a, const Dec *b)
{
	int			sign = a->neg ? -1 : 1;
	int			n = a->n < b->n ? a->n : b->n;
	int			c;

	if (a->neg != b->neg)
		return sign;
	if (a->n == 0 || b->n == 0)
		return a->n == b->n ? 0 : a->n == 0 ? -sign : sign;
	if (a->exp != b->exp)
		return a->exp < b->exp ? -sign : sign;
	c = memcmp(a->d, b->d, (size_t) n);
	if (c != 0)
		return c < 0 ? -sign : sign;
	return a->n == b->n ? 0 : a->n < b->n ? -sign : sign;
}

bool
dec_is_integer(const Dec *a)
{
	return a->n == 0 || a->exp >= a->n;
}

bool
dec_is_multiple(const Dec *a, const Dec *b, bool *known)
{
	uint64_t	m = 0,
				r = 0;
	long		shift;			/* zeros to append to a's digits, in units of b's last digit */

	*known = true;
	if (a->n == 0)
		return true;
	shift = (a->exp - a->n) - (b->exp - b->n);
	if (shift < 0)
		return false;			/* a's last digit isn't 0, and comes after b's */
	*known = b->n <= 18 && shift <= MAX_SHIFT;
	if (!*known)
		return false;
	for (int i = 0; i < b->n; i++)
		m = m * 10 + (uint64_t) (b->d[i] - '0');
	for (int i = 0; i < a->n; i++)
		r = (uint64_t) (((unsigned __int128) r * 10 + (unsigned) (a->d[i] - '0')) % m);
	for (long i = 0; i < shift && r != 0; i++)
		r = (uint64_t) ((unsigned __int128) r * 10 % m);
	return r == 0;
}
