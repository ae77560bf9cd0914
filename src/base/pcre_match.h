/*
 * pcre_match.h
 *	  Regular expressions that files of models bring, to be matched with names.
 */
#ifndef VLLM_BASE_PCRE_MATCH_H
#define VLLM_BASE_PCRE_MATCH_H

#include <stdbool.h>

typedef enum PatternFit
{
	PATTERN_NO,
	PATTERN_YES,
	PATTERN_BAD					/* it takes too many steps */
} PatternFit;

typedef struct Pattern Pattern;

/* anywhere: Python's re.search(); else re.match(), which begins at the beginning.  NULL: it is malformed. */
Pattern    *pattern_new(const char *text, bool anywhere);
/* The pattern comes from a file: no look at more than some million steps of it. */
PatternFit	pattern_fit(const Pattern *p, const char *name);
void		pattern_free(Pattern *p);

#endif
