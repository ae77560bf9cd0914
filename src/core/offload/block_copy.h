/*
 * block_copy.h
 *	  Blocks between where K and V are and the store behind the pool.
 *
 * Without a device a copy is made when it is asked for.  On a device it goes through pinned memory, beside
 * the ops, and nobody waits but who needs a slot of that memory while all are under way:
 *
 *	offcopy_fence()		before ops read or overwrite what copies touch (before blocks are copied, before a
 *						step): they wait for them on the device
 *	offcopy_work()		while the step runs: what has come goes to the store, a piece at a time
 *	offcopy_settle()	behind the step: the rest.  From here on what went out is found, and nothing is under
 *						way
 *
 * Owner: the step thread.
 */
#ifndef VLLM_CORE_OFFLOAD_BLOCK_COPY_H
#define VLLM_CORE_OFFLOAD_BLOCK_COPY_H

#include "core/core_internal.h"
#include "core/offload/tier.h"

#define OFFLOAD_AREAS 2			/* the model's, and what drafts has */
#define OFFCOPY_SLOTS 16			/* blocks that are on their way, at least, */
#define OFFCOPY_MOST 128			/* most slots */

typedef struct OffCopy OffCopy;

/*
 * With slots for as many blocks as `bytes` has, within those bounds.  NULL with *e set: no pinned memory.
 * What areas point to stays; a NULL is no area.
 */
OffCopy    *offcopy_new(const Dev *dev, KvTier *tier, const KvView *const areas[OFFLOAD_AREAS], size_t bytes,
						Err *e);
void		offcopy_free(OffCopy *o);
/* What all areas have of a block. */
size_t		offcopy_bytes(const OffCopy *o);
/* Pinned memory. */
size_t		offcopy_memory(const OffCopy *o);
/* A block's bytes into h, which is kept then (kvtier_keep). */
void		offcopy_out(OffCopy *o, int32_t block, KvHold *h);
/* A block's bytes, which are read before this returns. */
void		offcopy_back(OffCopy *o, int32_t block, const uint8_t *bytes);
/* Ops that are asked for from now on happen behind the copies so far. */
void		offcopy_fence(OffCopy *o);
/* A step is on its way: a piece of what has come is moved.  false: there is nothing to do now. */
bool		offcopy_work(OffCopy *o);
/* All that was asked for has been done. */
void		offcopy_settle(OffCopy *o);

#endif
