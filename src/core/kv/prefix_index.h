/*
 * prefix_index.h
 *	  The content of a pool's blocks, so that requests with a common prefix can share them.
 *
 * A block's content is its tokens and all tokens before them.  The latter are represented by a number,
 * the chain: a root (one per owner and salt, so requests with others find nothing), or the number that
 * prefix_add() returned for the preceding block.  Numbers are never used twice, so a block whose
 * predecessor has been reused is simply not found any more.  Tokens are compared, not only hashed.
 *
 * A block is known until its memory is allocated again (prefix_drop), whether it is in use meanwhile or
 * on the pool's free list.  Blocks that are not full are known, too: requests can't share them, but can
 * copy their K and V.  They can also copy the beginning of a full block.
 *
 * Owner: the step thread.  All operations are O(block_size) expected.
 */
#ifndef VLLM_CORE_KV_PREFIX_INDEX_H
#define VLLM_CORE_KV_PREFIX_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct Prefix Prefix;

/* Make an index of blocks 1 .. n_blocks - 1; 0 means none. */
Prefix	   *prefix_new(int n_blocks, int block_size);
void		prefix_free(Prefix *p);

/* Return the root of requests of this owner (0 = shared by all) with this salt of n bytes. */
uint64_t	prefix_root(const Prefix *p, uint64_t owner, const char *salt, size_t n);

/*
 * Begin a step.  Blocks added as `pending` have their content when the step has been computed: requests
 * can share them at once, since a step writes K and V before it reads them, but can copy them only in
 * the next step.
 */
void		prefix_next_step(Prefix *p);

/*
 * Note that the block holds n tokens after chain, 1 .. block_size.  Returns the chain after them (if n =
 * block_size).  If another block has the same content, nothing is noted.
 */
uint64_t	prefix_add(Prefix *p, uint64_t chain, int32_t block, const int32_t *tokens, int n, bool pending);

/* Return the block with exactly these block_size tokens after chain, or 0; *next: the chain after them. */
int32_t		prefix_find(const Prefix *p, uint64_t chain, const int32_t *tokens, uint64_t *next);

/*
 * Return the block after chain that begins with most of the n tokens: *same of them, at least 1; or 0.
 * Only the latest few candidates are compared.
 */
int32_t		prefix_find_part(const Prefix *p, uint64_t chain, const int32_t *tokens, int n, int *same);

bool		prefix_has(const Prefix *p, int32_t block);
/* Return true if the block is full and computed, so that a lookup can find it as a whole. */
bool		prefix_is_full(const Prefix *p, int32_t block);
/* The block's memory is about to be overwritten. */
void		prefix_drop(Prefix *p, int32_t block);
/* Forget all blocks. */
void		prefix_clear(Prefix *p);
/*
 * Check that each known block is in the lists of its hashes, and no two have the same content; *e says
 * what is wrong.
 */
bool		prefix_check(const Prefix *p, Err *e);

#endif
