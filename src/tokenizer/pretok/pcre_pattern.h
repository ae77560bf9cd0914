/*
 * pcre_pattern.h
 *	  Regular expressions of a tokenizer.json, for those without a function of
 *	  their own (pretokenizer.c).
 */
#ifndef VLLM_TOKENIZER_PRETOK_PCRE_PATTERN_H
#define VLLM_TOKENIZER_PRETOK_PCRE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

typedef struct PcrePattern PcrePattern;

/* Scratch memory of one thread's matching; zeroed at first, freed with rx_work_free(). */
typedef struct RxWork
{
	void	   *match;			/* pcre2_match_data */
	void	   *limits;			/* pcre2_match_context */
	Buf			text;			/* the subject, where it had to be rewritten */
	const char *s;
	size_t		n;
	size_t		from;			/* where to look on */
	size_t		last;			/* end of the last match; SIZE_MAX = none */
	size_t		steps;			/* left for matches that need many */
} RxWork;

/* NULL with *e set if the pattern is malformed, or means something unknown here. */
PcrePattern *rx_compile(const char *pattern, Err *e);
void		rx_free(PcrePattern *r);

/* Begin to look for matches in s[0..n) (valid UTF-8), which must stay where it is. */
void		rx_begin(const PcrePattern *r, RxWork *w, const char *s, size_t n);

typedef enum RxResult
{
	RX_NONE,
	RX_MATCH,
	RX_ERROR					/* *e is set: too many steps */
} RxResult;

/* The next match; it may be empty, but not where the one before ended. */
RxResult	rx_next(const PcrePattern *r, RxWork *w, size_t *start, size_t *end, Err *e);
void		rx_work_free(RxWork *w);

/* Append s with every match replaced. */
bool		rx_replace(const PcrePattern *r, const char *s, size_t n, const char *to, Buf *out, Err *e);

#endif
