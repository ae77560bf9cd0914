/*
 * offload.h
 *	  What a pool's blocks held when they are needed for something else: the way to the store
 *	  behind the pool (tier.h), and back.
 *
 *	out		a full block that could still be found is about to be overwritten, or the engine, or the model,
 *			goes to rest: its bytes are put into the store.  Blocks of preempted requests are among them.
 *	back	a request is about to be admitted, and the pool has no further block of its tokens, but the store
 *			has: they are copied into free blocks, which are then known like any others (prefix_index.h), if
 *			that takes less time than computing them.  What is in files is read on another thread meanwhile,
 *			and the request waits aside.
 *
 * The key of a block is a digest of 256 bits over the one before it and its tokens; the first stands for all
 * that decides what is in a block: the model's weights, kernels, the KV cache's type, scales and sizes,
 * the owner, its salt and adapter.  Tokens are not kept with the bytes, and not compared: that two have one
 * digest is out of the question, as the digest has a secret key, too.
 *
 * A request never waits when computing would have been sooner by what has been measured, nor longer than
 * computing takes.  So much is copied in a step and no more (OffloadSetup.step_bytes), either way.
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
	const unsigned char *id;	/* [KVTIER_KEY]: decides what is in blocks */
	KvPool	   *pool;			/* without windows */
	Prefix	   *prefix;
	const Dev  *dev;			/* where they are; NULL = CPUs */
	const Kernels *kernels;		/* what copies blocks, with these threads */
	KPool	   *threads;
	const KvView *areas[OFFLOAD_AREAS];	/* K and V; NULL = none */
	int			block_size;
	size_t		step_bytes;		/* 0 = OFFLOAD_STEP_BYTES */
	bool		always;			/* tests: whatever it costs */
} OffloadSetup;

#define OFFLOAD_POLL_US	300		/* so often it is looked whether something has come */
#define OFFLOAD_STEP_BYTES	((size_t) 64 << 20)

typedef struct OffloadStats
{
	int64_t		queries;		/* tokens that requests lacked when they were admitted, */
	int64_t		hits;			/* tokens that requests lacked at admission and got from the tier */
	int64_t		out_bytes;		/* put into the store */
	int64_t		back_bytes;
	int64_t		dropped_bytes;	/* not put, as the step had had its share, or the store its fill */
	int64_t		late;			/* requests that waited, and were computed nevertheless */
} OffloadStats;

/* NULL with *e set: a block is larger than the store. */
Offload    *offload_open(const OffloadSetup *setup, Err *e);
/* Of copies on a device (block_copy.h): a step is about to copy and to compute, ... */
void		offload_fence(Offload *o);
/* Of copies on a device: the step is running (false: there is nothing to copy now). */
bool		offload_work(Offload *o);
/*
 * Of copies on a device: the step is complete and all its copies are done.  The step may have computed
 * nothing.
 */
void		offload_settle(Offload *o);
/* Nobody is scheduled any more. */
void		offload_close(Offload *o);

/* ---- keys ---- */
/* r and its sequences are new: prefix_cache_attach(). */
void		offload_begin(const Offload *o, Req *r);
/* The key behind block_size more tokens. */
void		offload_next(const Offload *o, OffloadKey *key, const int32_t *tokens);
/* Block holds what this key stands for. */
void		offload_note(Offload *o, int32_t block, const OffloadKey *key);
const OffloadKey *offload_key(const Offload *o, int32_t block);

/* ---- out ---- */
/* The block's memory is about to hold something else; its content is still there. */
void		offload_out(Offload *o, int32_t block);
/* All that is known goes to the store, whatever a step may have, until then (clock_us()). */
void		offload_all(Offload *o, int64_t deadline_us);
/*
 * Of all that the store has of this model nothing stays in memory, but what could not be written by then:
 * that goes as soon as it is, or at once if nothing can be written now.  Any thread, while nothing is
 * computed.
 */
void		offload_shed(Offload *o, int64_t deadline_us);
/* Like it, of what became known since, and at most so many bytes; false: there was nothing. */
bool		offload_some(Offload *o, size_t most);
/* There is nothing to compute: what became known goes to files, a part in each call. */
void		offload_idle(Offload *o);
/* When should that be done again?  In so many microseconds; 0 = never, all of it is there. */
int64_t		offload_idle_us(const Offload *o);
/*
 * Nothing goes out any more, and nothing comes back: what is computed from now on has another name.  While no
 * step is made.
 */
void		offload_stop(Offload *o);
/* Nothing is on its way back any more; requests may ask again. */
void		offload_let_go(Offload *o);
/* Forget what the store has of the model. */
void		offload_reset(Offload *o);

/* ---- back ---- */
typedef enum OffloadAnswer
{
	OFFLOAD_NOTHING,			/* the rest is to be computed */
	OFFLOAD_BACK,				/* more is known now: look again */
	OFFLOAD_LATER				/* more will be */
} OffloadAnswer;

/* A step is planned. */
void		offload_step(Offload *o);
/* r, which waits and is about to be admitted, finds `hit`.  Copies of the plan may be made at once. */
OffloadAnswer offload_back(Offload *o, PrefixCache *s, Req *r, const PrefixHit *hit, const Cost *cost,
						   Plan *plan, int64_t now_us);
/* r has been admitted, or is gone. */
void		offload_end(Offload *o, Req *r);
/* Requests that wait for something to come back. */
int			offload_n_waiting(const Offload *o);

const OffloadStats *offload_stats(const Offload *o);
/* What the store has of this model. */
void		offload_bytes(const Offload *o, uint64_t *memory, uint64_t *files);
size_t		offload_memory(const Offload *o);

#endif
