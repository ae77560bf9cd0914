/*
 * postgres.h
 *	  Replacement of PostgreSQL's header for those files of src/pg that only process texts, so that their
 *	  tests need no server.
 */
#ifndef VLLM_TESTS_UNIT_PG_PGSHIM_POSTGRES_H
#define VLLM_TESTS_UNIT_PG_PGSHIM_POSTGRES_H

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NAMEDATALEN 64
#define lengthof(a) (sizeof(a) / sizeof((a)[0]))
#define Min(a, b) ((a) < (b) ? (a) : (b))
#define Max(a, b) ((a) > (b) ? (a) : (b))
#define IS_HIGHBIT_SET(c) (((unsigned char) (c) & 0x80) != 0)
#define pg_strncasecmp strncasecmp

static inline int
pg_tolower(int c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static inline int
pg_toupper(int c)
{
	return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c;
}

static inline char *
pnstrdup(const char *s, size_t n)
{
	return strndup(s, n);
}

#endif
