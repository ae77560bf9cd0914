/*
 * mm_fp8.cu
 *	  Products with weights of FP8 (E4M3, a float for each 128 k).  x is BF16 or F16.
 *
 * Codes are exact operands, so only x is rounded to BF16 or F16: on every capability, also if the
 * checkpoint was made for FP8 activations.
 */
#include "cuda/mm/mm.cuh"

bool
mm_fp8(const MmArgs *a, const CudaLayout *l, KType x, MmShape shape, cudaStream_t stream)
{
	(void) l;
	if (x == KT_BF16)
		mm_shapes<Weights<CUDA_E4M3, CUDA_F>, OpBF16>(a, shape, stream);
	else if (x == KT_F16)
		mm_shapes<Weights<CUDA_E4M3, CUDA_F>, OpF16>(a, shape, stream);
	else
		return false;
	return true;
}
