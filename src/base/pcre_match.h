/*
 * pcre_match.h
 *	  Regular expressions from model files, matched against names of tensors and modules.
 */
#ifndef VLLM_BASE_PCRE_MATCH_H
#define VLLM_BASE_PCRE_MATCH_H

#include <stdbool.h>

typedef enum PatternFit
{
	PATTERN_NO,
	PATTERN_YES,
	PATTERN_BAD					/* the match exceeded the step limit */
} PatternFit;

typedef struct Pattern Pattern;

/*
 * anywhere: match at any position, as Python's re.search(); else only at the start, as re.match().
 * Returns NULL if the pattern is malformed.
 */
Pattern    *pattern_new(const char *text, bool anywhere);
/* Match the name.  The pattern comes from a file, so matching stops after some million steps. */
PatternFit	pattern_fit(const Pattern *p, const char *name);
void		pattern_free(Pattern *p);

#endif
