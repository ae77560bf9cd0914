/*
 * mm_fp8_a8.cu
 *	  Products of FP8 by FP8: x, of any type of operands, is converted to codes of E4M3, with a float
 *	  for each 128 k, as the weights have.
 *
 * This rounds x to 4 bits of precision, so it is done only if the user asks for it (docs/user/gpu.md);
 * otherwise mm_fp8.cu computes these products.  A group's sum is in floats: its bits and its order are
 * those of the capability's tensor cores.
 */
#include "cuda/mm/mm_w8a8.cuh"

struct Fp8
{
	typedef Weights<CUDA_E4M3, CUDA_F> W;
	typedef float sum;
	enum { UNROLL = 1 };		/* codes are converted to halves on most devices, which takes registers */

	/* a lane's codes of a group, whose scale is *s */
	static __device__ __forceinline__ uint32_t
	codes(const float *v, float *s)
	{
		const float most = 448.0f;
		bool		finite = true;
		float		largest = 0.0f,
					inv = 0.0f;
		uint32_t	to = 0;

		for (int i = 0; i < 4; i++)
		{
			finite = finite && isfinite(v[i]);
			largest = fmaxf(largest, fabsf(v[i]));
		}
		*s = warp_max(largest) / most;
		if (!__all_sync(FULL_MASK, finite))
			*s = __uint_as_float(0x7fc00000u);
		else if (*s < 0x1p-107f)
			*s = 0.0f;
		else
			inv = 1.0f / *s;
		for (int i = 0; i < 4; i++)
		{
			F8E4M3		code;

			from_float(&code, inv != 0.0f ? v[i] * inv : 0.0f);
			to |= (uint32_t) code.u << 8 * i;
		}
		return to;
	}
	static __device__ __forceinline__ void
	mma(float *d, const uint32_t *a, const uint32_t *b, const float *c)
	{
		mma_e4m3(d, a, b, c);
	}
	static __device__ __forceinline__ float
	of_group(const uint32_t *h, int i)
	{
		return __uint_as_float(h[i]);
	}
	static __device__ __forceinline__ float
	scale(float w, float x)
	{
		return w * x;
	}
	static __device__ __forceinline__ float
	last(float acc, const uint8_t *, int, int)
	{
		return acc;
	}
};

void
mm_fp8_a8(const MmArgs *a, KType x, MmShape shape, void *ws, cudaStream_t stream)
{
	w8a8_go<Fp8>(a, x, shape, ws, stream);
}
