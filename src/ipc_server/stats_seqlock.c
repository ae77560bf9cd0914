/*
 * stats_seqlock.c
 *	  The writer's side of the sequence lock of the arena's statistics.
 *
 * The writer makes seq odd (release fence), writes the data, and makes seq even (release).  Partner: the
 * readers in src/pg, which retry if seq was odd or has changed.
 *
 * Tested by tests/unit/remote/test_remote_server.c.
 */
#include "ipc_server/stats_seqlock.h"

void
statlock_take(WireStats *s)
{
	/*
	 *  1: a previous writer process may have died while seq was odd
	 */
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
