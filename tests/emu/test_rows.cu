/*
 * test_rows.cu
 *	  kernels/cuda/rows.cu under emulation against kernels/ref, or against a loop that defines the op;
 *	  each row alone compared with memcmp.
 */
#include "rows_test.h"

/* Arguments of ops: rows of x (stride ldx), the first of which has number `first`, and a second input. */
typedef struct Rows
{
	int			first;
	int			rows;
	int			dim;
	KType		as;
	int			variant;
} Rows;

#define DIMS	1000
#define ROWS	17

static float weights[DIMS + 1];
static float deltas[ROWS * DIMS];
static int32_t positions[ROWS];

static float
some(float scale)
{
	return (float) ((int) (dice() % 20001) - 10000) / 10000.0f * scale;
}

/* ---- an op on the device, and its expected result: y, of `rows` x dim, from x ---- */

typedef void (*DeviceOp) (const Rows *r, float *x, void *y, const Dev &w, const Dev &d);
typedef void (*HostOp) (const Rows *r, const float *x, float *y);

static const float xielu_p[4] = {0.8f, 1.3f, 0.5f, -1e-6f};

static void
dev_add(const Rows *r, float *x, void *y, const Dev &, const Dev &d)
{
	cuda_add(x, d.p + r->first * r->dim, r->rows, r->dim, NULL);
	cuda_copy_rows((float *) y, r->dim, x, r->dim, NULL, r->rows, r->dim, NULL);
}

static void
want_add(const Rows *r, const float *x, float *y)
{
	memcpy(y, x, (size_t) r->rows * r->dim * sizeof(float));
	kernels_ref.add(NULL, y, deltas + r->first * r->dim, r->rows, r->dim);
}

static void
dev_scale(const Rows *r, float *x, void *y, const Dev &, const Dev &)
{
	cuda_scale(x, r->rows, r->dim, 0.7f, NULL);
	cuda_to_op(y, r->as, r->dim, x, r->dim, r->rows, r->dim, NULL);
}

static void
want_scale(const Rows *r, const float *x, float *y)
{
	memcpy(y, x, (size_t) r->rows * r->dim * sizeof(float));
	kernels_ref.scale(NULL, y, r->rows, r->dim, 0.7f);
}

static void
dev_softcap(const Rows *r, float *x, void *y, const Dev &, const Dev &)
{
	cuda_softcap(x, r->rows, r->dim, 1.7f, NULL);
	cuda_copy_rows((float *) y, r->dim, x, r->dim, NULL, r->rows, r->dim, NULL);
}

static void
want_softcap(const Rows *r, const float *x, float *y)
{
	memcpy(y, x, (size_t) r->rows * r->dim * sizeof(float));
	kernels_ref.softcap(NULL, y, r->rows, r->dim, 1.7f);
}

static void
dev_act(const Rows *r, float *x, void *y, const Dev &, const Dev &)
{
	cuda_act((KAct) r->variant, y, r->as, x, r->rows, r->dim, NULL);
}

static void
want_act(const Rows *r, const float *x, float *y)
{
	/* a gate's function, times 1 */
	for (int i = 0; i < r->rows * r->dim; i++)
	{
		float		gu[2] = {x[i], r->variant == KACT_SWIGLU_OAI ? 0.0f : 1.0f};

		kernels_ref.act_mul(NULL, (KAct) r->variant, y + i, gu, 1, 1);
	}
}

static void
dev_act_mul(const Rows *r, float *x, void *y, const Dev &, const Dev &d)
{
	/* rows of both halves: x's, and deltas */
	Dev			gu(NULL, (size_t) r->rows * 2 * r->dim);

	cuda_copy_rows(gu.p, 2 * r->dim, x, r->dim, NULL, r->rows, r->dim, NULL);
	cuda_copy_rows(gu.p + r->dim, 2 * r->dim, d.p + r->first * r->dim, r->dim, NULL, r->rows, r->dim, NULL);
	cuda_act_mul((KAct) r->variant, y, r->as, gu.p, r->rows, r->dim, NULL);
	cudaDeviceSynchronize();
}

static void
want_act_mul(const Rows *r, const float *x, float *y)
{
	for (int i = 0; i < r->rows * r->dim; i++)
	{
		float		gu[2] = {x[i], deltas[r->first * r->dim + i]};

		kernels_ref.act_mul(NULL, (KAct) r->variant, y + i, gu, 1, 1);
	}
}

static void
dev_xielu(const Rows *r, float *x, void *y, const Dev &, const Dev &)
{
	cuda_xielu(y, r->as, x, r->rows, r->dim, xielu_p, NULL);
}

static void
want_xielu(const Rows *r, const float *x, float *y)
{
	const float *p = xielu_p;

	for (int i = 0; i < r->rows * r->dim; i++)
	{
		double		v = x[i];

		y[i] = (float) (v > 0 ? p[0] * v * v + p[2] * v : (expm1(v < p[3] ? v : p[3]) - v) * p[1] + p[2] * v);
	}
}

static void
dev_mul_rows(const Rows *r, float *x, void *y, const Dev &, const Dev &d)
{
	cuda_mul_rows(y, r->as, r->dim, x, r->dim, d.p + r->first * r->dim, r->dim, r->rows, r->dim,
				  r->variant - 1, NULL);
}

static void
want_mul_rows(const Rows *r, const float *x, float *y)
{
	for (int i = 0; i < r->rows * r->dim; i++)
	{
		float		gu[2] = {deltas[r->first * r->dim + i], x[i]};

		if (r->variant == 0)
			y[i] = gu[0] * gu[1];
		else
			kernels_ref.act_mul(NULL, (KAct) (r->variant - 1), y + i, gu, 1, 1);
	}
}

static void
dev_clip(const Rows *r, float *x, void *y, const Dev &, const Dev &)
{
	cuda_clip(x, r->rows, r->dim, r->dim - r->dim / 3, 0.9f, NULL);
	cuda_copy_rows((float *) y, r->dim, x, r->dim, NULL, r->rows, r->dim, NULL);
}

static void
want_clip(const Rows *r, const float *x, float *y)
{
	for (int i = 0; i < r->rows; i++)
		for (int j = 0; j < r->dim; j++)
		{
			float		v = x[i * r->dim + j];

			y[i * r->dim + j] = j < r->dim - r->dim / 3 && fabsf(v) > 0.9f ? copysignf(0.9f, v) : v;
		}
}

static void
dev_cols(const Rows *r, float *x, void *y, const Dev &w, const Dev &)
{
	int			from = r->dim / 3;

	cuda_scale_cols(x, r->rows, r->dim, from, r->dim - from, 1.3f, NULL);
	cuda_mul_cols(x, r->rows, r->dim, w.p, r->dim, NULL);
	cuda_copy_rows((float *) y, r->dim, x, r->dim, NULL, r->rows, r->dim, NULL);
}

static void
want_cols(const Rows *r, const float *x, float *y)
{
	for (int i = 0; i < r->rows; i++)
		for (int j = 0; j < r->dim; j++)
		{
			float		v = x[i * r->dim + j];

			y[i * r->dim + j] = (j >= r->dim / 3 ? v * 1.3f : v) * weights[j];
		}
}

/* Return the shape of the heads: three heads if dim has room for them.  `variant`: each has its own bias. */
static void
head_shape(const Rows *r, int *heads, int *width)
{
	*heads = r->dim > 60 ? 3 : 1;
	*width = r->dim / *heads;
}

static void
dev_head_bias(const Rows *r, float *x, void *y, const Dev &w, const Dev &)
{
	int			heads,
				width;

	head_shape(r, &heads, &width);
	cuda_add_head_bias(x, r->rows, r->dim, heads, width, w.p, r->variant ? width : 0, NULL);
	cuda_copy_rows((float *) y, r->dim, x, r->dim, NULL, r->rows, r->dim, NULL);
}

static void
want_head_bias(const Rows *r, const float *x, float *y)
{
	int			heads,
				width;

	head_shape(r, &heads, &width);
	memcpy(y, x, (size_t) r->rows * r->dim * sizeof(float));
	for (int i = 0; i < r->rows; i++)
		for (int j = 0; j < heads * width; j++)
			y[i * r->dim + j] += weights[r->variant ? j : j % width];
}

static void
dev_temper(const Rows *r, float *x, void *y, const Dev &, const Dev &)
{
	DevOf<int32_t> pos(positions + r->first, r->rows);

	cuda_temper(x, r->rows, r->dim, r->dim - r->dim / 4, pos.p, 0.1f, 100, 1, NULL);
	cuda_copy_rows((float *) y, r->dim, x, r->dim, NULL, r->rows, r->dim, NULL);
	cudaDeviceSynchronize();
}

static void
want_temper(const Rows *r, const float *x, float *y)
{
	for (int i = 0; i < r->rows; i++)
		for (int j = 0; j < r->dim; j++)
		{
			double		times = floor((positions[r->first + i] + 1) / 100);

			y[i * r->dim + j] = x[i * r->dim + j];
			if (j < r->dim - r->dim / 4)
				y[i * r->dim + j] *= (float) (1 + 0.1 * log(1 + times));
		}
}

/* To operands and back gives the roundings of convert.c. */
static void
dev_round(const Rows *r, float *x, void *y, const Dev &, const Dev &)
{
	Dev			t(NULL, (size_t) r->rows * r->dim);

	cuda_scale(x, r->rows, r->dim, r->as == KT_BF16 ? 1e9f : 30.0f, NULL);
	cuda_to_op(t.p, r->as, r->dim, x, r->dim, r->rows, r->dim, NULL);
	cuda_from_op(x, r->dim, t.p, r->as, r->dim, r->rows, r->dim, NULL);
	cuda_to_op(y, r->as, r->dim, x, r->dim, r->rows, r->dim, NULL);
	cudaDeviceSynchronize();
}

static void
want_round(const Rows *r, const float *x, float *y)
{
	for (int i = 0; i < r->rows * r->dim; i++)
	{
		float		v = x[i] * (r->as == KT_BF16 ? 1e9f : 30.0f);

		y[i] = r->as == KT_BF16 ? kbf16_to_f32(kf32_to_bf16(v)) : r->as == KT_F16 ?
			kf16_to_f32(kf32_to_f16(v)) : v;
	}
}

static const struct
{
	const char *name;
	DeviceOp	device;
	HostOp		want;
	int			variants;
	bool		operand;		/* y may be an operand */
	double		bound;			/* relative; 0: the same bits */
}			ops[] = {
	{"add", dev_add, want_add, 1, false, 0},
	{"scale", dev_scale, want_scale, 1, true, 0},
	{"softcap", dev_softcap, want_softcap, 1, false, 4e-7},
	{"act", dev_act, want_act, KACT_COUNT, true, 2e-6},
	{"act_mul", dev_act_mul, want_act_mul, KACT_COUNT, true, 2e-6},
	{"xielu", dev_xielu, want_xielu, 1, true, 1e-6},
	{"mul_rows", dev_mul_rows, want_mul_rows, 1 + KACT_SWIGLU_OAI, true, 2e-6},
	{"clip", dev_clip, want_clip, 1, false, 0},
	{"columns", dev_cols, want_cols, 1, false, 0},
	{"head_bias", dev_head_bias, want_head_bias, 2, false, 0},
	{"temper", dev_temper, want_temper, 1, false, 3e-7},
	{"rounding", dev_round, want_round, 1, true, 0},
};

static Floats
run(DeviceOp op, const Rows *r, const Floats &all)
{
	Dev			x(all.data() + r->first * r->dim, (size_t) r->rows * r->dim),
				y(NULL, x.n),
				w(weights, DIMS),
				d(deltas, ROWS * DIMS);

	op(r, x.p, y.p, w, d);
	return operand_rows(y.p, r->as, x.n);
}

static void
check_op(size_t op, int variant, int rows, int dim, KType as)
{
	Rows		all = {0, rows, dim, as, variant};
	Floats		x((size_t) rows * dim),
				want(x.size());

	for (float &v : x)
		v = some(3.0f);
	ops[op].want(&all, x.data(), want.data());
	all_orders([&]() {
		Floats		got = run(ops[op].device, &all, x);
		double		bound = ops[op].bound + rounding(as);

		/* the absolute error of operands is that of F16's subnormals */
		CHECK(near(got, want, bound, bound > 0 ? 2e-7 : 0), "%s %d, %d x %d as %d", ops[op].name, variant,
			  rows, dim, as);
		for (int i = 0; i < rows; i++)
		{
			Rows		alone = {i, 1, dim, as, variant};

			CHECK(same(run(ops[op].device, &alone, x), row_of(got, i, dim)), "%s %d, %d x %d: row %d alone",
				  ops[op].name, variant, rows, dim, i);
		}
	});
	/* a non-finite value stays in its row */
	if (rows > 1)
	{
		Floats		before = run(ops[op].device, &all, x);

		x[dim + dim / 4] = NAN;
		Floats		after = run(ops[op].device, &all, x);

		CHECK(isnan(after[dim + dim / 4]), "%s %d: NaN lost", ops[op].name, variant);
		for (int i = 0; i < rows; i++)
			CHECK(i == 1 || same(row_of(before, i, dim), row_of(after, i, dim)), "%s %d: NaN in row %d",
				  ops[op].name, variant, i);
	}
}

/* ---- activations over all exponents of floats, with subnormal results ---- */

static void
check_range(KAct a)
{
	const int	n = 8192;
	Floats		x(n),
				want(n);
	double		worst = 0,
				at = 0;

	for (int i = 0; i < n; i++)
		x[i] = i < n / 2 ? -106.0f + 212.0f * (float) i / (float) (n / 2) :
			(i % 2 ? -1.0f : 1.0f) * ldexpf(1.0f + (float) (i % 61) / 61.0f, i / 64 % 64 - 58);
	Rows		r = {0, 1, n, KT_F32, a};

	want_act(&r, x.data(), want.data());
	Dev			d(x);

	cuda_act(a, d.p, KT_F32, d.p, 1, n, NULL);
	Floats		got = d.get();

	for (int i = 0; i < n; i++)
	{
		double		v = x[i],
					lost = a == KACT_GELU ? v * v / 2 : a == KACT_GELU_TANH ?
					fabs(1.596 * (v + 0.044715 * v * v * v)) : 1.702 * fabs(v), e;

		lost = v < 0 ? lost : 0;
		/* half a unit of subnormals, and the rest of a unit there after rounding twice */
		e = fabs((double) got[i] - want[i]) / (fabs((double) want[i]) * 0x1p-23 * (4 + 1.5 * lost) +
											   0x1p-149);
		if (!(e <= worst))
			worst = e, at = v;
	}
	CHECK(worst <= 1.0, "activation %d: error %.2f of the bound at %g", a, worst, at);
	static const float ends[6] = {0.0f, 1000.0f, INFINITY, 1e30f, -1000.0f, -1e30f};
	Dev			de(ends, 6);

	cuda_act(a, de.p, KT_F32, de.p, 2, 3, NULL);
	got = de.get();
	for (int i = 0; i < 4; i++)
	{
		float		v = a == KACT_SWIGLU_OAI && i > 0 ? 7.0f : ends[i];

		v = a == KACT_RELU2 ? v * v : v;
		CHECK(fabsf(got[i] - v) <= 1e-4f || got[i] == v, "activation %d of %g: %g", a, (double) ends[i],
			  (double) got[i]);
	}
	CHECK(got[4] == 0.0f && got[5] == 0.0f, "activation %d: %g %g", a, (double) got[4], (double) got[5]);
}

/* Too large for F16, and non-finite. */
static void
check_saturation(void)
{
	Floats		x = {65504.0f, 65519.0f, 65520.0f, -1e30f, INFINITY, -INFINITY, NAN, 6e-8f, 1e-9f, 3e38f};
	Floats		f16 = {65504.0f, 65504.0f, 65504.0f, -65504.0f, INFINITY, -INFINITY, NAN, 5.9604645e-8f, 0.0f,
					   65504.0f};

	all_orders([&]() {
		Dev			d(x),
					y(NULL, x.size());

		cuda_to_op(y.p, KT_F16, (int) x.size(), d.p, (int) x.size(), 1, (int) x.size(), NULL);
		CHECK(near(operand_rows(y.p, KT_F16, x.size()), f16, 0, 0), "F16");
	});
}

/* ---- copies ---- */

/* Each element is its row's number and the column. */
static Floats
numbered(int rows, int dim)
{
	Floats		x((size_t) rows * dim);

	for (size_t i = 0; i < x.size(); i++)
		x[i] = (float) (i / dim * 10000 + i % dim);
	return x;
}

static void
check_keep(int dim)
{
	std::vector<int32_t> idx;
	Floats		x = numbered(70, dim);

	for (int i = 0; i < 70; i++)
		if (i % 7 != 3 && (i < 20 || i % 2 == 0))
			idx.push_back(i);
	all_orders([&]() {
		Dev			d(x);
		DevOf<int32_t> di(idx);
		std::vector<uint16_t> h(x.size());

		cuda_keep_rows(d.p, 4, di.p, (int) idx.size(), dim, NULL);
		Floats		got = d.get();

		for (size_t i = 0; i < idx.size(); i++)
			CHECK(same(row_of(got, (int) i, dim), row_of(x, idx[i], dim)), "row %zu of %d", i, dim);
		/* elements of two bytes */
		for (size_t i = 0; i < h.size(); i++)
			h[i] = (uint16_t) (i / dim * 1000 + i % dim);
		DevOf<uint16_t> dh(h);

		cuda_keep_rows(dh.p, 2, di.p, (int) idx.size(), dim, NULL);
		std::vector<uint16_t> hg = dh.get();

		for (size_t i = 0; i < idx.size(); i++)
			CHECK(memcmp(&hg[i * dim], &h[(size_t) idx[i] * dim], dim * 2) == 0, "half row %zu of %d", i,
				  dim);
	});
}

static void
check_copies(int dim)
{
	Floats		x = numbered(5, dim + 3),
				y = numbered(9, dim + 1);
	const std::vector<int32_t> to = {7, 0, 3},
				from = {3, 0, 4, 3};

	all_orders([&]() {
		Dev			dx(x),
					dy(y);
		DevOf<int32_t> dt(to),
					df(from);
		Floats		want = y;

		cuda_copy_rows(dy.p + 1, dim + 1, dx.p + 2, dim + 3, NULL, 4, dim, NULL);
		for (int i = 0; i < 4; i++)
			memcpy(&want[i * (dim + 1) + 1], &x[i * (dim + 3) + 2], dim * sizeof(float));
		CHECK(same(dy.get(), want), "copy_rows %d", dim);
		cuda_copy_rows(dy.p, dim + 1, dx.p, dim + 3, df.p, 4, dim, NULL);
		for (int i = 0; i < 4; i++)
			memcpy(&want[i * (dim + 1)], &x[from[i] * (dim + 3)], dim * sizeof(float));
		CHECK(same(dy.get(), want), "copy_rows %d by number", dim);
		cuda_put_rows(dy.p, dim + 1, dx.p, dt.p, 3, dim, NULL);
		for (int i = 0; i < 3; i++)
			memcpy(&want[to[i] * (dim + 1)], &x[i * dim], dim * sizeof(float));
		CHECK(same(dy.get(), want), "put_rows %d", dim);
	});
}

/* Columns that exist, some twice, and some that don't. */
static void
check_columns(int n)
{
	Floats		x = numbered(3, n + 3),
				y = numbered(3, n + 1);
	std::vector<int32_t> from(n);

	for (int j = 0; j < n; j++)
		from[j] = (int32_t) (dice() % (unsigned) (n + 6)) - 3;
	all_orders([&]() {
		Dev			dx(x),
					dy(y);
		DevOf<int32_t> df(from);
		Floats		want = y;

		cuda_pick_cols(dy.p, n + 1, dx.p, n + 3, df.p, 3, n, NULL);
		for (int i = 0; i < 3; i++)
			for (int j = 0; j < n; j++)
				want[i * (n + 1) + j] = from[j] < 0 ? K_NO_COLUMN : x[i * (n + 3) + from[j]];
		CHECK(same(dy.get(), want), "pick_cols %d", n);
	});
}

static void
check_heads(int width)
{
	const int	rows = 5,
				heads = 3,
				ld = heads * (width + 2);
	Floats		x = numbered(rows, ld),
				want((size_t) rows * heads * width);

	for (int i = 0; i < rows; i++)
		for (int h = 0; h < heads; h++)
			memcpy(&want[(h * rows + i) * width], &x[i * ld + h * (width + 2)], width * sizeof(float));
	all_orders([&]() {
		Dev			dx(x),
					by_head(NULL, want.size()),
					back(x);

		cuda_swap_heads(by_head.p, KT_F32, width, (size_t) rows * width, dx.p, KT_F32, ld, width + 2, rows,
						heads, width, NULL);
		CHECK(same(by_head.get(), want), "heads of %d", width);
		cudaMemset(back.p, 0, x.size() * sizeof(float));
		cuda_swap_heads(back.p, KT_F32, ld, width + 2, by_head.p, KT_F32, width, (size_t) rows * width, rows,
						heads, width, NULL);
		Floats		got = back.get();

		for (int i = 0; i < rows * ld; i++)
			CHECK(got[i] == (i % (width + 2) < width ? x[i] : 0), "heads of %d: %d back", width, i);
		/* floats to operands, those to others, and those to floats */
		for (KType as : {KT_BF16, KT_F16})
		{
			cuda_swap_heads(by_head.p, as, width, (size_t) rows * width, dx.p, KT_F32, ld, width + 2, rows,
							heads, width, NULL);
			cuda_swap_heads(back.p, as, (size_t) heads * width, width, by_head.p, as, width,
							(size_t) rows * width, rows, heads, width, NULL);
			cuda_swap_heads(by_head.p, KT_F32, width, (size_t) rows * width, back.p, as,
							(size_t) heads * width, width, rows, heads, width, NULL);
			CHECK(near(by_head.get(), want, rounding(as), 0), "heads of %d as %d", width, as);
		}
	});
}

/* Sums in the order of columns, in double: the host's bits. */
static void
check_dot(int rows, int dim)
{
	Floats		x((size_t) rows * dim),
				want(rows);

	for (float &v : x)
		v = some(1.0f) * (dice() % 7 == 0 ? 1e6f : 1.0f);
	for (int i = 0; i < rows; i++)
	{
		double		sum = 0.25f;

		for (int j = 0; j < dim; j++)
			sum += (double) weights[j] * (double) x[i * dim + j];
		want[i] = (float) sum;
	}
	all_orders([&]() {
		Dev			dx(x),
					dw(weights, DIMS),
					y(NULL, rows);

		cuda_dot_rows(y.p, dx.p, rows, dim, dw.p, 0.25f, NULL);
		CHECK(same(y.get(), want), "dot of %d", dim);
	});
}

static void
check_series(void)
{
	DevOf<int32_t> y(NULL, 300);

	cuda_series(y.p, 300, -7, NULL);
	for (int i = 0; i < 300; i++)
		CHECK(y.get()[i] == -7 * i, "series: %d", i);
}

int
main(void)
{
	static const struct
	{
		int			rows;
		int			dim;
	}			shapes[] = {{1, 1}, {3, 7}, {17, 64}, {3, 100}, {1, 1000}};
	static const KType types[] = {KT_F32, KT_BF16, KT_F16};

	for (float &v : weights)
		v = some(2.0f);
	for (float &v : deltas)
		v = some(8.0f);
	for (int i = 0; i < ROWS; i++)
		positions[i] = i * 37;
	for (size_t op = 0; op < sizeof(ops) / sizeof(ops[0]); op++)
		for (int v = 0; v < ops[op].variants; v++)
			for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
				RUN(check_op(op, v, shapes[s].rows, shapes[s].dim,
							 ops[op].operand ? types[(s + (size_t) v) % 3] : KT_F32));
	for (int a = 0; a < KACT_COUNT; a++)
		RUN(check_range((KAct) a));
	RUN(check_saturation());
	for (int dim : {1, 7, 64})
	{
		RUN(check_keep(dim));
		RUN(check_copies(dim));
		RUN(check_columns(dim));
		RUN(check_heads(dim));
		RUN(check_dot(3, dim));
	}
	RUN(check_dot(1, 1000));
	RUN(check_series());
	return check_done("test_emu_rows");
}
