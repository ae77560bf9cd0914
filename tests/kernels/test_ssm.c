/*
 * test_ssm.c
 *	  The convolution and the recurrence of state-space models, for conform: against the
 *	  reference, in pieces, on several threads, from a state full of NaN, and beside a
 *	  sequence with bad values.
 */
#include "tests/kernels/conform.h"
#include "tests/kernels/ssm_cases.h"

typedef struct Data
{
	Sizes		z;
	float	   *in[SSM_ARRAYS];
	float	   *state;
} Data;

static Data
data_new(const Shape *s)
{
	Data		d = {.z = sizes_of(s)};

	for (int i = 0; i < SSM_ARRAYS; i++)
	{
		d.in[i] = xalloc(d.z.n[i] * sizeof(float));
		rnd_fill(d.in[i], d.z.n[i], ssm_scale[i]);
	}
	for (size_t i = 0; i < d.z.n[SSM_A]; i++)
		d.in[SSM_A][i] = -fabsf(d.in[SSM_A][i]);
	d.state = xalloc(N_SEQS * d.z.stride * sizeof(float));
	return d;
}

static void
data_free(Data *d)
{
	for (int i = 0; i < SSM_ARRAYS; i++)
		free(d->in[i]);
	free(d->state);
}

/* Rows row0 .. of all sequences at once, or only some rows of one. */
static void
step(const Kernels *k, KPool *pool, const Shape *s, Data *d, const KRows *r, int row0, float *y, float *out)
{
	Where		at = {.state = d->state, .y = y};
	KState		conv = {d->state, d->z.stride};
	KState		scan = {d->state + d->z.conv_state, d->z.stride};
	size_t		to = (size_t) row0 * (size_t) d->z.dim;
	KScan		a;

	for (int i = 0; i < SSM_ARRAYS; i++)
		at.in[i] = d->in[i];
	a = scan_of(s, &d->z, &at, row0);
	k->conv(pool, &conv, r, d->in[SSM_X] + (size_t) row0 * (size_t) d->z.ldx, d->z.ldx, d->z.dim, s->width,
			d->in[SSM_W], conv_bias(s, &d->z, &at), s->silu, y + to, d->z.dim);
	k->scan(pool, &scan, r, &a, out + to, d->z.dim);
}

/* chunk 0: all sequences in one step; else each by itself, in such pieces */
static float *
run(const Kernels *k, KPool *pool, const Shape *s, Data *d, int chunk)
{
	int32_t		start[N_SEQS + 1];
	int32_t		pos[ROWS];
	float	   *y = xalloc((size_t) ROWS * (size_t) d->z.dim * sizeof(float));
	float	   *out = xalloc((size_t) ROWS * (size_t) d->z.dim * sizeof(float));
	KRows		r = {.n_rows = ROWS,.n_seqs = N_SEQS,.seq_start = start,.pos = pos,.state_slot = slots};

	/* whatever lies there isn't read */
	memset(d->state, 0xff, N_SEQS * d->z.stride * sizeof(float));
	positions(start, pos);
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
	size_t		n = (size_t) ROWS * (size_t) d.z.dim;
	float	   *want = run(ref, pools[1], s, &d, 0);
	float	   *got = run(im->k, pools[1], s, &d, 0);
	double		e = nmse(want, got, n);

	EXPECT(e <= 1e-11, "%s ssm %d: error %g", im->k->name, i, e);
	for (int chunk = 1; chunk <= 5; chunk += 2)
	{
		float	   *other = run(im->k, pools[1], s, &d, chunk);

		EXPECT(memcmp(got, other, n * sizeof(float)) == 0, "%s ssm %d: other bits in pieces of %d",
			   im->k->name, i, chunk);
		free(other);
	}
	for (int t = 2; t <= MAX_THREADS; t++)
	{
		float	   *other = run(im->k, pools[t], s, &d, 0);

		EXPECT(memcmp(got, other, n * sizeof(float)) == 0, "%s ssm %d: other bits on %d threads", im->k->name,
			   i, t);
		free(other);
	}
	/* a bad value in the second sequence stays there */
	d.in[SSM_X][(size_t) lengths[0] * (size_t) d.z.ldx] = NAN;
	d.in[SSM_BC][(size_t) lengths[0] * (size_t) d.z.ldbc] = INFINITY;
	free(want);
	want = run(im->k, pools[1], s, &d, 0);
	EXPECT(memcmp(got, want, (size_t) lengths[0] * (size_t) d.z.dim * sizeof(float)) == 0 &&
		   memcmp(got + (size_t) (lengths[0] + 1) * (size_t) d.z.dim,
				  want + (size_t) (lengths[0] + 1) * (size_t) d.z.dim,
				  (size_t) lengths[2] * (size_t) d.z.dim * sizeof(float)) == 0,
		   "%s ssm %d: a bad value reaches another sequence", im->k->name, i);
	EXPECT(isnan(want[(size_t) lengths[0] * (size_t) d.z.dim]), "%s ssm %d: a NaN is lost", im->k->name, i);
	free(want);
	free(got);
	data_free(&d);
}

void
test_ssm(const Impl *im)
{
	for (int i = 0; i < N_SHAPES; i++)
	{
		rnd_seed(77 + (uint32_t) i);
		check_shape(im, i);
	}
}
