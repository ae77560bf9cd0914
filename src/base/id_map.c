/*
 * id_map.c
 *	  Hash map from a 64-bit number to a pointer.
 *
 * Open addressing with linear probing, at most half full; deletion shifts the following entries back, so
 * there are no tombstones.  Expected O(1).  Keys come from our own counters and process ids, so a
 * multiplicative hash is good enough.  Tested through tests/unit/core/test_core.c and, alone,
 * tests/unit/core/sched/test_sched.c.
 */
#include "base/id_map.h"

#include <string.h>

#include "base/alloc.h"

static size_t
home(const IdMap *m, uint64_t key)
{
	key ^= key >> 32;
	key *= UINT64_C(0x9E3779B97F4A7C15);
	return (size_t) (key >> 32) & (m->cap - 1);
}

static size_t
find(const IdMap *m, uint64_t key)
{
	size_t		i = home(m, key);

	while (m->slots[i].value != NULL && m->slots[i].key != key)
		i = (i + 1) & (m->cap - 1);
	return i;
}

static void
grow(IdMap *m)
{
	IdMap		old = *m;

	m->cap = old.cap == 0 ? 64 : old.cap * 2;
	m->slots = mem_zalloc(m->cap * sizeof(IdSlot));
	for (size_t i = 0; i < old.cap; i++)
		if (old.slots[i].value != NULL)
			m->slots[find(m, old.slots[i].key)] = old.slots[i];
	mem_free(old.slots);
}

void *
idmap_get(const IdMap *m, uint64_t key)
{
	return m->cap == 0 ? NULL : m->slots[find(m, key)].value;
}

void
idmap_put(IdMap *m, uint64_t key, void *value)
{
	size_t		i;

	if (2 * (m->n + 1) > m->cap)
		grow(m);
	i = find(m, key);
	m->n += m->slots[i].value == NULL;
	m->slots[i].key = key;
	m->slots[i].value = value;
}

void
idmap_del(IdMap *m, uint64_t key)
{
	size_t		hole,
				i;

	if (m->cap == 0)
		return;
	hole = find(m, key);
	if (m->slots[hole].value == NULL)
		return;
	m->n--;
	for (i = (hole + 1) & (m->cap - 1); m->slots[i].value != NULL; i = (i + 1) & (m->cap - 1))
	{
		size_t		h = home(m, m->slots[i].key);

		/* slot i may move to the hole unless its home is after the hole */
		if (((i - h) & (m->cap - 1)) >= ((i - hole) & (m->cap - 1)))
		{
			m->slots[hole] = m->slots[i];
			hole = i;
		}
	}
	m->slots[hole].value = NULL;
}

void
idmap_free(IdMap *m)
{
	mem_free(m->slots);
	memset(m, 0, sizeof(*m));
}
