/*
 * quantize.c
 *	  Quantized rows from float ones.
 *
 * INT8 and Q8_0 take the scale that their largest weight asks for.  With fewer
 * bits that is not the best one: a smaller scale cuts the largest weight off but
 * rounds all others finer.  So a dozen scales around it are tried; for the codes
 * that each of them gives, the best scale (and minimum) follows by least squares,
 * and the one with the smallest squared error wins.  The K formats do so for each
 * sub-block, round the scales to 6 or 8 bits and then choose the codes for what
 * these became.
 *
 * Sums run in four lanes, which any CPU has: one order, the same bits everywhere.
 *
 * Tested by tests/unit/test_load_quant.c and tests/golden/quantize_golden.c.
 */
#include "quant/quantize.h"

#include <math.h>
#include <string.h>

#define LANES 4
#define BLOCK 32				/* weights of a 32-block, and of a sub-block of Q4_K */
#define SUB6 16					/* weights of a sub-block of Q6_K */
#define QNAN 0x7e00				/* a NaN as IEEE half */

static const QuantScheme schemes[] = {
	{"int8", KT_INT8, KT_INT8},
	{"int4", KT_Q4_K, KT_Q6_K},
	{"q8_0", KT_Q8_0, KT_Q8_0},
	{"q6_k", KT_Q6_K, KT_Q6_K},
	{"q4_0", KT_Q4_0, KT_Q6_K},
	{"q4_1", KT_Q4_1, KT_Q6_K},
	{"q4_k", KT_Q4_K, KT_Q6_K},
};

const QuantScheme *
quant_scheme(const char *name)
{
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (strcmp(schemes[i].name, name) == 0)
			return &schemes[i];
	return NULL;
}

const char *
quant_scheme_list(void)
{
	return "int8, int4, q8_0, q6_k, q4_0, q4_1 or q4_k";
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

/* to the nearest integer, |x| < 2^22, ties to even */
static inline float
nearest(float x)
{
	return x + 12582912.0f - 12582912.0f;
}

static inline float
clamp(float x, float lo, float hi)
{
	return x < lo ? lo : x > hi ? hi : x;
}

/* 1 / x, 0 for 0 and for what is too small to have an inverse */
static inline float
inverse(float x)
{
	return fabsf(x) < 0x1p-120f ? 0.0f : 1.0f / x;
}

/* four floats at once, in the compiler's own vectors */
typedef float Vec __attribute__((vector_size(16)));
typedef int32_t IVec __attribute__((vector_size(16)));

static inline Vec
vec_load(const float *x)
{
	Vec			v;

	memcpy(&v, x, sizeof(v));
	return v;
}

/* nearest() and clamp() of each lane */
static inline Vec
vec_code(Vec x, float lo, float hi)
{
	Vec			l = lo - (Vec) {0};
	Vec			h = hi - (Vec) {0};
	IVec		m;

	x = x + 12582912.0f - 12582912.0f;
	m = x < l;
	x = (Vec) (((IVec) l & m) | ((IVec) x & ~m));
	m = x > h;
	return (Vec) (((IVec) h & m) | ((IVec) x & ~m));
}

static float
vec_sum(Vec v)
{
	return (v[0] + v[2]) + (v[1] + v[3]);
}

static bool
all_finite(const float *x, int n)
{
	float		zero = 0.0f;

	for (int i = 0; i < n; i++)
		zero += x[i] * 0.0f;
	return zero == 0.0f;
}

static float
abs_max(const float *x, int64_t n)
{
	float		most = 0.0f;

	for (int64_t i = 0; i < n; i++)
		most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
	return most;
}

/* the element with the largest absolute value, with its sign */
static float
extreme(const float *x, int n)
{
	float		most = 0.0f;

	for (int i = 0; i < n; i++)
		if (fabsf(x[i]) > fabsf(most))
			most = x[i];
	return most;
}

/* For codes q = nearest(x * inv) in lo..hi: the sums of x q and q q. */
static void
sums_at(const float *x, int n, float inv, float lo, float hi, float *xq, float *qq)
{
	Vec			a = {0};
	Vec			b = {0};

	for (int i = 0; i < n; i += LANES)
	{
		Vec			v = vec_load(x + i);
		Vec			q = vec_code(v * inv, lo, hi);

		a += v * q;
		b += q * q;
	}
	*xq = vec_sum(a);
	*qq = vec_sum(b);
}

/*
 * The scale d with the smallest error of x ~ d q, q in lo..hi = -lo - 1, among
 * those found from inverses that put the extreme weight near lo.  n is a multiple
 * of LANES.  With codes fixed, the best d is xq / qq and takes xq^2 / qq off the
 * error.
 */
static float
symmetric_scale(const float *x, int n, float lo, float hi)
{
	float		most = extreme(x, n);
	float		gain = 0.0f;
	float		d = 0.0f;

	if (fabsf(most) < 0x1p-100f)
		return 0.0f;
	for (int step = -5; step <= 4; step++)
	{
		float		xq,
					qq;

		sums_at(x, n, (lo + 0.2f * (float) step) / most, lo, hi, &xq, &qq);
		if (qq > 0.0f && xq * xq > gain * qq)
		{
			gain = xq * xq / qq;
			d = xq / qq;
		}
	}
	return d;
}

/* What least squares with a minimum needs to know of a choice of codes. */
typedef struct Fit
{
	float		q;
	float		qq;
	float		xq;
} Fit;

static Fit
fit_at(const float *x, int n, float inv, float min, float hi)
{
	Vec			a = {0};
	Vec			b = {0};
	Vec			c = {0};

	for (int i = 0; i < n; i += LANES)
	{
		Vec			v = vec_load(x + i);
		Vec			q = vec_code((v - min) * inv, 0.0f, hi);

		a += q;
		b += q * q;
		c += v * q;
	}
	return (Fit) {vec_sum(a), vec_sum(b), vec_sum(c)};
}

/*
 * d >= 0 and m with the smallest error of x ~ d q + m, q in 0..hi; m <= 0 if
 * `below`.  The error of a choice is that of d and m as they were found, without
 * the constant sum of x^2.
 */
static float
asymmetric_scale(const float *x, int n, float hi, bool below, float *m)
{
	float		min = x[0],
				max = x[0],
				sum = 0.0f,
				best = INFINITY,
				d = 0.0f;

	for (int i = 0; i < n; i++)
	{
		min = x[i] < min ? x[i] : min;
		max = x[i] > max ? x[i] : max;
		sum += x[i];
	}
	if (below && min > 0.0f)
		min = 0.0f;
	*m = min;
	if (max - min < 0x1p-100f)
		return 0.0f;
	for (int step = -10; step <= 5; step++)
	{
		Fit			f = fit_at(x, n, (hi + 0.15f * (float) step) / (max - min), min, hi);
		float		det = (float) n * f.qq - f.q * f.q;
		float		sd,
					sm,
					err;

		sd = ((float) n * f.xq - sum * f.q) / det;
		sm = (sum * f.qq - f.q * f.xq) / det;
		/* without a minimum (also where all codes are the same, det = 0) */
		if (below && !(sm <= 0.0f))
		{
			sm = 0.0f;
			sd = f.xq / f.qq;
		}
		err = sd * (sd * f.qq + 2.0f * (sm * f.q - f.xq)) + sm * ((float) n * sm - 2.0f * sum);
		if (sd > 0.0f && err < best)
		{
			best = err;
			d = sd;
			*m = sm;
		}
	}
	return d;
}

/* ---- the formats ---- */

static void
to_int8(const float *x, int64_t k, uint8_t *out)
{
	float		most = abs_max(x, k);
	float		d = most / 127.0f;
	float		inv = most < 0x1p-100f ? 0.0f : 127.0f / most;

	for (int64_t i = 0; i < k; i++)
		if (!isfinite(x[i]))
		{
			d = NAN;
			inv = 0.0f;
		}
	memcpy(out, &d, sizeof(d));
	for (int64_t i = 0; i < k; i++)
		out[sizeof(d) + (size_t) i] = inv == 0.0f ? 0 : (uint8_t) (int8_t) nearest(x[i] * inv);
}

static void
to_q8_0(const float *x, uint8_t *out)
{
	KBlockQ8_0	b = {.d = kf32_to_f16(abs_max(x, BLOCK) / 127.0f)};
	float		inv = inverse(kf16_to_f32(b.d));

	if (!all_finite(x, BLOCK))
		b.d = QNAN;
	else
		for (int i = 0; i < BLOCK; i++)
			b.qs[i] = (int8_t) clamp(nearest(x[i] * inv), -127.0f, 127.0f);
	memcpy(out, &b, sizeof(b));
}

/* codes nearest((x - min) * inv) + offset, in 0..15, as Q4_0 and Q4_1 pack them */
static void
put_nibbles(const float *x, float inv, float min, float offset, uint8_t *qs)
{
	for (int i = 0; i < BLOCK / 2; i++)
	{
		int			low = (int) clamp(nearest((x[i] - min) * inv) + offset, 0.0f, 15.0f);
		int			high = (int) clamp(nearest((x[i + BLOCK / 2] - min) * inv) + offset, 0.0f, 15.0f);

		qs[i] = (uint8_t) (low | high << 4);
	}
}

static void
to_q4_0(const float *x, uint8_t *out)
{
	KBlockQ4_0	b = {.d = QNAN};

	if (all_finite(x, BLOCK))
	{
		b.d = kf32_to_f16(symmetric_scale(x, BLOCK, -8.0f, 7.0f));
		put_nibbles(x, inverse(kf16_to_f32(b.d)), 0.0f, 8.0f, b.qs);
	}
	memcpy(out, &b, sizeof(b));
}

static void
to_q4_1(const float *x, uint8_t *out)
{
	KBlockQ4_1	b = {.d = QNAN};
	float		m;

	if (all_finite(x, BLOCK))
	{
		b.d = kf32_to_f16(asymmetric_scale(x, BLOCK, 15.0f, false, &m));
		b.m = kf32_to_f16(m);
		put_nibbles(x, inverse(kf16_to_f32(b.d)), kf16_to_f32(b.m), 0.0f, b.qs);
	}
	memcpy(out, &b, sizeof(b));
}

/* the 6-bit scale and minimum of sub-block s, as blocks.h describes them */
static void
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

static void
to_q4_k(const float *x, uint8_t *out)
{
	enum {SUBS = QK_BLOCK / BLOCK};
	KBlockQ4_K	b = {.d = QNAN};
	float		ds[SUBS],
				ms[SUBS],
				most_d = 0.0f,
				most_m = 0.0f,
				inv_d,
				inv_m;

	for (int s = 0; s < SUBS; s++)
	{
		ds[s] = asymmetric_scale(x + s * BLOCK, BLOCK, 15.0f, true, &ms[s]);
		most_d = ds[s] > most_d ? ds[s] : most_d;
		most_m = -ms[s] > most_m ? -ms[s] : most_m;
	}
	if (all_finite(x, QK_BLOCK))
	{
		b.d = kf32_to_f16(most_d / 63.0f);
		b.dmin = kf32_to_f16(most_m / 63.0f);
		inv_d = inverse(kf16_to_f32(b.d));
		inv_m = inverse(kf16_to_f32(b.dmin));
		for (int s = 0; s < SUBS; s++)
		{
			float		sc = clamp(nearest(ds[s] * inv_d), 0.0f, 63.0f);
			float		mn = clamp(nearest(-ms[s] * inv_m), 0.0f, 63.0f);
			float		inv = inverse(kf16_to_f32(b.d) * sc);
			float		min = -(kf16_to_f32(b.dmin) * mn);

			put_k4_scales(b.scales, s, (int) sc, (int) mn);
			for (int i = 0; i < BLOCK; i++)
			{
				int			q = (int) clamp(nearest((x[s * BLOCK + i] - min) * inv), 0.0f, 15.0f);

				b.qs[s / 2 * BLOCK + i] |= (uint8_t) (q << (s % 2 * 4));
			}
		}
	}
	memcpy(out, &b, sizeof(b));
}

/* code q, 0..63, of weight i of a super-block */
static void
put_q6(KBlockQ6_K *b, int i, int q)
{
	int			a = i / 128,
				c = i % 32,
				j = i / 32 % 4;

	b->ql[64 * a + 32 * (j % 2) + c] |= (uint8_t) ((q & 15) << (j / 2 * 4));
	b->qh[32 * a + c] |= (uint8_t) (q >> 4 << (2 * j));
}

static void
to_q6_k(const float *x, uint8_t *out)
{
	enum {SUBS = QK_BLOCK / SUB6};
	KBlockQ6_K	b = {.d = QNAN};
	float		ds[SUBS];

	for (int s = 0; s < SUBS; s++)
		ds[s] = symmetric_scale(x + s * SUB6, SUB6, -32.0f, 31.0f);
	if (all_finite(x, QK_BLOCK))
	{
		float		inv_d;

		/* the largest scale becomes -128 */
		b.d = kf32_to_f16(extreme(ds, SUBS) / -128.0f);
		inv_d = inverse(kf16_to_f32(b.d));
		for (int s = 0; s < SUBS; s++)
		{
			float		sc = clamp(nearest(ds[s] * inv_d), -128.0f, 127.0f);
			float		inv = inverse(kf16_to_f32(b.d) * sc);

			b.scales[s] = (int8_t) sc;
			for (int i = 0; i < SUB6; i++)
				put_q6(&b, s * SUB6 + i, 32 + (int) clamp(nearest(x[s * SUB6 + i] * inv), -32.0f, 31.0f));
		}
	}
	memcpy(out, &b, sizeof(b));
}

void
quantize_row(KType t, const float *x, int64_t k, void *out)
{
	static void (*const block[KT_COUNT]) (const float *x, uint8_t *out) = {
		[KT_Q8_0] = to_q8_0, [KT_Q4_0] = to_q4_0, [KT_Q4_1] = to_q4_1, [KT_Q4_K] = to_q4_k,
		[KT_Q6_K] = to_q6_k,
	};
	int			n = ktype_block(t);
	size_t		bytes = ktype_row_bytes(t, n);
	uint8_t    *to = out;

	if (t == KT_INT8)
	{
		to_int8(x, k, to);
		return;
	}
	for (int64_t i = 0; i < k; i += n, to += bytes)
		block[t] (x + i, to);
}
