/*
 * vocab_trie.h
 *	  The tokens of a model as tries, each in one array.
 *
 * Nodes are in depth-first order: a node, then its children's subtrees.  So a walk is a loop over the
 * array which skips the subtrees of disallowed nodes.
 *
 * Tokens are split by length into a few tries (slices).  For tokens of at most k bytes, lexer states
 * that differ only beyond k bytes are equivalent (lexer_clamp()), and most tokens are short: the masks
 * of strings of at most 1,000 and of at most 900 characters differ only in the long tokens.
 */
#ifndef VLLM_GRAMMAR_VOCAB_TRIE_H
#define VLLM_GRAMMAR_VOCAB_TRIE_H

#include <stdatomic.h>

#include "grammar/grammar.h"

#define VOCAB_SLICES	5

typedef struct VocabNode
{
	uint32_t	first;			/* index in id[]: the node's tokens end at the next node's first */
	uint32_t	skip;			/* nodes of the subtree, including this one */
	uint16_t	depth;			/* bytes from the root up to and including this one; 0 = the root */
	uint8_t		byte;
	uint8_t		open;			/* bytes that its character still needs */
} VocabNode;

typedef struct VocabTrie
{
	VocabNode  *node;			/* [n + 1]; [0] is the root */
	uint64_t   *sig;			/* of each node: bit b % 64 for each child's byte */
	uint64_t   *whole;			/* vocab_group()s of the characters of a node and of the nodes below it;
								 * all bits if a node begins no character or is followed by broken ones */
	int32_t    *id;				/* tokens in the order of nodes */
	uint32_t	n;
	uint32_t	max_len;		/* bytes of the longest token */
} VocabTrie;

struct GramVocab
{
	atomic_int	refs;
	size_t		n;				/* ids */
	char	   *text;			/* bytes of all tokens */
	size_t	   *first;			/* [n + 1] */
	bool	   *end;			/* [n] */
	int32_t    *end_id;
	size_t		n_end;
	VocabTrie	slice[VOCAB_SLICES];
	struct VocabShared *shared; /* results of grammars' walks over it (shared_walks.h) */
};

/*
 * Return the group of a byte.  There are less than 63 groups, chosen so that most patterns can be told
 * apart by sets of groups.  Bytes that begin UTF-8 characters are grouped by the continuation that may
 * follow (vocab_utf8()).
 */
uint32_t	vocab_group(uint8_t b);

/*
 * Return how many continuation bytes follow a byte that begins a character, 0 = none.  The first one
 * must be in *lo .. *hi.
 */
int			vocab_utf8(uint8_t lead, uint8_t *lo, uint8_t *hi);

/* Return the bytes of a token that is allowed as text; *len = 0 for others. */
static inline const char *
vocab_bytes(const GramVocab *v, int32_t id, size_t *len)
{
	*len = v->first[id + 1] - v->first[id];
	return v->text + v->first[id];
}

#endif
