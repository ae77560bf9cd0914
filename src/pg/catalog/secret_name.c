/*
 * secret_name.c
 *	  Finding the name llm_set_secret in a text, however it is written.
 *
 * The name may be in capitals, have the escapes of E'' and U&"", and, in strings within strings,
 * doubled backslashes.
 *
 * The log hook (secret_log.c) checks everything that goes to the server's log, and nothing can
 * interrupt it there.  So the cost is linear in the text, whatever its content: a run of backslashes
 * is walked once for all places in it, as all of them lead to its end.  Most texts are rejected by a
 * scan of blocks of 64 bytes, without a branch per byte: the name has underscores, so a text without
 * underscores or their codes doesn't have it.
 *
 * Tests: tests/unit/pg/catalog/test_secret_mask.c.
 */
#include "postgres.h"

#include "pg/catalog/secret_name.h"

#define BLOCK		64

static inline int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
		return (c | 0x20) - 'a' + 10;
	return -1;
}

/* Return true if value is the character c, a small letter or _, or the letter's capital. */
static inline bool
is_letter(int value, char c)
{
	return value == c || (c != '_' && value == c - 'a' + 'A');
}

/* Return true if the n hex digits at p are the code of c: zeros, then two digits. */
static inline bool
is_hex(const char *p, const char *end, int n, char c)
{
	int			high;
	int			low;

	if (end - p < n)
		return false;
	for (; n > 2; n--)
		if (*p++ != '0')
			return false;
	high = hex_value(p[0]);
	low = hex_value(p[1]);
	return high >= 0 && low >= 0 && is_letter(high * 16 + low, c);
}

static inline bool
is_octal(const char *p, const char *end, char c)
{
	int			value = 0;

	if (end - p < 3)
		return false;
	for (int i = 0; i < 3; i++)
	{
		if (p[i] < '0' || p[i] > '7')
			return false;
		value = value * 8 + p[i] - '0';
	}
	return is_letter(value, c);
}

/*
 * Return the end of an escape at p that stands for the character c, else NULL.  The second character
 * decides which kind of escape it can be, so at most one kind matches.
 */
static inline const char *
match_escape(const char *p, const char *end, char c)
{
	if (end - p < 2)
		return NULL;
	/* the escape character of U&'' may be any */
	if (p[1] == '0')
		return is_hex(p + 1, end, 4, c) ? p + 5 : NULL;
	if (p[1] == '+')
		return is_hex(p + 2, end, 6, c) ? p + 8 : NULL;
	if (*p != '\\')
		return NULL;
	if (p[1] == 'x')
		return is_hex(p + 2, end, 2, c) ? p + 4 : NULL;
	if (p[1] == 'u')
		return is_hex(p + 2, end, 4, c) ? p + 6 : NULL;
	if (p[1] == 'U')
		/* the first digit is not compared: any other than 0 would be invalid SQL */
		return end - p > 2 && hex_value(p[2]) >= 0 && is_hex(p + 3, end, 7, c) ? p + 10 : NULL;
	if (p[1] == '1')
		return is_octal(p + 1, end, c) ? p + 4 : NULL;
	return is_letter((unsigned char) p[1], c) ? p + 2 : NULL;
}

const char *
secret_name_match(const char *p, const char *end)
{
	static const char small[] = SECRET_NAME;
	static const char capital[] = "LLM_SET_SECRET";

	for (int i = 0; i < (int) sizeof(small) - 1; i++)
	{
		char		c = small[i];

		if (p < end && (*p == c || *p == capital[i]))
		{
			p++;
			continue;
		}
		/* in strings within strings, backslashes are doubled */
		while (p + 1 < end && p[0] == '\\' && p[1] == '\\')
			p++;
		if ((p = match_escape(p, end, c)) == NULL)
			return NULL;
	}
	return p;
}

/* Return the last backslash of the run at p. */
static inline const char *
run_last(const char *p, const char *end)
{
	while (p + 1 < end && p[1] == '\\')
		p++;
	return p;
}

const char *
secret_name_find(const char *p, const char *end, const char **after)
{
	for (; p < end; p++)
	{
		char		c = *p;

		if ((c | 0x20) != 'l' && c != '\\' && p[1] != '0' && p[1] != '+')
			continue;
		/* at most places that start like the name, the next character already differs */
		if (c != '\\' && p[1] != '0' && p[1] != '+' && (p[1] | 0x20) != 'l' && p[1] != '\\' &&
			(p[1] == '\0' || (p[2] != '0' && p[2] != '+')))
			continue;
		if ((*after = secret_name_match(p, end)) != NULL)
			return p;
		/* a match from any backslash of the run would continue at the same place */
		if (c == '\\')
			p = run_last(p, end);
	}
	return NULL;
}

/*
 * Return true if one of the BLOCK bytes is an underscore, or the last byte of an escape for one may
 * be among them.  May read two bytes after the block.
 */
static inline bool
block_may(const char *s)
{
	unsigned char any = 0;

	for (int i = 0; i < BLOCK; i++)
		any |= (s[i] == '_') | ((s[i] == '5') & ((s[i + 1] | 0x20) == 'f')) |
			((s[i] == '1') & (s[i + 1] == '3') & (s[i + 2] == '7'));
	return any != 0;
}

static bool
may_have(const char *p, const char *end)
{
	for (; end - p > BLOCK + 2; p += BLOCK)
		if (block_may(p))
			return true;
	for (; p < end; p++)
		if (*p == '_' || *p == 'f' || *p == 'F' || *p == '7')
			return true;
	return false;
}

bool
secret_name_in(const char *p, const char *end)
{
	const char *after;

	return may_have(p, end) && secret_name_find(p, end, &after) != NULL;
}

void
secret_names_begin(SecretNames *n, const char *p, const char *end)
{
	n->end = end;
	n->at = secret_name_find(p, end, &n->after);
}

bool
secret_names_within(SecretNames *n, const char *from, const char *to)
{
	while (n->at != NULL && n->at < to)
	{
		const char *next = n->at + 1;

		if (n->at >= from && n->after <= to)
			return true;
		if (*n->at == '\\' && next < n->end && *next == '\\')
			next = run_last(next, n->end);
		n->at = secret_name_find(next, n->end, &n->after);
	}
	return false;
}
