/*
 * test_mm.c
 *	  Matrix products and row look-up of one implementation, for conform.
 *
 * Each case computes 67 rows with ref and with the implementation, then many
 * smaller batches of the same rows on 1 to 3 threads, which must have the same
 * bits; for some shapes of each type batches of every size, and one of so many rows
 * that no implementation takes them at once.
 */
#include "tests/kernels/conform.h"

#define MAX_ROWS	67
#define MANY_ROWS	411			/* several passes of rows (QS_BLOCK_ROWS) with a rest */
#define CANARY		12345.0f

typedef struct Mats
{
	KType		type;
	int			n;
	int			k;
	int			ldx;
	int			ldy;
	uint8_t    *src;
	int32_t    *perm;
	KMat		ref;
	KMat		mat;
	float	   *x;				/* [MAX_ROWS][ldx] */
	float	   *want;			/* [MAX_ROWS][ldy] from ref */
	float	   *all;			/* [MAX_ROWS][ldy] from the implementation, in one batch */
	float	   *y;
	float	   *bias;
	void	   *ws;
} Mats;

static void
make_source(Mats *m)
{
	size_t		row = ktype_row_bytes(m->type, m->k);

	m->src = xalloc(row * m->n + 1);
	/* files don't align tensors */
	m->src++;
	for (int j = 0; j < m->n; j++)
		rnd_row(m->type, m->k, m->src + row * j);
	/* INT8: some panels of 32 columns have small codes, in one there is a single larger one */
	for (int p = 0; m->type == KT_INT8 && p < m->n; p += 32)
	{
		int			kind = rnd_int(4);

		for (int c = p; kind > 0 && c < k_min(p + 32, m->n); c++)
			rnd_small_row(m->k, m->src + row * (m->perm != NULL ? m->perm[c] : c));
		if (kind == 1)
			m->src[row * (m->perm != NULL ? m->perm[p] : p) + 4 + rnd_int(m->k)] = 0x80;
	}
}

/* fill: what the memory held before */
static KMat
pack(const Kernels *k, const Mats *m, int fill)
{
	KTensor		t = {
		.name = "w", .type = m->type, .ndim = 2, .shape = {m->n, m->k}, .data = m->src,
		.nbytes = ktype_row_bytes(m->type, m->k) * m->n, .row_perm = m->perm
	};
	KMat		mat = {.type = m->type, .n = m->n, .k = m->k};

	mat.nbytes = k->mat_bytes(m->type, m->n, m->k);
	mat.data = xalloc(mat.nbytes);
	/* in pieces and backwards, as threads might */
	memset(mat.data, fill, mat.nbytes);
	for (int n0 = (m->n - 1) / 64 * 64; n0 >= 0; n0 -= 64)
		k->mat_pack(&mat, &t, n0, k_min(n0 + 64, m->n));
	return mat;
}

static void
make_mats(Mats *m, const Impl *im, KType type, int n, int k, bool perm)
{
	*m = (Mats) {.type = type, .n = n, .k = k, .ldx = k + 3, .ldy = n + 5};
	if (perm)
	{
		m->perm = xalloc(n * sizeof(int32_t));
		for (int i = 0; i < n; i++)
			m->perm[i] = (i * 7 + 3) % n;	/* n is no multiple of 7 */
	}
	make_source(m);
	m->ref = pack(ref, m, 0);
	m->mat = pack(im->k, m, 0xff);
	m->x = xalloc((size_t) MAX_ROWS * m->ldx * 4);
	m->want = xalloc((size_t) MAX_ROWS * m->ldy * 4);
	m->all = xalloc((size_t) MAX_ROWS * m->ldy * 4);
	m->y = xalloc((size_t) MAX_ROWS * m->ldy * 4);
	m->bias = xalloc(n * 4);
	m->ws = xalloc(im->k->mm_scratch(type, MAX_ROWS, k));
	rnd_fill(m->x, (size_t) MAX_ROWS * m->ldx, 2.0f);
	rnd_fill(m->bias, n, 1.0f);
	/* activations of some size, exact zeros, tiny ones */
	memset(m->x + 5 * m->ldx, 0, k * 4);
	for (int i = 0; i < k; i++)
	{
		m->x[6 * m->ldx + i] *= 1e-35f;
		m->x[7 * m->ldx + i] *= 1e20f;
	}
}

static void
free_mats(Mats *m)
{
	free(m->src - 1);
	free(m->perm);
	free(m->ref.data);
	free(m->mat.data);
	free(m->x);
	free(m->want);
	free(m->all);
	free(m->y);
	free(m->bias);
	free(m->ws);
}

static bool
rows_same(const Mats *m, const float *a, const float *b, int rows)
{
	for (int i = 0; i < rows; i++)
		if (memcmp(a + (size_t) i * m->ldy, b + (size_t) i * m->ldy, m->n * 4) != 0)
			return false;
	return true;
}

/*
 * The worst row's error.  A row of few columns is no sample of relative errors: all
 * rows' then, brought to one size.
 */
static double
rows_nmse(const Mats *m)
{
	float		want[MAX_ROWS * 16],
				all[MAX_ROWS * 16];
	double		worst = 0;

	if (m->n >= 16)
	{
		for (int i = 0; i < MAX_ROWS; i++)
			worst = fmax(worst, nmse(m->want + (size_t) i * m->ldy, m->all + (size_t) i * m->ldy, m->n));
		return worst;
	}
	for (int i = 0; i < MAX_ROWS; i++)
	{
		float		size = 1;

		for (int j = 0; j < m->k; j++)
			size = fmaxf(size, fabsf(m->x[(size_t) i * m->ldx + j]));
		for (int c = 0; c < m->n; c++)
		{
			want[i * m->n + c] = m->want[(size_t) i * m->ldy + c] / size;
			all[i * m->n + c] = m->all[(size_t) i * m->ldy + c] / size;
		}
	}
	return nmse(want, all, (size_t) MAX_ROWS * m->n);
}

/* packing writes every byte */
static void
check_pack(const Impl *im, const Mats *m)
{
	KMat		other = pack(im->k, m, 0);

	EXPECT(memcmp(other.data, m->mat.data, other.nbytes) == 0, "%s mat_pack %s [%d][%d]: bytes not written",
		   im->k->name, ktype_name(m->type), m->n, m->k);
	free(other.data);
}

/* `rows` rows from r0 have the bits that they had in the batch of all */
static void
check_batch(const Impl *im, Mats *m, int r0, int rows, const float *bias)
{
	int			bad_canary = 0;

	for (int i = 0; i < rows * m->ldy; i++)
		m->y[i] = CANARY;
	im->k->mm(pools[1 + rows % 3], &m->mat, m->x + (size_t) r0 * m->ldx, rows, m->ldx,
			  m->y, m->ldy, bias, m->ws);
	EXPECT(rows_same(m, m->y, m->all + (size_t) r0 * m->ldy, rows),
		   "%s mm %s [%d][%d]: %d rows from %d differ from the batch of all", im->k->name,
		   ktype_name(m->type), m->n, m->k, rows, r0);
	for (int i = 0; i < rows; i++)
		for (int j = m->n; j < m->ldy; j++)
			bad_canary += m->y[(size_t) i * m->ldy + j] != CANARY;
	EXPECT(bad_canary == 0, "%s mm %s [%d][%d]: %d rows: wrote beyond n", im->k->name,
		   ktype_name(m->type), m->n, m->k, rows);
}

/* batches of most sizes that the tiles care about, at changing places */
static void
check_batches(const Impl *im, Mats *m, const float *bias)
{
	for (int rows = 1; rows <= (im->slow ? 9 : MAX_ROWS); rows += rows < 18 ? 1 : rows < 38 ? 5 : 29)
		check_batch(im, m, rnd_int(MAX_ROWS - rows + 1), rows, bias);
}

/* any place in any company */
static void
check_shuffled(const Impl *im, Mats *m)
{
	float	   *x = xalloc((size_t) MAX_ROWS * m->ldx * 4);
	int			from[MAX_ROWS];

	for (int i = 0; i < MAX_ROWS; i++)
	{
		from[i] = (i * 37 + 11) % MAX_ROWS;
		memcpy(x + (size_t) i * m->ldx, m->x + (size_t) from[i] * m->ldx, m->k * 4);
	}
	im->k->mm(pools[3], &m->mat, x, MAX_ROWS, m->ldx, m->y, m->ldy, m->bias, m->ws);
	for (int i = 0; i < MAX_ROWS; i++)
		EXPECT(memcmp(m->y + (size_t) i * m->ldy, m->all + (size_t) from[i] * m->ldy, m->n * 4) == 0,
			   "%s mm %s [%d][%d]: row %d at place %d", im->k->name, ktype_name(m->type),
			   m->n, m->k, from[i], i);
	free(x);
}

/* a bad value spoils its own row, visibly, and no other */
static void
check_nan(const Impl *im, Mats *m)
{
	static const float bad[] = {NAN, INFINITY, -INFINITY};

	for (int b = 0; b < 3; b++)
	{
		int			row = 2 + b * 3,
					nans = 0,
					wrong = 0;
		float	   *at = m->x + (size_t) row * m->ldx + rnd_int(m->k);
		float		old = *at;

		*at = bad[b];
		im->k->mm(pools[2], &m->mat, m->x, 17, m->ldx, m->y, m->ldy, m->bias, m->ws);
		*at = old;
		for (int i = 0; i < 17; i++)
			if (i == row)
				for (int j = 0; j < m->n; j++)
					nans += !isfinite(m->y[(size_t) i * m->ldy + j]);
			else
				wrong += memcmp(m->y + (size_t) i * m->ldy, m->all + (size_t) i * m->ldy, m->n * 4) != 0;
		EXPECT(nans == m->n && wrong == 0, "%s mm %s: bad value %g: %d of %d outputs show it, %d other rows",
			   im->k->name, ktype_name(m->type), (double) bad[b], nans, m->n, wrong);
	}
}

static void
check_row_lookup(const Impl *im, Mats *m)
{
	float	   *a = xalloc(m->k * 4),
			   *b = xalloc(m->k * 4);
	int			bad = 0;

	for (int j = 0; j < m->n; j++)
	{
		ref->mat_row(&m->ref, j, a);
		im->k->mat_row(&m->mat, j, b);
		bad += memcmp(a, b, m->k * 4) != 0;
	}
	EXPECT(bad == 0, "%s mat_row %s [%d][%d]: %d rows differ", im->k->name,
		   ktype_name(m->type), m->n, m->k, bad);
	free(a);
	free(b);
}

/* the batch of all, against ref */
static void
check_all(const Impl *im, Mats *m, const float *bias)
{
	bool		is_float = m->type <= KT_BF16 || m->type >= KT_FP8;
	bool		exact = !is_float || (im->fused && !(im->pairs && m->type == KT_BF16));
	/* activations that are cut off at one end add up to larger sums */
	double		bound = im->pairs ? 2e-5 : m->type == KT_INT8S ? 1e-11 : 1e-12;
	void	   *ws = xalloc(ref->mm_scratch(m->type, MAX_ROWS, m->k));

	ref->mm(pools[1], &m->ref, m->x, MAX_ROWS, m->ldx, m->want, m->ldy, bias, ws);
	free(ws);
	im->k->mm(pools[1], &m->mat, m->x, MAX_ROWS, m->ldx, m->all, m->ldy, bias, m->ws);
	if (exact)
		EXPECT(rows_same(m, m->want, m->all, MAX_ROWS), "%s mm %s [%d][%d]: not ref's bits",
			   im->k->name, ktype_name(m->type), m->n, m->k);
	else
		EXPECT(rows_nmse(m) <= bound, "%s mm %s [%d][%d]: nmse %g", im->k->name,
			   ktype_name(m->type), m->n, m->k, rows_nmse(m));
}

static void
check_case(const Impl *im, KType type, int n, int k)
{
	Mats		m;

	make_mats(&m, im, type, n, k, n % 7 != 0 && n % 2 != 0);
	check_pack(im, &m);
	check_row_lookup(im, &m);
	for (int with_bias = 0; with_bias < 2; with_bias++)
	{
		const float *bias = with_bias ? m.bias : NULL;

		check_all(im, &m, bias);
		check_batches(im, &m, bias);
	}
	check_shuffled(im, &m);
	check_nan(im, &m);
	free_mats(&m);
}

/* batches of every size from 1 to MAX_ROWS */
static void
check_every_size(const Impl *im, KType type, int n, int k)
{
	Mats		m;

	make_mats(&m, im, type, n, k, true);
	check_all(im, &m, m.bias);
	for (int rows = 1; rows <= MAX_ROWS; rows++)
		check_batch(im, &m, rnd_int(MAX_ROWS - rows + 1), rows, m.bias);
	free_mats(&m);
}

/*
 * Rows in several passes, k in several blocks, which add to what the blocks before
 * them left in y.  The rows are those of the batch of all, again and again.
 */
static void
check_passes(const Impl *im, KType type, int n, int k)
{
	Mats		m;
	float	   *x,
			   *y;
	void	   *ws = xalloc(im->k->mm_scratch(type, MANY_ROWS, k));
	int			wrong = 0;

	make_mats(&m, im, type, n, k, false);
	x = xalloc((size_t) MANY_ROWS * m.ldx * 4);
	y = xalloc((size_t) MANY_ROWS * m.ldy * 4);
	for (int i = 0; i < MANY_ROWS; i++)
		memcpy(x + (size_t) i * m.ldx, m.x + (size_t) (i % MAX_ROWS) * m.ldx, k * 4);
	check_all(im, &m, m.bias);
	im->k->mm(pools[2], &m.mat, x, MANY_ROWS, m.ldx, y, m.ldy, m.bias, ws);
	for (int i = 0; i < MANY_ROWS; i++)
		wrong += memcmp(y + (size_t) i * m.ldy, m.all + (size_t) (i % MAX_ROWS) * m.ldy, n * 4) != 0;
	EXPECT(wrong == 0, "%s mm %s [%d][%d]: %d of %d rows differ from the batch of %d", im->k->name,
		   ktype_name(type), n, k, wrong, MANY_ROWS, MAX_ROWS);
	free(x);
	free(y);
	free(ws);
	free_mats(&m);
}

/* the largest sum there is: no product of INT8 overflows */
static void
test_int8_extremes(const Impl *im)
{
	Mats		m;
	int			k = im->emulated ? 4096 : INT8_MAX_K;
	float		one = 1.0f;

	make_mats(&m, im, KT_INT8, 2, k, false);
	memcpy(m.src, &one, 4);
	memset(m.src + 4, -128, (size_t) k);
	memcpy(m.src + 4 + k, &one, 4);
	memset(m.src + 8 + k, 127, (size_t) k);
	free(m.mat.data);
	m.mat = pack(im->k, &m, 0);
	for (int i = 0; i < 8 * m.ldx; i++)
		m.x[i] = i / m.ldx % 2 == 0 ? 127.0f : -127.0f;
	im->k->mm(pools[1], &m.mat, m.x, 2, m.ldx, m.y, m.ldy, NULL, m.ws);
	im->k->mm(pools[1], &m.mat, m.x + 2 * m.ldx, 6, m.ldx, m.y + 2 * m.ldy, m.ldy, NULL, m.ws);
	for (int i = 0; i < 8; i++)
	{
		float		x = i % 2 == 0 ? 127.0f : -127.0f;

		EXPECT(m.y[i * m.ldy] == -128.0f * x * (float) k && m.y[i * m.ldy + 1] == 127.0f * x * (float) k,
			   "%s: INT8's extremes: %.9g and %.9g", im->k->name, (double) m.y[i * m.ldy],
			   (double) m.y[i * m.ldy + 1]);
	}
	free_mats(&m);
}

/* Nor with small codes: four add up to 258 times 127. */
static void
test_int8_small_extremes(const Impl *im)
{
	Mats		m;
	const int	k = 640;
	float		one = 1.0f;

	make_mats(&m, im, KT_INT8, 64, k, false);
	for (int j = 0; j < 64; j++)
	{
		uint8_t    *row = m.src + (size_t) j * (4 + k);

		memcpy(row, &one, 4);
		for (int i = 0; i < k; i++)
		{
			int			code = i % 2 == 0 ? 64 : 65;

			row[4 + i] = (uint8_t) (j % 2 == 0 ? code : -code);
		}
	}
	free(m.mat.data);
	m.mat = pack(im->k, &m, 0);
	for (int i = 0; i < MAX_ROWS * m.ldx; i++)
		m.x[i] = 127.0f;
	im->k->mm(pools[1], &m.mat, m.x, MAX_ROWS, m.ldx, m.y, m.ldy, NULL, m.ws);
	for (int i = 0; i < MAX_ROWS; i++)
		for (int j = 0; j < 64; j++)
		{
			float		want = (j % 2 == 0 ? 64.5f : -64.5f) * 127.0f * (float) k;

			EXPECT(m.y[i * m.ldy + j] == want, "%s: INT8's small extremes: %.9g", im->k->name,
				   (double) m.y[i * m.ldy + j]);
		}
	free_mats(&m);
}

/* all codes of a column at one end of their range, and scales too */
static void
make_extremes(Mats *m)
{
	static const int fill[] = {0x00, 0xff, 0x80, 0x7f};
	size_t		row = ktype_row_bytes(m->type, m->k);

	for (int j = 0; j < m->n; j++)
	{
		uint8_t    *at = m->src + row * j;
		uint8_t    *old = xalloc(row);

		/* the halves are those of make_source() */
		memcpy(old, at, row);
		memset(at, fill[j % 4], row);
		for (size_t b = 0; b < row; b += ktype_row_bytes(m->type, ktype_block(m->type)))
		{
			if (m->type == KT_Q6_K)
			{
				KBlockQ6_K *q = (KBlockQ6_K *) (at + b);

				memcpy(&q->d, old + b + offsetof(KBlockQ6_K, d), 2);
				memset(q->scales, j & 4 ? 0x80 : 0x7f, sizeof(q->scales));
			}
			else if (m->type == KT_Q3_K)
				memcpy(at + b + offsetof(KBlockQ3_K, d), old + b + offsetof(KBlockQ3_K, d), 2);
			else if (m->type == KT_Q2_K)
				memcpy(at + b + offsetof(KBlockQ2_K, d), old + b + offsetof(KBlockQ2_K, d), 4);
			else
				memcpy(at + b, old + b, m->type == KT_MXFP4 ? 1 : 4);
		}
		free(old);
	}
}

/* sums at the ends of what an implementation's integers hold, and more rows than it takes at once */
static void
check_extremes(const Impl *im, KType type, int rows)
{
	Mats		m;
	float	   *x,
			   *want,
			   *y;
	void	   *ws,
			   *ref_ws;

	make_mats(&m, im, type, 40, 512, false);
	make_extremes(&m);
	free(m.ref.data);
	free(m.mat.data);
	m.ref = pack(ref, &m, 0);
	m.mat = pack(im->k, &m, 0);
	x = xalloc((size_t) rows * m.k * 4);
	want = xalloc((size_t) rows * m.ldy * 4);
	y = xalloc((size_t) rows * m.ldy * 4);
	ws = xalloc(im->k->mm_scratch(type, rows, m.k));
	ref_ws = xalloc(ref->mm_scratch(type, rows, m.k));
	for (int i = 0; i < rows * m.k; i++)
		x[i] = i / m.k % 3 == 0 ? 1.0f : i / m.k % 3 == 1 ? -1.0f : rnd_float(1.0f);
	ref->mm(pools[1], &m.ref, x, rows, m.k, want, m.ldy, NULL, ref_ws);
	im->k->mm(pools[2], &m.mat, x, rows, m.k, y, m.ldy, NULL, ws);
	EXPECT(rows_same(&m, want, y, rows), "%s mm %s: %d rows of extremes: not ref's bits", im->k->name,
		   ktype_name(type), rows);
	free(x);
	free(want);
	free(y);
	free(ws);
	free(ref_ws);
	free_mats(&m);
}

/* floats [rows][k] as a matrix of F32 */
static KMat
pack_floats(const Kernels *k, const float *w, int n, int kk)
{
	KTensor		t = {.name = "w", .type = KT_F32, .ndim = 2, .shape = {n, kk}, .data = w,
		.nbytes = (size_t) n * kk * sizeof(float)};
	KMat		m = {.type = KT_F32, .n = n, .k = kk, .nbytes = k->mat_bytes(KT_F32, n, kk)};

	m.data = xalloc(m.nbytes);
	k->mat_pack(&m, &t, 0, n);
	return m;
}

/*
 * FP8: every code, NaN too, and a scale so small that numbers are subnormal: the bits are those of F32
 * with code * scale.
 */
static void
check_fp8(const Impl *im, int n, int k)
{
	static const int batches[] = {1, 2, 5, 17, MAX_ROWS};
	size_t		row = ktype_row_bytes(KT_FP8, k);
	float	   *floats = xalloc((size_t) n * k * sizeof(float));
	Mats		m;
	void	   *ws = xalloc(im->k->mm_scratch(KT_F32, MAX_ROWS, k));
	KMat		f;
	int			wrong = 0,
				nans = 0;

	make_mats(&m, im, KT_FP8, n, k, false);
	for (int j = 0; j < n; j++)
	{
		uint8_t    *src = m.src + row * j;
		float		tiny = 0x1p-130f;

		for (int i = 0; i < k; i++)
			src[row - (size_t) k + i] = (uint8_t) ((i + j) % 256 % 0x7f + (i & 8 ? 0x80 : 0));
		if (j % 3 == 0)
			memcpy(src, &tiny, sizeof(tiny));
		if (j == 3)
			src[row - 1] = 0xff;
		kblock_to_float(KT_FP8, src, k, floats + (size_t) j * k);
	}
	free(m.mat.data);
	m.mat = pack(im->k, &m, 0xa5);
	f = pack_floats(im->k, floats, n, k);
	for (size_t b = 0; b < sizeof(batches) / sizeof(batches[0]); b++)
	{
		im->k->mm(pools[2], &m.mat, m.x, batches[b], m.ldx, m.y, m.ldy, m.bias, m.ws);
		im->k->mm(pools[1], &f, m.x, batches[b], m.ldx, m.want, m.ldy, m.bias, ws);
		for (int i = 0; i < batches[b]; i++)
			for (int j = 0; j < n; j++)
			{
				const float *y = m.y + (size_t) i * m.ldy + j,
						   *want = m.want + (size_t) i * m.ldy + j;

				nans += j == 3 && isnan(*y);
				wrong += j == 3 ? !isnan(*y) : memcmp(y, want, sizeof(*y)) != 0;
			}
	}
	EXPECT(wrong == 0 && nans > 0, "%s mm FP8 [%d][%d]: %d of the numbers are not F32's", im->k->name, n, k,
		   wrong);
	EXPECT(m.mat.nbytes * 100 <= im->k->mat_bytes(KT_BF16, n, k) * 55, "%s: FP8 takes %zu bytes", im->k->name,
		   m.mat.nbytes);
	free(floats);
	free(ws);
	free(f.data);
	free_mats(&m);
}

/* Round rows of x to 8 bits, each with the scale max |x| / 127; NaN and infinity make the whole row NaN. */
static float *
dynamic_rows(const Mats *m, int rows)
{
	float	   *to = xalloc((size_t) rows * m->ldx * sizeof(float));

	for (int i = 0; i < rows; i++)
	{
		const float *x = m->x + (size_t) i * m->ldx;
		float		most = 0;
		bool		finite = true;

		for (int c = 0; c < m->k; c++)
		{
			most = fmaxf(most, fabsf(x[c]));
			finite = finite && isfinite(x[c]);
		}
		for (int c = 0; c < m->k; c++)
			to[(size_t) i * m->ldx + c] = !finite ? k_float(0x7fc00000u) : most == 0 ? 0 :
				most / 127 * rintf(x[c] * (127 / most));
	}
	return to;
}

/* Round rows of x to 8 bits with the scale of all rows, as compressed-tensors does. */
static float *
static_rows(const Mats *m, int rows)
{
	float	   *to = xalloc((size_t) rows * m->ldx * sizeof(float));
	KInt8X		x;
	int			cut = 0;

	memcpy(&x, m->src, sizeof(x));
	for (int i = 0; i < rows; i++)
		for (size_t at = (size_t) i * m->ldx, end = at + m->k; at < end; at++)
		{
			float		q = rintf(m->x[at] / x.scale + x.zero);

			cut += q > 127;
			q = q < -128 ? -128 : q > 127 ? 127 : q;
			to[at] = (q - x.zero) * x.scale;
		}
	EXPECT(cut > 0, "no activation is cut off");
	return to;
}

/*
 * 4 and 8 bits for float activations: the bits are those of F32 with the numbers that the codes and scales
 * stand for; and for KT_INT8D and KT_INT8S with activations that are rounded before.
 */
static void
check_wide(const Impl *im, KType type, KType rounded, int n, int k)
{
	static const int batches[] = {1, 2, 3, 5, 17, MAX_ROWS};
	size_t		row = ktype_row_bytes(type, k);
	size_t		head = row - ktype_row_bytes(rounded, k);
	float	   *floats = xalloc((size_t) n * k * sizeof(float));
	void	   *ws = xalloc(im->k->mm_scratch(KT_F32, MAX_ROWS, k));
	Mats		m;
	KMat		f;
	int			wrong = 0;
	float	   *x;

	make_mats(&m, im, type, n, k, false);
	x = type == KT_INT8D ? dynamic_rows(&m, MAX_ROWS) : type == KT_INT8S ? static_rows(&m, MAX_ROWS) : m.x;
	for (int j = 0; j < n; j++)
	{
		uint16_t	odd[] = {0, 0x8000, 0x0001, 0x7bff};
		uint8_t    *at = m.src + row * (size_t) j + head;

		/* no scale, the smallest and the largest */
		memcpy(at, &odd[j % 4], sizeof(odd[0]));
		kblock_to_float(rounded, at, k, floats + (size_t) j * k);
	}
	free(m.mat.data);
	m.mat = pack(im->k, &m, 0xa5);
	f = pack_floats(im->k, floats, n, k);
	for (size_t b = 0; b < sizeof(batches) / sizeof(batches[0]); b++)
	{
		im->k->mm(pools[2], &m.mat, m.x, batches[b], m.ldx, m.y, m.ldy, m.bias, m.ws);
		im->k->mm(pools[1], &f, x, batches[b], m.ldx, m.want, m.ldy, m.bias, ws);
		for (int i = 0; i < batches[b]; i++)
			wrong += memcmp(m.y + (size_t) i * m.ldy, m.want + (size_t) i * m.ldy,
							(size_t) n * sizeof(float)) != 0;
	}
	EXPECT(wrong == 0, "%s mm %s [%d][%d]: %d rows are not F32's", im->k->name, ktype_name(type), n, k,
		   wrong);
	EXPECT(n % 16 != 0 || im->k == ref ||
		   (m.mat.nbytes - (type == KT_INT8S ? (size_t) n / 16 * 64 : 0)) * 32 ==
		   (size_t) n * k * (type == KT_Q4_0F ? 18 : type == KT_Q4_1F ? 20 : 33),
		   "%s: %s takes %zu bytes", im->k->name, ktype_name(type), m.mat.nbytes);
	if (x != m.x)
		free(x);
	free(floats);
	free(ws);
	free(f.data);
	free_mats(&m);
}

void
test_mm(const Impl *im)
{
	static const int shapes[][2] = {
		{1, 32}, {16, 64}, {17, 32}, {33, 96}, {100, 256}, {64, 896}, {130, 160}, {257, 32},
		{34, 512}, {33, 2048}, {5, 1}, {37, 7}, {50, 77}, {129, 33}, {70, 390}
	};
	int			count = sizeof(shapes) / sizeof(shapes[0]);

	for (int t = 0; t < KT_COUNT; t++)
	{
		int			block = ktype_block(t);

		EXPECT(im->k->mat_bytes(t, 4, 2 * block) != 0, "%s: %s", im->k->name, ktype_name(t));
		EXPECT(block == 1 || (im->k->mat_bytes(t, 4, 2 * block + 1) == 0 &&
							  im->k->mat_bytes(t, 4, 2 * block + block / 2) == 0),
			   "%s: %s with k no multiple of a block", im->k->name, ktype_name(t));
	}
	EXPECT(im->k->mat_bytes(KT_INT8, 4, INT8_MAX_K) != 0 && im->k->mat_bytes(KT_INT8, 4, INT8_MAX_K + 1) == 0,
		   "%s: longest row of INT8", im->k->name);
	test_int8_extremes(im);
	test_int8_small_extremes(im);
	check_fp8(im, 50, 390);
	check_fp8(im, 16, 128);
	check_wide(im, KT_Q4_0F, KT_Q4_0, 50, 416);
	check_wide(im, KT_Q4_0F, KT_Q4_0, 64, 128);
	check_wide(im, KT_Q4_1F, KT_Q4_1, 50, 416);
	check_wide(im, KT_Q4_1F, KT_Q4_1, 64, 128);
	check_wide(im, KT_INT8F, KT_INT8, 50, 390);
	check_wide(im, KT_INT8F, KT_INT8, 64, 128);
	check_wide(im, KT_INT8D, KT_INT8, 50, 390);
	check_wide(im, KT_INT8D, KT_INT8, 64, 128);
	check_wide(im, KT_INT8S, KT_INT8, 50, 390);
	check_wide(im, KT_INT8S, KT_INT8, 64, 128);
	for (int t = 0; t < KT_COUNT; t++)
		for (int i = 0; i < count; i++)
		{
			int			n = shapes[i][0],
						k = shapes[i][1];

			if (im->k->mat_bytes(t, n, k) != 0 && !(im->slow && i >= 4 && i < 8))
				check_case(im, t, n, k);
		}
	for (int t = KT_BF16 + 1; t < KT_COUNT; t++)
	{
		if (im->k->mat_bytes(t, 64, 512) == 0 || t >= KT_FP8)
			continue;
		check_extremes(im, t, 3);
		check_extremes(im, t, im->slow ? 5 : im->emulated ? 13 : MANY_ROWS);
	}
	for (int t = 0; t < KT_COUNT; t++)
	{
		int			block = ktype_block(t);

		if (im->k->mat_bytes(t, 64, 512) == 0)
			continue;
		/* a rest of columns; one block of k, or an odd number of some */
		check_every_size(im, t, 41, block == 1 ? 39 : block < 256 ? 96 : 256);
		if (!im->slow && !im->emulated)
			check_every_size(im, t, 150, block == 1 ? 131 : block < 256 ? 160 : 512);
		if (!im->slow)
			check_passes(im, t, 41, block == 1 ? 1045 : block < 256 ? 1056 : 1280);
	}
}
