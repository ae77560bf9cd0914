/*
 * quantize.c
 *	  Make quantized rows from float rows.
 *
 * INT8 and Q8_0 use the scale that maps their largest weight to the largest code; INT8 uses a larger one
 * if four weights that are multiplied together need it (INT8_QUAD).  With fewer bits that scale is not
 * the best: a smaller one cuts off the largest weight but rounds all others more finely.  So the code
 * tries a dozen scales around it.  For the codes of each, least squares give the best scale (and
 * minimum); the result with the smallest squared error is used.  The K formats do this for each
 * sub-block, round the scales to 6 or 8 bits and then choose the codes for the rounded scales.
 *
 * Eight blocks are fitted at once, one in each lane of a vector.  Each block has its own sums in a fixed
 * order, so the bits are the same everywhere, whichever blocks are fitted with it.  On x86-64 all of it
 * is compiled a second time with AVX2, which most CPUs have.
 *
 * Tested by tests/unit/quant/test_load_quant.c and tests/golden/quantize_golden.c.
 */
#include "quant/quantize.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"

/* a part of both versions of quantize_row() */
#define INLINE static inline __attribute__((always_inline))

#define LANES 8
#define BLOCK 32				/* weights of a 32-block, and of a sub-block of Q4_K */
#define SUB6 16					/* weights of a sub-block of Q6_K */
#define QNAN 0x7e00				/* the bits of a NaN in half precision */

/* each scheme, and after it the same with each XScheme */
#define QUANT_SCHEME(name, matrix, head, is_float) \
	{name, matrix, head, is_float, X_AUTO}, {name " x float", matrix, head, is_float, X_FLOAT}, \
	{name " x dynamic", matrix, head, is_float, X_DYNAMIC}, \
	{name " x static", matrix, head, is_float, X_STATIC},

static const QuantScheme schemes[] = {
#include "quant/schemes.def"
};

#undef QUANT_SCHEME

static const QuantScheme *
find_scheme(const char *name, bool is_float)
{
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (schemes[i].is_float == is_float && schemes[i].x == X_AUTO && strcmp(schemes[i].name, name) == 0)
			return &schemes[i];
	return NULL;
}

const QuantScheme *
quant_scheme(const char *name)
{
	/* int4 is the name of the best 4-bit scheme */
	return find_scheme(strcmp(name, "int4") == 0 ? "q4_k" : name, false);
}

const QuantScheme *
quant_dtype(const char *name)
{
	return find_scheme(strcmp(name, "half") == 0 ? "float16" : strcmp(name, "float") == 0 ? "float32" : name,
					   true);
}

const char *
quant_scheme_list(void)
{
	return "int8, int4, q8_0, q6_k, q4_0, q4_1 or q4_k";
}

const char *
x_scheme_name(XScheme x)
{
	static const char *const names[X_SCHEMES] = {
		[X_AUTO] = "auto", [X_FLOAT] = "float", [X_DYNAMIC] = "dynamic", [X_STATIC] = "static"
	};

	ALWAYS((unsigned) x < X_SCHEMES);
	return names[x];
}

const QuantScheme *
quant_with_x(const QuantScheme *q, XScheme x)
{
	static const QuantScheme as_in_file[X_SCHEMES] = {
		[X_FLOAT] = {"x float", KT_COUNT, KT_COUNT, true, X_FLOAT},
		[X_DYNAMIC] = {"x dynamic", KT_COUNT, KT_COUNT, true, X_DYNAMIC},
		[X_STATIC] = {"x static", KT_COUNT, KT_COUNT, true, X_STATIC},
	};

	if (q != NULL)
		return q - q->x + x;
	return x == X_AUTO ? NULL : &as_in_file[x];
}

KType
quantize_for_x(KType t, XScheme x)
{
	if (x == X_DYNAMIC || x == X_STATIC)
		return t != KT_INT8 ? t : x == X_DYNAMIC ? KT_INT8D : KT_INT8S;
	if (x == X_AUTO || t == KT_F32 || t == KT_F16 || t == KT_BF16 || t >= KT_FP8)
		return t;
	return t == KT_Q4_0 ? KT_Q4_0F : t == KT_Q4_1 ? KT_Q4_1F : t == KT_INT8 ? KT_INT8F : KT_F16;
}

KType
quantize_rows_of(KType t)
{
	return t == KT_Q4_0F ? KT_Q4_0 : t == KT_Q4_1F ? KT_Q4_1 : t == KT_INT8F || t == KT_INT8D ? KT_INT8 : t;
}

KType
quantize_type(KType t, int64_t k)
{
	if (t == KT_INT8)
		return k <= INT8_MAX_K ? t : KT_COUNT;
	if (k % ktype_block(t) == 0)
		return t;
	if (k % BLOCK != 0)
		return KT_COUNT;
	return t == KT_Q4_K ? KT_Q4_1 : KT_Q8_0;
}

/* ---- arithmetic ---- */

/* Round to the nearest integer, |x| < 2^22, ties to even. */
INLINE float
nearest(float x)
{
	return x + 12582912.0f - 12582912.0f;
}

INLINE float
clamp(float x, float lo, float hi)
{
	return x < lo ? lo : x > hi ? hi : x;
}

/* Return 1 / x, or 0 if x is 0 or too small to have an inverse. */
INLINE float
inverse(float x)
{
	return fabsf(x) < 0x1p-120f ? 0.0f : 1.0f / x;
}

/* eight floats, in the compiler's vector type */
typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef int32_t IVec __attribute__((vector_size(4 * LANES)));

/* Select the lanes of *a where *m is set, else those of *b.  By address, since the ABI for passing
 * vectors of this size by value depends on the CPU that a function is compiled for. */
INLINE void
vec_select(Vec *to, const IVec *m, const Vec *a, const Vec *b)
{
	*to = (Vec) (((IVec) *a & *m) | ((IVec) *b & ~*m));
}

INLINE void
vec_clamp_low(Vec *x, float lo)
{
	Vec			to = lo - (Vec) {0};
	IVec		m = *x < to;

	vec_select(x, &m, &to, x);
}

INLINE void
vec_clamp_high(Vec *x, float hi)
{
	Vec			to = hi - (Vec) {0};
	IVec		m = *x > to;

	vec_select(x, &m, &to, x);
}

/* Return the largest absolute value as bits.  Bits of absolute values are ordered like the values; Inf
 * and NaN come last. */
INLINE uint32_t
abs_max_bits(const float *x, int64_t n)
{
	IVec		most = {0};
	uint32_t	bits = 0;
	int64_t		i = 0;

	for (; i + LANES <= n; i += LANES)
	{
		IVec		v;

		memcpy(&v, x + i, sizeof(v));
		v &= 0x7fffffff;
		for (int l = 0; l < LANES; l++)
			most[l] = v[l] > most[l] ? v[l] : most[l];
	}
	for (int l = 0; l < LANES; l++)
		bits = (uint32_t) most[l] > bits ? (uint32_t) most[l] : bits;
	for (; i < n; i++)
	{
		uint32_t	b;

		memcpy(&b, x + i, sizeof(b));
		b &= 0x7fffffffu;
		bits = b > bits ? b : bits;
	}
	return bits;
}

INLINE bool
bits_finite(uint32_t bits)
{
	return bits < 0x7f800000u;
}

INLINE float
bits_float(uint32_t bits)
{
	float		f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* Return the element with the largest absolute value, with its sign. */
INLINE float
extreme(const float *x, int n)
{
	float		most = 0.0f;

	for (int i = 0; i < n; i++)
		if (fabsf(x[i]) > fabsf(most))
			most = x[i];
	return most;
}

/* ---- scales of up to LANES blocks of n weights ---- */

/* Gather weights: to[i] has weight i of each block, zeros for missing blocks. */
INLINE void
take_blocks(Vec *to, const float *x, int n, int count)
{
	for (int i = 0; i < n; i++)
		for (int l = 0; l < LANES; l++)
			to[i][l] = l < count ? x[l * n + i] : 0.0f;
}

/* For codes q = nearest(x * inv) in lo..hi compute the sums of x q and q q. */
INLINE void
sums_at(const Vec *x, int n, const Vec *inv, float lo, float hi, bool low, Vec *xq, Vec *qq)
{
	Vec			a[4] = {0};
	Vec			b = {0};

	for (int i = 0; i < n; i += 4)
		for (int j = 0; j < 4; j++)
		{
			Vec			q = x[i + j] * *inv + 12582912.0f - 12582912.0f;

			if (low)
				vec_clamp_low(&q, lo);
			vec_clamp_high(&q, hi);
			a[j] += x[i + j] * q;
			b += q * q;
		}
	*xq = (a[0] + a[2]) + (a[1] + a[3]);
	*qq = b;
}

/*
 * Find the scale d with the smallest error of x ~ d q, q in lo..hi = -lo - 1, among those computed from
 * inverses that put the extreme weight near lo.  n is a multiple of 4.  For fixed codes the best d is xq
 * / qq, which reduces the error by xq^2 / qq.
 */
INLINE void
symmetric_scales(const Vec *x, int n, float lo, float hi, Vec *d)
{
	const Vec	zero = {0};
	Vec			most = {0};
	Vec			gain = {0};
	IVec		better;

	for (int i = 0; i < n; i++)
	{
		better = ((IVec) x[i] & 0x7fffffff) > ((IVec) most & 0x7fffffff);
		vec_select(&most, &better, &x[i], &most);
	}
	*d = zero;
	for (int step = -5; step <= 4; step++)
	{
		Vec			inv = (lo + 0.2f * (float) step) / most;
		Vec			xq,
					qq,
					to;

		/* from -0.4 on, no code is below lo */
		sums_at(x, n, &inv, lo, hi, step < -2, &xq, &qq);
		better = (qq > zero) & (xq * xq > gain * qq);
		to = xq * xq / qq;
		vec_select(&gain, &better, &to, &gain);
		to = xq / qq;
		vec_select(d, &better, &to, d);
	}
	better = (Vec) ((IVec) most & 0x7fffffff) < 0x1p-100f;
	vec_select(d, &better, &zero, d);
}

/* The sums that least squares with a minimum need for a choice of codes. */
typedef struct Fit
{
	Vec			q;
	Vec			qq;
	Vec			xq;
} Fit;

/* Compute these sums.  above: x less its minimum, so that no code is below 0. */
INLINE void
fit_at(const Vec *x, const Vec *above, int n, const Vec *inv, float hi, bool high, Fit *f)
{
	Vec			a = {0};
	Vec			b = {0};
	Vec			c[4] = {0};

	for (int i = 0; i < n; i += 4)
		for (int j = 0; j < 4; j++)
		{
			Vec			q = above[i + j] * *inv + 12582912.0f - 12582912.0f;

			if (high)
				vec_clamp_high(&q, hi);
			a += q;
			b += q * q;
			c[j] += x[i + j] * q;
		}
	*f = (Fit) {a, b, (c[0] + c[2]) + (c[1] + c[3])};
}

/* Compute d and m for the codes of f, and their error without the constant sum of x^2. */
INLINE void
solve_fit(const Fit *f, float n, const Vec *sum, bool below, Vec *d, Vec *m, Vec *err)
{
	const Vec	zero = {0};
	Vec			det = n * f->qq - f->q * f->q;
	Vec			to;
	IVec		ok;

	*d = (n * f->xq - *sum * f->q) / det;
	*m = (*sum * f->qq - f->q * f->xq) / det;
	if (below)
	{
		/* no minimum (also if all codes are the same, det = 0) */
		ok = *m <= zero;
		vec_select(m, &ok, m, &zero);
		to = f->xq / f->qq;
		vec_select(d, &ok, d, &to);
	}
	*err = *d * (*d * f->qq + 2.0f * (*m * f->q - f->xq)) + *m * (n * *m - 2.0f * *sum);
}

/* Find d >= 0 and m with the smallest error of x ~ d q + m, q in 0..hi; m <= 0 if `below`. */
INLINE void
asymmetric_scales(const Vec *x, int n, float hi, bool below, Vec *d, Vec *m)
{
	const Vec	zero = {0};
	Vec			min = x[0],
				max = x[0],
				sum = {0},
				best = INFINITY - zero,
				above[BLOCK];
	IVec		better;

	for (int i = 0; i < n; i++)
	{
		better = x[i] < min;
		vec_select(&min, &better, &x[i], &min);
		better = x[i] > max;
		vec_select(&max, &better, &x[i], &max);
		sum += x[i];
	}
	if (below)
		vec_clamp_high(&min, 0.0f);
	for (int i = 0; i < n; i++)
		above[i] = x[i] - min;
	*m = min;
	*d = zero;
	for (int step = -10; step <= 5; step++)
	{
		Vec			inv = (hi + 0.15f * (float) step) / (max - min);
		Vec			sd,
					sm,
					err;
		Fit			f;

		/* up to step 0, no code is above hi */
		fit_at(x, above, n, &inv, hi, step > 0, &f);
		solve_fit(&f, (float) n, &sum, below, &sd, &sm, &err);
		better = (sd > zero) & (err < best);
		vec_select(&best, &better, &err, &best);
		vec_select(d, &better, &sd, d);
		vec_select(m, &better, &sm, m);
	}
	better = max - min < 0x1p-100f;
	vec_select(d, &better, &zero, d);
	vec_select(m, &better, &min, m);
}

/* ---- the formats ---- */

/* Return the larger of the two sums of four magnitudes, of eight weights, that INT8_QUAD bounds. */
INLINE float
most_of_quads(const float *x)
{
	float		a = fabsf(x[0]) + fabsf(x[1]) + (fabsf(x[4]) + fabsf(x[5]));
	float		b = fabsf(x[2]) + fabsf(x[3]) + (fabsf(x[6]) + fabsf(x[7]));

	return a > b ? a : b;
}

/* Return the maximum of most_of_quads() over a row.  Return 0 for a short row: such matrices are fast
 * anyway and keep the finer scale. */
INLINE float
most_of_row(const float *x, int64_t k)
{
	float		last[8] = {0};
	float		most = 0;

	if (k < INT8_QUAD_K)
		return 0;
	for (int64_t i = 0; i + 8 <= k; i += 8)
	{
		float		sum = most_of_quads(x + i);

		most = sum > most ? sum : most;
	}
	memcpy(last, x + k / 8 * 8, (size_t) (k % 8) * sizeof(float));
	return most > most_of_quads(last) ? most : most_of_quads(last);
}

INLINE void
to_int8(const float *x, int64_t k, uint8_t *out)
{
	uint32_t	bits = abs_max_bits(x, k);
	float		most = bits_float(bits);
	/* rounding adds up to 0.5 to each of the four codes */
	float		quads = most_of_row(x, k) * (127.0f / (INT8_QUAD - 2));
	float		d;
	float		inv;

	/* quads may be infinite if the weights are near the largest float; then ignore it */
	if (quads > most && quads <= FLT_MAX)
		most = quads;
	d = most / 127.0f;
	inv = most < 0x1p-100f ? 0.0f : 127.0f / most;

	if (!bits_finite(bits))
	{
		d = NAN;
		inv = 0.0f;
	}
	memcpy(out, &d, sizeof(d));
	out += sizeof(d);
	if (inv == 0.0f)
		memset(out, 0, (size_t) k);
	else
		for (int64_t i = 0; i < k; i++)
			out[i] = (uint8_t) (int32_t) nearest(x[i] * inv);
}

/* Store codes nearest((x - min) * inv) in lo..hi, plus offset. */
INLINE void
put_codes(const float *x, int n, float inv, float min, float lo, float hi, int offset, uint8_t *q)
{
	for (int i = 0; i < n; i++)
		q[i] = (uint8_t) ((int32_t) clamp(nearest((x[i] - min) * inv), lo, hi) + offset);
}

INLINE void
to_q8_0(const float *x, int count, uint8_t *out)
{
	for (int l = 0; l < count; l++, x += BLOCK)
	{
		uint32_t	bits = abs_max_bits(x, BLOCK);
		KBlockQ8_0	b = {.d = QNAN};

		if (bits_finite(bits))
		{
			b.d = kf32_to_f16(bits_float(bits) / 127.0f);
			put_codes(x, BLOCK, inverse(kf16_to_f32(b.d)), 0.0f, -127.0f, 127.0f, 0, (uint8_t *) b.qs);
		}
		memcpy(out + (size_t) l * sizeof(b), &b, sizeof(b));
	}
}

/* Pack the codes 0..15 of a block as Q4_0 and Q4_1 do. */
INLINE void
put_nibbles(const uint8_t *q, uint8_t *qs)
{
	for (int i = 0; i < BLOCK / 2; i++)
		qs[i] = (uint8_t) (q[i] | q[i + BLOCK / 2] << 4);
}

INLINE void
to_q4_0(const float *x, int count, uint8_t *out)
{
	Vec			v[BLOCK],
				d;

	take_blocks(v, x, BLOCK, count);
	symmetric_scales(v, BLOCK, -8.0f, 7.0f, &d);
	for (int l = 0; l < count; l++, x += BLOCK)
	{
		KBlockQ4_0	b = {.d = QNAN};
		uint8_t		q[BLOCK];

		if (bits_finite(abs_max_bits(x, BLOCK)))
		{
			b.d = kf32_to_f16(d[l]);
			put_codes(x, BLOCK, inverse(kf16_to_f32(b.d)), 0.0f, -8.0f, 7.0f, 8, q);
			put_nibbles(q, b.qs);
		}
		memcpy(out + (size_t) l * sizeof(b), &b, sizeof(b));
	}
}

INLINE void
to_q4_1(const float *x, int count, uint8_t *out)
{
	Vec			v[BLOCK],
				d,
				m;

	take_blocks(v, x, BLOCK, count);
	asymmetric_scales(v, BLOCK, 15.0f, false, &d, &m);
	for (int l = 0; l < count; l++, x += BLOCK)
	{
		KBlockQ4_1	b = {.d = QNAN};
		uint8_t		q[BLOCK];

		if (bits_finite(abs_max_bits(x, BLOCK)))
		{
			b.d = kf32_to_f16(d[l]);
			b.m = kf32_to_f16(m[l]);
			put_codes(x, BLOCK, inverse(kf16_to_f32(b.d)), kf16_to_f32(b.m), 0.0f, 15.0f, 0, q);
			put_nibbles(q, b.qs);
		}
		memcpy(out + (size_t) l * sizeof(b), &b, sizeof(b));
	}
}

/* Store the 6-bit scale and minimum of sub-block s as described in blocks.h. */
INLINE void
put_k4_scales(uint8_t *scales, int s, int sc, int mn)
{
	if (s < 4)
	{
		scales[s] |= (uint8_t) sc;
		scales[s + 4] |= (uint8_t) mn;
		return;
	}
	scales[s + 4] = (uint8_t) ((sc & 15) | (mn & 15) << 4);
	scales[s - 4] |= (uint8_t) (sc >> 4 << 6);
	scales[s] |= (uint8_t) (mn >> 4 << 6);
}

INLINE void
to_q4_k(const float *x, uint8_t *out)
{
	KBlockQ4_K	b = {.d = QNAN};
	Vec			v[BLOCK],
				ds,
				ms;
	float		most_d = 0.0f,
				most_m = 0.0f,
				inv_d,
				inv_m;

	_Static_assert(QK_BLOCK == LANES * BLOCK, "a lane for each sub-block");
	if (bits_finite(abs_max_bits(x, QK_BLOCK)))
	{
		take_blocks(v, x, BLOCK, LANES);
		asymmetric_scales(v, BLOCK, 15.0f, true, &ds, &ms);
		for (int s = 0; s < LANES; s++)
		{
			most_d = ds[s] > most_d ? ds[s] : most_d;
			most_m = -ms[s] > most_m ? -ms[s] : most_m;
		}
		b.d = kf32_to_f16(most_d / 63.0f);
		b.dmin = kf32_to_f16(most_m / 63.0f);
		inv_d = inverse(kf16_to_f32(b.d));
		inv_m = inverse(kf16_to_f32(b.dmin));
		for (int s = 0; s < LANES; s++)
		{
			float		sc = clamp(nearest(ds[s] * inv_d), 0.0f, 63.0f);
			float		mn = clamp(nearest(-ms[s] * inv_m), 0.0f, 63.0f);
			float		inv = inverse(kf16_to_f32(b.d) * sc);
			float		min = -(kf16_to_f32(b.dmin) * mn);
			uint8_t		q[BLOCK];

			put_k4_scales(b.scales, s, (int) sc, (int) mn);
			put_codes(x + s * BLOCK, BLOCK, inv, min, 0.0f, 15.0f, 0, q);
			for (int i = 0; i < BLOCK; i++)
				b.qs[s / 2 * BLOCK + i] |= (uint8_t) (q[i] << (s % 2 * 4));
		}
	}
	memcpy(out, &b, sizeof(b));
}

/* Store the codes 0..63 of weights 32 s .. of a super-block. */
INLINE void
put_q6(KBlockQ6_K *b, int s, const uint8_t *q)
{
	int			a = s / 4,
				j = s % 4;

	for (int c = 0; c < BLOCK; c++)
	{
		b->ql[64 * a + 32 * (j % 2) + c] |= (uint8_t) ((q[c] & 15) << (j / 2 * 4));
		b->qh[32 * a + c] |= (uint8_t) (q[c] >> 4 << (2 * j));
	}
}

INLINE void
to_q6_k(const float *x, uint8_t *out)
{
	enum {SUBS = QK_BLOCK / SUB6};
	KBlockQ6_K	b = {.d = QNAN};
	Vec			v[SUB6],
				d;
	float		ds[SUBS],
				inv_d;
	uint8_t		q[BLOCK];

	if (bits_finite(abs_max_bits(x, QK_BLOCK)))
	{
		for (int s = 0; s < SUBS; s += LANES)
		{
			take_blocks(v, x + s * SUB6, SUB6, LANES);
			symmetric_scales(v, SUB6, -32.0f, 31.0f, &d);
			memcpy(ds + s, &d, sizeof(d));
		}
		/* the largest scale becomes -128 */
		b.d = kf32_to_f16(extreme(ds, SUBS) / -128.0f);
		inv_d = inverse(kf16_to_f32(b.d));
		for (int s = 0; s < SUBS; s++)
		{
			float		sc = clamp(nearest(ds[s] * inv_d), -128.0f, 127.0f);

			b.scales[s] = (int8_t) sc;
			put_codes(x + s * SUB6, SUB6, inverse(kf16_to_f32(b.d) * sc), 0.0f, -32.0f, 31.0f, 32,
					  q + s % 2 * SUB6);
			if (s % 2 == 1)
				put_q6(&b, s / 2, q);
		}
	}
	memcpy(out, &b, sizeof(b));
}

INLINE void
blocks_to(KType t, const float *x, int64_t k, uint8_t *to)
{
	int			n = ktype_block(t);
	size_t		bytes = ktype_row_bytes(t, n);
	int			most = n == BLOCK ? LANES : 1;

	for (int64_t i = 0, left = k / n; left > 0; left -= most)
	{
		int			count = left < most ? (int) left : most;

		if (t == KT_Q8_0)
			to_q8_0(x + i, count, to);
		else if (t == KT_Q4_0)
			to_q4_0(x + i, count, to);
		else if (t == KT_Q4_1)
			to_q4_1(x + i, count, to);
		else if (t == KT_Q4_K)
			to_q4_k(x + i, to);
		else
			to_q6_k(x + i, to);
		i += count * n;
		to += (size_t) count * bytes;
	}
}

static void
to_half(KType t, const float *x, int64_t k, uint8_t *to)
{
	for (int64_t i = 0; i < k; i++)
	{
		uint16_t	h = t == KT_F16 ? kf32_to_f16(x[i]) : kf32_to_bf16(x[i]);

		memcpy(to + 2 * i, &h, sizeof(h));
	}
}

INLINE void
row_to(KType t, const float *x, int64_t k, uint8_t *to)
{
	if (t == KT_INT8)
		to_int8(x, k, to);
	else if (t == KT_F16 || t == KT_BF16)
		to_half(t, x, k, to);
	else
		blocks_to(t, x, k, to);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void
row_avx2(KType t, const float *x, int64_t k, uint8_t *to)
{
	row_to(t, x, k, to);
}
#endif

void
quantize_row_plain(KType t, const float *x, int64_t k, void *out)
{
	row_to(t, x, k, out);
}

void
quantize_row(KType t, const float *x, int64_t k, void *out)
{
	ASSERT(k % ktype_block(t) == 0);	/* quantize_type(); the rest of a row would stay undefined */
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2"))
	{
		row_avx2(t, x, k, out);
		return;
	}
#endif
	quantize_row_plain(t, x, k, out);
}
