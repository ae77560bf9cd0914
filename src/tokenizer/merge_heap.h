/*
 * merge_heap.h
 *	  Binary min-heap of 64-bit keys, for merge candidates.
 *
 * A key is priority << 32 | position, so that the smallest key is the best
 * candidate and, among equals, the leftmost.
 */
#ifndef VLLM_TOKENIZER_MERGE_HEAP_H
#define VLLM_TOKENIZER_MERGE_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

typedef struct Heap
{
	uint64_t   *key;
	size_t		len;
	size_t		cap;
} Heap;

static inline void
heap_push(Heap *h, uint32_t priority, uint32_t pos)
{
	uint64_t	k = (uint64_t) priority << 32 | pos;
	size_t		i = h->len++;

	if (h->len > h->cap)
	{
		h->cap = h->cap ? h->cap * 2 : 256;
		h->key = mem_realloc(h->key, h->cap * sizeof(uint64_t));
	}
	while (i > 0 && h->key[(i - 1) / 2] > k)
	{
		h->key[i] = h->key[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	h->key[i] = k;
}

/* Remove and return the smallest key; the heap must not be empty. */
static inline uint64_t
heap_pop(Heap *h)
{
	uint64_t	top = h->key[0];
	uint64_t	k = h->key[--h->len];
	size_t		i = 0;

	for (;;)
	{
		size_t		c = 2 * i + 1;

		if (c >= h->len)
			break;
		if (c + 1 < h->len && h->key[c + 1] < h->key[c])
			c++;
		if (h->key[c] >= k)
			break;
		h->key[i] = h->key[c];
		i = c;
	}
	h->key[i] = k;
	return top;
}

#endif
