/*
 * token_table.h
 *	  Table of token strings: by id, and by content through a hash index.
 *
 * Filled once at load, then immutable.  Strings are stored back to back in one buffer; an id may have no
 * string (vocabularies have holes).
 */
#ifndef VLLM_TOKENIZER_TOKEN_TABLE_H
#define VLLM_TOKENIZER_TOKEN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct StrTab StrTab;

StrTab	   *strtab_new(size_t n_ids);
void		strtab_free(StrTab *t);
/* Set the string of an id; may be done once. */
void		strtab_set(StrTab *t, int32_t id, const char *s, size_t n);
/* Return NULL if the id has no string or is out of range. */
const char *strtab_get(const StrTab *t, int32_t id, size_t *n);
/* Add the string of id to the index; return false if an equal one is indexed already. */
bool		strtab_index(StrTab *t, int32_t id);
/* Return the id of an indexed string; -1 if there is none. */
int32_t		strtab_find(const StrTab *t, const char *s, size_t n);
/* Return the bytes of the longest indexed string. */
size_t		strtab_longest(const StrTab *t);

#endif
