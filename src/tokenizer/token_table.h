/*
 * token_table.h
 *	  Table of token strings: by id, and by content through a hash index.
 *
 * Filled once at load, then immutable.  Strings lie back to back in one
 * buffer; an id may have no string (vocabularies have holes).
 */
#ifndef VLLM_TOKENIZER_TOKEN_TABLE_H
#define VLLM_TOKENIZER_TOKEN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct StrTab StrTab;

StrTab	   *strtab_new(size_t n_ids);
void		strtab_free(StrTab *t);
/* The string of an id; may be set once. */
void		strtab_set(StrTab *t, int32_t id, const char *s, size_t n);
/* NULL if the id has no string or is out of range. */
const char *strtab_get(const StrTab *t, int32_t id, size_t *n);
/* Enter the string of id into the index; false if an equal one is there. */
bool		strtab_index(StrTab *t, int32_t id);
/* The id of an indexed string; -1 if there is none. */
int32_t		strtab_find(const StrTab *t, const char *s, size_t n);
/* Bytes of the longest indexed string. */
size_t		strtab_longest(const StrTab *t);

#endif
