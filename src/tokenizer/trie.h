/*
 * trie.h
 *	  Trie over the bytes of token strings, to find the longest prefix or all prefixes.
 *
 * Nodes are numbered breadth first, so a node's children are adjacent: those of node i are first[i] ..
 * first[i + 1] - 1, sorted by their byte.
 */
#ifndef VLLM_TOKENIZER_TRIE_H
#define VLLM_TOKENIZER_TRIE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct TrieKey
{
	const char *s;
	uint32_t	len;			/* > 0 */
	int32_t		id;
} TrieKey;

typedef struct Trie
{
	uint32_t   *first;			/* [n + 1] */
	uint8_t    *byte;			/* [n] byte that leads to the node */
	int32_t    *id;				/* [n] token that ends here, -1 = none */
	uint32_t	n;
	uint32_t	root[256];		/* children of node 0 by byte, 0 = none */
} Trie;

/* Make a trie.  Sorts key[]; of equal keys the lowest id counts.  The trie keeps no pointer to the
 * keys. */
Trie	   *trie_new(TrieKey *key, size_t n);
void		trie_free(Trie *t);

/* Return the child of a node, 0 if there is none. */
static inline uint32_t
trie_step(const Trie *t, uint32_t node, char c)
{
	uint32_t	lo;
	uint32_t	hi;

	if (node == 0)
		return t->root[(unsigned char) c];
	lo = t->first[node];
	hi = t->first[node + 1];
	if (hi - lo > 8)
	{
		const uint8_t *p = memchr(t->byte + lo, (unsigned char) c, hi - lo);

		return p != NULL ? (uint32_t) (p - t->byte) : 0;
	}
	for (; lo < hi; lo++)
		if (t->byte[lo] == (unsigned char) c)
			return lo;
	return 0;
}

#endif
