/*
 * rng.h
 *	  Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011).
 *
 * A number is a pure function of (key, counter), so a draw depends on nothing but the request's seed,
 * the position of the token and the token id: no state to save at preemption, none shared between
 * requests of a batch or threads.
 */
#ifndef VLLM_BASE_RNG_H
#define VLLM_BASE_RNG_H

#include <stdint.h>

void		rng_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4]);
/* The same for four consecutive counters: ctr, and ctr with ctr[0] + 1, + 2, + 3 */
void		rng_philox4(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4][4]);
/* 64 unpredictable bits from the kernel, for requests without a seed */
uint64_t	rng_seed(void);

#endif
