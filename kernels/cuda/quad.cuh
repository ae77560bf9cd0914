/*
 * quad.cuh
 *	  Read and write rows four columns at a time, in any storage type, and operands.
 *
 * A quad is 4 columns from a multiple of 4 on; those after a row's end are zeros.  V: the quad is loaded
 * and stored with one instruction, which requires rows at multiples of 16 bytes (of 8 if an element has
 * two); without V element by element.  In both cases the same columns are handled by the same thread, so
 * V changes no bits.
 *
 * An operand is a row that only products read: KT_F32, KT_BF16 or KT_F16 (`as`).  Numbers too large for
 * F16 become its largest, so that finite stays finite.
 */
#ifndef VLLM_KERNELS_CUDA_QUAD_CUH
#define VLLM_KERNELS_CUDA_QUAD_CUH

#include "cuda/common.cuh"
#include "blocks.h"

/* calls f(y, ...) with y as the type that `as` says; f: an overloaded function or a template */
#define WITH_OPERAND(f, as, y, ...) \
	do \
	{ \
		if ((as) == KT_BF16) \
			f((BF16 *) (y), __VA_ARGS__); \
		else if ((as) == KT_F16) \
			f((F16 *) (y), __VA_ARGS__); \
		else \
			f((float *) (y), __VA_ARGS__); \
	} while (0)

static __device__ __forceinline__ void
to_operand(float *to, float f)
{
	*to = f;
}

static __device__ __forceinline__ void
to_operand(BF16 *to, float f)
{
	from_float(to, f);
}

static __device__ __forceinline__ void
to_operand(F16 *to, float f)
{
	/* infinities and NaN stay unchanged */
	if (fabsf(f) > 65504.0f && fabsf(f) < INFINITY)
		f = copysignf(65504.0f, f);
	from_float(to, f);
}

/* ---- load from x, whose row has `left` columns from here on ---- */

template <bool V> static __device__ __forceinline__ float4
quad_get(const float *x, int left)
{
	if (V)
		return *(const float4 *) x;
	return make_float4(x[0], left > 1 ? x[1] : 0.0f, left > 2 ? x[2] : 0.0f, left > 3 ? x[3] : 0.0f);
}

/* H: F16 or BF16 */
template <bool V, typename H> static __device__ __forceinline__ float4
quad_get(const H *x, int left)
{
	if (V)
	{
		ushort4		u = *(const ushort4 *) x;

		return make_float4(to_float(H{u.x}), to_float(H{u.y}), to_float(H{u.z}), to_float(H{u.w}));
	}
	return make_float4(to_float(x[0]), left > 1 ? to_float(x[1]) : 0.0f, left > 2 ? to_float(x[2]) : 0.0f,
					   left > 3 ? to_float(x[3]) : 0.0f);
}

template <bool V> static __device__ __forceinline__ void
quad_put(float *y, int left, float4 v)
{
	if (V)
	{
		*(float4 *) y = v;
		return;
	}
	y[0] = v.x;
	if (left > 1)
		y[1] = v.y;
	if (left > 2)
		y[2] = v.z;
	if (left > 3)
		y[3] = v.w;
}

template <bool V, typename H> static __device__ __forceinline__ void
quad_put(H *y, int left, float4 v)
{
	H			h[4];

	to_operand(&h[0], v.x);
	to_operand(&h[1], v.y);
	to_operand(&h[2], v.z);
	to_operand(&h[3], v.w);
	if (V)
		*(ushort4 *) y = make_ushort4(h[0].u, h[1].u, h[2].u, h[3].u);
	else
	{
		y[0] = h[0];
		if (left > 1)
			y[1] = h[1];
		if (left > 2)
			y[2] = h[2];
		if (left > 3)
			y[3] = h[3];
	}
}

static __device__ __forceinline__ float4
operator+(float4 a, float4 b)
{
	return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

static __device__ __forceinline__ float4
operator*(float4 a, float4 b)
{
	return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

static __device__ __forceinline__ float4
operator*(float4 a, float b)
{
	return make_float4(a.x * b, a.y * b, a.z * b, a.w * b);
}

/* f of each column */
template <typename F> static __device__ __forceinline__ float4
quad_map(float4 v, F f)
{
	return make_float4(f(v.x), f(v.y), f(v.z), f(v.w));
}

/* ---- the host's side ---- */

static inline int
quads(int columns)
{
	return (columns + 3) / 4;
}

/* return true if rows of n columns at p, ld apart, can be loaded four at a time; width: bytes of an
 * element */
static inline bool
quads_whole(const void *p, int ld, int n, int width)
{
	return n % 4 == 0 && ld % 4 == 0 && (uintptr_t) p % (4 * (size_t) width) == 0;
}

static inline int
operand_size(KType as)
{
	return as == KT_F32 ? 4 : 2;
}

#endif
