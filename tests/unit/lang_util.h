/*
 * lang_util.h
 *	  Languages as sets: all texts over "ab" up to a length, numbered, for tests that compare an
 *	  implementation with its definition.
 */
#ifndef VLLM_TESTS_LANG_UTIL_H
#define VLLM_TESTS_LANG_UTIL_H

#include <stdbool.h>

#define LONGEST	6
#define TEXTS	127				/* 2^0 + ... + 2^6; a text's number is 2^n - 1 + bits */

typedef struct Lang
{
	bool		has[TEXTS];
} Lang;

static inline int
text_len(int i)
{
	int			n = 0;

	while (i >= (1 << (n + 1)) - 1)
		n++;
	return n;
}

static inline void
text_of(int i, char *s)
{
	int			n = text_len(i);

	for (int k = 0; k < n; k++)
		s[k] = (i - ((1 << n) - 1)) >> (n - 1 - k) & 1 ? 'b' : 'a';
	s[n] = '\0';
}

static inline int
text_cat(int i, int j)
{
	int			n = text_len(i);
	int			m = text_len(j);

	if (n + m > LONGEST)
		return -1;
	return (1 << (n + m)) - 1 + ((i - ((1 << n) - 1)) << m) + (j - ((1 << m) - 1));
}

static inline Lang
lang_cat(const Lang *a, const Lang *b)
{
	Lang		r = {{false}};

	for (int i = 0; i < TEXTS; i++)
		for (int j = 0; a->has[i] && j < TEXTS; j++)
		{
			int			k = b->has[j] ? text_cat(i, j) : -1;

			if (k >= 0)
				r.has[k] = true;
		}
	return r;
}

#endif
