/*
 * char_set.h
 *	  Sets of characters that patterns can name.
 */
#ifndef VLLM_GRAMMAR_REGEX_CHAR_SET_H
#define VLLM_GRAMMAR_REGEX_CHAR_SET_H

#include "grammar/regex/regex.h"

/* A growing list of ranges; zeroed = empty. */
typedef struct ReRanges
{
	ReRange    *r;
	size_t		n,
				cap;
} ReRanges;

void		re_ranges_add(ReRanges *v, uint32_t lo, uint32_t hi);
void		re_ranges_free(ReRanges *v);
/* Sort the ranges, merge them, and replace them by all other characters. */
void		re_ranges_negate(ReRanges *v);
/* Add the other cases of all letters. */
void		re_ranges_fold(ReRanges *v);

typedef enum RePerl
{
	RE_PERL_ASCII,
	RE_PERL_ECMA,				/* ASCII, but with ECMA-262's white space */
	RE_PERL_UNICODE
} RePerl;

/* Add \d, \w or \s, by its lower-case letter. */
void		re_ranges_perl(ReRanges *v, char letter, RePerl of);
/* Add [:name:]; return false if there is no such class. */
bool		re_ranges_posix(ReRanges *v, const char *name, size_t n);
/* Add \p{name}: general categories, short or long, Any, ASCII, Alphabetic, White_Space; return false if
 * the name is unknown. */
bool		re_ranges_property(ReRanges *v, const char *name, size_t n);

#endif
