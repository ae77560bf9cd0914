/*
 * test_ssm.cu
 *	  kernels/cuda/ssm.cu under emulation against kernels/ref: sequences of a step together, and each
 *	  alone in chunks compared with memcmp; from a state full of NaN, and together with a sequence with
 *	  non-finite values.
 */
#include <memory>

#include "rows_test.h"
#include "tests/kernels/ssm_cases.h"

static Floats
some(size_t n, float scale)
{
	Floats		x(n);

	for (float &v : x)
		v = (float) ((int) (dice() % 20001) - 10000) / 10000.0f * scale;
	return x;
}

typedef struct Data
{
	Sizes		z;
	Floats		in[SSM_ARRAYS];
} Data;

static Data
data_of(const Shape *s)
{
	Data		d;

	d.z = sizes_of(s);
	for (int i = 0; i < SSM_ARRAYS; i++)
		d.in[i] = some(d.z.n[i], ssm_scale[i]);
	for (float &v : d.in[SSM_A])
		v = -fabsf(v);
	return d;
}

/* The same on the device, whose state begins as NaN. */
struct There
{
	std::vector<std::unique_ptr<Dev>> in;
	Dev			state,
				y;
	Where		at;

	There(const Data &d) : state(NULL, N_SEQS * d.z.stride), y(NULL, (size_t) ROWS * d.z.dim)
	{
		for (int i = 0; i < SSM_ARRAYS; i++)
		{
			in.emplace_back(new Dev(d.in[i]));
			at.in[i] = in[i]->p;
		}
		at.state = state.p;
		at.y = y.p;
		cudaMemset(state.p, 0xff, state.n * sizeof(float));
	}
};

static Floats
by_ref(const Shape *s, const Data *d, Floats *conv)
{
	int32_t		start[N_SEQS + 1],
				pos[ROWS];
	Floats		state(N_SEQS * d->z.stride, NAN),
				out((size_t) ROWS * d->z.dim);
	Where		at;
	KState		cs = {state.data(), d->z.stride},
				ss = {state.data() + d->z.conv_state, d->z.stride};
	KRows		r = {};
	KScan		a;

	positions(start, pos);
	r.n_rows = ROWS;
	r.n_seqs = N_SEQS;
	r.seq_start = start;
	r.pos = pos;
	r.state_slot = slots;
	conv->resize(out.size());
	for (int i = 0; i < SSM_ARRAYS; i++)
		at.in[i] = d->in[i].data();
	at.state = state.data();
	at.y = conv->data();
	a = scan_of(s, &d->z, &at, 0);
	kernels_ref.conv(NULL, &cs, &r, at.in[SSM_X], d->z.ldx, d->z.dim, s->width, at.in[SSM_W],
					 conv_bias(s, &d->z, &at), s->silu, at.y, d->z.dim);
	kernels_ref.scan(NULL, &ss, &r, &a, out.data(), d->z.dim);
	return out;
}

/* One call for rows row0 .. of some sequences. */
static void
step(const Shape *s, const Data *d, const Where *at, const CudaRows *r, const int32_t *slot, int row0,
	 void *out)
{
	KState		cs = {at->state, d->z.stride},
				ss = {at->state + d->z.conv_state, d->z.stride};
	KScan		a = scan_of(s, &d->z, at, row0);
	size_t		y = (size_t) row0 * d->z.dim;

	cuda_conv(&cs, slot, r, at->in[SSM_X] + (size_t) row0 * d->z.ldx, d->z.ldx, d->z.dim, s->width,
			  at->in[SSM_W], conv_bias(s, &d->z, at), s->silu, at->y + y, d->z.dim, NULL);
	cuda_scan(&ss, slot, r, &a, (uint8_t *) out + y * (s->as == KT_F32 ? 4 : 2), s->as, d->z.dim, NULL);
}

/* chunk 0: all sequences in one step; else each alone, in chunks of this size. */
static Floats
run(const Shape *s, const Data *d, int chunk, Floats *conv)
{
	int32_t		start[N_SEQS + 1],
				pos[ROWS];
	There		there(*d);
	Dev			out(NULL, (size_t) ROWS * d->z.dim);

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
		step(s, d, &there.at, &r, dslots.p, 0, out.p);
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
			step(s, d, &there.at, &r, dslots.p + q, start[q] + i, out.p);
			cudaDeviceSynchronize();
		}
	*conv = there.y.get();
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
	size_t		from = (size_t) lengths[0] * d.z.dim,
				to = from + d.z.dim;

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
	/* a non-finite value in the second sequence stays there */
	d.in[SSM_X][(size_t) lengths[0] * d.z.ldx] = NAN;
	d.in[SSM_BC][(size_t) lengths[0] * d.z.ldbc] = INFINITY;
	bad = run(s, &d, 0, &conv);
	CHECK(same(Floats(got.begin(), got.begin() + from), Floats(bad.begin(), bad.begin() + from)) &&
		  same(Floats(got.begin() + to, got.end()), Floats(bad.begin() + to, bad.end())),
		  "ssm %d: a bad value reaches others", i);
	CHECK(isnan(bad[from]), "ssm %d: a NaN is lost", i);
}

/* Padding rows get zeros, and leave their slot's state unchanged. */
static void
check_padding(const Shape *s)
{
	Data		d = data_of(s);
	const int32_t start[3] = {0, 1, 2},
				pos[2] = {0, -1};
	Floats		fives(N_SEQS * d.z.stride, 5.0f);
	There		there(d);
	Dev			state(fives),
				out(NULL, (size_t) 2 * d.z.dim);
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
	there.at.state = state.p;
	step(s, &d, &there.at, &r, dslots.p, 0, out.p);
	got = out.get();
	left = state.get();
	for (int i = 0; i < d.z.dim; i++)
		CHECK(got[i] != 0 && got[d.z.dim + i] == 0 && there.y.get()[d.z.dim + i] == 0,
			  "a row that isn't one: %d", i);
	CHECK(same(Floats(left.begin() + slots[1] * d.z.stride, left.begin() + (slots[1] + 1) * d.z.stride),
			   Floats(d.z.stride, 5.0f)),
		  "its state");
}

int
main(void)
{
	for (int i = 0; i < N_SHAPES; i++)
		RUN(check_shape(i));
	RUN(check_padding(&shapes[0]));
	RUN(check_padding(&shapes[3]));
	RUN(check_padding(&shapes[7]));
	return check_done("test_emu_ssm");
}
