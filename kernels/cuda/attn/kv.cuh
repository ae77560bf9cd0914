/*
 * kv.cuh
 *	  Addresses in the KV cache, for kernels; kv.h defines a cell.
 */
#ifndef VLLM_KERNELS_CUDA_KV_CUH
#define VLLM_KERNELS_CUDA_KV_CUH

#include "cuda/common.cuh"
#include "cuda/attn/kv.h"

static __device__ __forceinline__ size_t
kv_cell_at(const CudaKv &kv, int block, int head)
{
	if (kv.pages != NULL)
		block = kv.pages[(size_t) block * kv.n_parts + kv.part];
	return (size_t) block * kv.page_stride + (size_t) head * kv.head_stride;
}

/* first row of a sequence, relative to r */
static __device__ __forceinline__ int
seq_first(const CudaRows &r, int s)
{
	int			row = r.seq_start[s] - r.row0;

	return row < 0 ? 0 : row < r.n_rows ? row : r.n_rows;
}

/* the sequence that owns a row */
static __device__ __forceinline__ int
row_seq(const CudaRows &r, int row)
{
	int			lo = 0,
				hi = r.n_seqs;

	while (hi - lo > 1)
	{
		int			mid = (lo + hi) / 2;

		if (seq_first(r, mid) <= row)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

#endif
