/*
 * block_pool.h
 *	  The block pool of one model: blocks, reference counts, LRU free list, and the pages of
 *	  memory that blocks consist of.
 *
 * Blocks are numbers 0..n-1.  Block 0 is the null block: never handed out.  A
 * freed block goes to the tail of the free list, allocation takes the head, so
 * that blocks whose content may be of use again (prefix_index.h) live longest.
 *
 * Most often a block is one page.  With windows (kvpool_new_windows) it has `full` pages of
 * layers that see everything, and `window` pages of layers that see only the last positions.
 * A holder of a block holds its window's pages by references of their own, and gives them back earlier:
 * then they are *idle*, and taken when pages are short.  Free blocks keep their pages until
 * then, too; of both, those go first that have been of no use for longest.
 *
 * Alloc and free are O(1) for a page; single-threaded (step thread).
 */
#ifndef VLLM_CORE_KV_BLOCK_POOL_H
#define VLLM_CORE_KV_BLOCK_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct KvPool KvPool;

KvPool	   *kvpool_new(int n_blocks);	/* n_blocks >= 2 */
/* Blocks of full + window pages each, of n_pages (and the null page 0). */
KvPool	   *kvpool_new_windows(int n_blocks, int n_pages, int full, int window);
void		kvpool_free(KvPool *p);
int			kvpool_total(const KvPool *p);	/* usable blocks: n_blocks - 1 */
int			kvpool_available(const KvPool *p);
/* n blocks with ref count 1, or none at all (false). */
bool		kvpool_alloc(KvPool *p, int n, int32_t *out);
void		kvpool_ref(KvPool *p, int32_t block);
void		kvpool_unref(KvPool *p, int32_t block);
/*
 * Drops a reference; a block without references goes to the head of the free list, as its content is of no
 * use.
 */
void		kvpool_unref_first(KvPool *p, int32_t block);
int			kvpool_refs(const KvPool *p, int32_t block);

/* ---- pages ---- */
/* Pages that have been handed out, now or before: those that memory is behind; begin to count anew. */
int			kvpool_touched(const KvPool *p);
void		kvpool_forget_touched(KvPool *p);
/* Pages of memory in all, and how many can be had. */
int			kvpool_pages(const KvPool *p);
int			kvpool_pages_available(const KvPool *p);
int			kvpool_full(const KvPool *p);	/* of a block: 1, */
int			kvpool_window(const KvPool *p);	/* and 0 without windows */
/*
 * References to a block's window: kvpool_alloc() gives one.  The window must be there; its content is, until
 * the last reference is gone and somebody else needs the pages.
 */
void		kvpool_window_ref(KvPool *p, int32_t block);
void		kvpool_window_unref(KvPool *p, int32_t block);
bool		kvpool_has_window(const KvPool *p, int32_t block);
int			kvpool_window_refs(const KvPool *p, int32_t block);
/* [n_blocks][full + window] the pages of each block, 0 = none; NULL: a block is the page of its number. */
const int32_t *kvpool_map(const KvPool *p);
/*
 * fn(ctx, block) when a free block's pages are taken, and so its content is lost, without its being handed
 * out.
 */
void		kvpool_on_lost(KvPool *p, void (*fn) (void *ctx, int32_t block), void *ctx);

/* Free list links, counts, refs and pages agree; *e says what is broken. */
bool		kvpool_check(const KvPool *p, Err *e);

#endif
