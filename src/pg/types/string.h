/*
 * string.h
 *	  Types that are strings in JSON: string_types.def, one row each.
 */
#ifndef VLLM_PG_TYPES_STRING_H
#define VLLM_PG_TYPES_STRING_H

#include "postgres.h"

typedef struct StringType
{
	Oid			type;
	const char *pattern;		/* of the whole string, without anchors; NULL: any characters */
	const char *format;			/* for a reader, NULL: none */
	const char *hint;			/* for a reader: how values are written, NULL: plain text */
} StringType;

const StringType *type_string_find(Oid type);

/* Return the pattern of strings without one of their own: characters that the database can store. */
const char *type_string_free_pattern(void);

#endif
