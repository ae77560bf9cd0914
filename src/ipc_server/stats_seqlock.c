/*
 * stats_seqlock.c
 *	  The sequence lock of the arena's statistics, for who writes them.
 *
 * seq odd (release fence), data, seq even (release); partner: the readers in src/pg, which
 * retry when seq was odd or changed.
 *
 * Tested by tests/unit/remote/test_remote_server.c.
 */
#include "ipc_server/stats_seqlock.h"

void
statlock_take(WireStats *s)
{
	/* a predecessor may have died in between */
	uint32_t	seq = atomic_load_explicit(&s->seq, memory_order_relaxed) | 1;

	atomic_store_explicit(&s->seq, seq, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

void
statlock_release(WireStats *s)
{
	atomic_store_explicit(&s->seq, atomic_load_explicit(&s->seq, memory_order_relaxed) + 1,
						  memory_order_release);
}
