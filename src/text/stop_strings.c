/*
 * stop_strings.c
 *	  Stop strings in an output's text as it grows.
 *
 * The stop strings are the patterns of an Aho-Corasick automaton in its plain form: for every string the
 * length of its longest prefix that the text ends with, advanced per byte by Knuth-Morris-Pratt.  So
 * after each byte the automaton knows which strings are complete, and the longest of these lengths is
 * how much text must be held back, as it may still become a stop string.
 *
 * Of the strings that complete at the same byte the first in the list wins; since bytes are processed
 * one after the other, the earliest completion wins however the text is split into calls.  A string's
 * bytes are valid UTF-8 and so is the text, so emitted text ends between characters: a held prefix
 * begins at the beginning of a character.
 *
 * O(bytes * strings) amortized.  Tested by tests/unit/text/test_stop.c.
 */
#include "text/stop_strings.h"

#include <string.h>

#include "base/alloc.h"

typedef struct StopStringsPattern
{
	char	   *str;
	size_t		len;			/* bytes, > 0 */
	size_t	   *fail;			/* [len + 1] longest proper border of each prefix */
	size_t		at;				/* bytes of str that the text ends with */
} StopStringsPattern;

struct Stop
{
	StopStringsPattern *pat;
	size_t		n;				/* patterns; empty strings are left out */
	int		   *index;			/* [n] index in the caller's list */
	bool		include;
	Buf			held;			/* the end of the text, not yet emitted */
};

static void
pattern_init(StopStringsPattern *p, const char *s, size_t len)
{
	size_t		k = 0;

	p->str = mem_strndup(s, len);
	p->len = len;
	p->at = 0;
	p->fail = mem_zalloc((len + 1) * sizeof(size_t));
	for (size_t i = 1; i < len; i++)
	{
		while (k > 0 && s[i] != s[k])
			k = p->fail[k];
		if (s[i] == s[k])
			k++;
		p->fail[i + 1] = k;
	}
}

Stop *
stop_new(const char *const *strs, const size_t *lens, size_t n, bool include_in_output)
{
	Stop	   *s = mem_zalloc(sizeof(Stop));

	s->include = include_in_output;
	s->pat = mem_zalloc((n + 1) * sizeof(StopStringsPattern));
	s->index = mem_zalloc((n + 1) * sizeof(int));
	for (size_t i = 0; i < n; i++)
		if (lens[i] > 0)
		{
			pattern_init(&s->pat[s->n], strs[i], lens[i]);
			s->index[s->n++] = (int) i;
		}
	return s;
}

void
stop_free(Stop *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->n; i++)
	{
		mem_free(s->pat[i].str);
		mem_free(s->pat[i].fail);
	}
	mem_free(s->pat);
	mem_free(s->index);
	buf_free(&s->held);
	mem_free(s);
}

/* Advance by one byte; return true if the pattern is complete. */
static bool
advance(StopStringsPattern *p, char c)
{
	while (p->at > 0 && (p->at == p->len || p->str[p->at] != c))
		p->at = p->fail[p->at];
	if (p->str[p->at] == c)
		p->at++;
	return p->at == p->len;
}

/* Return the bytes at the end of the text that may still become a stop string. */
static size_t
may_become(const Stop *s)
{
	size_t		max = 0;

	for (size_t i = 0; i < s->n; i++)
		if (s->pat[i].at > max)
			max = s->pat[i].at;
	return max;
}

int
stop_feed(Stop *s, const char *text, size_t n, bool search, Buf *out)
{
	size_t		keep;

	if (!search)
	{
		/* held text can't be part of a match any more */
		stop_flush(s, out);
		buf_add(out, text, n);
		return -1;
	}
	for (size_t i = 0; i < n; i++)
	{
		int			hit = -1;

		for (size_t j = 0; j < s->n; j++)
			if (advance(&s->pat[j], text[i]) && hit < 0)
				hit = (int) j;
		if (hit >= 0)
		{
			size_t		len = s->pat[hit].len;

			buf_add(&s->held, text, i + 1);
			buf_add(out, s->held.data, s->held.len - (s->include ? 0 : len));
			buf_reset(&s->held);
			return s->index[hit];
		}
	}
	buf_add(&s->held, text, n);
	keep = may_become(s);
	buf_add(out, s->held.data, s->held.len - keep);
	buf_consume(&s->held, s->held.len - keep);
	return -1;
}

void
stop_flush(Stop *s, Buf *out)
{
	if (s->held.len > 0)
		buf_add(out, s->held.data, s->held.len);
	buf_reset(&s->held);
	for (size_t i = 0; i < s->n; i++)
		s->pat[i].at = 0;
}
