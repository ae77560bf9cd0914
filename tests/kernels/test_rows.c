/*
 * test_rows.c
 *	  Row-wise ops of one implementation, for conform: norms, add, scale, rotary
 *	  embedding, activations, soft-cap.
 */
#include "tests/kernels/conform.h"

#define MAX_ROWS	67

static const int dims[] = {1, 7, 16, 31, 64, 100, 384, 896};
#define NDIMS	(int) (sizeof(dims) / sizeof(dims[0]))

/* the op over `rows` rows from x to y */
typedef void (*RowOp) (const Kernels *k, KPool *pool, float *y, const float *x, int rows, int dim);

static float weights[2000];
static float deltas[MAX_ROWS * 896];
static float table[64 * 128];	/* cos, sin: [64 positions][64][2] */
static int32_t positions[MAX_ROWS];
static int	first_row;			/* of the batch within all rows */
static int	variant;			/* of the op: the activation, or the kind of norm */

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
op_rmsnorm_plain(const Kernels *k, KPool *pool, float *y, const float *x, int rows, int dim)
{
	k->rmsnorm(pool, y, x, NULL, rows, dim, 1e-6f);
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
op_layernorm(const Kernels *k, KPool *pool, float *y, const float *x, int rows, int dim)
{
	k->layernorm(pool, y, x, weights, weights + 1000, rows, dim, 1e-5f);
}

static void
op_layernorm_plain(const Kernels *k, KPool *pool, float *y, const float *x, int rows, int dim)
{
	memcpy(y, x, (size_t) rows * dim * 4);
	k->layernorm(pool, y, y, NULL, NULL, rows, dim, 1e-5f);
}

/* what fits of heads of 1, 7, 16, 31 ... columns; `variant` chooses kind and weights */
static void
op_norm_heads(const Kernels *k, KPool *pool, float *y, const float *x, int rows, int dim)
{
	int			heads = dim > 200 ? 7 : dim > 30 ? 2 : 1,
				hd = dim / heads;

	memcpy(y, x, (size_t) rows * dim * 4);
	k->norm_heads(pool, variant & 1 ? KNORM_LAYER : KNORM_RMS, y, rows, dim, heads, hd,
				  variant < 4 ? weights : NULL, variant & 2 ? hd : 0, 1e-6f);
}

static void
op_scale(const Kernels *k, KPool *pool, float *y, const float *x, int rows, int dim)
{
	memcpy(y, x, (size_t) rows * dim * 4);
	k->scale(pool, y, rows, dim, 0.7f);
}

static void
op_act_mul(const Kernels *k, KPool *pool, float *y, const float *x, int rows, int dim)
{
	float	   *gu = xalloc((size_t) rows * dim * 8);

	for (int i = 0; i < rows; i++)
		for (int j = 0; j < dim; j++)
		{
			float		v = x[(size_t) i * dim + j];

			gu[(size_t) i * 2 * dim + j] = v * 4.0f;
			gu[(size_t) i * 2 * dim + dim + j] = v * (j % 3 == 0 ? -3.0f : 1.0f);
		}
	k->act_mul(pool, (KAct) variant, y, gu, rows, dim);
	free(gu);
}

static void
op_act(const Kernels *k, KPool *pool, float *y, const float *x, int rows, int dim)
{
	memcpy(y, x, (size_t) rows * dim * 4);
	k->act(pool, (KAct) variant, y, rows, dim);
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

/* bound 0: ref's bits; id: of same_bits, for each of dims */
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
			EXPECT(memcmp(want, all, n * 4) == 0, "%s %s (%d) %d: not ref's bits", im->k->name, name, variant,
				   dim);
		else
			EXPECT(nmse(want, all, n) <= bound, "%s %s (%d) %d: nmse %g", im->k->name, name, variant,
				   dim, nmse(want, all, n));
		EXPECT(same_bits(im, id + d, all, n * 4), "%s %s (%d) %d: not the bits of the others",
			   im->k->name, name, variant, dim);
		for (int rows = 1; rows <= MAX_ROWS; rows++)
		{
			first_row = rnd_int(MAX_ROWS - rows + 1);
			op(im->k, pools[1 + rows % 3], y, x + (size_t) first_row * dim, rows, dim);
			EXPECT(memcmp(y, all + (size_t) first_row * dim, (size_t) rows * dim * 4) == 0,
				   "%s %s (%d) %d: %d rows from %d", im->k->name, name, variant, dim, rows, first_row);
		}
		first_row = 0;
		x[(size_t) 3 * dim + dim / 2] = NAN;
		x[(size_t) 9 * dim + dim - 1] = INFINITY;
		op(im->k, pools[2], y, x, MAX_ROWS, dim);
		for (int i = 0; i < MAX_ROWS; i++)
			wrong += i != 3 && i != 9 &&
				memcmp(y + (size_t) i * dim, all + (size_t) i * dim, dim * 4) != 0;
		EXPECT(wrong == 0, "%s %s (%d) %d: a bad value reached %d other rows",
			   im->k->name, name, variant, dim, wrong);
		EXPECT(strcmp(name, "rope") == 0 ? true : isnan(y[(size_t) 3 * dim + dim / 2]),
			   "%s %s (%d) %d: NaN lost", im->k->name, name, variant, dim);
		free(x);
		free(want);
		free(all);
		free(y);
	}
}

/* what the exp in an activation is of: its rounding costs about as many units of the last place */
static double
exp_argument(KAct a, double x)
{
	switch (a)
	{
		case KACT_GELU:
			return x * x / 2;
		case KACT_GELU_TANH:
			return 1.5957691216057308 * (x + 0.044715 * x * x * x);
		case KACT_GELU_QUICK:
		case KACT_SWIGLU_OAI:
			return 1.702 * x;
		default:
			return 0.0;
	}
}

/*
 * Every activation against double, over exp's whole range and all exponents of x; what
 * is less than 1e-36 may be 0 (e^-x overflowed).
 */
static void
check_acts(const Impl *im)
{
	enum
	{
		RANGE = 8192,
		N = 2 * RANGE
	};
	static const float ends[] = {0.0f, 1000.0f, INFINITY, 1e30f, -1000.0f, -1e30f};
	float	   *gu = xalloc(2 * N * 4),
			   *y = xalloc(N * 4);

	for (int a = 0; a < KACT_COUNT; a++)
	{
		double		worst = 0;

		for (int i = 0; i < N; i++)
		{
			gu[i] = i < RANGE ? -87.0f + 187.0f * (float) i / RANGE
				: (i % 2 ? -1.0f : 1.0f) * ldexpf(1.0f + (float) (i % 61) / 61.0f, i / 64 % 64 - 58);
			gu[N + i] = 0.0f;
		}
		/* up 1 for all, which OAI makes of 0 */
		for (int i = 0; i < N && a != KACT_SWIGLU_OAI; i++)
			gu[N + i] = 1.0f;
		memcpy(y, gu, N * 4);
		im->k->act(pools[2], (KAct) a, y, 2, RANGE);
		ref->act_mul(pools[1], (KAct) a, gu + N, gu, 1, N);
		for (int i = 0; i < N; i++)
		{
			double		want = gu[N + i],
						lost = gu[i] < 0 ? fabs(exp_argument((KAct) a, gu[i])) : 0,
						e = fabs(y[i] - want) / (fabs(want) * 0x1p-23 * (4 + 1.5 * lost) + 1e-36);

			/* not e > worst: a NaN must count */
			if (!(e <= worst))
				worst = e;
		}
		EXPECT(worst <= 1.0, "%s activation %d: error %.2f of the bound", im->k->name, a, worst);
		memcpy(y, ends, sizeof(ends));
		im->k->act(pools[1], (KAct) a, y, 1, 6);
		for (int i = 0; i < 4; i++)
		{
			float		x = a == KACT_SWIGLU_OAI && i > 0 ? 7.0f : ends[i];
			bool		big = a == KACT_RELU2 && i > 0;

			EXPECT(big ? y[i] == x * x : fabsf(y[i] - x) <= 1e-4f || y[i] == x, "%s activation %d of %g: %g",
				   im->k->name, a, (double) ends[i], (double) y[i]);
		}
		EXPECT(y[4] == 0.0f && y[5] == 0.0f, "%s activation %d: %g %g", im->k->name, a, (double) y[4],
			   (double) y[5]);
	}
	free(gu);
	free(y);
}

/*
 * ref's formulas: act(g) * u as PyTorch 2.15 and transformers 5.23 (ACT2FN, and _apply_gate
 * of GptOssExperts) compute them in double.
 */
static void
check_act_values(const Impl *im)
{
	static const float gu[8] = {-9.5f, -1.3f, 8.5f, 4.0f, -8.0f, 0.25f, 9.0f, -0.5f};
	static const double want[KACT_COUNT][4] = {
		{0.00568831329081, -0.0696036305112, 76.4844378362, -1.96402758008},
		{0, -0.0314601574903, 76.5, -1.99993665752},
		{0, -0.0315177469207, 76.5, -1.99996487703},
		{7.22280804515e-06, -0.0320530266542, 76.499960123, -1.99779263793},
		{0, 0, 76.5, -2},
		{0, 0, 650.25, -8},
		{5.41710603386e-06, -0.160265133271, 55.9996250264, 1.99779263793},
	};
	float		y[4];

	for (int a = 0; a < KACT_COUNT; a++)
	{
		im->k->act_mul(pools[1], (KAct) a, y, gu, 1, 4);
		for (int i = 0; i < 4; i++)
			EXPECT(fabs(y[i] - want[a][i]) <= 1e-5 * fabs(want[a][i]) + 1e-18,
				   "%s activation %d of %g: %g, not %g", im->k->name, a, (double) gu[i], (double) y[i],
				   want[a][i]);
	}
}

/* a mean far above the deviations: the squares of differences don't cancel */
static void
check_layernorm(const Impl *im)
{
	float		x[384],
				y[384];
	double		mean = 0,
				var = 0,
				worst = 0;

	for (int i = 0; i < 384; i++)
		mean += (x[i] = 1000.0f + rnd_float(1.0f)) / 384.0;
	for (int i = 0; i < 384; i++)
		var += (x[i] - mean) * (x[i] - mean) / 384.0;
	im->k->layernorm(pools[1], y, x, NULL, NULL, 1, 384, 1e-5f);
	for (int i = 0; i < 384; i++)
		worst = fmax(worst, fabs(y[i] - (x[i] - mean) / sqrt(var + 1e-5)));
	EXPECT(worst < 1e-3, "%s layernorm far from 0: %g", im->k->name, worst);
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
		   "%s softcap: ends %g %g %g %g", im->k->name, (double) y[2], (double) y[3], (double) y[4],
		   (double) y[5]);
	free(x);
	free(y);
}

/* bound 0: ref's bits */
static const struct
{
	const char *name;
	RowOp		op;
	double		bound;
	int			variants;
}			ops[] = {
	{"rmsnorm", op_rmsnorm, 1e-12, 1},
	{"rmsnorm in place", op_rmsnorm_inplace, 1e-12, 1},
	{"rmsnorm without weight", op_rmsnorm_plain, 1e-12, 1},
	{"add_rmsnorm", op_add_rmsnorm, 1e-12, 1},
	{"layernorm", op_layernorm, 1e-12, 1},
	{"layernorm in place", op_layernorm_plain, 1e-12, 1},
	{"norm_heads", op_norm_heads, 1e-12, 6},
	{"add", op_add, 0, 1},
	{"scale", op_scale, 0, 1},
	{"rope", op_rope, 0, 1},
	{"act_mul", op_act_mul, 1e-12, KACT_COUNT},
	{"act", op_act, 1e-12, KACT_COUNT},
	{"softcap", op_softcap, 1e-12, 1},
};

void
test_rows(const Impl *im)
{
	int			id = ID_ROWS;

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
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		for (variant = 0; variant < ops[i].variants; variant++, id += NDIMS)
			check_op(im, ops[i].name, ops[i].op, ops[i].bound, id);
	check_acts(im);
	check_act_values(im);
	check_layernorm(im);
	check_tanh(im);
}
