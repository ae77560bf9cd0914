/*
 * text_span.h
 *	  A piece of text that is consumed from its front, and searches with linear cost.
 */
#ifndef VLLM_PARSERS_TEXT_SPAN_H
#define VLLM_PARSERS_TEXT_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct Span
{
	const char *p;
	const char *end;
} Span;

static inline bool
span_is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

static inline void
span_space(Span *s)
{
	while (s->p < s->end && span_is_space(*s->p))
		s->p++;
}

/* Remove white space at both ends. */
static inline Span
span_trim(Span s)
{
	span_space(&s);
	while (s.end > s.p && span_is_space(s.end[-1]))
		s.end--;
	return s;
}

static inline bool
span_is(const Span *s, const char *lit)
{
	size_t		n = strlen(lit);

	return (size_t) (s->end - s->p) >= n && memcmp(s->p, lit, n) == 0;
}

/* Consume lit if the text begins with it. */
static inline bool
span_take(Span *s, const char *lit)
{
	bool		yes = span_is(s, lit);

	if (yes)
		s->p += strlen(lit);
	return yes;
}

/* Return the first lit, NULL if there is none. */
static inline const char *
span_find(const Span *s, const char *lit)
{
	return s->p < s->end ? memmem(s->p, (size_t) (s->end - s->p), lit, strlen(lit)) : NULL;
}

/* Consume up to and including the first lit; *before: the text before it.  Without one return false and
 * consume nothing. */
static inline bool
span_until(Span *s, const char *lit, Span *before)
{
	const char *at = span_find(s, lit);

	if (at == NULL)
		return false;
	*before = (Span) {s->p, at};
	s->p = at + strlen(lit);
	return true;
}

/*
 * A search for one text that is repeated from advancing positions: no byte is examined twice, however
 * often it isn't found.
 */
typedef struct Finder
{
	const char *lit;
	const char *at;				/* last position found; NULL: not searched yet */
	bool		none;			/* there is no further one */
} Finder;

/* Return the first one from s on, s->end if there is none. */
static inline const char *
finder_next(Finder *f, const Span *s)
{
	if (!f->none && (f->at == NULL || f->at < s->p))
	{
		f->at = span_find(s, f->lit);
		f->none = f->at == NULL;
	}
	return f->none ? s->end : f->at;
}

#endif
