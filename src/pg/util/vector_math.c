/*
 * vector_math.c
 *	  Sums over float vectors, in SIMD.
 *
 * One body serves every instruction set: 16 parallel sums, which the compiler puts into one AVX-512
 * register, two of AVX2, or four of SSE2 or NEON.  Element i goes into sum i % 16, and a product is
 * rounded before it is added (no FMA: -ffp-contract=off).  The 16 sums are added in double precision,
 * from the first to the last.  So all variants return the same bits, and an order by distance is the
 * same on every machine.
 *
 * Compared with a sum in double precision, the error is at most about n / 16 roundings of a float:
 * 1e-6 of the sum of the products' magnitudes at n = 384, 4e-6 at 4,096.
 *
 * Squares of numbers beyond 1e19 or below 1e-19 are out of a float's range.  Such vectors, which no
 * model makes, are summed again in double precision, which can hold the square of every float.
 *
 * No PostgreSQL header: tests/unit/pg/test_vecmath.c runs all variants that the CPU has.
 */
#include "pg/util/vector_math.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define LANES	16

typedef float Lanes __attribute__((vector_size(LANES * sizeof(float))));

#define VEC_INLINE static inline __attribute__((always_inline))

/* Load the elements from i on, with zeros after the last. */
VEC_INLINE void
load(Lanes *to, const float *from, int i, int n)
{
	if (n - i >= LANES)
		memcpy(to, from + i, sizeof(Lanes));
	else
	{
		float		rest[LANES] = {0};

		memcpy(rest, from + i, sizeof(float) * (size_t) (n - i));
		memcpy(to, rest, sizeof(Lanes));
	}
}

VEC_INLINE double
sum_lanes(const Lanes *v)
{
	double		sum = 0;

	for (int l = 0; l < LANES; l++)
		sum += (*v)[l];
	return sum;
}

VEC_INLINE double
dot_body(const float *a, const float *b, int n)
{
	Lanes		sum = {0};
	Lanes		x,
				y;

	for (int i = 0; i < n; i += LANES)
	{
		load(&x, a, i, n);
		load(&y, b, i, n);
		sum += x * y;
	}
	return sum_lanes(&sum);
}

VEC_INLINE double
square_distance_body(const float *a, const float *b, int n)
{
	Lanes		sum = {0};
	Lanes		x,
				y;

	for (int i = 0; i < n; i += LANES)
	{
		load(&x, a, i, n);
		load(&y, b, i, n);
		x -= y;
		sum += x * x;
	}
	return sum_lanes(&sum);
}

VEC_INLINE void
products_body(const float *a, const float *b, int n, double out[3])
{
	Lanes		ab = {0},
				aa = {0},
				bb = {0};
	Lanes		x,
				y;

	for (int i = 0; i < n; i += LANES)
	{
		load(&x, a, i, n);
		load(&y, b, i, n);
		ab += x * y;
		aa += x * x;
		bb += y * y;
	}
	out[0] = sum_lanes(&ab);
	out[1] = sum_lanes(&aa);
	out[2] = sum_lanes(&bb);
}

/* ---- values out of a float's range ---- */

static double
dot_wide(const float *a, const float *b, int n)
{
	double		sum = 0;

	for (int i = 0; i < n; i++)
		sum += (double) a[i] * b[i];
	return sum;
}

static double
square_distance_wide(const float *a, const float *b, int n)
{
	double		sum = 0;

	for (int i = 0; i < n; i++)
	{
		double		d = (double) a[i] - b[i];

		sum += d * d;
	}
	return sum;
}

/*
 * Return true if no precision was lost: the norm's largest square is far from the ends of a float's
 * range.
 */
static bool
in_range(double square)
{
	return square > 1e-30 && square < 1e38;
}

/* A variant: the bodies compiled for one instruction set. */
#define VARIANT(isa, attribute) \
attribute static double dot_##isa(const float *a, const float *b, int n) \
{ double sum = dot_body(a, b, n); return isfinite(sum) ? sum : dot_wide(a, b, n); } \
attribute static double square_distance_##isa(const float *a, const float *b, int n) \
{ double sum = square_distance_body(a, b, n); return isfinite(sum) ? sum : square_distance_wide(a, b, n); } \
attribute static void products_##isa(const float *a, const float *b, int n, double out[3]) \
{ products_body(a, b, n, out); } \
static const VecOps ops_##isa = {#isa, dot_##isa, square_distance_##isa, products_##isa};

#ifdef __x86_64__
VARIANT(avx512, __attribute__((target("avx512f"))))
VARIANT(avx2, __attribute__((target("avx2"))))
#endif
VARIANT(plain,)

const VecOps *
vec_ops_nth(int i)
{
	const VecOps *all[4] = {NULL};
	int			n = 0;

#ifdef __x86_64__
	if (__builtin_cpu_supports("avx512f"))
		all[n++] = &ops_avx512;
	if (__builtin_cpu_supports("avx2"))
		all[n++] = &ops_avx2;
#endif
	all[n++] = &ops_plain;
	return i < n ? all[i] : NULL;
}

const VecOps *
vec_ops(void)
{
	static const VecOps *best = NULL;

	if (best == NULL)
		best = vec_ops_nth(0);
	return best;
}

double
vec_cosine_distance(const VecOps *ops, const float *a, const float *b, int n)
{
	double		p[3];
	double		cosine;

	ops->products(a, b, n, p);
	if (!in_range(p[1]) || !in_range(p[2]))
	{
		p[0] = dot_wide(a, b, n);
		p[1] = dot_wide(a, a, n);
		p[2] = dot_wide(b, b, n);
	}
	cosine = p[0] / sqrt(p[1] * p[2]);
	/* rounding must not make a distance negative */
	if (cosine > 1)
		cosine = 1;
	if (cosine < -1)
		cosine = -1;
	return 1 - cosine;
}
