/*
 * statlock.h
 *	  The sequence lock of the arena's statistics, for who writes them: one thread at a time.
 *
 * seq odd (release fence), data, seq even (release); partner: the readers in src/pg, which
 * retry when seq was odd or changed.
 */
#ifndef VLLM_TALK_STATLOCK_H
#define VLLM_TALK_STATLOCK_H

#include "wire/wire.h"

static inline void
statlock_take(WireStats *s)
{
	/* a predecessor may have died in between */
	uint32_t	seq = atomic_load_explicit(&s->seq, memory_order_relaxed) | 1;

	atomic_store_explicit(&s->seq, seq, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

static inline void
statlock_release(WireStats *s)
{
	atomic_store_explicit(&s->seq, atomic_load_explicit(&s->seq, memory_order_relaxed) + 1, memory_order_release);
}

#endif
