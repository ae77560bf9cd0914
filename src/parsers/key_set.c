/*
 * key_set.c
 *	  Set of the keys of objects: a table with open addressing (key_set.h).
 *
 * Tested by the cases of tests/parse/ and tests/unit/parsers/test_parse_calls.c.
 */
#include "parsers/key_set.h"

#include <string.h>

#include "base/alloc.h"

#define KEPT	1024			/* slots: a larger table is freed when the set is emptied */

void
keyset_free(KeySet *k)
{
	mem_free(k->slots);
	memset(k, 0, sizeof(*k));
}

void
keyset_reset(KeySet *k)
{
	if (k->cap > KEPT)
		keyset_free(k);
	else if (k->n > 0)
		memset(k->slots, 0, k->cap * sizeof(*k->slots));
	k->n = 0;
}

/* h is not 0 */
static bool
insert(KeySet *k, uint64_t h)
{
	size_t		i = (size_t) h & (k->cap - 1);

	while (k->slots[i] != 0 && k->slots[i] != h)
		i = (i + 1) & (k->cap - 1);
	if (k->slots[i] == h)
		return false;
	k->slots[i] = h;
	k->n++;
	return true;
}

bool
keyset_add(KeySet *k, uint64_t hash)
{
	if (2 * k->n >= k->cap)
	{
		KeySet		old = *k;

		k->cap = old.cap > 0 ? 2 * old.cap : 16;
		k->n = 0;
		k->slots = mem_zalloc(k->cap * sizeof(*k->slots));
		for (size_t i = 0; i < old.cap; i++)
			if (old.slots[i] != 0)
				insert(k, old.slots[i]);
		mem_free(old.slots);
	}
	return insert(k, hash != 0 ? hash : 1);
}
