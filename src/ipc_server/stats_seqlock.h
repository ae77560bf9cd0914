/*
 * statlock.h
 *	  The sequence lock of the arena's statistics, for who writes them: one thread at a time.
 */
#ifndef VLLM_TALK_STATLOCK_H
#define VLLM_TALK_STATLOCK_H

#include "wire/wire.h"

void		statlock_take(WireStats *s);
void		statlock_release(WireStats *s);

#endif
