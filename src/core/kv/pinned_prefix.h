/*
 * pinned_prefix.h
 *	  Pinned prefixes: prompts whose KV blocks are kept for later requests with the same prefix.
 *
 * When a request with GenParams.pin = 1 ends, references to its prompt's full blocks are added here, as
 * the prefix index has them; one with -1 drops those of the same tokens.  A request with another owner,
 * salt or adapter has another root: it neither finds nor unpins them.
 *
 * Pins hold at most half of the pool; blocks that several pins share count once.  If a request that runs
 * alone needs more than the rest, pins are dropped, the oldest first: so every request that fits the
 * pool can be computed.
 *
 * Owner: the step thread.
 */
#ifndef VLLM_CORE_KV_PINNED_PREFIX_H
#define VLLM_CORE_KV_PINNED_PREFIX_H

#include "core/core_internal.h"

typedef struct PinnedPrefixes PinnedPrefixes;

/* prefix NULL: prompts can't be pinned */
PinnedPrefixes *pins_new(KvPool *pool, Prefix *prefix, int block_size, int window);
void		pins_free(PinnedPrefixes *p);
/*
 * Check that a request, whose root is known, may be computed and then pin or unpin its prompt.  Fails
 * with ERR_NOMEM if there is no room.
 */
bool		pins_may(const PinnedPrefixes *p, const Req *r, Err *e);
/*
 * Pin or unpin r's prompt before r's blocks are released.  Fails with ERR_NOMEM if others have been
 * pinned since pins_may().
 */
bool		pins_of(PinnedPrefixes *p, const Req *r, Err *e);
/*
 * Drop the oldest pin because a request needs its memory (false: there is none); drop all pins because
 * their blocks can't be found any more.
 */
bool		pins_yield(PinnedPrefixes *p);
void		pins_clear(PinnedPrefixes *p);
/* Call emit() for each pin, the oldest first; the pin owns the texts. */
void		pins_each(const PinnedPrefixes *p, int64_t page_bytes,
					  void (*emit) (void *ctx, const PinInfo *i), void *ctx);
bool		pins_drop(PinnedPrefixes *p, uint64_t id);	/* false: unknown id */
/* Tokens and pages of all pins; shared blocks count once. */
int64_t		pins_tokens(const PinnedPrefixes *p);
int			pins_pages(const PinnedPrefixes *p);
/* Return the memory that pins need for each block of the pool. */
size_t		pins_block_bytes(void);
/* Add the pins' references to counts by block. */
void		pins_count(const PinnedPrefixes *p, int *used, int *windows);

#endif
