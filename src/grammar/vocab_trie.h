/*
 * vocab_trie.h
 *	  The tokens of a model as tries in one array each.
 *
 * Nodes stand in the order of a walk: a node, then its children's subtrees.  So a walk is
 * a loop over the array which steps over the subtree of what isn't allowed.
 *
 * Tokens are split by length into a few tries (slices).  For tokens of at most k bytes
 * all states of the lexer that differ beyond k bytes only are one (lexer_clamp()), and most
 * tokens are short: strings of at most 1,000 and of at most 900 characters have the same
 * mask but for the long ones.
 */
#ifndef VLLM_GRAMMAR_VOCAB_TRIE_H
#define VLLM_GRAMMAR_VOCAB_TRIE_H

#include <stdatomic.h>

#include "grammar/grammar.h"

#define VOCAB_SLICES	5

typedef struct VocabNode
{
	uint32_t	first;			/* in id[]: its tokens are up to the next node's first */
	uint32_t	skip;			/* nodes of the subtree, itself counted */
	uint16_t	depth;			/* bytes up to and with this one; 0 = the root */
	uint8_t		byte;
	uint8_t		open;			/* bytes that its character still lacks */
} VocabNode;

typedef struct VocabTrie
{
	VocabNode  *node;			/* [n + 1]; [0] is the root */
	uint64_t   *sig;			/* of each node: bit b % 64 for each child's byte */
	uint64_t   *whole;			/* vocab_group()s of a node's characters, with those below it; all bits
								 * where a node begins no character or is followed by broken ones */
	int32_t    *id;				/* tokens in the order of nodes */
	uint32_t	n;
	uint32_t	max_len;		/* bytes of the longest token */
} VocabTrie;

struct GramVocab
{
	atomic_int	refs;
	size_t		n;				/* ids */
	char	   *text;			/* of all tokens */
	size_t	   *first;			/* [n + 1] */
	bool	   *end;			/* [n] */
	int32_t    *end_id;
	size_t		n_end;
	VocabTrie	slice[VOCAB_SLICES];
	struct VocabShared *shared; /* what grammars have found in it (shared_walks.h) */
};

/*
 * Bytes in less than 63 groups, such that sets of them tell most patterns apart.  Those that
 * begin characters in UTF-8 are grouped by what may follow them (vocab_utf8()).
 */
uint32_t	vocab_group(uint8_t b);

/*
 * The continuation that may follow a byte that begins a character: lo .. hi; returns how many in all, 0 =
 * none.
 */
int			vocab_utf8(uint8_t lead, uint8_t *lo, uint8_t *hi);

/* The bytes of a token that is allowed as text; *len = 0 for others. */
static inline const char *
vocab_bytes(const GramVocab *v, int32_t id, size_t *len)
{
	*len = v->first[id + 1] - v->first[id];
	return v->text + v->first[id];
}

#endif
