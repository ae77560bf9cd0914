/*
 * key_set.h
 *	  Set of the keys of objects, to detect duplicates.
 *
 * A key is a hash of 64 bits: keys with the same hash count as equal.
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

/* Add a key; return false if it is in the set already. */
bool		keyset_add(KeySet *k, uint64_t hash);
/* Empty it. */
void		keyset_reset(KeySet *k);
void		keyset_free(KeySet *k);

#endif
