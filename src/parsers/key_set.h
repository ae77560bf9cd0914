/*
 * key_set.h
 *	  Keys of objects, so that none is given twice.
 *
 * A key is a hash of 64 bits: two that have the same are taken for one.
 */
#ifndef VLLM_PARSERS_KEY_SET_H
#define VLLM_PARSERS_KEY_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct KeySet
{
	uint64_t   *slots;
	size_t		cap;
	size_t		n;
} KeySet;

/* False if it is in there already. */
bool		keyset_add(KeySet *k, uint64_t hash);
/* Empty it. */
void		keyset_reset(KeySet *k);
void		keyset_free(KeySet *k);

#endif
