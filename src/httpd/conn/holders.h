/*
 * holders.h
 *	  How much of a resource each key holds: a list of the keys that hold any.
 *
 * Key 0 stands for all requests without a key.  Lists are short, because a key that holds nothing is in
 * none.  The owner of a list locks it.
 */
#ifndef VLLM_HTTPD_CONN_HOLDERS_H
#define VLLM_HTTPD_CONN_HOLDERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

typedef struct Holder
{
	uint64_t	key;
	size_t		has;			/* > 0 */
	struct Holder *next;
} Holder;

static inline size_t
holders_has(const Holder *list, uint64_t key)
{
	for (; list != NULL; list = list->next)
		if (list->key == key)
			return list->has;
	return 0;
}

/* Add n to what the key holds.  The entry keeps its address until the key holds nothing. */
static inline Holder *
holders_add(Holder **list, uint64_t key, size_t n)
{
	Holder	   *h = *list;

	while (h != NULL && h->key != key)
		h = h->next;
	if (h == NULL)
	{
		h = mem_zalloc(sizeof(Holder));
		h->key = key;
		h->next = *list;
		*list = h;
	}
	h->has += n;
	return h;
}

/* Subtract n from what the key holds, which is at least n. */
static inline void
holders_sub(Holder **list, uint64_t key, size_t n)
{
	Holder	   *h;

	while ((h = *list) != NULL && h->key != key)
		list = &h->next;
	if (h == NULL || (h->has -= n) > 0)
		return;
	*list = h->next;
	mem_free(h);
}

#endif
