/*
 * mm_quant_sm90.cu
 *	  Products with wgmma with weights in groups, of 4 and 8 bits. x is BF16.
 */
#include "cuda/mm/mm_group.cuh"

template <int CODES, int SCALE> static bool
go(const MmArgs *a, MmShape shape, cudaStream_t stream)
{
	mm_group_shapes<Weights<CODES, SCALE>, OpBF16>(a, shape, stream);
	return true;
}

bool
mm_quant_sm90(const MmArgs *a, const CudaLayout *l, MmShape shape, cudaStream_t stream)
{
	switch (l->codes << 8 | l->scale)
	{
		case CUDA_NIBBLE << 8 | CUDA_D:
			return go<CUDA_NIBBLE, CUDA_D>(a, shape, stream);
		case CUDA_NIBBLE << 8 | CUDA_DM:
			return go<CUDA_NIBBLE, CUDA_DM>(a, shape, stream);
		case CUDA_NIBBLE << 8 | CUDA_K2:
			return go<CUDA_NIBBLE, CUDA_K2>(a, shape, stream);
		case CUDA_NIBBLE << 8 | CUDA_KH:
			return go<CUDA_NIBBLE, CUDA_KH>(a, shape, stream);
		case CUDA_NIBBLE << 8 | CUDA_KHM:
			return go<CUDA_NIBBLE, CUDA_KHM>(a, shape, stream);
		case CUDA_TABLE << 8 | CUDA_D:
			return go<CUDA_TABLE, CUDA_D>(a, shape, stream);
		case CUDA_TABLE << 8 | CUDA_E:
			return go<CUDA_TABLE, CUDA_E>(a, shape, stream);
		case CUDA_TABLE << 8 | CUDA_K1:
			return go<CUDA_TABLE, CUDA_K1>(a, shape, stream);
		case CUDA_BYTE << 8 | CUDA_D:
			return go<CUDA_BYTE, CUDA_D>(a, shape, stream);
		case CUDA_BYTE << 8 | CUDA_DM:
			return go<CUDA_BYTE, CUDA_DM>(a, shape, stream);
		case CUDA_BYTE << 8 | CUDA_K2:
			return go<CUDA_BYTE, CUDA_K2>(a, shape, stream);
		case CUDA_BYTE << 8 | CUDA_KH:
			return go<CUDA_BYTE, CUDA_KH>(a, shape, stream);
		default:
			return false;
	}
}
