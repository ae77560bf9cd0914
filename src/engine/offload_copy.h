/*
 * offload_copy.h
 *	  Blocks between where K and V are and the store behind the pool.
 *
 * Without a device a copy is made when it is asked for.  On a device it goes through pinned memory, beside the
 * ops: up to OFFCOPY_SLOTS blocks are on their way, and offcopy_settle() is due before anything reads or
 * overwrites what they touch: before blocks are copied, and before a step.
 *
 * Owner: the step thread.
 */
#ifndef VLLM_ENGINE_OFFLOAD_COPY_H
#define VLLM_ENGINE_OFFLOAD_COPY_H

#include "engine/core_int.h"
#include "engine/kvtier.h"

#define OFFLOAD_AREAS 2			/* the model's, and what drafts has */
#define OFFCOPY_SLOTS 16

typedef struct OffCopy OffCopy;

/* NULL with *e set: no pinned memory.  What areas point to stays; a NULL is no area. */
OffCopy    *offcopy_new(const Dev *dev, KvTier *tier, const KvView *const areas[OFFLOAD_AREAS], Err *e);
void		offcopy_free(OffCopy *o);
/* What all areas have of a block. */
size_t		offcopy_bytes(const OffCopy *o);
/* A block's bytes into h, which is kept then (kvtier_keep). */
void		offcopy_out(OffCopy *o, int32_t block, KvHold *h);
/* A block's bytes, which are read before this returns. */
void		offcopy_back(OffCopy *o, int32_t block, const uint8_t *bytes);
/* All that was asked for has been done. */
void		offcopy_settle(OffCopy *o);

#endif
