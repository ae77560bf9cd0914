/*
 * pattern.h
 *	  Conversion of PostgreSQL's patterns to patterns of JSON schemas.
 */
#ifndef VLLM_PG_TYPES_PATTERN_H
#define VLLM_PG_TYPES_PATTERN_H

#include "postgres.h"

#include "lib/stringinfo.h"

/*
 * Append a pattern that matches only texts that the regular expression (of operator ~) matches, and
 * nearly all of those.  Return false if there is none.
 */
bool		pattern_from_regex(StringInfo out, const char *regex);

/* Like pattern_from_regex(), for a pattern of LIKE, which matches the whole text. */
bool		pattern_from_like(StringInfo out, const char *like);

#endif
