/*
 * simd_portable.h
 *	  The vector functions of the templates for any CPU: 16 lanes as four 4-lane vectors of the
 *	  compiler's generic vector extension (SSE2, NEON, or scalar code without either).
 *
 * v_fma rounds twice on CPUs without a cheap fused multiply-add, so float results differ in the last
 * bits from the other implementations there; they are still row invariant.  Q8_0 uses fmaf once per
 * block and agrees exactly.
 */
#ifndef VLLM_KERNELS_SIMD_PORTABLE_H
#define VLLM_KERNELS_SIMD_PORTABLE_H

#include <math.h>

#include "kutil.h"

typedef float f4 __attribute__((vector_size(16)));
typedef uint32_t u4 __attribute__((vector_size(16)));
typedef int32_t i4 __attribute__((vector_size(16)));
typedef uint16_t h4 __attribute__((vector_size(8)));

typedef struct v16
{
	f4			a,
				b,
				c,
				d;
} v16;

static inline f4
f4_set1(float f)
{
	return (f4) {f, f, f, f};
}

static inline u4
u4_set1(uint32_t u)
{
	return (u4) {u, u, u, u};
}

static inline f4
f4_select(i4 mask, f4 x, f4 y)
{
	return (f4) (((i4) x & mask) | ((i4) y & ~mask));
}

static inline v16
v_set1(float f)
{
	f4			t = f4_set1(f);

	return (v16) {t, t, t, t};
}

static inline v16
v_zero(void)
{
	return v_set1(0.0f);
}

static inline v16
v_load(const float *p)
{
	v16			r;

	memcpy(&r, p, sizeof(r));
	return r;
}

static inline void
v_store(float *p, v16 x)
{
	memcpy(p, &x, sizeof(x));
}

/* the first n lanes; the others 0 */
static inline v16
v_load_n(const float *p, int n)
{
	v16			r = v_zero();

	memcpy(&r, p, (size_t) n * sizeof(float));
	return r;
}

static inline void
v_store_n(float *p, v16 x, int n)
{
	memcpy(p, &x, (size_t) n * sizeof(float));
}

static inline v16
v_add(v16 x, v16 y)
{
	return (v16) {x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d};
}

static inline v16
v_sub(v16 x, v16 y)
{
	return (v16) {x.a - y.a, x.b - y.b, x.c - y.c, x.d - y.d};
}

static inline v16
v_mul(v16 x, v16 y)
{
	return (v16) {x.a * y.a, x.b * y.b, x.c * y.c, x.d * y.d};
}

static inline v16
v_div(v16 x, v16 y)
{
	return (v16) {x.a / y.a, x.b / y.b, x.c / y.c, x.d / y.d};
}

static inline f4
f4_fma(f4 x, f4 y, f4 z)
{
#ifdef __FP_FAST_FMAF
	return (f4) {__builtin_fmaf(x[0], y[0], z[0]), __builtin_fmaf(x[1], y[1], z[1]),
		__builtin_fmaf(x[2], y[2], z[2]), __builtin_fmaf(x[3], y[3], z[3])};
#else
	return x * y + z;
#endif
}

static inline v16
v_fma(v16 x, v16 y, v16 z)
{
	return (v16) {f4_fma(x.a, y.a, z.a), f4_fma(x.b, y.b, z.b),
		f4_fma(x.c, y.c, z.c), f4_fma(x.d, y.d, z.d)};
}

/* x > y ? x : y, so a NaN in either gives y */
static inline v16
v_max(v16 x, v16 y)
{
	return (v16) {f4_select(x.a > y.a, x.a, y.a), f4_select(x.b > y.b, x.b, y.b),
		f4_select(x.c > y.c, x.c, y.c), f4_select(x.d > y.d, x.d, y.d)};
}

static inline v16
v_min(v16 x, v16 y)
{
	return (v16) {f4_select(x.a < y.a, x.a, y.a), f4_select(x.b < y.b, x.b, y.b),
		f4_select(x.c < y.c, x.c, y.c), f4_select(x.d < y.d, x.d, y.d)};
}

/* sum of the lanes in the order all implementations share: halves, quarters, ... */
static inline float
v_sum(v16 x)
{
	f4			t = (x.a + x.c) + (x.b + x.d);

	return (t[0] + t[2]) + (t[1] + t[3]);
}

static inline float
v_hmax(v16 x)
{
	v16			t = v_max((v16) {x.a, x.b, x.a, x.b}, (v16) {x.c, x.d, x.c, x.d});
	float		m = t.a[0];

	for (int i = 0; i < 4; i++)
	{
		m = t.a[i] > m ? t.a[i] : m;
		m = t.b[i] > m ? t.b[i] : m;
	}
	return m;
}

/* lanes lo..hi-1 of x, `other` elsewhere */
static inline v16
v_select_range(v16 x, int lo, int hi, float other)
{
	const i4	iota = {0, 1, 2, 3};
	f4			o = f4_set1(other);

#define LANES(i) \
	((iota + (i4) u4_set1(i) >= (i4) u4_set1(lo)) & (iota + (i4) u4_set1(i) < (i4) u4_set1(hi)))
	return (v16) {f4_select(LANES(0), x.a, o), f4_select(LANES(4), x.b, o),
		f4_select(LANES(8), x.c, o), f4_select(LANES(12), x.d, o)};
#undef LANES
}

/* 1.5 * 2^23: adding it leaves the nearest integer in the low mantissa bits */
#define MAGIC	12582912.0f

/* nearest integer, ties to even; |x| < 2^22 */
static inline v16
v_rint(v16 x)
{
	return v_sub(v_add(x, v_set1(MAGIC)), v_set1(MAGIC));
}

static inline f4
f4_ldexp(f4 p, f4 n)
{
	i4			i = (i4) (n + f4_set1(MAGIC)) - (i4) f4_set1(MAGIC);
	i4			h = i >> 1;
	u4			bias = u4_set1(127);

	return p * (f4) (((u4) h + bias) << 23) * (f4) (((u4) (i - h) + bias) << 23);
}

/* p * 2^n for integral n, |n| <= 200 */
static inline v16
v_ldexp(v16 p, v16 n)
{
	return (v16) {f4_ldexp(p.a, n.a), f4_ldexp(p.b, n.b), f4_ldexp(p.c, n.c), f4_ldexp(p.d, n.d)};
}

/* the low 8 bits of each lane as exponent: 2^(bits - 127) */
static inline v16
v_low_exponent(v16 x)
{
	return (v16) {(f4) ((u4) x.a << 23), (f4) ((u4) x.b << 23), (f4) ((u4) x.c << 23), (f4) ((u4) x.d << 23)};
}

static inline f4
f4_load_bf16(const uint16_t *p)
{
	h4			h;

	memcpy(&h, p, sizeof(h));
	return (f4) (__builtin_convertvector(h, u4) << 16);
}

static inline v16
v_load_bf16(const uint16_t *p)
{
	return (v16) {f4_load_bf16(p), f4_load_bf16(p + 4), f4_load_bf16(p + 8), f4_load_bf16(p + 12)};
}

/* convert halves in the low bits of each lane */
static inline f4
f4_of_f16(u4 u)
{
	u4			mag;
	i4			special;
	f4			f;

	mag = (u & u4_set1(0x7fff)) << 13;
	special = (i4) mag >= (i4) u4_set1(0x7c00 << 13);
	f = f4_select(special, (f4) (mag | u4_set1(0x7f800000)), (f4) mag * f4_set1(0x1p112f));
	return (f4) ((u4) f | (u & u4_set1(0x8000)) << 16);
}

static inline f4
f4_load_f16(const uint16_t *p)
{
	h4			h;

	memcpy(&h, p, sizeof(h));
	return f4_of_f16(__builtin_convertvector(h, u4));
}

static inline v16
v_load_f16(const uint16_t *p)
{
	return (v16) {f4_load_f16(p), f4_load_f16(p + 4), f4_load_f16(p + 8), f4_load_f16(p + 12)};
}

static inline f4
f4_load_i8(const int8_t *p)
{
	return (f4) {p[0], p[1], p[2], p[3]};
}

static inline v16
v_load_i8(const int8_t *p)
{
	return (v16) {f4_load_i8(p), f4_load_i8(p + 4), f4_load_i8(p + 8), f4_load_i8(p + 12)};
}

static inline f4
f4_load_e4m3(const uint8_t *p)
{
	u4			u = {p[0], p[1], p[2], p[3]};
	u4			mag = (u & u4_set1(0x7f)) << 20;
	i4			nan = mag == u4_set1(0x7f << 20);
	f4			f = f4_select(nan, (f4) u4_set1(0x7fc00000), (f4) mag * f4_set1(0x1p112f));

	return (f4) ((u4) f | (u & u4_set1(0x80)) << 24);
}

/* the values divided by F8_UP */
static inline v16
v_load_e4m3(const uint8_t *p)
{
	return (v16) {f4_load_e4m3(p), f4_load_e4m3(p + 4), f4_load_e4m3(p + 8), f4_load_e4m3(p + 12)};
}

static inline f4
f4_load_fp8(const uint8_t *p)
{
	u4			u = {p[0], p[1], p[2], p[3]};

	return (f4) ((u & u4_set1(0x7f)) << 20 | (u & u4_set1(0x80)) << 24) * f4_set1(0x1p112f);
}

/* codes of E4M3, none NaN: the values divided by F8_UP */
static inline v16
v_load_fp8(const uint8_t *p)
{
	return (v16) {f4_load_fp8(p), f4_load_fp8(p + 4), f4_load_fp8(p + 8), f4_load_fp8(p + 12)};
}

static inline f4
f4_load_4bit(const uint8_t *p, int shift, bool is_signed)
{
	u4			u = {p[0], p[1], p[2], p[3]};

	u <<= 24 + shift;
	return __builtin_convertvector(is_signed ? (i4) u >> 28 : (i4) (u >> 28), f4);
}

/* the low 4 bits of each of 16 bytes (shift 4) or the high ones (shift 0), signed or not */
static inline v16
v_load_4bit(const uint8_t *p, int shift, bool is_signed)
{
	return (v16) {f4_load_4bit(p, shift, is_signed), f4_load_4bit(p + 4, shift, is_signed),
		f4_load_4bit(p + 8, shift, is_signed), f4_load_4bit(p + 12, shift, is_signed)};
}

static inline f4
f4_load_e5m2(const uint8_t *p)
{
	return f4_of_f16((u4) {p[0], p[1], p[2], p[3]} << 8);
}

static inline v16
v_load_e5m2(const uint8_t *p)
{
	return (v16) {f4_load_e5m2(p), f4_load_e5m2(p + 4), f4_load_e5m2(p + 8), f4_load_e5m2(p + 12)};
}

static inline void
v_store_bf16(uint16_t *p, v16 x)
{
	float		f[16];

	v_store(f, x);
	for (int i = 0; i < 16; i++)
		p[i] = kf32_to_bf16(f[i]);
}

static inline void
v_store_f16(uint16_t *p, v16 x)
{
	float		f[16];

	v_store(f, x);
	for (int i = 0; i < 16; i++)
		p[i] = kf32_to_f16(f[i]);
}

/* the largest bit pattern of |x[i]| in a block of 32: ordered like the floats, NaN on top */
static inline uint32_t
q8_absmax(const float *x)
{
	uint32_t	m = 0;

	for (int i = 0; i < Q8_0_BLOCK; i++)
	{
		uint32_t	u = k_bits(x[i]) & 0x7fffffffu;

		m = u > m ? u : m;
	}
	return m;
}

/* q[i] = rint(x[i] * inv), finite; the sums of both halves */
static inline void
q8_quantize(int8_t *q, const float *x, float inv, int32_t *s0, int32_t *s1)
{
	int32_t		sum[2] = {0, 0};

	for (int i = 0; i < Q8_0_BLOCK; i++)
	{
		q[i] = (int8_t) (int) (x[i] * inv + MAGIC - MAGIC);
		sum[i / 16] += q[i];
	}
	*s0 = sum[0];
	*s1 = sum[1];
}

/* INT8's codes of 32 activations: u[i] = min(rint(x[i] * inv) + zero, 127), never below 0 */
static inline void
i8_quantize(uint8_t *u, const float *x, float inv, int32_t zero)
{
	for (int i = 0; i < 32; i++)
		u[i] = (uint8_t) k_min((int) (x[i] * inv + MAGIC - MAGIC) + zero, I8_MAX_CODE);
}

/* quantized weights: a signed row of columns for each k (tmpl_qpack.h) */
#define Q_LANE(j, c)	((j) * 32 + (c))
#define Q8_OFF			0

/* ---- packing: a strip of P_LANES columns, lane by lane ---- */

#define P_LANES			4

typedef u4 pv;

/* load 16 bytes at src[c] + at of each column: out[i] has their 32-bit words i */
static inline void
p_load(pv out[4], const uint8_t *const *src, size_t at)
{
	u4			t[4];

	for (int c = 0; c < 4; c++)
		memcpy(&t[c], src[c] + at, sizeof(u4));
	for (int i = 0; i < 4; i++)
		out[i] = (u4) {t[0][i], t[1][i], t[2][i], t[3][i]};
}

/* to[j * stride + c0 + c] = byte j of lane c */
static inline void
p_put_bytes(uint8_t *to, size_t stride, int c0, pv x)
{
	for (int j = 0; j < 4; j++, x >>= 8)
		for (int c = 0; c < 4; c++)
			to[(size_t) j * stride + (size_t) (c0 + c)] = (uint8_t) x[c];
}

/* store four k of the strip that begins at column c0, at their positions in `row` (Q_LANE) */
static inline void
p_put(uint8_t *row, int c0, pv x)
{
	p_put_bytes(row, 32, c0, x);
}

/* the same for 16 bits: to[j * stride + (c0 + c) * 2] = half j of lane c */
static inline void
p_put_halves(uint8_t *to, size_t stride, int c0, pv x)
{
	for (int j = 0; j < 2; j++, x >>= 16)
		for (int c = 0; c < 4; c++)
		{
			uint16_t	h = (uint16_t) x[c];

			memcpy(to + (size_t) j * stride + (size_t) (c0 + c) * 2, &h, 2);
		}
}

/* to[(c0 + c) * 2] = the low half of lane c; the high one is 0 */
static inline void
p_put_low(uint8_t *to, int c0, pv x)
{
	for (int c = 0; c < 4; c++)
	{
		uint16_t	h = (uint16_t) x[c];

		memcpy(to + (c0 + c) * 2, &h, 2);
	}
}

/* transpose 8 elements of 16 bits at src[c] + at of 16 columns to rows of 16, 32 bytes each */
static inline void
p_transpose16(uint8_t *to, const uint8_t *const *src, size_t at)
{
	for (int i = 0; i < 8; i++)
		for (int c = 0; c < 16; c++)
			memcpy(to + i * 32 + c * 2, src[c] + at + (size_t) i * 2, 2);
}

/* Register tiles: 2 x 16 leaves room for the weights in 16 registers. */
#define V_MAX_MR	2
#define V_TILES(T) \
	DEF_TILE(T, 1, 1) DEF_TILE(T, 2, 1) DEF_TILE(T, 1, 2)
#define V_TILE_TABLE(T) \
	{NULL, NULL, 0}, \
	{TILE(T, 1, 1), TILE(T, 1, 2), 2}, \
	{TILE(T, 2, 1), TILE(T, 2, 1), 1}

#endif
