/*
 * pcre_pattern.h
 *	  Regular expressions of a tokenizer.json that have no hand-written function (pretokenizer.c).
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
	Buf			text;			/* the subject, if it had to be rewritten */
	const char *s;
	size_t		n;
	size_t		from;			/* where the search continues */
	size_t		last;			/* end of the last match; SIZE_MAX = none */
	size_t		steps;			/* steps left for matches that need many */
} RxWork;

/* Compile a pattern.  Return NULL with *e set if it is malformed, or has an unsupported element. */
PcrePattern *rx_compile(const char *pattern, Err *e);
void		rx_free(PcrePattern *r);

/* Begin a search for matches in s[0..n) (valid UTF-8), which must not move. */
void		rx_begin(const PcrePattern *r, RxWork *w, const char *s, size_t n);

typedef enum RxResult
{
	RX_NONE,
	RX_MATCH,
	RX_ERROR					/* *e is set: too many steps */
} RxResult;

/* Return the next match; it may be empty, but not at the end of the match before. */
RxResult	rx_next(const PcrePattern *r, RxWork *w, size_t *start, size_t *end, Err *e);
void		rx_work_free(RxWork *w);

/* Append s with every match replaced. */
bool		rx_replace(const PcrePattern *r, const char *s, size_t n, const char *to, Buf *out, Err *e);

#endif
