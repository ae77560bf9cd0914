/*
 * mm_nibble.cu
 *	  Products with weights of 4 bits: Q4_0, Q4_1, Q4_K, Q2_K, Q3_K, and by a table IQ4_NL, IQ4_XS,
 *	  MXFP4, NF4 and FP4.  x is BF16 or F16.
 */
#include "cuda/mm/mm.cuh"

template <typename O> static bool
by_scale(const MmArgs *a, const CudaLayout *l, MmShape shape, cudaStream_t stream)
{
	switch (l->codes << 8 | l->scale)
	{
		case CUDA_NIBBLE << 8 | CUDA_D:
			mm_shapes<Weights<CUDA_NIBBLE, CUDA_D>, O>(a, shape, stream);
			return true;
		case CUDA_NIBBLE << 8 | CUDA_DM:
			mm_shapes<Weights<CUDA_NIBBLE, CUDA_DM>, O>(a, shape, stream);
			return true;
		case CUDA_NIBBLE << 8 | CUDA_K2:
			mm_shapes<Weights<CUDA_NIBBLE, CUDA_K2>, O>(a, shape, stream);
			return true;
		case CUDA_NIBBLE << 8 | CUDA_KH:
			mm_shapes<Weights<CUDA_NIBBLE, CUDA_KH>, O>(a, shape, stream);
			return true;
		case CUDA_NIBBLE << 8 | CUDA_KHM:
			mm_shapes<Weights<CUDA_NIBBLE, CUDA_KHM>, O>(a, shape, stream);
			return true;
		case CUDA_TABLE << 8 | CUDA_D:
			mm_shapes<Weights<CUDA_TABLE, CUDA_D>, O>(a, shape, stream);
			return true;
		case CUDA_TABLE << 8 | CUDA_E:
			mm_shapes<Weights<CUDA_TABLE, CUDA_E>, O>(a, shape, stream);
			return true;
		case CUDA_TABLE << 8 | CUDA_K1:
			mm_shapes<Weights<CUDA_TABLE, CUDA_K1>, O>(a, shape, stream);
			return true;
		default:
			return false;
	}
}

bool
mm_nibble(const MmArgs *a, const CudaLayout *l, KType x, MmShape shape, cudaStream_t stream)
{
	return x == KT_BF16 ? by_scale<OpBF16>(a, l, shape, stream) : x == KT_F16 &&
		by_scale<OpF16>(a, l, shape, stream);
}
