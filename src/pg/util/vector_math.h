/*
 * vector_math.h
 *	  Sums over float vectors, for exact search and for comparing embeddings.
 */
#ifndef VLLM_PG_UTIL_VECTOR_MATH_H
#define VLLM_PG_UTIL_VECTOR_MATH_H

typedef struct VecOps
{
	const char *name;			/* "avx512", "avx2", "plain" */
	/* sum of a[i] * b[i]; sum of (a[i] - b[i]) squared */
	double		(*dot) (const float *a, const float *b, int n);
	double		(*square_distance) (const float *a, const float *b, int n);
	/* the three sums of a cosine in one pass: a*b, a*a, b*b */
	void		(*products) (const float *a, const float *b, int n, double out[3]);
} VecOps;

/* Return the best variant that this CPU supports. */
const VecOps *vec_ops(void);

/* Return the i-th variant that this CPU supports, best first; NULL after the last ("plain"). */
const VecOps *vec_ops_nth(int i);

/* Return 1 - cosine; NaN if a vector has no direction (all zeros). */
double		vec_cosine_distance(const VecOps *ops, const float *a, const float *b, int n);

#endif
