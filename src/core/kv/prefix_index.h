/*
 * prefix_index.h
 *	  What the blocks of a pool hold, so that requests which begin alike share them.
 *
 * A block's content is its tokens and all that is before them.  The latter is a number, the
 * chain: a root (one for each owner and salt; who has another finds nothing), or what prefix_add()
 * gave for the block before.  Numbers are never used twice, so a block whose predecessor has
 * been reused is just not found any more.  Tokens are compared, never only hashed.
 *
 * A block is known until its memory is handed out again (prefix_drop), whether it is in
 * use meanwhile or on the pool's free list.  Blocks that are not full are known, too: nobody
 * shares them, but their K and V can be copied.  So can the beginning of a full one.
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

/* Blocks 1 .. n_blocks - 1; 0 stands for none. */
Prefix	   *prefix_new(int n_blocks, int block_size);
void		prefix_free(Prefix *p);

/* The chain of requests of this owner (0: everybody) with this salt of n bytes. */
uint64_t	prefix_root(const Prefix *p, uint64_t owner, const char *salt, size_t n);

/*
 * A step is planned.  What is added as `pending` will be there when the step has been computed: it
 * can be shared at once, as a step writes K and V before it reads them, but not copied before
 * the next step.
 */
void		prefix_next_step(Prefix *p);

/* Block holds n tokens behind chain, 1 .. block_size.  Returns the chain behind them (n = block_size).
 * Nothing is noted if another block has the same. */
uint64_t	prefix_add(Prefix *p, uint64_t chain, int32_t block, const int32_t *tokens, int n, bool pending);

/* The block that holds just these block_size tokens behind chain, or 0; *next: the chain behind them. */
int32_t		prefix_find(const Prefix *p, uint64_t chain, const int32_t *tokens, uint64_t *next);

/* The block behind chain that begins with most of n tokens: *same of them, at least 1; or 0.  Of many
 * candidates the latest few are looked at. */
int32_t		prefix_find_part(const Prefix *p, uint64_t chain, const int32_t *tokens, int n, int *same);

bool		prefix_has(const Prefix *p, int32_t block);
/* Is the block full and computed, so that a lookup can find it as a whole? */
bool		prefix_is_full(const Prefix *p, int32_t block);
/* The block's memory is about to hold something else. */
void		prefix_drop(Prefix *p, int32_t block);
/* Forget all. */
void		prefix_clear(Prefix *p);
/* Each known block is in the lists of its hashes, no two have the same content; *e says what is broken. */
bool		prefix_check(const Prefix *p, Err *e);

#endif
