/*
 * stats_seqlock.h
 *	  The sequence lock of the arena's statistics, for who writes them: one thread at a time.
 */
#ifndef VLLM_IPC_SERVER_STATS_SEQLOCK_H
#define VLLM_IPC_SERVER_STATS_SEQLOCK_H

#include "ipc/wire.h"

void		statlock_take(WireStats *s);
void		statlock_release(WireStats *s);

#endif
