/*
 * secret_name.h
 *	  Finding the name llm_set_secret in a text, however it is written.
 *
 * A range may be part of a text; the functions may read the byte at its end.
 */
#ifndef VLLM_PG_CATALOG_SECRET_NAME_H
#define VLLM_PG_CATALOG_SECRET_NAME_H

#include "postgres.h"

#define SECRET_NAME	"llm_set_secret"

/* Return the end of the name if it is at p; else NULL. */
const char *secret_name_match(const char *p, const char *end);

/* Return the start of the next name, and its end in *behind; NULL if there is none. */
const char *secret_name_find(const char *p, const char *end, const char **after);

/*
 * Return true if the range has the name.  For a text that can't have it, this takes a fraction of a
 * nanosecond per byte.
 */
bool		secret_name_in(const char *p, const char *end);

/* Iterator over the names in a text.  The caller asks for ranges in the order of the text. */
typedef struct SecretNames
{
	const char *at;				/* the next name; NULL: there is none */
	const char *after;
	const char *end;
} SecretNames;

void		secret_names_begin(SecretNames *n, const char *p, const char *end);
bool		secret_names_within(SecretNames *n, const char *from, const char *to);

#endif
