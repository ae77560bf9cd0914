/*
 * test_mm.cu
 *	  Products with packed matrices (kernels/cuda/mm_*.cu) under emulation.
 *
 * Each output is compared with a double sum of the file's weights, within a bound; with the sum that
 * mm.cuh defines, in that order, bit for bit (a GPU's tensor cores round differently: there only if all
 * sums are exact); and each number of rows with all rows at once, by memcmp, across all tiles and
 * launches.  test_mm_w8a8 tests INT8.  All of it again with the wgmma kernels, which have the same bits
 * in the emulation; on a GPU they may differ.
 */
#include "emu_test.h"
#include "cuda/cuda_ops.h"
#include "cuda/pack.h"

#include <vector>

extern "C"
{
#include "groups.h"
}

#define ROWS	130
#define SEGMENT 1024
#define PAD		3				/* columns of y after the last one */

#ifdef __CUDACC__
#define EMULATED false
#else
#define EMULATED true
#endif

static bool wgmma;				/* use those kernels */

static bool
has_wgmma(void)
{
	int			major = 0,
				minor = 0;

	cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
	cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
	return major == 9 && minor == 0;
}

/* not on 7.5, which has no BF16 products */
static bool
has_products(KType type, KType as)
{
	int			major = 0;

	cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
	return major >= 8 || as != KT_BF16 || type == KT_F32 || type == KT_F16;
}

static float
random_float(float most)
{
	return ((int) (dice() % 20001) - 10000) / 10000.0f * most;
}

/* Random codes except NaN. */
static void
random_fp8(int k, uint8_t *row)
{
	uint8_t    *codes = row + ktype_row_bytes(KT_FP8, k) - k;

	for (int i = 0; i < k; i++)
		codes[i] = (codes[i] & 0x7f) == 0x7f ? codes[i] ^ 8 : codes[i];
	for (int g = 0; g < (k + FP8_GROUP - 1) / FP8_GROUP; g++)
	{
		float		f = random_float(1.0f / 4096);

		memcpy(row + 4 * g, &f, 4);
	}
}

/* Make a row of the file: random codes, scales near 1/100. */
static void
random_row(KType t, int k, uint8_t *row)
{
	size_t		len = ktype_row_bytes(t, k),
				step = t == KT_FP8 ? len : ktype_row_bytes(t, ktype_block(t));
	size_t		d_at = t == KT_Q2_K ? offsetof(KBlockQ2_K, d) : t == KT_Q3_K ? offsetof(KBlockQ3_K, d) :
		t == KT_Q6_K ? offsetof(KBlockQ6_K, d) : 0;

	for (size_t i = 0; i < len; i++)
		row[i] = (uint8_t) dice();
	for (int i = 0; t <= KT_BF16 && i < k; i++)
		kelem_put(t, row, i, random_float(1.0f));
	for (size_t at = 0; t > KT_BF16 && at < len; at += step)
	{
		float		f = random_float(0.02f);
		uint16_t	h[2] = {kf32_to_f16(f), kf32_to_f16(random_float(0.02f))};

		if (t == KT_FP8)
			random_fp8(k, row);
		else if (t == KT_MXFP4)
			row[at] = (uint8_t) (115 + dice() % 10);
		else
			memcpy(row + at + d_at, h, ktype_has_min(t) ? 4 : 2);
	}
}

/* Return x as an operand represents it. */
static float
rounded(KType as, float f)
{
	return as == KT_BF16 ? kbf16_to_f32(kf32_to_bf16(f)) : as == KT_F16 ? kf16_to_f32(kf32_to_f16(f)) : f;
}

struct Case
{
	KType		type;
	KType		as;
	int			n;
	int			k;
	int			rows;
	int			ldx;
	int			ldy;
	std::vector<uint8_t> src;
	std::vector<float> x;		/* as operands, [ROWS][ldx] */
	std::vector<uint8_t> xs;	/* the same in memory */
	std::vector<float> bias;
	KMat		host;
	uint8_t    *w;
	uint8_t    *dx;
	float	   *dy;
	float	   *dbias;
	void	   *ws;
};

static void
put_x(Case *c)
{
	size_t		size = c->as == KT_F32 ? 4 : 2;

	c->xs.assign(c->x.size() * size, 0);
	for (size_t i = 0; i < c->x.size(); i++)
		kelem_put(c->as, c->xs.data(), i, c->x[i]);
	cudaMemcpy(c->dx, c->xs.data(), c->xs.size(), cudaMemcpyHostToDevice);
}

static void
open_case(Case *c, KType type, KType as, int rows, int n, int k, int ldx)
{
	size_t		row = ktype_row_bytes(type, k);
	KTensor		t = {};
	std::vector<uint8_t> packed(cuda_mat_bytes(type, n, k));

	c->type = type;
	c->as = as;
	c->n = n;
	c->k = k;
	c->rows = rows;
	c->ldx = ldx;
	c->ldy = n + PAD;
	c->src.resize(row * n);
	for (int j = 0; j < n; j++)
		random_row(type, k, c->src.data() + row * j);
	t.type = type;
	t.ndim = 2;
	t.shape[0] = n;
	t.shape[1] = k;
	t.data = c->src.data();
	c->host = {type, n, k, packed.data(), packed.size()};
	cuda_mat_pack(&c->host, &t, 0, n);
	c->w = dev(packed.data(), packed.size());
	c->host.data = c->w;
	c->x.resize((size_t) rows * ldx);
	for (float &f : c->x)
		f = rounded(as, random_float(2.0f));
	c->bias.resize(n);
	for (float &f : c->bias)
		f = random_float(1.0f);
	c->dx = dev<uint8_t>(NULL, c->x.size() * (as == KT_F32 ? 4 : 2));
	put_x(c);
	c->dbias = dev(c->bias.data(), n);
	c->dy = dev<float>(NULL, (size_t) c->rows * c->ldy);
	c->ws = dev<uint8_t>(NULL, cuda_mm_scratch(type, rows, k) + 16);
}

static void
close_case(Case *c)
{
	cudaFree(c->w);
	cudaFree(c->dx);
	cudaFree(c->dbias);
	cudaFree(c->dy);
	cudaFree(c->ws);
}

/* Multiply rows r0 .. of x; y's padding must not change. */
static std::vector<float>
product(Case *c, int r0, int rows, bool bias)
{
	std::vector<float> y((size_t) rows * c->ldy),
				out((size_t) rows * c->n);
	int			touched = 0;

	cudaMemset(c->dy, 0xff, (size_t) c->rows * c->ldy * sizeof(float));
	CHECK(cuda_mm(&c->host, c->dx + (size_t) r0 * c->ldx * (c->as == KT_F32 ? 4 : 2), c->as, rows, c->ldx,
				  c->dy, c->ldy, bias ? c->dbias : NULL, c->ws, NULL, wgmma), "%s: no product",
				  ktype_name(c->type));
	host(y.data(), c->dy, y.size());
	for (int i = 0; i < rows; i++)
	{
		memcpy(&out[(size_t) i * c->n], &y[(size_t) i * c->ldy], c->n * sizeof(float));
		for (int p = 0; p < PAD; p++)
			touched += !(y[(size_t) i * c->ldy + c->n + p] != y[(size_t) i * c->ldy + c->n + p]);
	}
	CHECK(touched == 0, "%s: %d columns behind the last are written", ktype_name(c->type), touched);
	return out;
}

/* Return the sum of n products, one after the other, as a product of a fragment adds them. */
static float
chain(const float *w, const float *x, int n, float acc)
{
	for (int i = 0; i < n; i++)
		acc = fmaf(w[i], x[i], acc);
	return acc;
}

/* Return output j of a row, as mm.cuh defines it. */
static float
stated(const Case *c, int j, const float *x, bool bias)
{
	const uint8_t *row = c->src.data() + ktype_row_bytes(c->type, c->k) * j;
	std::vector<float> w(c->k);
	float		tot = 0,
				d = 1;
	KGroup		g[QK_BLOCK / KGROUP];
	int			block = ktype_block(c->type);

	if (c->type == KT_FP8)
		for (int i = 0; i < c->k; i++)
			w[i] = kf8_to_f32(KT_F8_E4M3, row[ktype_row_bytes(c->type, c->k) - c->k + i]);
	else if (!ktype_grouped(c->type))
		kblock_to_float(c->type, row, c->k, w.data());
	for (int k0 = 0; k0 < c->k; k0 += SEGMENT)
	{
		int			n = k_min(SEGMENT, c->k - k0);
		float		acc = 0;

		for (int i = 0; c->type == KT_FP8 && i < n; i += FP8_GROUP)
		{
			memcpy(&d, row + (k0 + i) / FP8_GROUP * 4, 4);
			acc = fmaf(d, chain(&w[k0 + i], x + k0 + i, k_min(FP8_GROUP, n - i), 0), acc);
		}
		if (!ktype_grouped(c->type) && c->type != KT_FP8)
			acc = chain(&w[k0], x + k0, n, 0);
		for (int i = 0; ktype_grouped(c->type) && i < n; i += KGROUP)
		{
			int			at = k0 + i,
						step = ktype_has_halves(c->type) ? 16 : 32;
			KGroup	   *o = &g[at % block / KGROUP];

			if (at % block == 0)
				kgroup_get(c->type, row + ktype_row_bytes(c->type, block) * (at / block), g);
			for (int h = 0; h < KGROUP; h += step)
			{
				float		q[KGROUP],
							ones[KGROUP];

				for (int e = 0; e < step; e++)
				{
					q[e] = o->q[h + e];
					ones[e] = 1;
				}
				acc = fmaf(o->d * (float) o->sc[h / 16], chain(q, x + at + h, step, 0), acc);
				if (ktype_has_min(c->type))
					acc = fmaf(o->m * (float) o->mn[h / 16], chain(ones, x + at + h, step, 0), acc);
			}
		}
		tot = k0 == 0 ? acc : tot + acc;
	}
	return bias ? tot + c->bias[j] : tot;
}

static void
check_values(const Case *c, const std::vector<float> &y, bool exact, bool bias)
{
	std::vector<float> w(c->k);
	int			other = 0;
	double		worst = 0;

	for (int j = 0; j < c->n; j++)
	{
		kblock_to_float(c->type, c->src.data() + ktype_row_bytes(c->type, c->k) * j, c->k, w.data());
		for (int r = 0; r < c->rows; r++)
		{
			const float *x = &c->x[(size_t) r * c->ldx];
			float		got = y[(size_t) r * c->n + j],
						want = stated(c, j, x, bias);
			double		sum = bias ? c->bias[j] : 0,
						size = fabs(sum) + 1e-30;

			for (int i = 0; i < c->k; i++)
			{
				sum += (double) w[i] * x[i];
				size += fabs((double) w[i] * x[i]);
			}
			/* a minimum is a difference of larger numbers */
			worst = fmax(worst, !(fabs(got - sum) <= 1e9)
						 ? 1e9 : fabs(got - sum) / (size + (ktype_has_min(c->type) ? 10 : 0)));
			other += memcmp(&got, &want, sizeof(got)) != 0;
		}
	}
	CHECK(worst < 1e-5, "%s x %s %d x %d: relative error %g", ktype_name(c->type), ktype_name(c->as), c->n,
		  c->k, worst);
	if (exact)
		CHECK(other == 0, "%s x %s %d x %d: %d outputs are other than stated", ktype_name(c->type),
			  ktype_name(c->as), c->n, c->k, other);
}

static void
check_rows(Case *c, const std::vector<float> &all, bool bias)
{
	for (int rows : {1, 2, 7, 8, 9, 16, 33, 64, 65})
	{
		int			r0 = dice() % c->rows;
		std::vector<float> some;

		if (rows >= c->rows)
			break;
		r0 = k_min(r0, c->rows - rows);
		some = product(c, r0, rows, bias);

		CHECK(memcmp(some.data(), &all[(size_t) r0 * c->n], some.size() * sizeof(float)) == 0,
			  "%s x %s %d x %d: %d rows from %d have other bits", ktype_name(c->type), ktype_name(c->as),
			  c->n, c->k, rows, r0);
	}
}

static void
one(KType type, KType as, int rows, int n, int k, int ldx, bool bias)
{
	Case		c;
	std::vector<float> all;

	if (!has_products(type, as))
		return;
	open_case(&c, type, as, rows, n, k, ldx);
	all = product(&c, 0, rows, bias);
	check_values(&c, all, EMULATED || as == KT_F32, bias);
	check_rows(&c, all, bias);
	if (has_wgmma() && as != KT_F32)
	{
		std::vector<float> other;

		wgmma = true;
		other = product(&c, 0, rows, bias);
		if (EMULATED)
			CHECK(memcmp(other.data(), all.data(), all.size() * sizeof(float)) == 0,
				  "%s x %s %d x %d: wgmma has other bits", ktype_name(type), ktype_name(as), n, k);
		else
			check_values(&c, other, false, bias);
		check_rows(&c, other, bias);
		wgmma = false;
	}
	close_case(&c);
}

/* Numbers whose sums are exact, except those of scaled groups, whose order is defined. */
static void
exact(KType type, KType as, int n, int k)
{
	Case		c;

	if (!has_products(type, as))
		return;
	open_case(&c, type, as, ROWS, n, k, k);
	for (int r = 0; r < ROWS; r++)
		for (int i = 0; i < k; i++)
			c.x[(size_t) r * k + i] = ((int) (dice() % 3) - 1) * ldexpf(1, r % 9 - 4);
	put_x(&c);
	check_values(&c, product(&c, 0, ROWS, true), true, true);
	close_case(&c);
}

/* NaN and infinity stay in their row, in any tile. */
static void
not_finite(KType type, KType as, int k)
{
	Case		c;
	std::vector<float> all,
				bad;
	int			other = 0,
				finite = 0;

	if (!has_products(type, as))
		return;
	open_case(&c, type, as, ROWS, 70, k, k);
	all = product(&c, 0, ROWS, false);
	for (int r : {0, 5, 31, 64, 129})
		c.x[(size_t) r * k + r % k] = r % 2 ? NAN : INFINITY;
	put_x(&c);
	bad = product(&c, 0, ROWS, false);
	for (int r = 0; r < ROWS; r++)
		if (r == 0 || r == 5 || r == 31 || r == 64 || r == 129)
			finite += isfinite(bad[(size_t) r * c.n]) && type <= KT_BF16;
		else
			other += memcmp(&bad[(size_t) r * c.n], &all[(size_t) r * c.n], c.n * sizeof(float)) != 0;
	CHECK(other == 0 && finite == 0, "%s: %d rows have another row's NaN, %d lost theirs", ktype_name(type),
		  other, finite);
	close_case(&c);
}

/*
 * Groups of rows with matrices of their own: each has the bits of its own product.  Then without the
 * first and the last group, whose rows must stay unchanged, as on a rank with a part of the experts.
 */
static void
grouped(KType type, KType as, int n, int k, const std::vector<int> &sizes, bool bias)
{
	int			n_mats = (int) sizes.size(),
				rows = 0;
	std::vector<Case> c(n_mats);
	std::vector<const void *> data(n_mats);
	std::vector<const float *> biases(n_mats);
	std::vector<int32_t> start(1, 0);
	std::vector<float> y,
				want;
	const void **ddata;
	const float **dbias;
	int32_t    *dstart;

	if (!has_products(type, as))
		return;
	for (int m = 0; m < n_mats; m++)
	{
		open_case(&c[m], type, as, ROWS, n, k, k);
		data[m] = c[m].w;
		biases[m] = m % 3 == 1 ? NULL : c[m].dbias;
		rows += sizes[m];
		start.push_back(rows);
	}
	ddata = dev(data.data(), n_mats);
	dbias = dev(biases.data(), n_mats);
	dstart = dev(start.data(), start.size());
	auto		check = [&](int first, int end) {
		CudaMats	some = {type, n, k, end - first, ddata + first, bias ? dbias + first : NULL};

		cudaMemset(c[0].dy, 0xff, (size_t) ROWS * (n + PAD) * sizeof(float));
		CHECK(cuda_mm_grouped(&some, dstart + first, c[0].dx, as, rows, k, c[0].dy, n + PAD, c[0].ws, NULL,
							  wgmma), "%s: no product", ktype_name(type));
		y.resize((size_t) rows * (n + PAD));
		host(y.data(), c[0].dy, y.size());
		for (int m = 0; m < n_mats; m++)
		{
			KMat		mine = c[0].host;
			int			other = 0;

			if (sizes[m] == 0)
				continue;
			if (m < first || m >= end)
			{
				for (int i = start[m] * (n + PAD); i < start[m + 1] * (n + PAD); i++)
					other += y[i] == y[i];
				CHECK(other == 0, "%s: group %d isn't this product's, and has numbers", ktype_name(type), m);
				continue;
			}
			/* the rows of the first case, the matrix and the bias of this one */
			c[0].host = c[m].host;
			std::swap(c[0].dbias, c[m].dbias);
			want = product(&c[0], start[m], sizes[m], bias && biases[m] != NULL);
			std::swap(c[0].dbias, c[m].dbias);
			c[0].host = mine;
			for (int r = 0; r < sizes[m]; r++)
				other += memcmp(&y[(size_t) (start[m] + r) * (n + PAD)], &want[(size_t) r * n],
								n * sizeof(float)) != 0;
			CHECK(other == 0, "%s: group %d: %d of %d rows differ", ktype_name(type), m, other, sizes[m]);
		}
	};

	all_orders([&]() { check(0, n_mats); });
	if (n_mats > 2)
		check(1, n_mats - 1);
	for (Case &i : c)
		close_case(&i);
	cudaFree(ddata);
	cudaFree(dbias);
	cudaFree(dstart);
}

int
main(void)
{
	static const KType pairs[][2] = {{KT_BF16, KT_BF16}, {KT_F16, KT_F16}, {KT_F32, KT_F32},
									 {KT_BF16, KT_F32}, {KT_F16, KT_BF16},
	{KT_F32, KT_BF16}, {KT_F32, KT_F16}, {KT_BF16, KT_F16}, {KT_F16, KT_F32}};
	std::vector<int> many(70, 0);

	for (const KType *p : pairs)
	{
		bool		fast = p[0] == p[1] && p[0] != KT_F32;

		/* both launches of each tile; rows that aren't aligned to 16 bytes */
		RUN(one(p[0], p[1], fast ? ROWS : 34, fast ? 70 : 9, fast ? 2100 : p[0] == p[1] ? 1030 : 70, 2104,
				true));
		RUN(one(p[0], p[1], fast ? ROWS : 10, 65, 37, 37, false));
		RUN(one(p[0], p[1], 3, 1, 8, 8, true));
		if (fast)
			RUN(not_finite(p[0], p[1], 64));
	}
	for (int t = KT_BF16 + 1; t < KT_COUNT; t++)
		for (KType as : {KT_BF16, KT_F16})
		{
			int			block = ktype_block((KType) t);

			/* tested elsewhere; Q8_0 on GPUs; types of CPUs only */
			if (t == KT_INT8 || t == KT_NV4 || t > KT_FP8)
				continue;
			RUN(one((KType) t, as, as == KT_BF16 ? ROWS : 34, as == KT_BF16 ? 70 : 1,
					block == 256 ? 1280 : 1088 + (block == 1 ? 5 : 0), 1288, as == KT_BF16));
			RUN(exact((KType) t, as, 65, block == 256 ? 256 : 96));
			if (as == KT_BF16)
				RUN(not_finite((KType) t, as, block == 256 ? 256 : 64));
		}
	RUN(grouped(KT_BF16, KT_BF16, 70, 96, {3, 0, 17, 1, 0, 40, 9}, true));
	RUN(grouped(KT_BF16, KT_BF16, 9, 1100, {0, 1, 0, 2, 1, 0}, true));
	RUN(grouped(KT_BF16, KT_BF16, 9, 1100, {2, 1, 0, 3, 2}, true));
	RUN(grouped(KT_MXFP4, KT_BF16, 65, 1056, {1, 2, 1}, true));
	RUN(grouped(KT_FP8, KT_BF16, 65, 1100, {1, 0, 2, 40, 1}, true));
	RUN(grouped(KT_Q4_K, KT_BF16, 65, 256, {99, 31}, false));
	if (has_wgmma())
	{
		wgmma = true;
		RUN(grouped(KT_BF16, KT_BF16, 70, 96, {3, 0, 17, 1, 0, 40, 9}, true));
		RUN(grouped(KT_Q4_K, KT_BF16, 65, 256, {99, 31}, false));
		RUN(not_finite(KT_BF16, KT_BF16, 64));
		RUN(not_finite(KT_Q4_0, KT_BF16, 64));
		wgmma = false;
	}
	many[3] = many[31] = many[32] = many[64] = 2;
	RUN(grouped(KT_F32, KT_F32, 9, 9, many, true));
	return check_done("test_emu_mm");
}
