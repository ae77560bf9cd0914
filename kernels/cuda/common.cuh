/*
 * common.cuh
 *	  Included by every .cu file: under nvcc CUDA itself, under g++ its emulation (kernels/emu), so
 *	  that the same kernels run on a CPU in tests.
 *
 * Rules that this requires (docs/user/gpu.md):
 * - no inline PTX except here, in mma.cuh, tma.cuh and wgmma.cuh;
 * - shared memory with SHARED() and SMEM(), launches with LAUNCH();
 * - lanes that exchange data through memory need __syncwarp; a shuffle orders nothing;
 * - no memcpy, printf or malloc in kernels;
 * - fmaf() where a product must be fused; nvcc builds with -fmad=false.
 */
#ifndef VLLM_KERNELS_CUDA_COMMON_CUH
#define VLLM_KERNELS_CUDA_COMMON_CUH

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <stdint.h>

#define SHARED(T, name, dims)	__shared__ __align__(16) T name dims
#define SMEM(T, name) \
	extern __shared__ __align__(1024) unsigned char cuda_smem_[]; \
	T *name = reinterpret_cast<T *>(cuda_smem_)
#define LAUNCH(kernel, grid, block, smem, stream, ...) \
	(kernel)<<<grid, block, smem, stream>>>(__VA_ARGS__)

#else
#include "emu/cuda_emu.h"
#endif

#define FULL_MASK 0xffffffffu

/* ---- numbers as stored in memory ---- */

struct F16
{
	uint16_t	u;
};
struct BF16
{
	uint16_t	u;
};
struct F8E4M3
{
	uint8_t		u;
};
struct F8E5M2
{
	uint8_t		u;
};

#ifdef __CUDACC__
static __device__ __forceinline__ float
to_float(F16 h)
{
	return __half2float(__ushort_as_half(h.u));
}
static __device__ __forceinline__ float
to_float(BF16 h)
{
	return __uint_as_float((uint32_t) h.u << 16);
}
static __device__ __forceinline__ float
to_float(F8E4M3 h)
{
	return __half2float(__half(__nv_cvt_fp8_to_halfraw(h.u, __NV_E4M3)));
}
static __device__ __forceinline__ float
to_float(F8E5M2 h)
{
	return __half2float(__ushort_as_half((unsigned short) (h.u << 8)));
}
static __device__ __forceinline__ void
from_float(F16 *h, float f)
{
	h->u = __half_as_ushort(__float2half_rn(f));
}
static __device__ __forceinline__ void
from_float(BF16 *h, float f)
{
	h->u = __bfloat16_as_ushort(__float2bfloat16_rn(f));
}
/* like kf32_to_f8(): too large numbers become the largest, infinity NaN (E5M2: infinity) */
static __device__ __forceinline__ void
from_float(F8E4M3 *h, float f)
{
	h->u = isinf(f) ? (uint8_t) (0x7f | (f < 0 ? 0x80 : 0)) :
		__nv_cvt_float_to_fp8(f, __NV_SATFINITE, __NV_E4M3);
}
static __device__ __forceinline__ void
from_float(F8E5M2 *h, float f)
{
	h->u = isinf(f) ? (uint8_t) (0x7c | (f < 0 ? 0x80 : 0)) :
		__nv_cvt_float_to_fp8(f, __NV_SATFINITE, __NV_E5M2);
}
#else
static inline float to_float(F16 h) { return cemu_f16_to_f32(h.u); }
static inline float to_float(BF16 h) { return cemu_bf16_to_f32(h.u); }
static inline float to_float(F8E4M3 h) { return cemu_f8_to_f32(0, h.u); }
static inline float to_float(F8E5M2 h) { return cemu_f8_to_f32(1, h.u); }
static inline void from_float(F16 *h, float f) { h->u = cemu_f32_to_f16(f); }
static inline void from_float(BF16 *h, float f) { h->u = cemu_f32_to_bf16(f); }
static inline void from_float(F8E4M3 *h, float f) { h->u = cemu_f32_to_f8(0, f); }
static inline void from_float(F8E5M2 *h, float f) { h->u = cemu_f32_to_f8(1, f); }
#endif

static __device__ __forceinline__ float
to_float(float f)
{
	return f;
}

static __device__ __forceinline__ void
from_float(float *h, float f)
{
	*h = f;
}

/* ---- sums over a warp, the same bits in all lanes: a tree of fixed shape ---- */

static __device__ __forceinline__ float
warp_sum(float v)
{
#pragma unroll
	for (int m = 16; m > 0; m >>= 1)
		v += __shfl_xor_sync(FULL_MASK, v, m);
	return v;
}

static __device__ __forceinline__ float
warp_max(float v)
{
#pragma unroll
	for (int m = 16; m > 0; m >>= 1)
		v = fmaxf(v, __shfl_xor_sync(FULL_MASK, v, m));
	return v;
}

/*
 * Reductions of integers over the lanes of mask, where the order doesn't matter: one instruction from
 * sm_80 on.  (Not __reduce_*_sync, which sm_75 lacks.)
 */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define REDUCE(name, builtin, expr) \
	template <typename T> static __device__ __forceinline__ T name(unsigned mask, T v) \
	{ \
		T a = __shfl_sync(mask, v, __ffs(mask) - 1); \
		for (unsigned m = mask & (mask - 1); m != 0; m &= m - 1) \
		{ \
			T b = __shfl_sync(mask, v, __ffs(m) - 1); \
			a = (expr); \
		} \
		return a; \
	}
#else
#define REDUCE(name, builtin, expr) \
	template <typename T> static __device__ __forceinline__ T name(unsigned mask, \
																   T v) { return builtin(mask, v); }
#endif
REDUCE(reduce_add, __reduce_add_sync, a + b)
REDUCE(reduce_min, __reduce_min_sync, a < b ? a : b)
REDUCE(reduce_max, __reduce_max_sync, a > b ? a : b)
#undef REDUCE

/*
 * Sum over a block of WARPS warps: each warp's sum, then these in order.  sums: shared, [WARPS]; all
 * threads must call it, and may use sums again after the next barrier.
 */
template <int WARPS> static __device__ __forceinline__ float
block_sum(float v, float *sums)
{
	float		all = 0.0f;

	v = warp_sum(v);
	if (threadIdx.x % 32 == 0)
		sums[threadIdx.x / 32] = v;
	__syncthreads();
#pragma unroll
	for (int i = 0; i < WARPS; i++)
		all += sums[i];
	return all;
}

#endif
