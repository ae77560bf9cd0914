/*
 * block_pool.h
 *	  The block pool of one model: blocks, reference counts, LRU free list, and the pages of memory that
 *	  blocks consist of.
 *
 * Blocks are numbers 0..n-1.  Block 0 is the null block, which is never allocated.  A freed block goes
 * to the tail of the free list, and allocation takes the head, so that blocks whose content may be
 * reused (prefix_index.h) live longest.
 *
 * Usually a block is one page.  With windows (kvpool_new_windows) a block has `full` pages for layers
 * that see all positions, and `window` pages for layers that see only the last ones.  A holder of a
 * block has separate references to the window's pages, and drops these earlier.  A window without
 * references is *idle*: its pages are taken when pages are short.  Free blocks keep their pages until
 * then, too; of both, those that have been unused for longest lose theirs first.
 *
 * Alloc and free are O(1) per page; single-threaded (step thread).
 */
#ifndef VLLM_CORE_KV_BLOCK_POOL_H
#define VLLM_CORE_KV_BLOCK_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct KvPool KvPool;

KvPool	   *kvpool_new(int n_blocks);	/* n_blocks >= 2 */
/* Make a pool of blocks with full + window pages each, and n_pages pages besides the null page 0. */
KvPool	   *kvpool_new_windows(int n_blocks, int n_pages, int full, int window);
void		kvpool_free(KvPool *p);
int			kvpool_total(const KvPool *p);	/* usable blocks: n_blocks - 1 */
int			kvpool_available(const KvPool *p);
/* Allocate n blocks with ref count 1, or none at all (returns false). */
bool		kvpool_alloc(KvPool *p, int n, int32_t *out);
void		kvpool_ref(KvPool *p, int32_t block);
void		kvpool_unref(KvPool *p, int32_t block);
/*
 * Drop a reference; a block without references goes to the head of the free list, since its content
 * can't be reused.
 */
void		kvpool_unref_first(KvPool *p, int32_t block);
int			kvpool_refs(const KvPool *p, int32_t block);

/* ---- pages ---- */
/*
 * kvpool_touched() counts the pages that have been allocated since the last kvpool_forget_touched():
 * only those take memory.
 */
int			kvpool_touched(const KvPool *p);
void		kvpool_forget_touched(KvPool *p);
/* All pages, and those that are available. */
int			kvpool_pages(const KvPool *p);
int			kvpool_pages_available(const KvPool *p);
int			kvpool_full(const KvPool *p);	/* full pages of a block; 1 without windows */
int			kvpool_window(const KvPool *p);	/* window pages of a block; 0 without windows */
/*
 * References to a block's window; kvpool_alloc() gives one.  The window must exist.  Its content remains
 * until the last reference is dropped and its pages are needed.
 */
void		kvpool_window_ref(KvPool *p, int32_t block);
void		kvpool_window_unref(KvPool *p, int32_t block);
bool		kvpool_has_window(const KvPool *p, int32_t block);
int			kvpool_window_refs(const KvPool *p, int32_t block);
/* [n_blocks][full + window] the pages of each block, 0 = none; NULL = block i is page i. */
const int32_t *kvpool_map(const KvPool *p);
/*
 * Set a function that is called when the pages of a free block are taken, so its content is lost, though
 * the block itself is not allocated.
 */
void		kvpool_on_lost(KvPool *p, void (*fn) (void *ctx, int32_t block), void *ctx);

/* Check that free list links, counts, refs and pages agree; *e says what is wrong. */
bool		kvpool_check(const KvPool *p, Err *e);

#endif
