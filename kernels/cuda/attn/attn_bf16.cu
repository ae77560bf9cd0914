/*
 * attn_bf16.cu
 *	  The kernels of attn.cuh with products of BF16: one file per type, to limit compile time.
 */
#include "cuda/attn/attn.cuh"

void
attn_launch_bf16(const AttnArgs *p, int vt, dim3 grid, int threads, size_t smem, cudaStream_t stream)
{
	attn_launch<BF16>(p, vt, grid, threads, smem, stream);
}

void
attn_allow_bf16(int smem)
{
	attn_allow<BF16>(smem);
}
