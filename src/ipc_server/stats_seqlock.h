/*
 * stats_seqlock.h
 *	  The writer's side of the sequence lock of the arena's statistics; one thread at a time may hold it.
 */
#ifndef VLLM_IPC_SERVER_STATS_SEQLOCK_H
#define VLLM_IPC_SERVER_STATS_SEQLOCK_H

#include "ipc/wire.h"

void		statlock_take(WireStats *s);
void		statlock_release(WireStats *s);

#endif
