/*
 * kvpool.h
 *	  The block pool of one model: fixed blocks, reference counts, LRU free list.
 *
 * Blocks are numbers 0..n-1.  Block 0 is the null block: never handed out.  A
 * freed block goes to the tail of the free list, allocation takes the head, so
 * that blocks whose content may be of use again (prefix.h) live longest.
 * Alloc and free are O(1); single-threaded (step thread).
 */
#ifndef VLLM_ENGINE_KVPOOL_H
#define VLLM_ENGINE_KVPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct KvPool KvPool;

KvPool	   *kvpool_new(int n_blocks);	/* n_blocks >= 2 */
void		kvpool_free(KvPool *p);
int			kvpool_total(const KvPool *p);	/* usable blocks: n_blocks - 1 */
int			kvpool_available(const KvPool *p);
/* n blocks with ref count 1, or none at all (false). */
bool		kvpool_alloc(KvPool *p, int n, int32_t *out);
void		kvpool_ref(KvPool *p, int32_t block);
void		kvpool_unref(KvPool *p, int32_t block);
/* ... and if that was the last, it is reused before all that are free: its content is of no use. */
void		kvpool_unref_first(KvPool *p, int32_t block);
int			kvpool_refs(const KvPool *p, int32_t block);
/* Free list links, counts and refs agree; *e says what is broken. */
bool		kvpool_check(const KvPool *p, Err *e);

#endif
