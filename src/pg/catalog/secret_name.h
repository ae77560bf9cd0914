/*
 * secret_name.h
 *	  Where a text names llm_set_secret(), in whatever way that is written.
 *
 * A range may be part of a text; the byte at its end can be read.
 */
#ifndef VLLM_PG_CATALOG_SECRET_NAME_H
#define VLLM_PG_CATALOG_SECRET_NAME_H

#include "postgres.h"

#define SECRET_NAME	"llm_set_secret"

/* Behind the name; NULL: it isn't at p. */
const char *secret_name_match(const char *p, const char *end);

/* Where the name is next; *behind: where it ends. */
const char *secret_name_find(const char *p, const char *end, const char **behind);

/* Is it anywhere?  Of a text that can't have it only a fraction of a nanosecond per byte is spent. */
bool		secret_name_in(const char *p, const char *end);

/* The names of a text from its beginning to its end: whoever asks for ranges asks in their order. */
typedef struct SecretNames
{
	const char *at;				/* the next one; NULL: there is none */
	const char *behind;
	const char *end;
} SecretNames;

void		secret_names_begin(SecretNames *n, const char *p, const char *end);
bool		secret_names_within(SecretNames *n, const char *from, const char *to);

#endif
