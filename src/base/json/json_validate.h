/*
 * json_validate.h
 *	  Is a text JSON?  For who takes it from others and hands it on, or reads it in place.
 */
#ifndef VLLM_BASE_JSON_JSON_VALIDATE_H
#define VLLM_BASE_JSON_JSON_VALIDATE_H

#include <stdbool.h>
#include <stddef.h>

#define JSON_DEPTH_MOST	1024	/* levels of brackets that can be asked for */

typedef struct JsonCheck
{
	int			depth;			/* most levels of brackets; at most JSON_DEPTH_MOST */
	const char *key;			/* NULL, or a member of the outermost object, by its name as it is written there */
	/* found: */
	const char *value;			/* where that member's value begins, of several the last one's; NULL: it has none of this name */
	size_t		at;				/* not JSON: from this byte on; n: it ends too early */
} JsonCheck;

/* Are n bytes at s one JSON text (RFC 8259) in UTF-8?  It may have white space around it. */
bool		json_check(const char *s, size_t n, JsonCheck *c);
/* The same for who asks no more. */
bool		json_ok(const char *s, size_t n, int depth);

#endif
