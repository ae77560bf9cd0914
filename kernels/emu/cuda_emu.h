/*
 * cuda_emu.h
 *	  CUDA's functions and keywords for g++: kernels/cuda/common.cuh includes this instead of nvcc's
 *	  headers.
 *
 * It has only what our kernels use, under CUDA's names, so that a .cu file reads as CUDA.  The last
 * arguments of calls that wait are the caller's file and line.
 */
#ifndef VLLM_KERNELS_CUDA_EMU_H
#define VLLM_KERNELS_CUDA_EMU_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <type_traits>

#include "emu/cemu.h"
#include "emu/cuda_rt.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __constant__ const
#define __restrict__ __restrict

#define HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

typedef CemuDim uint3;
struct dim3
{
	unsigned	x,
				y,
				z;

	dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

#define threadIdx (cemu_now->idx)
#define blockIdx (cemu_launched->at)
#define blockDim (cemu_launched->block)
#define gridDim (cemu_launched->grid)
#define warpSize CEMU_WARP

#define CUDA_VECTOR(T, name) \
	struct __align__(2 * sizeof(T)) name##2 { T x, y; }; \
	struct __align__(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 { T x, y, z, w; }; \
	static inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
	static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
CUDA_VECTOR(float, float)
CUDA_VECTOR(int, int)
CUDA_VECTOR(unsigned, uint)
CUDA_VECTOR(unsigned short, ushort)
CUDA_VECTOR(signed char, char)
CUDA_VECTOR(unsigned char, uchar)
#undef CUDA_VECTOR

/* ---- shared memory ---- */

/* an array of the block: SHARED(float, sums, [8][33]) */
#define SHARED(T, name, dims) \
	typedef T name##_type dims; \
	static const char name##_key = 0; \
	name##_type &name = *(name##_type *) cemu_shared(&name##_key, sizeof(name##_type), alignof(name##_type))
/* the launch's dynamic shared memory */
#define SMEM(T, name)	T *name = (T *) cemu_dynamic()

/* ---- barriers and warps ---- */

static inline void
__syncthreads(HERE)
{
	cemu_barrier("__syncthreads", file, line);
}

static inline int
__syncthreads_count(int p, HERE)
{
	return cemu_barrier_count("__syncthreads_count", p, file, line);
}

static inline int
__syncthreads_or(int p, HERE)
{
	return cemu_barrier_count("__syncthreads_or", p, file, line) != 0;
}

static inline int
__syncthreads_and(int p, HERE)
{
	return cemu_barrier_count("__syncthreads_and", p, file, line) == cemu_n_threads();
}

static inline void
__syncwarp(unsigned mask = 0xffffffffu, HERE)
{
	cemu_syncwarp(mask, file, line);
}

template <typename T> static inline uint64_t
cemu_word(T v)
{
	uint64_t	w = 0;

	static_assert(sizeof(T) == 4 || sizeof(T) == 8, "4 or 8 bytes");
	memcpy(&w, &v, sizeof(T));
	return w;
}

template <typename T> static inline T
cemu_from_word(uint64_t w)
{
	T			v;

	memcpy(&v, &w, sizeof(T));
	return v;
}

#define CUDA_SHFL(name, kind, by_type) \
	template <typename T> static inline T name(unsigned mask, T v, by_type by, int width = CEMU_WARP, HERE) \
	{ return cemu_from_word<T>(cemu_shfl(kind, mask, cemu_word(v), (int) by, width, file, line)); }
CUDA_SHFL(__shfl_sync, CEMU_IDX, int)
CUDA_SHFL(__shfl_up_sync, CEMU_UP, unsigned)
CUDA_SHFL(__shfl_down_sync, CEMU_DOWN, unsigned)
CUDA_SHFL(__shfl_xor_sync, CEMU_XOR, int)
#undef CUDA_SHFL

static inline unsigned
__ballot_sync(unsigned mask, int p, HERE)
{
	return cemu_vote(CEMU_BALLOT, mask, p != 0, file, line);
}

static inline int
__any_sync(unsigned mask, int p, HERE)
{
	return cemu_vote(CEMU_BALLOT, mask, p != 0, file, line) != 0;
}

static inline int
__all_sync(unsigned mask, int p, HERE)
{
	return cemu_vote(CEMU_BALLOT, mask, p != 0, file, line) == mask;
}

template <typename T> static inline unsigned
__match_any_sync(unsigned mask, T v, HERE)
{
	return cemu_vote(CEMU_MATCH_ANY, mask, cemu_word(v), file, line);
}

template <typename T> static inline unsigned
__match_all_sync(unsigned mask, T v, int *pred, HERE)
{
	unsigned	m = cemu_vote(CEMU_MATCH_ALL, mask, cemu_word(v), file, line);

	*pred = m != 0;
	return m;
}

#define CUDA_REDUCE(name, T, kind) \
	static inline T name(unsigned mask, T v, HERE) { return (T) cemu_vote(kind, mask, (uint32_t) v, file, \
			line); }
CUDA_REDUCE(__reduce_add_sync, unsigned, CEMU_ADD)
CUDA_REDUCE(__reduce_add_sync, int, CEMU_ADD)
CUDA_REDUCE(__reduce_min_sync, unsigned, CEMU_MIN_U)
CUDA_REDUCE(__reduce_min_sync, int, CEMU_MIN_S)
CUDA_REDUCE(__reduce_max_sync, unsigned, CEMU_MAX_U)
CUDA_REDUCE(__reduce_max_sync, int, CEMU_MAX_S)
CUDA_REDUCE(__reduce_and_sync, unsigned, CEMU_AND)
CUDA_REDUCE(__reduce_or_sync, unsigned, CEMU_OR)
CUDA_REDUCE(__reduce_xor_sync, unsigned, CEMU_XOR_BITS)
#undef CUDA_REDUCE

/* ---- atomics: only one thread runs at a time, so they are plain accesses, marked as atomic ---- */

#define CUDA_NUMBER (std::is_arithmetic<T>::value && (sizeof(T) == 4 || sizeof(T) == 8))
#define CUDA_WHOLE (std::is_integral<T>::value && (sizeof(T) == 4 || sizeof(T) == 8))
#define CUDA_ATOMIC(name, takes, expr) \
	template <typename T> __attribute__((no_sanitize_thread, noinline)) static T \
	name(T *p, typename std::common_type<T>::type v) \
	{ \
		T old; \
		static_assert(takes, "CUDA has no such " #name); \
		cemu_touch(cemu_now, p, sizeof(T), CEMU_ATOMIC, __builtin_return_address(0)); \
		old = *p; \
		*p = (T) (expr); \
		return old; \
	}
CUDA_ATOMIC(atomicAdd, CUDA_NUMBER, old + v)
CUDA_ATOMIC(atomicSub, CUDA_WHOLE, old - v)
CUDA_ATOMIC(atomicMax, CUDA_WHOLE, old > v ? old : v)
CUDA_ATOMIC(atomicMin, CUDA_WHOLE, old < v ? old : v)
CUDA_ATOMIC(atomicExch, CUDA_NUMBER, v)
CUDA_ATOMIC(atomicAnd, CUDA_WHOLE, old & v)
CUDA_ATOMIC(atomicOr, CUDA_WHOLE, old | v)
CUDA_ATOMIC(atomicXor, CUDA_WHOLE, old ^ v)
CUDA_ATOMIC(atomicInc, (std::is_same<T, unsigned>::value), old >= v ? 0 : old + 1)
CUDA_ATOMIC(atomicDec, (std::is_same<T, unsigned>::value), old == 0 || old > v ? v : old - 1)
#undef CUDA_ATOMIC

template <typename T> __attribute__((no_sanitize_thread, noinline)) static T
atomicCAS(T *p, typename std::common_type<T>::type expect, typename std::common_type<T>::type v)
{
	T			old;

	cemu_touch(cemu_now, p, sizeof(T), CEMU_ATOMIC, __builtin_return_address(0));
	old = *p;
	if (old == expect)
		*p = v;
	return old;
}

static inline void
__threadfence(void)
{
}

/* ---- loads, bits, arithmetic ---- */

template <typename T> static inline T
__ldg(const T *p)
{
	return *p;
}

static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz((unsigned) v); }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline unsigned __float_as_uint(float f) { return (unsigned) cemu_word(f); }
static inline int __float_as_int(float f) { return (int) cemu_word(f); }
static inline float __uint_as_float(unsigned u) { return cemu_from_word<float>(u); }
static inline float __int_as_float(int u) { return cemu_from_word<float>((unsigned) u); }
/* the C library uses these names */
#define __expf(f) expf(f)
#define __logf(f) logf(f)
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float f) { return sqrtf(f); }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float rsqrtf(float f) { return 1.0f / sqrtf(f); }
static inline float __saturatef(float f) { return f > 0.0f ? f < 1.0f ? f : 1.0f : 0.0f; }
static inline int __float2int_rn(float f) { return (int) rintf(f); }
template <typename T> static inline T min(T a, T b) { return b < a ? b : a; }
template <typename T> static inline T max(T a, T b) { return a < b ? b : a; }

/* four products of bytes and their sum */
static inline int
__dp4a(int a, int b, int c)
{
	for (int i = 0; i < 4; i++)
		c += (int8_t) (a >> 8 * i) * (int8_t) (b >> 8 * i);
	return c;
}

/* ---- launches ---- */

template <typename F> struct CemuCall
{
	CemuLaunch	l;				/* first member: cemu_drop gets its address */
	F			f;
};

template <typename F> static void
cemu_call(void *f)
{
	(*(F *) f) ();
}

template <typename F> static void
cemu_drop(CemuLaunch *l)
{
	delete (CemuCall<F> *) l;
}

template <typename F> static inline void
cemu_launch(const char *name, const void *fn, dim3 grid, dim3 block, size_t smem, cudaStream_t stream, F f)
{
	CemuCall<F> *c = new CemuCall<F>{{name, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, {0, 0, 0},
									  smem, 0,
		cemu_call<F>, NULL, sizeof(F)}, f};

	c->l.args = &c->f;
	cemu_enqueue(stream, &c->l, cemu_drop<F>, fn);
}

/* <<<>>>; arguments are taken by value at the call */
#define LAUNCH(kernel, grid, block, smem, stream, ...) \
	[&](auto... args_) { \
		cemu_launch(#kernel, (const void *) (kernel), grid, block, smem, stream, \
					[=]() { (kernel)(args_...); }); \
	}(__VA_ARGS__)

#undef HERE
#endif
