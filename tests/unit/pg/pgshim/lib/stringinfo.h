/*
 * stringinfo.h
 *	  The part of PostgreSQL's StringInfo that src/pg's text files use.
 */
#ifndef VLLM_TESTS_UNIT_PG_PGSHIM_LIB_STRINGINFO_H
#define VLLM_TESTS_UNIT_PG_PGSHIM_LIB_STRINGINFO_H

#include "postgres.h"

typedef struct StringInfoData
{
	char	   *data;
	size_t		len;
	size_t		cap;
} StringInfoData;
typedef StringInfoData *StringInfo;

static inline void
initStringInfo(StringInfo s)
{
	s->cap = 1024;
	s->len = 0;
	s->data = malloc(s->cap);
	s->data[0] = '\0';
}

static inline void
appendBinaryStringInfo(StringInfo s, const char *d, size_t n)
{
	while (s->len + n + 1 > s->cap)
		s->data = realloc(s->data, s->cap *= 2);
	memcpy(s->data + s->len, d, n);
	s->data[s->len += n] = '\0';
}

static inline void
appendStringInfoString(StringInfo s, const char *d)
{
	appendBinaryStringInfo(s, d, strlen(d));
}

#endif
