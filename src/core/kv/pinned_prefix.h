/*
 * pinned_prefix.h
 *	  Prompts that stay computed: blocks that are kept for whoever begins with the same tokens.
 *
 * A request with GenParams.pin = 1 leaves references to its prompt's full blocks here when it is done, as the
 * prefix cache knows them; one with -1 takes those of the same tokens away.  A request with another owner,
 * salt or adapter has another root: it neither finds nor unpins them.
 *
 * Pins have at most half of the pool; what several have in common counts once.  A request that needs more
 * than the rest, when it runs alone, gets theirs, the oldest first: so every request that fits the pool can
 * be computed.
 *
 * Owner: the step thread.
 */
#ifndef VLLM_CORE_KV_PINNED_PREFIX_H
#define VLLM_CORE_KV_PINNED_PREFIX_H

#include "core/core_internal.h"

typedef struct PinnedPrefixes PinnedPrefixes;

/* prefix NULL: there won't be any */
PinnedPrefixes *pins_new(KvPool *pool, Prefix *prefix, int block_size, int window);
void		pins_free(PinnedPrefixes *p);
/*
 * May such a request, whose root is known, be computed, and then be pinned, or unpinned?  53200 if there is
 * no room.
 */
bool		pins_may(const PinnedPrefixes *p, const Req *r, Err *e);
/* r, whose blocks are known, is about to give them back.  53200: others have been pinned since pins_may(). */
bool		pins_of(PinnedPrefixes *p, const Req *r, Err *e);
/* Somebody needs the memory, or nobody will find it: give up the oldest (false: there is none), or all. */
bool		pins_yield(PinnedPrefixes *p);
void		pins_clear(PinnedPrefixes *p);
/* What is pinned, the oldest first; texts are the pin's. */
void		pins_each(const PinnedPrefixes *p, int64_t page_bytes,
					  void (*tell) (void *ctx, const PinInfo *i), void *ctx);
bool		pins_drop(PinnedPrefixes *p, uint64_t id);	/* false: there is none of this number */
/* What all of them hold, each block once. */
int64_t		pins_tokens(const PinnedPrefixes *p);
int			pins_pages(const PinnedPrefixes *p);
/* So much memory for each block of the pool. */
size_t		pins_block_bytes(void);
/* Add their references to counts by block. */
void		pins_count(const PinnedPrefixes *p, int *used, int *windows);

#endif
