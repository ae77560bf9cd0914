/*
 * char_set.h
 *	  Sets of characters that patterns name.
 */
#ifndef VLLM_GRAMMAR_REGEX_CHAR_SET_H
#define VLLM_GRAMMAR_REGEX_CHAR_SET_H

#include "grammar/regex/regex.h"

/* Growing list of ranges; zeroed = empty. */
typedef struct ReRanges
{
	ReRange    *r;
	size_t		n,
				cap;
} ReRanges;

void		re_ranges_add(ReRanges *v, uint32_t lo, uint32_t hi);
void		re_ranges_free(ReRanges *v);
/* In order, apart; then all others in place of these. */
void		re_ranges_negate(ReRanges *v);
/* The other cases of all letters. */
void		re_ranges_fold(ReRanges *v);

typedef enum RePerl
{
	RE_PERL_ASCII,
	RE_PERL_ECMA,				/* ASCII, but white space is ECMA-262's */
	RE_PERL_UNICODE
} RePerl;

/* \d, \w, \s by letter (small). */
void		re_ranges_perl(ReRanges *v, char letter, RePerl of);
/* [:name:]; false if there is none. */
bool		re_ranges_posix(ReRanges *v, const char *name, size_t n);
/* \p{name}: general categories, short or long, Any, ASCII, Alphabetic, White_Space; false if unknown. */
bool		re_ranges_property(ReRanges *v, const char *name, size_t n);

#endif
