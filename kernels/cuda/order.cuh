/*
 * order.cuh
 *	  Numbers as integer keys with the same order, for choices by warps and blocks.
 *
 * Integers can be added and compared in any order with the same result, so a choice by keys depends only
 * on the numbers.
 */
#ifndef VLLM_KERNELS_CUDA_ORDER_CUH
#define VLLM_KERNELS_CUDA_ORDER_CUH

#include "cuda/common.cuh"

/* larger numbers have larger keys; -0 equals 0; NaN comes before all numbers; no number has the key 0 */
static __device__ __forceinline__ unsigned
key_of(float v)
{
	unsigned	u = __float_as_uint(v + 0.0f);

	if (v != v)
		return 1;
	return u >> 31 != 0 ? ~u : u | 0x80000000u;
}

static __device__ __forceinline__ float
of_key(unsigned key)
{
	return __uint_as_float(key >> 31 != 0 ? key & 0x7fffffffu : ~key);
}

/* Of equal scores the first id is better. */
template <typename S> static __device__ __forceinline__ bool
is_better(S score, int id, S than, int other)
{
	return score > than || (score == than && id < other);
}

/* the better of both, to *best and *best_id */
template <typename S> static __device__ __forceinline__ void
take_better(S *best, int *best_id, S score, int id)
{
	if (is_better(score, id, *best, *best_id))
	{
		*best = score;
		*best_id = id;
	}
}

#endif
