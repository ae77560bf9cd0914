/*
 * prefix_index.c
 *	  The content of a pool's blocks, so that requests with a common prefix can share them.
 *
 * Each known block is in two hash tables of chained lists: `whole`, by its chain and all its tokens
 * (full blocks only), and `begin`, by its chain and its first token, the latest in front.  The hashes
 * are keyed with a random number, so that no client can choose prompts that make long lists.  Blocks
 * that really begin with the same token may still make a long list, hence PART_TRIES.
 *
 * Invariants (prefix_check; tests/unit/core/kv/test_prefix_cache.c): a full block is in both lists, another
 * known block in `begin` alone; no two full blocks have the same chain and tokens.
 *
 * The root of a salt is its hash (SipHash-2-4 under a random key of 128 bits): a client that chooses
 * salts can find two with the same root only with a probability of about 2^-64.
 */
#include "core/kv/prefix_index.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/rng.h"

#define PART_TRIES 8			/* candidates that are compared for a copy */

typedef enum PrefixTable
{
	WHOLE,
	BEGIN,
	N_TABLES
} PrefixTable;

typedef struct PrefixNode
{
	uint64_t	parent;			/* chain before its tokens */
	uint64_t	chain;			/* chain after its tokens; 0 = not full */
	int			n;				/* number of tokens; 0 = the block is not known */
	uint64_t	step;			/* the step in which it becomes readable */
	uint32_t	slot[N_TABLES];
	int32_t		prev[N_TABLES]; /* neighbours in the lists; 0 = none */
	int32_t		next[N_TABLES];
} PrefixNode;

struct Prefix
{
	int			n_blocks;
	int			block_size;
	int			n_known;
	uint64_t	key[2];
	uint64_t	next_chain;
	uint64_t	step;
	uint32_t	mask;			/* number of slots of a table - 1 */
	int32_t    *heads[N_TABLES];
	PrefixNode *nodes;			/* [n_blocks] */
	int32_t    *tokens;			/* [n_blocks][block_size] */
};

/* ---- hashes ---- */

static uint64_t
rotl(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

static void
sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[0] = rotl(v[0], 32);
	v[2] += v[3];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[2] = rotl(v[2], 32);
}

static void
sip_word(uint64_t v[4], uint64_t w)
{
	v[3] ^= w;
	sip_round(v);
	sip_round(v);
	v[0] ^= w;
}

/* Return SipHash-2-4 (Aumasson, Bernstein 2012) of `first` followed by n bytes. */
static uint64_t
sip_hash(const Prefix *p, uint64_t first, const void *data, size_t n)
{
	const unsigned char *b = data;
	uint64_t	v[4] = {
		p->key[0] ^ UINT64_C(0x736f6d6570736575), p->key[1] ^ UINT64_C(0x646f72616e646f6d),
		p->key[0] ^ UINT64_C(0x6c7967656e657261), p->key[1] ^ UINT64_C(0x7465646279746573)
	};
	uint64_t	w = 0;
	size_t		i;

	sip_word(v, first);
	for (i = 0; i + 8 <= n; i += 8)
	{
		memcpy(&w, b + i, 8);
		sip_word(v, w);
	}
	w = 0;
	if (i < n)
		memcpy(&w, b + i, n - i);
	sip_word(v, w | (uint64_t) (n & 0xff) << 56);
	v[2] ^= 0xff;
	for (int k = 0; k < 4; k++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static uint32_t
slot_of(const Prefix *p, uint64_t chain, const int32_t *tokens, int n)
{
	return (uint32_t) sip_hash(p, chain, tokens, (size_t) n * sizeof(int32_t)) & p->mask;
}

/* Odd, so that no root is 0; the chains of blocks are even. */
uint64_t
prefix_root(const Prefix *p, uint64_t owner, const char *salt, size_t n)
{
	return owner == 0 && n == 0 ? 1 : sip_hash(p, owner, salt, n) | 1;
}

/* ---- lists of the hash tables ---- */

static void
link_node(Prefix *p, PrefixTable t, uint32_t slot, int32_t block)
{
	int32_t	   *head = &p->heads[t][slot];

	p->nodes[block].slot[t] = slot;
	p->nodes[block].prev[t] = 0;
	p->nodes[block].next[t] = *head;
	if (*head != 0)
		p->nodes[*head].prev[t] = block;
	*head = block;
}

static void
unlink_node(Prefix *p, PrefixTable t, int32_t block)
{
	const PrefixNode *n = &p->nodes[block];

	ASSERT(n->prev[t] != 0 ? p->nodes[n->prev[t]].next[t] == block : p->heads[t][n->slot[t]] == block);
	if (n->prev[t] != 0)
		p->nodes[n->prev[t]].next[t] = n->next[t];
	else
		p->heads[t][n->slot[t]] = n->next[t];
	if (n->next[t] != 0)
		p->nodes[n->next[t]].prev[t] = n->prev[t];
}

static const int32_t *
tokens_of(const Prefix *p, int32_t block)
{
	return p->tokens + (size_t) block * (size_t) p->block_size;
}

/* ---- create and free ---- */

Prefix *
prefix_new(int n_blocks, int block_size)
{
	Prefix	   *p = mem_zalloc(sizeof(*p));
	uint32_t	n_slots = 64;

	while (n_slots < (uint32_t) n_blocks && n_slots < UINT32_C(1) << 31)
		n_slots *= 2;
	p->n_blocks = n_blocks;
	p->block_size = block_size;
	p->key[0] = rng_seed();
	p->key[1] = rng_seed();
	p->next_chain = 2;
	p->step = 1;
	p->mask = n_slots - 1;
	for (int t = 0; t < N_TABLES; t++)
		p->heads[t] = mem_zalloc((size_t) n_slots * sizeof(int32_t));
	p->nodes = mem_zalloc((size_t) n_blocks * sizeof(PrefixNode));
	p->tokens = mem_zalloc((size_t) n_blocks * (size_t) block_size * sizeof(int32_t));
	return p;
}

void
prefix_free(Prefix *p)
{
	if (p == NULL)
		return;
	for (int t = 0; t < N_TABLES; t++)
		mem_free(p->heads[t]);
	mem_free(p->nodes);
	mem_free(p->tokens);
	mem_free(p);
}

void
prefix_next_step(Prefix *p)
{
	p->step++;
}

/* ---- lookup ---- */

int32_t
prefix_find(const Prefix *p, uint64_t chain, const int32_t *tokens, uint64_t *next)
{
	size_t		size = (size_t) p->block_size * sizeof(int32_t);
	int32_t		b = p->heads[WHOLE][slot_of(p, chain, tokens, p->block_size)];

	while (b != 0 && (p->nodes[b].parent != chain || memcmp(tokens_of(p, b), tokens, size) != 0))
		b = p->nodes[b].next[WHOLE];
	if (b != 0)
		*next = p->nodes[b].chain;
	return b;
}

int32_t
prefix_find_part(const Prefix *p, uint64_t chain, const int32_t *tokens, int n, int *same)
{
	int32_t		best = 0;
	int			tries = 0;

	*same = 0;
	for (int32_t b = n > 0 ? p->heads[BEGIN][slot_of(p, chain, tokens, 1)] : 0; b != 0 && tries < PART_TRIES;
		 b = p->nodes[b].next[BEGIN])
	{
		const int32_t *have = tokens_of(p, b);
		int			most = p->nodes[b].n < n ? p->nodes[b].n : n;
		int			k = 0;

		if (p->nodes[b].parent != chain || p->nodes[b].step > p->step)
			continue;
		tries++;
		while (k < most && have[k] == tokens[k])
			k++;
		if (k > *same)
		{
			*same = k;
			best = b;
		}
	}
	return best;
}

bool
prefix_has(const Prefix *p, int32_t block)
{
	return p->nodes[block].n > 0;
}

bool
prefix_is_full(const Prefix *p, int32_t block)
{
	return p->nodes[block].n == p->block_size && p->nodes[block].step <= p->step;
}

/* ---- changes ---- */

uint64_t
prefix_add(Prefix *p, uint64_t chain, int32_t block, const int32_t *tokens, int n, bool pending)
{
	bool		full = n == p->block_size;
	PrefixNode *node = &p->nodes[block];
	uint64_t	next = 0;
	int			same;

	ALWAYS(block > 0 && block < p->n_blocks);
	ALWAYS(n > 0 && n <= p->block_size);
	if (full ? prefix_find(p, chain, tokens, &next) != 0 : prefix_find_part(p, chain, tokens, n, &same) !=
		0 && same == n)
		return next;
	prefix_drop(p, block);
	node->parent = chain;
	node->n = n;
	node->step = pending ? p->step + 1 : 0;
	node->chain = 0;
	memcpy(p->tokens + (size_t) block * (size_t) p->block_size, tokens, (size_t) n * sizeof(int32_t));
	if (full)
	{
		node->chain = p->next_chain;
		p->next_chain += 2;
		link_node(p, WHOLE, slot_of(p, chain, tokens, n), block);
	}
	link_node(p, BEGIN, slot_of(p, chain, tokens, 1), block);
	p->n_known++;
	return node->chain;
}

void
prefix_drop(Prefix *p, int32_t block)
{
	PrefixNode *n = &p->nodes[block];

	ALWAYS(block > 0 && block < p->n_blocks);
	if (n->n == 0)
		return;
	ASSERT(p->n_known > 0);
	if (n->n == p->block_size)
		unlink_node(p, WHOLE, block);
	unlink_node(p, BEGIN, block);
	n->n = 0;
	p->n_known--;
}

void
prefix_clear(Prefix *p)
{
	for (int32_t b = 1; b < p->n_blocks; b++)
		prefix_drop(p, b);
}

/* ---- integrity ---- */

/* Check one list: each of its blocks is known, and belongs there. */
static bool
check_list(const Prefix *p, PrefixTable t, uint32_t slot, int *n, Err *e)
{
	int32_t		prev = 0;

	for (int32_t b = p->heads[t][slot]; b != 0; prev = b, b = p->nodes[b].next[t])
	{
		const PrefixNode *k;

		if (b < 0 || b >= p->n_blocks || ++*n >= p->n_blocks)
			return err_set(e, ERR_INTERNAL, "a list of known blocks leads to block %d of %d", b, p->n_blocks);
		k = &p->nodes[b];
		if (k->n <= 0 || k->n > p->block_size || k->prev[t] != prev || k->slot[t] != slot)
			return err_set(e, ERR_INTERNAL, "block %d of %d tokens is in the list of hash %u", b, k->n, slot);
		if (slot_of(p, k->parent, tokens_of(p, b), t == WHOLE ? p->block_size : 1) != slot)
			return err_set(e, ERR_INTERNAL, "block %d has another hash than its list, %u", b, slot);
		if (t == WHOLE && (k->n != p->block_size || k->chain == 0 || k->chain >= p->next_chain))
			return err_set(e, ERR_INTERNAL, "block %d of %d tokens is known as a full one", b, k->n);
		for (int32_t o = t == WHOLE ? k->next[t] : 0; o != 0; o = p->nodes[o].next[t])
			if (p->nodes[o].parent == k->parent &&
				memcmp(tokens_of(p, o), tokens_of(p, b), (size_t) p->block_size * sizeof(int32_t)) == 0)
				return err_set(e, ERR_INTERNAL, "blocks %d and %d are known for the same tokens", b, o);
	}
	return true;
}

bool
prefix_check(const Prefix *p, Err *e)
{
	int			listed[N_TABLES] = {0, 0};
	int			known = 0;
	int			full = 0;

	for (uint32_t slot = 0; slot <= p->mask; slot++)
		for (int t = 0; t < N_TABLES; t++)
			if (!check_list(p, (PrefixTable) t, slot, &listed[t], e))
				return false;
	for (int32_t b = 1; b < p->n_blocks; b++)
	{
		known += p->nodes[b].n > 0;
		full += p->nodes[b].n == p->block_size;
	}
	if (known != p->n_known || listed[BEGIN] != known || listed[WHOLE] != full)
		return err_set(e, ERR_INTERNAL, "%d blocks are known, %d of them full; %d counted, %d and %d listed",
					   known, full, p->n_known, listed[BEGIN], listed[WHOLE]);
	return true;
}
