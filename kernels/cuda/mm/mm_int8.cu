/*
 * mm_int8.cu
 *	  Products of INT8: x, of any type of operands, is converted to codes, too, as on CPUs
 *	  (docs/internals/kernels.md).
 *
 * The sums of codes are exact, and everything else is in the order of kernels/ref, so products have its
 * bits, on any capability.  CPUs' codes are larger by a zero point, which CPUs subtract in sums.
 */
#include "cuda/mm/mm_w8a8.cuh"

#define MOST	127.0f

struct Int8
{
	typedef Weights<CUDA_BYTE, CUDA_ROW> W;
	typedef int sum;
	enum { UNROLL = 2 };

	/* a lane's codes of a group, whose scale is *s */
	static __device__ __forceinline__ uint32_t
	codes(const float *v, float *s)
	{
		bool		finite = true;
		float		high = 0.0f,
					low = 0.0f,
					inv = 0.0f,
					zero;
		uint32_t	to = 0;

		for (int i = 0; i < 4; i++)
		{
			finite = finite && isfinite(v[i]);
			high = fmaxf(high, v[i]);
			low = fmaxf(low, 0.0f - v[i]);
		}
		high = warp_max(high);
		low = warp_max(low);
		*s = high * (1.0f / MOST) + low * (1.0f / MOST);
		if (!__all_sync(FULL_MASK, finite))
			*s = __uint_as_float(0x7fc00000u);
		else if (*s < 0x1p-107f)
			*s = 0.0f;
		else
			inv = 1.0f / *s;
		zero = rintf(low * inv);
		for (int i = 0; i < 4; i++)
			if (inv != 0.0f)
				to |= ((uint32_t) (int) (fminf(rintf(v[i] * inv) + zero, MOST) - zero) & 255) << 8 * i;
		return to;
	}
	static __device__ __forceinline__ void
	mma(int *d, const uint32_t *a, const uint32_t *b, const int *c)
	{
		mma_s8(d, a, b, c);
	}
	/* an output has only one scale, applied at the end */
	static __device__ __forceinline__ float
	of_group(const uint32_t *, int)
	{
		return 1.0f;
	}
	static __device__ __forceinline__ float
	scale(float, float x)
	{
		return x;
	}
	static __device__ __forceinline__ float
	last(float acc, const uint8_t *strip, int tile, int out)
	{
		return acc * ((const float *) strip)[(tile * 8 + out % 8) * 2 + out / 8];
	}
};

void
mm_int8(const MmArgs *a, KType x, MmShape shape, void *ws, cudaStream_t stream)
{
	w8a8_go<Int8>(a, x, shape, ws, stream);
}
