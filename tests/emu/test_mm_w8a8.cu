/*
 * test_mm_w8a8.cu
 *	  Products of codes by codes (kernels/cuda/mm/mm_w8a8.cuh) under emulation.
 *
 * INT8 has the bits of kernels/ref, whatever the operands, the number of rows, the tile and the launch:
 * all compared with memcmp, on a GPU, too.  FP8's sums of a group are the tensor cores' own: if they are
 * exact, results equal the defined ones, bit for bit, otherwise they are near; the same bits for any
 * number of rows; and not far from the product of the weights with unrounded x.
 */
#include "mats.h"
#include "cuda/cuda_ops.h"

#include <vector>

extern "C"
{
extern const Kernels kernels_ref;
}

#define ROWS	131
#define PAD		3				/* columns of y after the last one */

/* Matrices of one type, rows of x, and the reference's results. */
struct World
{
	KType		type;
	KType		as;
	int			n;
	int			k;
	int			ldx;
	std::vector<std::vector<uint8_t>> src;
	std::vector<float> bias;
	bool		fp8_x;
	std::vector<float> x;		/* as operands */
	std::vector<uint8_t *> w;
	uint8_t    *dx;
	float	   *dy;
	float	   *dbias;
	void	   *ws;

	World(KType type_, KType as_, int n_, int k_, int ldx_, int mats = 1) : type(type_), as(as_), n(n_),
		k(k_), ldx(ldx_), fp8_x(type_ == KT_FP8)
	{
		size_t		row = ktype_row_bytes(type, k);

		for (int m = 0; m < mats; m++)
		{
			std::vector<uint8_t> packed(cuda_mat_bytes(type, n, k)),
						rows(row * n);
			KMat		to = {type, n, k, packed.data(), packed.size()};
			KTensor		t = {};

			for (int j = 0; j < n; j++)
				random_row(type, k, rows.data() + row * j);
			t.type = type;
			t.ndim = 2;
			t.shape[0] = n;
			t.shape[1] = k;
			t.data = rows.data();
			cuda_mat_pack(&to, &t, 0, n);
			w.push_back(dev(packed.data(), packed.size()));
			src.push_back(rows);
		}
		for (int j = 0; j < n; j++)
			bias.push_back((float) (dice() % 2000) / 1000.0f - 1.0f);
		/* rows of all magnitudes; some groups of one sign only, some all zeros */
		for (int r = 0; r < ROWS; r++)
			for (int i = 0; i < ldx; i++)
			{
				float		f = ((int) (dice() % 20001) - 10000) / 10000.0f * ldexpf(1, r % 25 - 12);

				f = r % 7 == 3 && i / 128 % 2 ? fabsf(f) : r % 7 == 4 ? -fabsf(f) : r % 7 == 5 &&
					i / 128 % 2 == 0 ? 0.0f : f;
				x.push_back(as == KT_BF16 ? kbf16_to_f32(kf32_to_bf16(f)) : as == KT_F16
							? kf16_to_f32(kf32_to_f16(f)) : f);
			}
		dx = dev<uint8_t>(NULL, x.size() * size());
		put_x();
		dy = dev<float>(NULL, (size_t) ROWS * (n + PAD));
		dbias = dev(bias.data(), n);
		ws = dev<uint8_t>(NULL, cuda_mm_scratch(type, ROWS, k, fp8_x));
	}
	~World()
	{
		for (uint8_t *p : w)
			cudaFree(p);
		cudaFree(dx);
		cudaFree(dy);
		cudaFree(dbias);
		cudaFree(ws);
	}
	size_t size() const
	{
		return as == KT_F32 ? 4 : 2;
	}
	void put_x()
	{
		std::vector<uint8_t> bytes(x.size() * size());

		for (size_t i = 0; i < x.size(); i++)
			kelem_put(as, bytes.data(), i, x[i]);
		cudaMemcpy(dx, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
		cudaStreamSynchronize(NULL);
	}
	/* Multiply rows from r0 on by matrix m. */
	std::vector<float> reference(int m, int r0, int rows, bool biased) const
	{
		std::vector<float> y((size_t) rows * (n + PAD), NAN);
		KMat		mat = {type, n, k, (void *) src[m].data(), src[m].size()};
		std::vector<float> ws(kernels_ref.mm_scratch(type, rows, k) / sizeof(float) + 1);

		kernels_ref.mm(NULL, &mat, &x[(size_t) r0 * ldx], rows, ldx, y.data(), n + PAD,
					   biased ? bias.data() : NULL, ws.data());
		return y;
	}
	std::vector<float> result(int rows)
	{
		std::vector<float> y((size_t) rows * (n + PAD));

		host(y.data(), dy, y.size());
		return y;
	}
	std::vector<float> product(int r0, int rows, bool biased, int m = 0)
	{
		KMat		mat = {type, n, k, w[m], cuda_mat_bytes(type, n, k)};

		cudaMemset(dy, 0xff, (size_t) ROWS * (n + PAD) * sizeof(float));
		CHECK(cuda_mm(&mat, dx + (size_t) r0 * ldx * size(), as, rows, ldx, dy, n + PAD,
					  biased ? dbias : NULL, ws, NULL, false, fp8_x),
			  "%s x %s: no product", ktype_name(type), ktype_name(as));
		return result(rows);
	}
};

/* Return how many numbers differ; NaN equals NaN, in any row. */
static int
others(const std::vector<float> &a, const std::vector<float> &b)
{
	int			n = a.size() != b.size();

	for (size_t i = 0; i < a.size() && i < b.size(); i++)
		n += memcmp(&a[i], &b[i], 4) != 0 && !(a[i] != a[i] && b[i] != b[i]);
	return n;
}

/* Compute the FP8 codes of a group of x, as mm_fp8_a8.cu defines them; returns their scale. */
static float
fp8_codes(const float *x, int n, float *codes)
{
	float		s = 0,
				inv;

	for (int i = 0; i < n; i++)
		s = fmaxf(s, fabsf(x[i]));
	s /= 448.0f;
	s = s < 0x1p-107f ? 0.0f : s;
	inv = s > 0 ? 1.0f / s : 0.0f;
	for (int i = 0; i < n; i++)
		codes[i] = kf8_to_f32(KT_F8_E4M3, kf32_to_f8(KT_F8_E4M3, x[i] * inv));
	return s;
}

/* Return output j of a row; *size: the magnitude for the rounding error. */
static float
fp8_stated(const World &w, int m, int j, const float *x, float *size)
{
	const uint8_t *row = w.src[m].data() + ktype_row_bytes(KT_FP8, w.k) * j;
	const uint8_t *codes = row + ktype_row_bytes(KT_FP8, w.k) - w.k;
	float		acc = 0,
				d,
				c[FP8_GROUP];

	*size = 0;
	for (int g = 0; g < w.k; g += FP8_GROUP)
	{
		int			n = k_min(FP8_GROUP, w.k - g);
		float		s = fp8_codes(x + g, n, c);
		double		sum = 0,
					all = 0;

		memcpy(&d, row + g / FP8_GROUP * 4, 4);
		for (int i = 0; i < n; i++)
		{
			double		product = (double) c[i] * kf8_to_f32(KT_F8_E4M3, codes[g + i]);

			sum += product;
			all += fabs(product);
		}
		acc = fmaf(d * s, (float) sum, acc);
		*size += fabsf(d * s) * (float) all;
	}
	return acc;
}

static void
fp8(KType as, int n, int k, int ldx, bool exact)
{
	World		w(KT_FP8, as, n, k, ldx);
	std::vector<float> all,
				plain;
	double		off = 0,
				norm = 0,
				worst = 0;
	int			differ = 0;

	/*
	 * small integers, the largest of a group 7: sums are exact, and so are codes, whose scale is rounded
	 * the same way
	 */
	for (size_t i = 0; exact && i < w.x.size(); i++)
		w.x[i] = i % (size_t) ldx % 128 == 0 ? 7.0f : (float) (dice() % 15) - 7.0f;
	if (exact)
		w.put_x();
	all = w.product(0, ROWS, false);
	plain = w.reference(0, 0, ROWS, false);
	for (int r = 0; r < ROWS; r++)
		for (int j = 0; j < n; j++)
		{
			float		got = all[(size_t) r * (n + PAD) + j],
						size,
						want = fp8_stated(w, 0, j, &w.x[(size_t) r * ldx], &size),
						as_is = plain[(size_t) r * (n + PAD) + j];

			worst = fmax(worst, fabs(got - want) / (size + 1e-30));
			differ += memcmp(&got, &want, 4) != 0;
			off += ((double) got - as_is) * ((double) got - as_is) / ((double) size * size + 1e-30);
			norm += (double) as_is * as_is / ((double) size * size + 1e-30);
		}
	CHECK(worst < 1e-6 && (!exact || differ == 0), "FP8 x %s %d x %d: error %g, %d others", ktype_name(as), n,
		  k, worst, differ);
	if (!exact && k > 200)
	{
		CHECK(sqrt(off / norm) < 0.05, "FP8 x %s: x of FP8 costs %g", ktype_name(as), sqrt(off / norm));
		printf("FP8 x %s of %d k: x of FP8 is off by %.1f %% of the result\n", ktype_name(as), k,
			   100 * sqrt(off / norm));
	}
	for (int rows : {1, 8, 9, 32, 33, 65})
	{
		int			r0 = (int) (dice() % (unsigned) (ROWS - rows + 1));
		std::vector<float> some = w.product(r0, rows, false);

		CHECK(others(some, std::vector<float>(all.begin() + (ptrdiff_t) r0 * (n + PAD),
											  all.begin() + (ptrdiff_t) (r0 + rows) * (n + PAD))) == 0,
			  "FP8 x %s %d x %d: %d rows have other bits", ktype_name(as), n, k, rows);
	}
	w.x[3 * (size_t) ldx] = NAN;
	w.put_x();
	plain = w.product(0, ROWS, false);
	CHECK(plain[3 * (size_t) (n + PAD)] != plain[3 * (size_t) (n + PAD)], "FP8 x %s: NaN is lost",
		  ktype_name(as));
	std::copy(plain.begin() + 3 * (n + PAD), plain.begin() + 4 * (n + PAD), all.begin() + 3 * (n + PAD));
	CHECK(others(plain, all) == 0, "FP8 x %s: NaN in another row", ktype_name(as));
}

static void
int8(KType as, int n, int k, int ldx)
{
	World		w(KT_INT8, as, n, k, ldx);

	for (int rows : {1, 2, 7, 8, 9, 16, 31, 32, 33, 64, 65, 128, ROWS})
	{
		int			r0 = (int) (dice() % (unsigned) (ROWS - rows + 1)),
					differ = others(w.product(r0, rows, rows % 2), w.reference(0, r0, rows, rows % 2));

		CHECK(differ == 0, "INT8 x %s %d x %d: %d numbers of %d rows from %d are other than the reference's",
			  ktype_name(as), n, k, differ, rows, r0);
	}
	/* non-finite numbers stay in their row */
	for (int r : {0, 5, 64, 130})
		w.x[(size_t) r * ldx + r % k] = r % 2 ? NAN : r % 4 ? INFINITY : -INFINITY;
	w.put_x();
	for (int rows : {8, 20, ROWS})
	{
		std::vector<float> y = w.product(0, rows, true);

		CHECK(y[0] != y[0] && others(y, w.reference(0, 0, rows, true)) == 0,
			  "INT8 x %s: %d rows with NaN are others", ktype_name(as), rows);
	}
}

/* Each group of rows by a matrix of its own; rows outside of all groups stay unchanged. */
static void
grouped(KType type, KType as, int n, int k, const std::vector<int> &sizes)
{
	int			mats = (int) sizes.size(),
				rows = 0;
	World		w(type, as, n, k, k, mats);
	std::vector<int32_t> start(1, 2);
	std::vector<const float *> biases;
	const void *const *data = (const void *const *) dev(w.w.data(), w.w.size());

	for (int m = 0; m < mats; m++)
	{
		start.push_back(start[m] + sizes[m]);
		biases.push_back(m % 3 == 1 ? NULL : w.dbias);
	}
	rows = start[mats] + 1;

	const float *const *dbias = dev(biases.data(), biases.size());
	int32_t    *dstart = dev(start.data(), start.size());
	CudaMats	some = {type, n, k, mats, data, dbias};

	all_orders([&]() {
		std::vector<float> want((size_t) rows * (n + PAD), NAN),
					got;

		cudaMemset(w.dy, 0xff, (size_t) ROWS * (n + PAD) * sizeof(float));
		CHECK(cuda_mm_grouped(&some, dstart, w.dx, as, rows, k, w.dy, n + PAD, w.ws, NULL, false, w.fp8_x),
			  "%s: no product", ktype_name(type));
		got = w.result(rows);
		for (int m = 0; m < mats; m++)
		{
			std::vector<float> y = type == KT_INT8 ? w.reference(m, start[m], sizes[m], m % 3 != 1) :
				w.product(start[m], sizes[m], m % 3 != 1, m);

			std::copy(y.begin(), y.end(), want.begin() + (ptrdiff_t) start[m] * (n + PAD));
		}
		CHECK(others(got, want) == 0, "%s: %d groups have other bits than each alone", ktype_name(type),
			  mats);
	});
	cudaFree((void *) data);
	cudaFree((void *) dbias);
	cudaFree(dstart);
}

int
main(void)
{
	for (KType as : {KT_F32, KT_BF16, KT_F16})
	{
		RUN(int8(as, as == KT_BF16 ? 150 : 33, as == KT_BF16 ? 1380 : 300, as == KT_BF16 ? 1384 : 301));
		RUN(int8(as, 17, 37, 37));
		RUN(int8(as, 1, 8, 9));
	}
	RUN(grouped(KT_INT8, KT_BF16, 70, 200, {3, 0, 17, 1, 0, 40, 9}));
	RUN(grouped(KT_INT8, KT_F32, 9, 1100, {2, 1, 0, 3, 2}));
	RUN(grouped(KT_INT8, KT_BF16, 65, 96, {90, 31}));
	RUN(fp8(KT_BF16, 70, 1380, 1384, false));
	RUN(fp8(KT_BF16, 33, 300, 301, true));
	RUN(fp8(KT_F32, 17, 260, 260, false));
	RUN(fp8(KT_F16, 17, 37, 37, true));
	RUN(grouped(KT_FP8, KT_BF16, 70, 200, {3, 0, 17, 1, 0, 40, 9}));
	return check_done("test_emu_mm_w8a8");
}
