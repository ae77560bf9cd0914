/*
 * block_copy.h
 *	  Copy blocks between the KV areas and the offload tier.
 *
 * Without a device a copy is made at once.  On a device it goes through pinned memory, in parallel to
 * the ops.  A call waits only if it needs a slot of that memory while all slots are in use:
 *
 *	offcopy_fence()		before ops read or overwrite the copied blocks (before blocks are copied, and before
 *						a step): the ops wait on the device for the copies
 *	offcopy_work()		while the step runs: move data that has arrived to the tier, a piece at a time
 *	offcopy_settle()	after the step: move the rest.  Then blocks that went out can be found in the tier,
 *						and no copy is in progress
 *
 * Owner: the step thread.
 */
#ifndef VLLM_CORE_OFFLOAD_BLOCK_COPY_H
#define VLLM_CORE_OFFLOAD_BLOCK_COPY_H

#include "core/core_internal.h"
#include "core/offload/tier.h"

#define OFFLOAD_AREAS 2			/* the model's KV area, and the drafter's */
#define OFFCOPY_SLOTS 16			/* least number of slots */
#define OFFCOPY_MOST 128			/* greatest number of slots */

typedef struct OffCopy OffCopy;

/*
 * Make slots for as many blocks as fit in `bytes`, within those bounds.  Returns NULL with *e set if
 * there is no pinned memory.  The KvViews must outlive the OffCopy; NULL = no such area.
 */
OffCopy    *offcopy_new(const Dev *dev, KvTier *tier, const KvView *const areas[OFFLOAD_AREAS], size_t bytes,
						Err *e);
void		offcopy_free(OffCopy *o);
/* Return the bytes of a block in all areas. */
size_t		offcopy_bytes(const OffCopy *o);
/* Return the bytes of pinned memory. */
size_t		offcopy_memory(const OffCopy *o);
/* Copy a block's bytes to h, which is then kept (kvtier_keep). */
void		offcopy_out(OffCopy *o, int32_t block, KvHold *h);
/* Copy bytes to a block; they are read before the call returns. */
void		offcopy_back(OffCopy *o, int32_t block, const uint8_t *bytes);
/* Make ops that are queued from now on wait for the copies so far. */
void		offcopy_fence(OffCopy *o);
/*
 * While a step runs: move a piece of the data that has arrived.  Returns false if there is nothing to do
 * now.
 */
bool		offcopy_work(OffCopy *o);
/* Finish all copies. */
void		offcopy_settle(OffCopy *o);

#endif
