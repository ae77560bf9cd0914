/*
 * test_ssm.c
 *	  The convolution and the recurrence of state-space models, for conform: against the
 *	  reference, in pieces, on several threads, from a state full of NaN, and beside a
 *	  sequence with bad values.
 */
#include "tests/kernels/conform.h"

#define N_SEQS	3
#define ROWS	29

static const int lengths[N_SEQS] = {17, 1, 11};

/* One case; the conv has as many channels as the scan, and no B and C in it. */
typedef struct Shape
{
	int			heads;
	int			head_dim;
	int			state;
	int			groups;
	int			width;
	bool		wide;
	bool		gate;
	float		dt_max;
	bool		silu;
} Shape;

static const Shape shapes[] = {
	{64, 1, 16, 1, 4, true, true, INFINITY, true},
	{37, 1, 5, 1, 2, true, false, 0.5f, false},
	{4, 16, 32, 2, 4, false, true, INFINITY, true},
	{6, 24, 20, 3, 3, false, false, 1.0f, true},
	{1, 7, 1, 1, 16, false, true, INFINITY, false},
};

typedef struct Data
{
	int			dim;
	int			ldx;
	int			ldbc;
	float	   *x;				/* [ROWS][ldx]: x, then z */
	float	   *dt;				/* [ROWS][heads] */
	float	   *bc;				/* [ROWS][ldbc] */
	float	   *w;
	float	   *a;
	float	   *d;
	float	   *state;
	size_t		stride;
	size_t		conv_state;
} Data;

static float *
some(size_t n, float scale)
{
	float	   *x = xalloc(n * sizeof(float));

	rnd_fill(x, n, scale);
	return x;
}

static Data
data_new(const Shape *s)
{
	Data		d = {.dim = s->heads * s->head_dim};
	size_t		na = (size_t) s->heads * (s->wide ? s->state : 1);

	d.ldx = 2 * d.dim + 3;
	d.ldbc = 2 * s->groups * s->state + 5;
	d.x = some((size_t) ROWS * d.ldx, 2.0f);
	d.dt = some((size_t) ROWS * s->heads, 3.0f);
	d.bc = some((size_t) ROWS * d.ldbc, 1.0f);
	d.w = some((size_t) (s->width + 1) * d.dim, 0.7f);
	d.a = some(na, 2.0f);
	d.d = some((size_t) 2 * s->heads, 1.0f);
	for (size_t i = 0; i < na; i++)
		d.a[i] = -fabsf(d.a[i]);
	d.conv_state = (size_t) (s->width - 1) * d.dim;
	d.stride = d.conv_state + (size_t) d.dim * s->state + 3;
	d.state = xalloc(N_SEQS * d.stride * sizeof(float));
	return d;
}

static void
data_free(Data *d)
{
	free(d->x);
	free(d->dt);
	free(d->bc);
	free(d->w);
	free(d->a);
	free(d->d);
	free(d->state);
}

/* Rows row0 .. of all sequences at once, or only some rows of one; y = conv(x), then
 * out = scan(y). */
static void
step(const Kernels *k, KPool *pool, const Shape *s, Data *d, const KRows *r, int row0, float *y, float *out)
{
	KState		conv = {d->state, d->stride};
	KState		scan = {d->state + d->conv_state, d->stride};
	const float *x = d->x + (size_t) row0 * d->ldx;
	const float *bc = d->bc + (size_t) row0 * d->ldbc;
	KScan		a = {
		.heads = s->heads,.head_dim = s->head_dim,.state = s->state,.groups = s->groups,
		.x = y + (size_t) row0 * d->dim,.ldx = d->dim,.dt = d->dt + (size_t) row0 * s->heads,.lddt = s->heads,
		.b = bc,.c = bc + s->groups * s->state,.ldbc = d->ldbc,
		.z = s->gate ? x + d->dim : NULL,.ldz = d->ldx,.a = d->a,.a_wide = s->wide,.d = d->d,
		.dt_bias = s->gate ? d->d + s->heads : NULL,.dt_min = 0.01f,.dt_max = s->dt_max
	};

	k->conv(pool, &conv, r, x, d->ldx, d->dim, s->width, d->w, s->gate ? d->w + (size_t) s->width * d->dim : NULL,
			s->silu, y + (size_t) row0 * d->dim, d->dim);
	k->scan(pool, &scan, r, &a, out + (size_t) row0 * d->dim, d->dim);
}

/* chunk 0: all sequences in one step; else each by itself, in such pieces */
static float *
run(const Kernels *k, KPool *pool, const Shape *s, Data *d, int chunk)
{
	static const int32_t slots[N_SEQS] = {2, 0, 1};
	int32_t		start[N_SEQS + 1] = {0};
	int32_t		pos[ROWS];
	float	   *y = xalloc((size_t) ROWS * d->dim * sizeof(float));
	float	   *out = xalloc((size_t) ROWS * d->dim * sizeof(float));
	KRows		r = {.n_rows = ROWS,.n_seqs = N_SEQS,.seq_start = start,.pos = pos,.state_slot = slots};

	/* whatever lies there isn't read */
	memset(d->state, 0xff, N_SEQS * d->stride * sizeof(float));
	for (int q = 0; q < N_SEQS; q++)
	{
		start[q + 1] = start[q] + lengths[q];
		for (int i = 0; i < lengths[q]; i++)
			pos[start[q] + i] = i;
	}
	if (chunk == 0)
		step(k, pool, s, d, &r, 0, y, out);
	for (int q = 0; q < N_SEQS && chunk > 0; q++)
		for (int at = 0; at < lengths[q]; at += chunk)
		{
			int32_t		one[2] = {0, k_min(chunk, lengths[q] - at)};
			KRows		part = {.n_rows = one[1],.n_seqs = 1,.seq_start = one,.pos = pos + start[q] + at,
			.state_slot = slots + q};

			step(k, pool, s, d, &part, start[q] + at, y, out);
		}
	free(y);
	return out;
}

static void
check_shape(const Impl *im, int i)
{
	const Shape *s = &shapes[i];
	Data		d = data_new(s);
	size_t		n = (size_t) ROWS * d.dim;
	float	   *want = run(ref, pools[1], s, &d, 0);
	float	   *got = run(im->k, pools[1], s, &d, 0);
	double		e = nmse(want, got, n);

	EXPECT(e <= 1e-11, "%s ssm %d: error %g", im->k->name, i, e);
	for (int chunk = 1; chunk <= 5; chunk += 2)
	{
		float	   *other = run(im->k, pools[1], s, &d, chunk);

		EXPECT(memcmp(got, other, n * sizeof(float)) == 0, "%s ssm %d: other bits in pieces of %d", im->k->name, i, chunk);
		free(other);
	}
	for (int t = 2; t <= MAX_THREADS; t++)
	{
		float	   *other = run(im->k, pools[t], s, &d, 0);

		EXPECT(memcmp(got, other, n * sizeof(float)) == 0, "%s ssm %d: other bits on %d threads", im->k->name, i, t);
		free(other);
	}
	/* a bad value in the second sequence stays there */
	d.x[(size_t) lengths[0] * d.ldx] = NAN;
	d.bc[(size_t) lengths[0] * d.ldbc] = INFINITY;
	free(want);
	want = run(im->k, pools[1], s, &d, 0);
	EXPECT(memcmp(got, want, (size_t) lengths[0] * d.dim * sizeof(float)) == 0 &&
		   memcmp(got + (size_t) (lengths[0] + 1) * d.dim, want + (size_t) (lengths[0] + 1) * d.dim,
				  (size_t) lengths[2] * d.dim * sizeof(float)) == 0,
		   "%s ssm %d: a bad value reaches another sequence", im->k->name, i);
	EXPECT(isnan(want[(size_t) lengths[0] * d.dim]), "%s ssm %d: a NaN is lost", im->k->name, i);
	free(want);
	free(got);
	data_free(&d);
}

void
test_ssm(const Impl *im)
{
	for (int i = 0; i < (int) (sizeof(shapes) / sizeof(shapes[0])); i++)
	{
		rnd_seed(77 + (uint32_t) i);
		check_shape(im, i);
	}
}
