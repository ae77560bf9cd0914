/*
 * mm_byte.cu
 *	  Products with weights of 8 bits: Q8_0, Q5_0, Q5_1, Q5_K and Q6_K.  x is BF16 or F16.
 */
#include "cuda/mm/mm.cuh"

template <typename O> static bool
by_scale(const MmArgs *a, const CudaLayout *l, MmShape shape, cudaStream_t stream)
{
	switch (l->scale)
	{
		case CUDA_D:
			mm_shapes<Weights<CUDA_BYTE, CUDA_D>, O>(a, shape, stream);
			return true;
		case CUDA_DM:
			mm_shapes<Weights<CUDA_BYTE, CUDA_DM>, O>(a, shape, stream);
			return true;
		case CUDA_K2:
			mm_shapes<Weights<CUDA_BYTE, CUDA_K2>, O>(a, shape, stream);
			return true;
		case CUDA_KH:
			mm_shapes<Weights<CUDA_BYTE, CUDA_KH>, O>(a, shape, stream);
			return true;
		default:
			return false;
	}
}

bool
mm_byte(const MmArgs *a, const CudaLayout *l, KType x, MmShape shape, cudaStream_t stream)
{
	return x == KT_BF16 ? by_scale<OpBF16>(a, l, shape, stream) : x == KT_F16 &&
		by_scale<OpF16>(a, l, shape, stream);
}
