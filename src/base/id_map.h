/*
 * id_map.h
 *	  Hash map from a 64-bit number to a pointer (request ids, sessions).
 */
#ifndef VLLM_BASE_ID_MAP_H
#define VLLM_BASE_ID_MAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct IdSlot
{
	uint64_t	key;
	void	   *value;			/* NULL = empty slot */
} IdSlot;

/* A zeroed struct is an empty map. */
typedef struct IdMap
{
	IdSlot	   *slots;			/* [cap] */
	size_t		cap;			/* power of two, or 0 */
	size_t		n;
} IdMap;

void	   *idmap_get(const IdMap *m, uint64_t key);	/* NULL = none */
void		idmap_put(IdMap *m, uint64_t key, void *value);	/* replaces */
void		idmap_del(IdMap *m, uint64_t key);
void		idmap_free(IdMap *m);

#endif
