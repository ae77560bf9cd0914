/*
 * trie.c
 *	  Trie over the bytes of token strings, to find the longest prefix or all prefixes.
 *
 * Built breadth first from the sorted keys: a node is a range of keys that share
 * their first `depth` bytes, its children are the sub-ranges by the next byte.
 * Memory is a few bytes for each byte of the keys.  Immutable afterwards.
 * Tested by tests/unit/tokenizer/test_tokenizer.c through WordPiece and Unigram.
 */
#include "tokenizer/trie.h"

#include <stdlib.h>

#include "base/alloc.h"

typedef struct TrieRange
{
	size_t		lo;				/* keys that begin with the node's string */
	size_t		hi;
	uint32_t	depth;
} TrieRange;

typedef struct TrieBuilder
{
	Trie	   *t;
	TrieRange  *range;			/* [cap], by node */
	uint32_t	cap;
} TrieBuilder;

static int
by_bytes(const void *pa, const void *pb)
{
	const TrieKey *a = pa;
	const TrieKey *b = pb;
	int			c = memcmp(a->s, b->s, a->len < b->len ? a->len : b->len);

	if (c != 0)
		return c;
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static void
add_node(TrieBuilder *b, size_t lo, size_t hi, uint32_t depth, uint8_t byte)
{
	Trie	   *t = b->t;

	if (t->n == b->cap)
	{
		b->cap = b->cap ? b->cap * 2 : 1024;
		b->range = mem_realloc(b->range, b->cap * sizeof(TrieRange));
		t->first = mem_realloc(t->first, ((size_t) b->cap + 1) * sizeof(uint32_t));
		t->byte = mem_realloc(t->byte, b->cap);
		t->id = mem_realloc(t->id, b->cap * sizeof(int32_t));
	}
	b->range[t->n] = (TrieRange) {lo, hi, depth};
	t->byte[t->n] = byte;
	t->id[t->n++] = -1;
}

Trie *
trie_new(TrieKey *key, size_t n)
{
	Trie	   *t = mem_zalloc(sizeof(Trie));
	TrieBuilder	b = {.t = t};

	if (n > 0)
		qsort(key, n, sizeof(TrieKey), by_bytes);
	add_node(&b, 0, n, 0, 0);
	for (uint32_t node = 0; node < t->n; node++)
	{
		TrieRange	r = b.range[node];

		t->first[node] = t->n;
		for (; r.lo < r.hi && key[r.lo].len == r.depth; r.lo++)
			if (t->id[node] < 0)
				t->id[node] = key[r.lo].id;
		while (r.lo < r.hi)
		{
			char		c = key[r.lo].s[r.depth];
			size_t		stop = r.lo + 1;

			while (stop < r.hi && key[stop].s[r.depth] == c)
				stop++;
			if (node == 0)
				t->root[(unsigned char) c] = t->n;
			add_node(&b, r.lo, stop, r.depth + 1, (uint8_t) c);
			r.lo = stop;
		}
	}
	t->first[t->n] = t->n;
	mem_free(b.range);
	return t;
}

void
trie_free(Trie *t)
{
	if (t == NULL)
		return;
	mem_free(t->first);
	mem_free(t->byte);
	mem_free(t->id);
	mem_free(t);
}
