/*
 * ref2.c
 *	  The naive reference, continued: ops that move and touch up rows (ref2.h).
 *
 * Element by element, as kernels.h says it, on the calling thread.
 */
#include "ref/ref2.h"

double
ref2_act(KAct a, const float *p, double x)
{
	if (a == KACT_TANH)
		return tanh(x);
	if (a == KACT_SIGMOID)
		return 1 / (1 + exp(-x));
	if (x > 0)
		return (double) p[0] * x * x + (double) p[2] * x;
	return (expm1(fmin(x, (double) p[3])) - x) * (double) p[1] + (double) p[2] * x;
}

/* element j of row i */
static inline size_t
at(int i, int ld, int j)
{
	return (size_t) i * (size_t) ld + (size_t) j;
}

void
ref2_scale_cols(KPool *pool, float *y, int rows, int ldy, int from, int n, float by)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int j = from; j < from + n; j++)
			y[at(i, ldy, j)] *= by;
}

void
ref2_mul_cols(KPool *pool, float *y, int rows, int ldy, const float *w, int n)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < n; j++)
			y[at(i, ldy, j)] *= w[j];
}

void
ref2_clip(KPool *pool, float *x, int rows, int ldx, int n, float most)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < n; j++)
			if (fabsf(x[at(i, ldx, j)]) > most)
				x[at(i, ldx, j)] = copysignf(most, x[at(i, ldx, j)]);
}

void
ref2_add_head_bias(KPool *pool, float *x, int rows, int ldx, int heads, int dim, const float *b, int ldb)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < heads * dim; j++)
			x[at(i, ldx, j)] += b[at(j / dim, ldb, j % dim)];
}

void
ref2_temper(KPool *pool, float *q, int rows, int ldq, int n, const int32_t *pos, float scale, int every, int first)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
	{
		int			spans = (pos[i] + first) / every;
		float		by = (float) (1 + (double) scale * log1p(spans));

		for (int j = 0; j < n && spans > 0; j++)
			q[at(i, ldq, j)] *= by;
	}
}

void
ref2_put_rows(KPool *pool, const float *const *given, int rows, int dim, float *y, int ldy)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < dim && given[i] != NULL; j++)
			y[at(i, ldy, j)] = given[i][j];
}

void
ref2_copy_rows(KPool *pool, float *y, int ldy, const float *x, int ldx, const int32_t *idx, int rows, int dim)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < dim; j++)
			y[at(i, ldy, j)] = x[at(idx != NULL ? idx[i] : i, ldx, j)];
}

void
ref2_keep_rows(KPool *pool, void *x, int elem_size, const int32_t *idx, int n, int width)
{
	uint8_t    *bytes = x;
	int			row = width * elem_size;

	(void) pool;
	for (int i = 0; i < n; i++)
		for (int j = 0; j < row; j++)
			bytes[at(i, row, j)] = bytes[at(idx[i], row, j)];
}
