/*
 * arena.h
 *	  One big, zeroed, 2 MB aligned piece of memory that is handed out once and
 *	  freed as a whole: a model's weights, or its work space.
 */
#ifndef VLLM_MODEL_ARENA_H
#define VLLM_MODEL_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct MArena
{
	unsigned char *base;		/* NULL = nothing reserved */
	size_t		size;			/* bytes, a multiple of 2 MB */
	size_t		used;
} MArena;

/* false when the address space has no room; size 0 is fine */
bool		marena_reserve(MArena *a, size_t size);
/* 64-byte aligned; the sum of all takes may not exceed the reservation */
void	   *marena_take(MArena *a, size_t size);
void		marena_free(MArena *a);

/* What a take of size bytes uses up: add these to get the reservation's size.
 * false on overflow. */
bool		marena_add(size_t *total, size_t size);

#endif
