/*
 * token_table.c
 *	  Table of token strings: by id, and by content through a hash index.
 *
 * Open addressing with linear probing, at most half full, sized for all ids from the beginning.  A slot
 * holds id + 1 and the upper half of the hash, so that a probe reads the string only if it very likely
 * matches.  A look-up takes O(length).  Tested through tests/unit/tokenizer/test_tokenizer.c.
 */
#include "tokenizer/token_table.h"

#include <string.h>

#include "base/buf.h"
#include "base/alloc.h"

#define ABSENT	UINT32_MAX

typedef struct TokenTableSlot
{
	uint32_t	id1;			/* id + 1; 0 = free */
	uint32_t	hash;			/* upper half of the string's hash */
} TokenTableSlot;

struct StrTab
{
	size_t		n_ids;
	size_t	   *off;			/* [n_ids] start in blob */
	uint32_t   *len;			/* [n_ids] bytes; ABSENT = no string */
	Buf			blob;
	TokenTableSlot *slot;			/* [mask + 1] */
	size_t		mask;
	size_t		longest;		/* bytes, of the indexed strings */
};

static inline uint64_t
mix(uint64_t h, uint64_t w)
{
	h = (h ^ w) * 0x9E3779B97F4A7C15u;
	return h ^ (h >> 29);
}

static uint64_t
hash_bytes(const char *s, size_t n)
{
	uint64_t	h = n;
	uint64_t	w;

	while (n >= 8)
	{
		memcpy(&w, s, 8);
		h = mix(h, w);
		s += 8;
		n -= 8;
	}
	w = 0;
	for (size_t i = 0; i < n; i++)
		w |= (uint64_t) (unsigned char) s[i] << (8 * i);
	h = mix(h, w);
	return mix(h, h >> 32);
}

StrTab *
strtab_new(size_t n_ids)
{
	StrTab	   *t = mem_zalloc(sizeof(StrTab));
	size_t		cap = 16;

	while (cap < n_ids * 2)
		cap *= 2;
	t->n_ids = n_ids;
	t->off = mem_zalloc(n_ids * sizeof(size_t));
	t->len = mem_alloc(n_ids * sizeof(uint32_t));
	memset(t->len, 0xFF, n_ids * sizeof(uint32_t));
	t->slot = mem_zalloc(cap * sizeof(TokenTableSlot));
	t->mask = cap - 1;
	return t;
}

void
strtab_free(StrTab *t)
{
	if (t == NULL)
		return;
	mem_free(t->off);
	mem_free(t->len);
	mem_free(t->slot);
	buf_free(&t->blob);
	mem_free(t);
}

void
strtab_set(StrTab *t, int32_t id, const char *s, size_t n)
{
	t->off[id] = t->blob.len;
	t->len[id] = (uint32_t) n;
	buf_add(&t->blob, s, n);
}

const char *
strtab_get(const StrTab *t, int32_t id, size_t *n)
{
	if (id < 0 || (size_t) id >= t->n_ids || t->len[id] == ABSENT)
	{
		*n = 0;
		return NULL;
	}
	*n = t->len[id];
	return t->blob.data + t->off[id];
}

bool
strtab_index(StrTab *t, int32_t id)
{
	const char *s = t->blob.data + t->off[id];
	size_t		n = t->len[id];
	uint64_t	h = hash_bytes(s, n);
	size_t		i = h & t->mask;

	if (strtab_find(t, s, n) >= 0)
		return false;
	while (t->slot[i].id1 != 0)
		i = (i + 1) & t->mask;
	t->slot[i].id1 = (uint32_t) id + 1;
	t->slot[i].hash = (uint32_t) (h >> 32);
	if (n > t->longest)
		t->longest = n;
	return true;
}

int32_t
strtab_find(const StrTab *t, const char *s, size_t n)
{
	uint64_t	h = hash_bytes(s, n);

	for (size_t i = h & t->mask; t->slot[i].id1 != 0; i = (i + 1) & t->mask)
	{
		uint32_t	id = t->slot[i].id1 - 1;

		if (t->slot[i].hash == (uint32_t) (h >> 32) && t->len[id] == n &&
			memcmp(t->blob.data + t->off[id], s, n) == 0)
			return (int32_t) id;
	}
	return -1;
}

size_t
strtab_longest(const StrTab *t)
{
	return t->longest;
}
