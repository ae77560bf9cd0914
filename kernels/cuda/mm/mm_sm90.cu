/*
 * mm_sm90.cu
 *	  Products with wgmma with matrices of BF16 and F16, and of FP8.
 */
#include "cuda/mm/mm_group.cuh"

bool
mm_sm90(const MmArgs *a, const CudaLayout *l, KType w, KType x, MmShape shape, cudaStream_t stream)
{
	if (w == KT_BF16 && x == KT_BF16)
		mm_group_shapes<Weights<CUDA_FLOAT, CUDA_NONE, BF16>, OpBF16>(a, shape, stream);
	else if (w == KT_F16 && x == KT_F16)
		mm_group_shapes<Weights<CUDA_FLOAT, CUDA_NONE, F16>, OpF16>(a, shape, stream);
	else if (w == KT_FP8 && x == KT_BF16)
		mm_group_shapes<Weights<CUDA_E4M3, CUDA_F>, OpBF16>(a, shape, stream);
	else
		return x == KT_BF16 && l->codes != CUDA_FLOAT && mm_quant_sm90(a, l, shape, stream);
	return true;
}
