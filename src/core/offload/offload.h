/*
 * offload.h
 *	  Move blocks of the pool to the offload tier (tier.h), and back.
 *
 *	out		a full block that could still be found is about to be overwritten, or the engine or the model
 *			is suspended: its bytes are put into the tier.  That includes blocks of preempted requests.
 *	back	a request is about to be admitted; the pool has no further block of its tokens, but the tier
 *			has: the blocks are copied to free blocks of the pool, where the prefix index then finds them
 *			(prefix_index.h), if that takes less time than computing them.  Meanwhile another thread reads
 *			blocks that are in files, and other requests pass the waiting one.
 *
 * The key of a block is a digest of 256 bits over the previous block's key and the block's tokens.  The
 * first key covers everything else that decides the content: the model's weights, kernels, the KV
 * cache's type, scales and sizes, the owner, its salt and adapter.  Tokens are not stored with the
 * bytes, and not compared: a collision of digests is practically impossible, and can't be constructed,
 * as the digest has a secret key.
 *
 * A request does not wait if, by the measurements so far, computing would be faster, nor longer than
 * computing takes.  Each step copies only a limited number of bytes (OffloadSetup.step_bytes) in each
 * direction.
 *
 * Owner: the step thread.
 */
#ifndef VLLM_CORE_OFFLOAD_OFFLOAD_H
#define VLLM_CORE_OFFLOAD_OFFLOAD_H

#include "core/core_internal.h"
#include "core/offload/tier.h"
#include "core/offload/block_copy.h"

typedef struct OffloadSetup
{
	KvTier	   *tier;
	const unsigned char *id;	/* [KVTIER_KEY] hash of what decides the content of blocks */
	KvPool	   *pool;			/* must not have windows */
	Prefix	   *prefix;
	const Dev  *dev;			/* device of the blocks; NULL = CPUs */
	const Kernels *kernels;		/* kernels that copy blocks, on these threads */
	KPool	   *threads;
	const KvView *areas[OFFLOAD_AREAS];	/* KV areas; NULL = none */
	int			block_size;
	size_t		step_bytes;		/* limit of bytes per step; 0 = OFFLOAD_STEP_BYTES */
	bool		always;			/* tests: use the tier, whatever it costs */
} OffloadSetup;

#define OFFLOAD_POLL_US	300		/* how often to check whether blocks have been read */
#define OFFLOAD_STEP_BYTES	((size_t) 64 << 20)

typedef struct OffloadStats
{
	int64_t		queries;		/* tokens that requests lacked when they were admitted */
	int64_t		hits;			/* tokens of these that came from the tier */
	int64_t		out_bytes;		/* bytes put into the tier */
	int64_t		back_bytes;
	int64_t		dropped_bytes;	/* bytes not put, because the step's limit was reached or the tier was full */
	int64_t		late;			/* requests that waited in vain, and were computed */
} OffloadStats;

/* Returns NULL with *e set if a block is larger than the tier. */
Offload    *offload_open(const OffloadSetup *setup, Err *e);
/* On a device (block_copy.h): a step is about to copy and to compute. */
void		offload_fence(Offload *o);
/* On a device: the step is running; returns false if there is nothing to copy now. */
bool		offload_work(Offload *o);
/* On a device: the step is complete; finish all copies.  Also called if the step has computed nothing. */
void		offload_settle(Offload *o);
/* No request may be scheduled any more. */
void		offload_close(Offload *o);

/* ---- keys ---- */
/* Set the keys of r, a new request, and of its sequences: see prefix_cache_attach(). */
void		offload_begin(const Offload *o, Req *r);
/* Compute the key after block_size more tokens. */
void		offload_next(const Offload *o, OffloadKey *key, const int32_t *tokens);
/* Note that the block has the content of this key. */
void		offload_note(Offload *o, int32_t block, const OffloadKey *key);
const OffloadKey *offload_key(const Offload *o, int32_t block);

/* ---- out ---- */
/* Put a block into the tier: its memory is about to be overwritten. */
void		offload_out(Offload *o, int32_t block);
/* Put all known blocks into the tier, without the step's limit, until the deadline (clock_us()). */
void		offload_all(Offload *o, int64_t deadline_us);
/*
 * Remove this model's entries from the tier's memory once they have files, which are written until the
 * deadline.  Entries that could not be written by then are removed when they are; or at once if files
 * can't be written now.  Any thread, while the core computes nothing.
 */
void		offload_shed(Offload *o, int64_t deadline_us);
/*
 * Like offload_all(), for blocks noted since they were last put, and at most so many bytes; returns
 * false if there were none.
 */
bool		offload_some(Offload *o, size_t most);
/* Called when there is nothing to compute: put new blocks into files, a part in each call. */
void		offload_idle(Offload *o);
/* Return in how many microseconds to call offload_idle() again; 0 = not at all, everything is written. */
int64_t		offload_idle_us(const Offload *o);
/* Stop using the tier: blocks computed from now on would have other keys.  Call it while no step runs. */
void		offload_stop(Offload *o);
/* Cancel all loads; requests may start them again. */
void		offload_let_go(Offload *o);
/* Drop the model's entries in the tier. */
void		offload_reset(Offload *o);

/* ---- back ---- */
typedef enum OffloadAnswer
{
	OFFLOAD_NOTHING,			/* compute the rest */
	OFFLOAD_BACK,				/* more blocks are in the pool now: look them up again */
	OFFLOAD_LATER				/* more blocks are being loaded: wait */
} OffloadAnswer;

/* Begin a new plan. */
void		offload_step(Offload *o);
/*
 * Load blocks for r, which waits and is about to be admitted, and has `hit` in the pool.  May make the
 * copies of the plan at once.
 */
OffloadAnswer offload_back(Offload *o, PrefixCache *s, Req *r, const PrefixHit *hit, const Cost *cost,
						   Plan *plan, int64_t now_us);
/* r has been admitted or removed. */
void		offload_end(Offload *o, Req *r);
/* Return the number of requests that wait for blocks. */
int			offload_n_waiting(const Offload *o);

const OffloadStats *offload_stats(const Offload *o);
/* Get the bytes of this model's entries in the tier. */
void		offload_bytes(const Offload *o, uint64_t *memory, uint64_t *files);
size_t		offload_memory(const Offload *o);

#endif
