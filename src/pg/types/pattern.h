/*
 * pattern.h
 *	  Patterns of PostgreSQL as patterns of JSON schemas.
 */
#ifndef VLLM_PG_TYPES_PATTERN_H
#define VLLM_PG_TYPES_PATTERN_H

#include "postgres.h"

#include "lib/stringinfo.h"

/*
 * Append a pattern that matches nothing but what the regular expression (of operator ~)
 * matches, and nearly all of that.  False if there is none.
 */
bool		pattern_from_regex(StringInfo out, const char *regex);

/* The same of a pattern of LIKE; it matches the whole text. */
bool		pattern_from_like(StringInfo out, const char *like);

#endif
