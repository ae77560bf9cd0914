/*
 * test_split.c
 *	  Columns of a matrix have the same bits whether all of it is packed or only a part: so the ranks of
 *	  a tensor-parallel group compute the same as a single one.
 *
 * All weight types on all implementations that this CPU can run, split in two, also at a place where no
 * strip ends.
 *
 * Split rows give partial sums, whose sum equals the product of the whole rows but for rounding: the
 * difference is less than eight roundings of the sum of the products' magnitudes.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kutil.h"
#include "tests/unit/check.h"

#define K 512					/* inputs: a multiple of every block */
#define MOST_N 320
#define MOST_ROWS 40

static uint32_t
dice(void)
{
	static uint32_t s = 7;

	s ^= s << 13;
	s ^= s >> 17;
	return s ^= s << 5;
}

/* Return a number in [-1, 1). */
static float
number(void)
{
	return (float) (int) (dice() >> 8) / 8388608.0f - 1;
}

/* Fill a row with random codes and with scales that keep products small. */
static void
fill_row(KType t, uint8_t *row)
{
	size_t		bytes = ktype_row_bytes(t, K);
	size_t		block = ktype_row_bytes(t, ktype_block(t));
	uint16_t	scale = kf32_to_f16(0.01f);
	float		whole = 0.01f;

	for (size_t i = 0; i < bytes; i++)
		row[i] = (uint8_t) dice();
	if (t <= KT_BF16)
		for (int i = 0; i < K; i++)
			kelem_put(t, row, i, number());
	else if (t == KT_INT8S)
	{
		memcpy(row, &(KInt8X) {0.011f, 40}, sizeof(KInt8X));
		memcpy(row + sizeof(KInt8X), &whole, sizeof(whole));
	}
	else if (ktype_is_int8(t))
		memcpy(row, &whole, sizeof(whole));
	else if (t == KT_FP8)
	{
		for (size_t i = 0; i < bytes; i++)
			row[i] &= 0xbf;
		/* different scales, so that one of another group would be noticed */
		for (int i = 0; i < K / FP8_GROUP; i++, whole += 0.01f)
			memcpy(row + (size_t) i * sizeof(whole), &whole, sizeof(whole));
	}
	else
		for (size_t i = 0; i < bytes; i += block)
		{
			/* its scales are at either end of a block */
			if (t == KT_MXFP4)
				row[i] = 120;
			else
				for (size_t at = 0; at < 4; at += 2)
				{
					memcpy(row + i + at, &scale, sizeof(scale));
					memcpy(row + i + block - 4 + at, &scale, sizeof(scale));
				}
		}
}

/* Pack rows from .. to - 1 of w. */
static KMat
pack(const Kernels *k, KType t, const uint8_t *w, int from, int to)
{
	size_t		bytes = ktype_row_bytes(t, K);
	KTensor		part = {.name = "w",.type = t,.ndim = 2,.shape = {to - from, K},
						.data = w + bytes * (size_t) from,
	.nbytes = bytes * (size_t) (to - from)};
	KMat		m = {.type = t,.n = to - from,.k = K,.nbytes = k->mat_bytes(t, to - from, K)};

	m.data = mem_try_aligned(m.nbytes);
	for (int i = 0; i < m.n; i += 64)
		k->mat_pack(&m, &part, i, i + 64 < m.n ? i + 64 : m.n);
	return m;
}

/* Multiply the whole matrix, and the parts split at `cut`, with a few rows. */
static bool
same_bits(const Kernels *k, KPool *pool, KType t, const uint8_t *w, int n, int cut, int rows)
{
	static float x[MOST_ROWS * K] __attribute__((aligned(64)));
	static float y[2][MOST_ROWS * MOST_N] __attribute__((aligned(64)));
	KMat		all = pack(k, t, w, 0, n);
	KMat		left = pack(k, t, w, 0, cut);
	KMat		right = pack(k, t, w, cut, n);
	void	   *ws = mem_try_aligned(k->mm_scratch(t, rows, K) + 64);

	for (int i = 0; i < rows * K; i++)
		x[i] = number();
	k->mm(pool, &all, x, rows, K, y[0], n, NULL, ws);
	k->mm(pool, &left, x, rows, K, y[1], n, NULL, ws);
	k->mm(pool, &right, x, rows, K, y[1] + cut, n, NULL, ws);
	mem_free(all.data);
	mem_free(left.data);
	mem_free(right.data);
	mem_free(ws);
	return memcmp(y[0], y[1], (size_t) (rows * n) * sizeof(float)) == 0;
}

/* Pack inputs from .. from + k - 1 of n rows. */
static KMat
pack_cut(const Kernels *k, KType t, const uint8_t *w, int n, int from, int inputs)
{
	size_t		whole = ktype_row_bytes(t, K);
	size_t		bytes = ktype_row_bytes(t, inputs);
	uint8_t    *cut = mem_alloc(bytes * (size_t) n);
	KTensor		part = {.name = "w",.type = t,.ndim = 2,.shape = {n, inputs},.data = cut,
						.nbytes = bytes * (size_t) n};
	KMat		m = {.type = t,.n = n,.k = inputs,.nbytes = k->mat_bytes(t, n, inputs)};

	for (int i = 0; i < n; i++)
		ktype_cut(t, w + whole * (size_t) i, K, from, inputs, cut + bytes * (size_t) i);
	m.data = mem_try_aligned(m.nbytes);
	for (int i = 0; i < n; i += 64)
		k->mat_pack(&m, &part, i, i + 64 < n ? i + 64 : n);
	mem_free(cut);
	return m;
}

/*
 * Return the largest difference between the whole rows' products and the parts' sums, in roundings of
 * the sum of magnitudes.
 */
static double
sum_error(const Kernels *k, KPool *pool, KType t, const uint8_t *w, int n, int cut, int rows)
{
	static float x[MOST_ROWS * K] __attribute__((aligned(64)));
	static float y[3][MOST_ROWS * MOST_N] __attribute__((aligned(64)));
	static float row[K];
	KMat		mats[3] = {pack(k, t, w, 0, n), pack_cut(k, t, w, n, 0, cut),
						   pack_cut(k, t, w, n, cut, K - cut)};
	void	   *ws = mem_try_aligned(k->mm_scratch(t, rows, K) + 64);
	double		worst = 0;

	for (int i = 0; i < rows * K; i++)
		x[i] = number();
	for (int i = 0; i < 3; i++)
	{
		k->mm(pool, &mats[i], x + (i == 2 ? cut : 0), rows, K, y[i], n, NULL, ws);
		mem_free(mats[i].data);
	}
	for (int j = 0; j < n; j++)
	{
		kblock_to_float(t, w + ktype_row_bytes(t, K) * (size_t) j, K, row);
		for (int i = 0; i < rows; i++)
		{
			double		all = 0;

			for (int c = 0; c < K; c++)
				all += fabs((double) row[c] * (double) x[i * K + c]);
			worst = fmax(worst,
						 fabs((double) (y[1][i * n + j] + y[2][i * n + j]) - (double) y[0][i * n + j]) / all /
						 FLT_EPSILON);
		}
	}
	mem_free(ws);
	return worst;
}

/* Rows may be split at multiples of this. */
static int
unit_of(KType t)
{
	return ktype_is_int8(t) || t == KT_FP8 ? FP8_GROUP : ktype_block(t) > 1 ? ktype_block(t) : 32;
}

/*
 * A row of many scales or blocks: its parts, from each place to the next one and to the end, have the
 * same values.
 */
static void
test_cut(KType t, const uint8_t *w)
{
	static float whole[K];
	static float part[K];
	uint8_t		row[K * sizeof(float)];
	int			unit = unit_of(t);

	kblock_to_float(t, w, K, whole);
	for (int from = 0; from < K; from += unit)
		for (int i = 0; i < 2; i++)
		{
			int			n = i == 0 ? unit : K - from;

			ktype_cut(t, w, K, from, n, row);
			kblock_to_float(t, row, n, part);
			CHECK(memcmp(part, whole + from, (size_t) n * sizeof(float)) == 0,
				  "%s: %d other weights from %d on", ktype_name(t), n, from);
		}
}

int
main(void)
{
	static const int widths[] = {48, 96, 192, MOST_N};
	static const int rows[] = {1, 7, MOST_ROWS};
	KPool	   *pool = kpool_new(1);
	uint8_t    *w = mem_alloc(MOST_N * ktype_row_bytes(KT_F32, K));

	for (const Kernels *const *k = kernels_all(); *k != NULL; k++)
		for (int t = 0; t < KT_COUNT && kernels_usable(*k); t++)
			for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]) && ktype_row_bytes((KType) t, K) > 0;
				 i++)
			{
				int			n = widths[i];
				int			cut = unit_of((KType) t) < 128 ? 3 * unit_of((KType) t) : unit_of((KType) t);

				if ((*k)->mat_bytes((KType) t, n, K) == 0)
					continue;
				for (int j = 0; j < n; j++)
					fill_row((KType) t, w + ktype_row_bytes((KType) t, K) * (size_t) j);
				RUN(test_cut((KType) t, w));
				for (int r = 0; r < 3; r++)
				{
					CHECK(same_bits(*k, pool, (KType) t, w, n, n / 2, rows[r]), "%s %s: %d columns, %d rows",
						  (*k)->name, ktype_name((KType) t), n, rows[r]);
					/* parts of a row of activations have scales of their own */
					CHECK(t == KT_INT8D || sum_error(*k, pool, (KType) t, w, n, cut, rows[r]) < 8,
						  "%s %s: %d columns, %d rows: partial sums are %g roundings away", (*k)->name,
						  ktype_name((KType) t), n, rows[r],
						  sum_error(*k, pool, (KType) t, w, n, cut, rows[r]));
					CHECK(same_bits(*k, pool, (KType) t, w, n, 19, rows[r]),
						  "%s %s: 19 of %d columns, %d rows", (*k)->name, ktype_name((KType) t), n, rows[r]);
				}
			}
	mem_free(w);
	kpool_free(pool);
	return check_done("test_split");
}
