/*
 * test_norm.cu
 *	  kernels/cuda/norm.cu under emulation against kernels/ref, for each type of operand; each row alone
 *	  compared with memcmp.
 */
#include "rows_test.h"

typedef enum Op
{
	RMSNORM, ADD_RMSNORM, LAYERNORM
} Op;

static float
some(void)
{
	return (float) ((int) (dice() % 2001) - 1000) / 300.0f;
}

static Floats
some_of(size_t n, float plus)
{
	Floats		x(n);

	for (float &v : x)
		v = some() + plus;
	return x;
}

/* Run the op on rows on the device; *sum: x after it. */
static Floats
on_device(Op op, KType as, const Floats &x, const Floats &d, const float *w, const float *b, int rows,
		  int dim, bool in_place, Floats *sum)
{
	Dev			dx(x),
				dd(d),
				dy(NULL, x.size());
	void	   *y = in_place ? dx.p : dy.p;

	if (op == RMSNORM)
		cuda_rmsnorm(y, as, dx.p, w, rows, dim, 1e-5f, NULL);
	else if (op == ADD_RMSNORM)
		cuda_add_rmsnorm(y, as, dx.p, dd.p, w, rows, dim, 1e-5f, NULL);
	else
		cuda_layernorm(y, as, dx.p, w, b, rows, dim, 1e-5f, NULL);
	*sum = dx.get();
	return operand_rows(y, as, x.size());
}

static void
one(Op op, KType as, int rows, int dim, bool weight, bool in_place)
{
	Floats		x = some_of((size_t) rows * dim, op == LAYERNORM ? 30.0f : 0.0f),
				d = some_of(x.size(), 0),
				w = some_of(dim, 0),
				b = some_of(dim, 0),
				want(x.size()),
				added = x;
	const float *hw = weight ? w.data() : NULL,
			   *hb = weight ? b.data() : NULL;

	if (op == RMSNORM)
		kernels_ref.rmsnorm(NULL, want.data(), x.data(), hw, rows, dim, 1e-5f);
	else if (op == ADD_RMSNORM)
		kernels_ref.add_rmsnorm(NULL, want.data(), added.data(), d.data(), hw, rows, dim, 1e-5f);
	else
		kernels_ref.layernorm(NULL, want.data(), x.data(), hw, hb, rows, dim, 1e-5f);
	all_orders([&]() {
		Dev			dw(w),
					db(b);
		Floats		sum;
		Floats		got = on_device(op, as, x, d, weight ? dw.p : NULL, weight ? db.p : NULL, rows, dim,
									in_place, &sum);

		/* near 0 the bias cancels */
		CHECK(near(got, want, rounding(as) + 1e-6, op == LAYERNORM ? 3e-5 : 1e-6), "%d of %d x %d as %d", op,
			  rows, dim, as);
		CHECK(op != ADD_RMSNORM || same(sum, added), "%d x %d: the sum", rows, dim);
		for (int i = 0; i < rows; i++)
			CHECK(same(on_device(op, as, row_of(x, i, dim), row_of(d, i, dim), weight ? dw.p : NULL,
								 weight ? db.p : NULL, 1, dim, in_place, &sum), row_of(got, i, dim)),
								 "%d of %d x %d: row %d alone", op, rows, dim, i);
	});
}

/* Heads in the middle of wider rows; the elements next to them stay unchanged. */
static void
heads(KNormKind kind, int rows, int n, int dim, int extra, bool weight, bool own)
{
	int			ld = n * dim + extra;
	Floats		x = some_of((size_t) rows * ld, 1.0f),
				w = some_of((size_t) n * dim, 0),
				want = x;
	const int	ldw = own ? dim : 0;

	kernels_ref.norm_heads(NULL, kind, want.data() + extra / 2, rows, ld, n, dim, weight ? w.data() : NULL,
						   ldw, 1e-6f);
	all_orders([&]() {
		Dev			dx(x),
					dw(w);
		Floats		got;

		cuda_norm_heads(kind, dx.p + extra / 2, rows, ld, n, dim, weight ? dw.p : NULL, ldw, 1e-6f, NULL);
		got = dx.get();
		CHECK(near(got, want, 2e-6, 3e-6), "%d heads of %d", n, dim);
		for (int i = 0; i < rows; i++)
		{
			Dev			d1(row_of(x, i, ld));

			cuda_norm_heads(kind, d1.p + extra / 2, 1, ld, n, dim, weight ? dw.p : NULL, ldw, 1e-6f, NULL);
			CHECK(same(d1.get(), row_of(got, i, ld)), "%d heads of %d: row %d alone", n, dim, i);
		}
	});
}

/* A NaN stays in its row. */
static void
bad_row(int dim)
{
	Floats		x = some_of((size_t) 3 * dim, 0),
				sum;
	Floats		before = on_device(RMSNORM, KT_F32, x, x, NULL, NULL, 3, dim, false, &sum);
	Floats		after;

	x[dim + dim / 2] = NAN;
	after = on_device(RMSNORM, KT_F32, x, x, NULL, NULL, 3, dim, false, &sum);
	CHECK(same(row_of(before, 0, dim), row_of(after, 0, dim)) &&
		  same(row_of(before, 2, dim), row_of(after, 2, dim)) && isnan(after[dim]) &&
		  isnan(after[2 * dim - 1]), "a NaN in one row of %d", dim);
}

/* Loads of 4 bytes and of 16 bytes give the same results: a row at an odd address. */
static void
odd_address(int dim)
{
	Floats		x = some_of(dim + 1, 0),
				sum,
				at0(x.begin() + 1, x.end());
	Dev			dx(x),
				dy(NULL, dim);

	cuda_layernorm(dy.p, KT_F32, dx.p + 1, NULL, NULL, 1, dim, 1e-5f, NULL);
	CHECK(same(dy.get(), on_device(LAYERNORM, KT_F32, at0, at0, NULL, NULL, 1, dim, false, &sum)),
		  "an odd address, %d", dim);
}

int
main(void)
{
	static const int dims[] = {1, 3, 7, 31, 64, 100, 257, 512, 513, 1028, 4096};
	static const KType types[] = {KT_F32, KT_BF16, KT_F16};
	int			i = 0;

	for (int dim : dims)
		for (Op op : {RMSNORM, ADD_RMSNORM, LAYERNORM})
			for (int rows : {1, 3})
			{
				KType		as = types[i++ % 3];

				RUN(one(op, as, rows, dim, dim % 3 != 0, op != ADD_RMSNORM && as == KT_F32 && rows == 3));
			}
	RUN(one(RMSNORM, KT_BF16, 17, 64, true, false));
	for (KNormKind kind : {KNORM_RMS, KNORM_LAYER})
	{
		RUN(heads(kind, 2, 5, 64, 8, true, false));
		RUN(heads(kind, 3, 3, 31, 5, true, true));
		RUN(heads(kind, 2, 1, 640, 0, false, false));
	}
	RUN(bad_row(64));
	RUN(bad_row(1024));
	RUN(odd_address(256));
	RUN(odd_address(2000));
	return check_done("test_emu_norm");
}
