/*
 * test_vecmath.c
 *	  src/pg/util/vector_math.c: every variant against sums in double precision and bit for bit against
 *	  each other.
 */
#include "pg/util/vector_math.c"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/check.h"

#define MOST	1100

static uint64_t seed = 12345;

/* -1 to 1 */
static float
next_float(void)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (float) ((double) (seed >> 40) / (1 << 23) - 1);
}

static void
check_sum(const char *what, const char *isa, int n, double got, double wanted, double magnitude)
{
	CHECK(fabs(got - wanted) <= 1e-6 * (magnitude + 1e-30) * (1 + n / 256), "%s of %d by %s: %.9g, not %.9g",
		  what, n, isa, got, wanted);
}

/* A vector at the end of its memory: sanitizers find loads beyond it. */
static void
test_length(int n)
{
	float	   *a = malloc(sizeof(float) * (size_t) (n + 1));
	float	   *b = malloc(sizeof(float) * (size_t) (n + 1));
	double		ab = 0,
				aa = 0,
				bb = 0,
				dd = 0,
				mag = 0;
	double		first[5];

	for (int i = 0; i < n; i++)
	{
		a[i + 1] = next_float();
		b[i + 1] = next_float();
		ab += (double) a[i + 1] * b[i + 1];
		mag += fabs((double) a[i + 1] * b[i + 1]);
		aa += (double) a[i + 1] * a[i + 1];
		bb += (double) b[i + 1] * b[i + 1];
		dd += ((double) a[i + 1] - b[i + 1]) * ((double) a[i + 1] - b[i + 1]);
	}
	for (int v = 0; vec_ops_nth(v) != NULL; v++)
	{
		const VecOps *ops = vec_ops_nth(v);
		double		got[5];

		/* aligned only to a float */
		got[0] = ops->dot(a + 1, b + 1, n);
		got[1] = ops->square_distance(a + 1, b + 1, n);
		ops->products(a + 1, b + 1, n, got + 2);
		check_sum("dot", ops->name, n, got[0], ab, mag);
		check_sum("square distance", ops->name, n, got[1], dd, dd);
		CHECK(got[2] == got[0], "dot in one pass with the norms, %d by %s", n, ops->name);
		check_sum("norm of a", ops->name, n, got[3], aa, aa);
		check_sum("norm of b", ops->name, n, got[4], bb, bb);
		if (v == 0)
			memcpy(first, got, sizeof(first));
		else
			CHECK(memcmp(first, got, sizeof(first)) == 0, "%s has other bits than %s at %d", ops->name,
				  vec_ops_nth(0)->name, n);
	}
	free(a);
	free(b);
}

static void
test_cosine(void)
{
	float		a[3] = {1, 2, 3};
	float		b[3] = {2, 4, 6};
	float		c[3] = {-1, -2, -3};
	float		x[3] = {1, 0, 0};
	float		y[3] = {0, 1, 0};
	float		zero[3] = {0, 0, 0};
	float		large[3] = {1e18f, 1e18f, 1e18f};
	float		huge[3] = {3e38f, 0, 3e38f};
	float		other[3] = {0, 3e38f, 3e38f};
	float		tiny[3] = {1e-40f, 0, 1e-40f};
	float		infinite[3] = {INFINITY, 0, 0};

	for (int v = 0; vec_ops_nth(v) != NULL; v++)
	{
		const VecOps *ops = vec_ops_nth(v);

		CHECK(fabs(vec_cosine_distance(ops, a, b, 3)) < 1e-12, "same direction");
		CHECK(vec_cosine_distance(ops, a, b, 3) >= 0, "never negative");
		CHECK(fabs(vec_cosine_distance(ops, a, c, 3) - 2) < 1e-12, "opposite");
		CHECK(vec_cosine_distance(ops, x, y, 3) == 1, "at right angles");
		CHECK(isnan(vec_cosine_distance(ops, a, zero, 3)), "no direction");
		CHECK(fabs(vec_cosine_distance(ops, large, large, 3)) < 1e-6, "large numbers");
		CHECK(fabs(vec_cosine_distance(ops, huge, other, 3) - 0.5) < 1e-12, "the largest numbers");
		CHECK(fabs(vec_cosine_distance(ops, tiny, huge, 3)) < 1e-12, "the smallest and the largest");
		CHECK(fabs(sqrt(ops->square_distance(huge, other, 3)) / ((double) 3e38f * sqrt(2)) - 1) < 1e-12,
			  "a large distance");
		CHECK(fabs(ops->dot(huge, huge, 3) / ((double) 3e38f * 3e38f * 2) - 1) < 1e-12, "a large product");
		CHECK(isnan(vec_cosine_distance(ops, infinite, a, 3)), "no direction at infinity");
		CHECK(isinf(ops->dot(infinite, a, 3)) && isinf(ops->square_distance(infinite, a, 3)),
			  "infinitely far");
	}
}

int
main(void)
{
	int			variants = 0;

	while (vec_ops_nth(variants) != NULL)
		variants++;
	printf("variants: %d, best %s\n", variants, vec_ops()->name);
	CHECK(vec_ops() == vec_ops_nth(0), "the best is the first");
	CHECK(strcmp(vec_ops_nth(variants - 1)->name, "plain") == 0, "the last needs nothing");
	for (int n = 0; n <= 80; n++)
		RUN(test_length(n));
	for (int n = 81; n < MOST; n += 61)
		RUN(test_length(n));
	RUN(test_length(384));
	RUN(test_length(1024));
	RUN(test_cosine());
	return check_done("test_vecmath");
}
