/*
 * test_ssm.cu
 *	  kernels/cuda/ssm.cu under emulation against kernels/ref: sequences of a step together, and each by itself in pieces
 *	  with memcmp; from a state full of NaN, and beside a sequence with bad values.
 */
#include "rows_test.h"

#define N_SEQS	3
#define ROWS	29

static const int lengths[N_SEQS] = {17, 1, 11};
static const int32_t slots[N_SEQS] = {2, 0, 1};

/* The conv has as many channels as the scan, and no B and C in it. */
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
	KType		as;
} Shape;

static const Shape shapes[] = {
	{64, 1, 16, 1, 4, true, true, INFINITY, true, KT_F32},
	{37, 1, 5, 1, 2, true, false, 0.5f, false, KT_BF16},
	{4, 16, 32, 2, 4, false, true, INFINITY, true, KT_F16},
	{6, 24, 20, 3, 3, false, false, 1.0f, true, KT_F32},
	{1, 7, 1, 1, 16, false, true, INFINITY, false, KT_F32},
	{3, 6, 100, 1, 1, true, true, INFINITY, true, KT_F32},
	{2, 5, 200, 2, 4, false, true, INFINITY, true, KT_F32},
	{2, 3, 260, 1, 4, false, true, INFINITY, true, KT_F32},
};

typedef struct Data
{
	int			dim;
	int			ldx;
	int			ldbc;
	Floats		x;				/* [ROWS][ldx]: x, then z */
	Floats		dt;
	Floats		bc;
	Floats		w;
	Floats		a;
	Floats		d;
	size_t		stride;
	size_t		conv_state;
} Data;

static Floats
some(size_t n, float scale)
{
	Floats		x(n);

	for (float &v : x)
		v = (float) ((int) (dice() % 20001) - 10000) / 10000.0f * scale;
	return x;
}

static Data
data_of(const Shape *s)
{
	Data		d;

	d.dim = s->heads * s->head_dim;
	d.ldx = 2 * d.dim + 3;
	d.ldbc = 2 * s->groups * s->state + 5;
	d.x = some((size_t) ROWS * d.ldx, 2.0f);
	d.dt = some((size_t) ROWS * s->heads, 3.0f);
	d.bc = some((size_t) ROWS * d.ldbc, 1.0f);
	d.w = some((size_t) (s->width + 1) * d.dim, 0.7f);
	d.a = some((size_t) s->heads * (s->wide ? s->state : 1), 2.0f);
	d.d = some((size_t) 2 * s->heads, 1.0f);
	for (float &v : d.a)
		v = -fabsf(v);
	d.conv_state = (size_t) (s->width - 1) * d.dim;
	d.stride = d.conv_state + (size_t) d.dim * s->state + 3;
	return d;
}

/* what is the same for the reference and the device: all pointers, of either */
typedef struct Where
{
	const float *x;
	const float *dt;
	const float *bc;
	const float *w;
	const float *a;
	const float *d;
	float	   *state;
	float	   *y;				/* of the convolution, [ROWS][dim] */
} Where;

static KScan
scan_of(const Shape *s, const Data *d, const Where *at, int row0)
{
	const float *bc = at->bc + (size_t) row0 * d->ldbc;
	KScan		a = {};

	a.heads = s->heads;
	a.head_dim = s->head_dim;
	a.state = s->state;
	a.groups = s->groups;
	a.x = at->y + (size_t) row0 * d->dim;
	a.ldx = d->dim;
	a.dt = at->dt + (size_t) row0 * s->heads;
	a.lddt = s->heads;
	a.b = bc;
	a.c = bc + s->groups * s->state;
	a.ldbc = d->ldbc;
	a.z = s->gate ? at->x + (size_t) row0 * d->ldx + d->dim : NULL;
	a.ldz = d->ldx;
	a.a = at->a;
	a.a_wide = s->wide;
	a.d = at->d;
	a.dt_bias = s->gate ? at->d + s->heads : NULL;
	a.dt_min = 0.01f;
	a.dt_max = s->dt_max;
	return a;
}

static void
positions(int32_t *start, int32_t *pos)
{
	start[0] = 0;
	for (int q = 0; q < N_SEQS; q++)
	{
		start[q + 1] = start[q] + lengths[q];
		for (int i = 0; i < lengths[q]; i++)
			pos[start[q] + i] = i;
	}
}

static Floats
by_ref(const Shape *s, Data *d, Floats *conv)
{
	int32_t		start[N_SEQS + 1],
				pos[ROWS];
	Floats		state(N_SEQS * d->stride, NAN),
				out((size_t) ROWS * d->dim);
	Where		at = {d->x.data(), d->dt.data(), d->bc.data(), d->w.data(), d->a.data(), d->d.data(), state.data(), NULL};
	KState		cs = {at.state, d->stride},
				ss = {at.state + d->conv_state, d->stride};
	KRows		r = {};
	KScan		a;

	positions(start, pos);
	r.n_rows = ROWS;
	r.n_seqs = N_SEQS;
	r.seq_start = start;
	r.pos = pos;
	r.state_slot = slots;
	conv->resize(out.size());
	at.y = conv->data();
	a = scan_of(s, d, &at, 0);
	kernels_ref.conv(NULL, &cs, &r, at.x, d->ldx, d->dim, s->width, at.w, s->gate ? at.w + (size_t) s->width * d->dim : NULL,
					 s->silu, at.y, d->dim);
	kernels_ref.scan(NULL, &ss, &r, &a, out.data(), d->dim);
	return out;
}

/* one call for rows row0 .. of some sequences */
static void
step(const Shape *s, const Data *d, const Where *at, const CudaRows *r, const int32_t *slot, int row0, void *out)
{
	KState		cs = {at->state, d->stride},
				ss = {at->state + d->conv_state, d->stride};
	KScan		a = scan_of(s, d, at, row0);
	size_t		y = (size_t) row0 * d->dim * (s->as == KT_F32 ? 4 : 2);

	cuda_conv(&cs, slot, r, at->x + (size_t) row0 * d->ldx, d->ldx, d->dim, s->width, at->w,
			  s->gate ? at->w + (size_t) s->width * d->dim : NULL, s->silu, at->y + (size_t) row0 * d->dim, d->dim, NULL);
	cuda_scan(&ss, slot, r, &a, (uint8_t *) out + y, s->as, d->dim, NULL);
}

/* chunk 0: all sequences in one step; else each by itself, in such pieces */
static Floats
run(const Shape *s, const Data *d, int chunk, Floats *conv)
{
	int32_t		start[N_SEQS + 1],
				pos[ROWS];
	Dev			x(d->x),
				dt(d->dt),
				bc(d->bc),
				w(d->w),
				a(d->a),
				dd(d->d),
				/* NaN */
				state(NULL, N_SEQS * d->stride),
				y(NULL, (size_t) ROWS * d->dim),
				out(NULL, (size_t) ROWS * d->dim);
	Where		at = {x.p, dt.p, bc.p, w.p, a.p, dd.p, state.p, y.p};

	cudaMemset(state.p, 0xff, state.n * sizeof(float));
	positions(start, pos);
	DevOf<int32_t> dpos(pos, ROWS),
				dslots(slots, N_SEQS);

	if (chunk == 0)
	{
		DevOf<int32_t> dstart(start, N_SEQS + 1);
		CudaRows	r = {};

		r.n_rows = ROWS;
		r.n_seqs = N_SEQS;
		r.seq_start = dstart.p;
		r.pos = dpos.p;
		step(s, d, &at, &r, dslots.p, 0, out.p);
		cudaDeviceSynchronize();
	}
	for (int q = 0; q < N_SEQS && chunk > 0; q++)
		for (int i = 0; i < lengths[q]; i += chunk)
		{
			int32_t		one[2] = {0, chunk < lengths[q] - i ? chunk : lengths[q] - i};
			DevOf<int32_t> dstart(one, 2);
			CudaRows	r = {};

			r.n_rows = one[1];
			r.n_seqs = 1;
			r.seq_start = dstart.p;
			r.pos = dpos.p + start[q] + i;
			step(s, d, &at, &r, dslots.p + q, start[q] + i, out.p);
			cudaDeviceSynchronize();
		}
	*conv = y.get();
	return operand_rows(out.p, s->as, out.n);
}

static double
largest(const Floats &x)
{
	double		m = 0;

	for (float v : x)
		m = fmax(m, fabs((double) v));
	return m;
}

static void
check_shape(int i)
{
	const Shape *s = &shapes[i];
	Data		d = data_of(s);
	Floats		conv,
				other_conv,
				want_conv;
	Floats		want = by_ref(s, &d, &want_conv);
	Floats		got = run(s, &d, 0, &conv);
	Floats		bad;
	size_t		from = (size_t) lengths[0] * d.dim,
				to = from + d.dim;

	all_orders([&]() {
		got = run(s, &d, 0, &conv);
		CHECK(near(conv, want_conv, 2e-6, 2e-6), "conv %d", i);
		CHECK(near(got, want, rounding(s->as) + 4e-6, 2e-6 * largest(want)), "scan %d", i);
	});
	for (int chunk = 1; chunk <= 5; chunk += 2)
	{
		Floats		other = run(s, &d, chunk, &other_conv);

		CHECK(same(got, other) && same(conv, other_conv), "ssm %d: other bits in pieces of %d", i, chunk);
	}
	/* a bad value in the second sequence stays there */
	d.x[(size_t) lengths[0] * d.ldx] = NAN;
	d.bc[(size_t) lengths[0] * d.ldbc] = INFINITY;
	bad = run(s, &d, 0, &conv);
	CHECK(same(Floats(got.begin(), got.begin() + from), Floats(bad.begin(), bad.begin() + from)) &&
		  same(Floats(got.begin() + to, got.end()), Floats(bad.begin() + to, bad.end())), "ssm %d: a bad value reaches others", i);
	CHECK(isnan(bad[from]), "ssm %d: a NaN is lost", i);
}

/* rows that aren't any get zeros, and leave the state that their slot has */
static void
check_padding(const Shape *s)
{
	Data		d = data_of(s);
	const int32_t start[3] = {0, 1, 2},
				pos[2] = {0, -1};
	Floats		fives(N_SEQS * d.stride, 5.0f);
	Dev			x(d.x),
				dt(d.dt),
				bc(d.bc),
				w(d.w),
				a(d.a),
				dd(d.d),
				state(fives),
				y(NULL, (size_t) 2 * d.dim),
				out(NULL, (size_t) 2 * d.dim);
	Where		at = {x.p, dt.p, bc.p, w.p, a.p, dd.p, state.p, y.p};
	DevOf<int32_t> dpos(pos, 2),
				dslots(slots, 2),
				dstart(start, 3);
	CudaRows	r = {};
	Floats		got,
				left;

	r.n_rows = 2;
	r.n_seqs = 2;
	r.seq_start = dstart.p;
	r.pos = dpos.p;
	step(s, &d, &at, &r, dslots.p, 0, out.p);
	got = out.get();
	left = state.get();
	for (int i = 0; i < d.dim; i++)
		CHECK(got[i] != 0 && got[d.dim + i] == 0 && y.get()[d.dim + i] == 0, "a row that isn't one: %d", i);
	CHECK(same(Floats(left.begin() + slots[1] * d.stride, left.begin() + (slots[1] + 1) * d.stride), Floats(d.stride, 5.0f)),
		  "its state");
}

int
main(void)
{
	for (int i = 0; i < (int) (sizeof(shapes) / sizeof(shapes[0])); i++)
		check_shape(i);
	check_padding(&shapes[0]);
	check_padding(&shapes[3]);
	check_padding(&shapes[7]);
	return check_done("test_emu_ssm");
}
