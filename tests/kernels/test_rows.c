/*
 * test_rows.c
 *	  Row-wise ops of one implementation, for conform: norms, add, rotary
 *	  embedding, SwiGLU, soft-cap.
 */
#include "tests/kernels/conform.h"

#define MAX_ROWS	67

static const int dims[] = {1, 7, 16, 31, 64, 100, 384, 896};
#define NDIMS	(int) (sizeof(dims) / sizeof(dims[0]))

/* the op over `rows` rows from x to y */
typedef void (*RowOp) (const Kernels *k, KPool *pool, float *y, const float *x, int rows, int dim);

static float weights[896];
static float deltas[MAX_ROWS * 896];
static float table[64 * 128];	/* cos, sin: [64 positions][64][2] */
static int32_t positions[MAX_ROWS];
static int	first_row;			/* of the batch within all rows */

static void
op_rmsnorm(const Kernels *k, KPool *pool, float *y, const float *x, int rows, int dim)
{
	k->rmsnorm(pool, y, x, weights, rows, dim, 1e-6f);
}

static void
op_rmsnorm_inplace(const Kernels *k, KPool *pool, float *y, const float *x, int rows, int dim)
{
	memcpy(y, x, (size_t) rows * dim * 4);
	k->rmsnorm(pool, y, y, weights, rows, dim, 1e-6f);
}

static void
op_add_rmsnorm(const Kernels *k, KPool *pool, float *y, const float *x, int rows, int dim)
{
	float	   *t = xalloc((size_t) rows * dim * 4);

	memcpy(t, x, (size_t) rows * dim * 4);
	k->add_rmsnorm(pool, y, t, deltas + (size_t) first_row * dim, weights, rows, dim, 1e-6f);
	/* the sum is an output too */
	for (size_t i = 0; i < (size_t) rows * dim; i++)
		y[i] += 3.0f * t[i];
	free(t);
}

static void
op_add(const Kernels *k, KPool *pool, float *y, const float *x, int rows, int dim)
{
	memcpy(y, x, (size_t) rows * dim * 4);
	k->add(pool, y, deltas + (size_t) first_row * dim, rows, dim);
}

static void
op_silu(const Kernels *k, KPool *pool, float *y, const float *x, int rows, int dim)
{
	float	   *gu = xalloc((size_t) rows * dim * 8);

	for (int i = 0; i < rows; i++)
	{
		memcpy(gu + (size_t) i * 2 * dim, x + (size_t) i * dim, dim * 4);
		memcpy(gu + (size_t) i * 2 * dim + dim, x + (size_t) i * dim, dim * 4);
	}
	k->silu_mul(pool, y, gu, rows, dim);
	free(gu);
}

static void
op_softcap(const Kernels *k, KPool *pool, float *y, const float *x, int rows, int dim)
{
	memcpy(y, x, (size_t) rows * dim * 4);
	k->softcap(pool, y, rows, dim, 1.7f);
}

static void
op_rope(const Kernels *k, KPool *pool, float *y, const float *x, int rows, int dim)
{
	int			heads = dim > 200 ? 7 : 1,
				hd = dim / heads,
				rot = k_min(hd, 128) & ~1;

	memcpy(y, x, (size_t) rows * dim * 4);
	if (rot > 0)
		k->rope(pool, y, rows, dim, heads, hd, positions + first_row, table, rot);
}

/* bound 0: ref's bits */
static void
check_op(const Impl *im, const char *name, RowOp op, double bound, int id)
{
	for (int d = 0; d < NDIMS; d++)
	{
		int			dim = dims[d];
		size_t		n = (size_t) MAX_ROWS * dim;
		float	   *x = xalloc(n * 4),
				   *want = xalloc(n * 4),
				   *all = xalloc(n * 4),
				   *y = xalloc(n * 4);
		int			wrong = 0;

		rnd_seed(d + 77);
		rnd_fill(x, n, 3.0f);
		first_row = 0;
		op(ref, pools[1], want, x, MAX_ROWS, dim);
		op(im->k, pools[3], all, x, MAX_ROWS, dim);
		if (bound == 0)
			EXPECT(memcmp(want, all, n * 4) == 0, "%s %s %d: not ref's bits", im->k->name, name, dim);
		else
			EXPECT(nmse(want, all, n) <= bound, "%s %s %d: nmse %g", im->k->name, name, dim,
				   nmse(want, all, n));
		EXPECT(same_bits(im, id + d, all, n * 4), "%s %s %d: not the bits of the others",
			   im->k->name, name, dim);
		for (int rows = 1; rows <= MAX_ROWS; rows++)
		{
			first_row = rnd_int(MAX_ROWS - rows + 1);
			op(im->k, pools[1 + rows % 3], y, x + (size_t) first_row * dim, rows, dim);
			EXPECT(memcmp(y, all + (size_t) first_row * dim, (size_t) rows * dim * 4) == 0,
				   "%s %s %d: %d rows from %d", im->k->name, name, dim, rows, first_row);
		}
		first_row = 0;
		x[(size_t) 3 * dim + dim / 2] = NAN;
		x[(size_t) 9 * dim + dim - 1] = INFINITY;
		op(im->k, pools[2], y, x, MAX_ROWS, dim);
		for (int i = 0; i < MAX_ROWS; i++)
			wrong += i != 3 && i != 9 &&
				memcmp(y + (size_t) i * dim, all + (size_t) i * dim, dim * 4) != 0;
		EXPECT(wrong == 0, "%s %s %d: a bad value reached %d other rows", im->k->name, name, dim, wrong);
		EXPECT(strcmp(name, "rope") == 0 ? true : isnan(y[(size_t) 3 * dim + dim / 2]),
			   "%s %s %d: NaN lost", im->k->name, name, dim);
		free(x);
		free(want);
		free(all);
		free(y);
	}
}

/* SwiGLU over the whole range of exp, in units of the last place */
static void
check_exp(const Impl *im)
{
	enum
	{
		N = 4096
	};
	float	   *gu = xalloc(2 * N * 4),
			   *y = xalloc(N * 4);
	double		worst = 0;

	for (int i = 0; i < N; i++)
	{
		gu[i] = -87.0f + 187.0f * i / N;
		gu[N + i] = 1.0f;
	}
	im->k->silu_mul(pools[1], y, gu, 1, N);
	for (int i = 0; i < N; i++)
	{
		double		want = gu[i] / (1.0 + exp(-(double) gu[i]));
		double		e = fabs(y[i] - want) / (fabs(want) * 0x1p-23 + 1e-38);

		worst = e > worst ? e : worst;
	}
	EXPECT(worst <= 4.0, "%s silu: %.2f units of the last place", im->k->name, worst);
	/* the ends: no NaN from overflow */
	gu[0] = -1000.0f;
	gu[1] = 1000.0f;
	gu[2] = 0.0f;
	gu[3] = gu[4] = gu[5] = 1.0f;
	im->k->silu_mul(pools[1], y, gu, 1, 3);
	EXPECT(y[0] == 0.0f && y[1] == 1000.0f && y[2] == 0.0f, "%s silu: ends %g %g %g",
		   im->k->name, (double) y[0], (double) y[1], (double) y[2]);
	free(gu);
	free(y);
}

/* tanh over all exponents and both signs, in units of the last place */
static void
check_tanh(const Impl *im)
{
	enum
	{
		N = 8192
	};
	static const float ends[] = {0.0f, -0.0f, 1e6f, -1e6f, INFINITY, -INFINITY};
	float	   *x = xalloc(N * 4),
			   *y = xalloc(N * 4);
	double		worst = 0;

	for (int i = 0; i < N; i++)
		x[i] = (i % 2 ? -1.0f : 1.0f) * ldexpf(1.0f + (float) (i % 61) / 61.0f, i / 64 - 120);
	memcpy(y, x, N * 4);
	im->k->softcap(pools[1], y, 1, N, 1.0f);
	for (int i = 0; i < N; i++)
	{
		double		want = tanh(x[i]);
		double		e = fabs(y[i] - want) / (fabs(want) * 0x1p-23);

		/* not e > worst: a NaN must count */
		if (!(e <= worst))
			worst = e;
	}
	EXPECT(worst <= 4.0, "%s tanh: %.2f units of the last place", im->k->name, worst);
	memcpy(y, ends, sizeof(ends));
	im->k->softcap(pools[1], y, 2, 3, 30.0f);
	EXPECT(y[0] == 0.0f && y[1] == 0.0f && y[2] == 30.0f && y[3] == -30.0f && y[4] == 30.0f && y[5] == -30.0f,
		   "%s softcap: ends %g %g %g %g", im->k->name, (double) y[2], (double) y[3], (double) y[4], (double) y[5]);
	free(x);
	free(y);
}

void
test_rows(const Impl *im)
{
	rnd_seed(5);
	rnd_fill(weights, sizeof(weights) / sizeof(float), 1.5f);
	rnd_fill(deltas, sizeof(deltas) / sizeof(float), 1.0f);
	for (int i = 0; i < MAX_ROWS; i++)
		positions[i] = rnd_int(64);
	for (int i = 0; i < 64 * 64; i++)
	{
		table[2 * i] = cosf(i * 0.37f);
		table[2 * i + 1] = sinf(i * 0.37f);
	}
	check_op(im, "rmsnorm", op_rmsnorm, 1e-12, ID_ROWS);
	check_op(im, "rmsnorm in place", op_rmsnorm_inplace, 1e-12, ID_ROWS);
	check_op(im, "add_rmsnorm", op_add_rmsnorm, 1e-12, ID_ROWS + 100);
	check_op(im, "add", op_add, 0, ID_ROWS + 200);
	check_op(im, "rope", op_rope, 0, ID_ROWS + 300);
	check_op(im, "silu", op_silu, 1e-12, ID_ROWS + 400);
	check_op(im, "softcap", op_softcap, 1e-12, ID_ROWS + 500);
	check_exp(im);
	check_tanh(im);
}
