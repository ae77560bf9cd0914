/*
 * tmpl_lora.h
 *	  Low-rank products of adapters, added to those of matrices.
 *
 * Each element of t is a separate sum, in 16 lanes (lane = index of the input mod 16), and each element
 * of y is a sum in the order of ranks, added at the end: so no element depends on which rows and ranks
 * are computed together, nor on the division into chunks.  Four sums run at a time, as 16 registers hold
 * them with their operands: one row with four rows of A, or two rows with two.
 */

/* most rows, and rows of A or panels of B, of a chunk */
#define LORA_ROWS	32
#define LORA_RANKS	8
#define LORA_PANELS 8

typedef struct LoraJobs
{
	const KLoraJob *jobs;
	int			n;
	const float *x;
	int			ldx;
	float	   *t;
	int			ldt;
	float	   *y;
	int			ldy;
} LoraJobs;

static inline v16
lora_load(KType type, const char *p, size_t i)
{
	if (type == KT_F32)
		return v_load((const float *) (const void *) p + i);
	if (type == KT_F16)
		return v_load_f16((const uint16_t *) (const void *) p + i);
	return v_load_bf16((const uint16_t *) (const void *) p + i);
}

/* the first n lanes; the others 0 */
static inline v16
lora_load_n(KType type, const char *p, size_t i, int n)
{
	uint16_t	h[16] = {0};

	if (type == KT_F32)
		return v_load_n((const float *) (const void *) p + i, n);
	memcpy(h, (const uint16_t *) (const void *) p + i, (size_t) n * sizeof(uint16_t));
	return type == KT_F16 ? v_load_f16(h) : v_load_bf16(h);
}

static inline size_t
lora_size(KType type)
{
	return type == KT_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* multiply mr rows by na rows of A from r on */
static inline __attribute__((always_inline)) void
shrink_tile(const LoraJobs *l, const KLoraJob *j, int i, int r, KType type, const int mr, const int na)
{
	const KLora *p = j->p;
	size_t		k = (size_t) p->k;
	const char *a = (const char *) p->a + (size_t) r * k * lora_size(type);
	v16			acc[2][4];
	size_t		c = 0;

	for (int m = 0; m < mr; m++)
		for (int q = 0; q < na; q++)
			acc[m][q] = v_zero();
	for (; c + 16 <= k; c += 16)
	{
		v16			x[2];

		for (int m = 0; m < mr; m++)
			x[m] = v_load(l->x + (size_t) j->rows[i + m] * l->ldx + c);
		for (int q = 0; q < na; q++)
		{
			v16			w = lora_load(type, a, (size_t) q * k + c);

			for (int m = 0; m < mr; m++)
				acc[m][q] = v_fma(x[m], w, acc[m][q]);
		}
	}
	if (c < k)
		for (int m = 0; m < mr; m++)
		{
			v16			x = v_load_n(l->x + (size_t) j->rows[i + m] * l->ldx + c, (int) (k - c));

			for (int q = 0; q < na; q++)
				acc[m][q] = v_fma(x, lora_load_n(type, a, (size_t) q * k + c, (int) (k - c)), acc[m][q]);
		}
	for (int m = 0; m < mr; m++)
		for (int q = 0; q < na; q++)
			l->t[(size_t) j->rows[i + m] * l->ldt + p->at + r + q] = v_sum(acc[m][q]) * p->scale;
}

/* multiply rows i0 .. i1-1 by rows r0 .. r1-1 of A */
static inline __attribute__((always_inline)) void
shrink_block(const LoraJobs *l, const KLoraJob *j, int i0, int i1, int r0, int r1, KType type)
{
	int			i = i0;

	for (; i + 2 <= i1; i += 2)
	{
		int			r = r0;

		for (; r + 2 <= r1; r += 2)
			shrink_tile(l, j, i, r, type, 2, 2);
		if (r < r1)
			shrink_tile(l, j, i, r, type, 2, 1);
	}
	for (; i < i1; i++)
	{
		int			r = r0;

		for (; r + 4 <= r1; r += 4)
			shrink_tile(l, j, i, r, type, 1, 4);
		for (; r < r1; r++)
			shrink_tile(l, j, i, r, type, 1, 1);
	}
}

static int
lora_cuts(int n, int most)
{
	return (n + most - 1) / most;
}

/* return the job of chunk number i of all jobs */
static const KLoraJob *
lora_find(const LoraJobs *l, int i)
{
	int			lo = 0,
				hi = l->n;

	while (hi - lo > 1)
	{
		int			mid = (lo + hi) / 2;

		if (l->jobs[mid].first <= i)
			lo = mid;
		else
			hi = mid;
	}
	return &l->jobs[lo];
}

static void
shrink_chunk(void *arg, int chunk, int ith)
{
	const LoraJobs *l = arg;
	const KLoraJob *j = lora_find(l, chunk);
	int			at = chunk - j->first;
	int			cuts = lora_cuts(j->p->rank, LORA_RANKS);
	int			r0 = at % cuts * LORA_RANKS,
				i0 = at / cuts * LORA_ROWS;
	int			r1 = k_min(r0 + LORA_RANKS, j->p->rank),
				i1 = k_min(i0 + LORA_ROWS, j->n_rows);

	(void) ith;
	if (j->p->type == KT_F32)
		shrink_block(l, j, i0, i1, r0, r1, KT_F32);
	else if (j->p->type == KT_F16)
		shrink_block(l, j, i0, i1, r0, r1, KT_F16);
	else
		shrink_block(l, j, i0, i1, r0, r1, KT_BF16);
}

/* multiply mr rows by np panels of B from panel b on */
static inline __attribute__((always_inline)) void
expand_tile(const LoraJobs *l, const KLoraJob *j, int i, int b, KType type, const int mr, const int np)
{
	const KLora *p = j->p;
	size_t		panel = (size_t) p->rank * KLORA_PANEL;
	const char *w = (const char *) p->b + (size_t) b * panel * lora_size(type);
	v16			acc[2][2 * 2];

	for (int m = 0; m < mr; m++)
		for (int q = 0; q < 2 * np; q++)
			acc[m][q] = v_zero();
	for (int r = 0; r < p->rank; r++)
	{
		v16			t[2];

		for (int m = 0; m < mr; m++)
			t[m] = v_set1(l->t[(size_t) j->rows[i + m] * l->ldt + p->at + r]);
		for (int q = 0; q < 2 * np; q++)
		{
			v16			v = lora_load(type, w, (size_t) (q / 2) * panel + (size_t) r * KLORA_PANEL +
									  (size_t) (q % 2) * 16);

			for (int m = 0; m < mr; m++)
				acc[m][q] = v_fma(t[m], v, acc[m][q]);
		}
	}
	for (int m = 0; m < mr; m++)
		for (int q = 0; q < 2 * np; q++)
		{
			int			c = b * KLORA_PANEL + q * 16,
						left = p->n - c;
			float	   *y = l->y + (size_t) j->rows[i + m] * l->ldy + p->col + c;

			if (left >= 16)
				v_store(y, v_add(v_load(y), acc[m][q]));
			else if (left > 0)
				v_store_n(y, v_add(v_load_n(y, left), acc[m][q]), left);
		}
}

static inline __attribute__((always_inline)) void
expand_block(const LoraJobs *l, const KLoraJob *j, int i0, int i1, int b0, int b1, KType type)
{
	int			i = i0;

	for (; i + 2 <= i1; i += 2)
		for (int b = b0; b < b1; b++)
			expand_tile(l, j, i, b, type, 2, 1);
	for (; i < i1; i++)
	{
		int			b = b0;

		for (; b + 2 <= b1; b += 2)
			expand_tile(l, j, i, b, type, 1, 2);
		if (b < b1)
			expand_tile(l, j, i, b, type, 1, 1);
	}
}

static void
expand_chunk(void *arg, int chunk, int ith)
{
	const LoraJobs *l = arg;
	const KLoraJob *j = lora_find(l, chunk);
	int			at = chunk - j->first;
	int			panels = lora_cuts(j->p->n, KLORA_PANEL);
	int			cuts = lora_cuts(panels, LORA_PANELS);
	int			b0 = at % cuts * LORA_PANELS,
				i0 = at / cuts * LORA_ROWS;
	int			b1 = k_min(b0 + LORA_PANELS, panels),
				i1 = k_min(i0 + LORA_ROWS, j->n_rows);

	(void) ith;
	if (j->p->type == KT_F32)
		expand_block(l, j, i0, i1, b0, b1, KT_F32);
	else if (j->p->type == KT_F16)
		expand_block(l, j, i0, i1, b0, b1, KT_F16);
	else
		expand_block(l, j, i0, i1, b0, b1, KT_BF16);
}

static void
lora_run(KPool *pool, KLoraJob *jobs, int n, LoraJobs *l, KPoolFn fn, bool shrink)
{
	int			chunks = 0;
	size_t		elems = 0;

	for (int i = 0; i < n; i++)
	{
		int			cuts = shrink ? lora_cuts(jobs[i].p->rank, LORA_RANKS) :
			lora_cuts(lora_cuts(jobs[i].p->n, KLORA_PANEL), LORA_PANELS);

		jobs[i].first = chunks;
		chunks += cuts * lora_cuts(jobs[i].n_rows, LORA_ROWS);
		elems += (size_t) jobs[i].n_rows * (size_t) jobs[i].p->rank *
			(size_t) (shrink ? jobs[i].p->k : jobs[i].p->n);
	}
	l->jobs = jobs;
	l->n = n;
	run_rows(pool, fn, l, chunks, elems);
}

static void
lora_shrink(KPool *pool, KLoraJob *jobs, int n, const float *x, int ldx, float *t, int ldt)
{
	LoraJobs	l = {.x = x, .ldx = ldx, .t = t, .ldt = ldt};

	lora_run(pool, jobs, n, &l, shrink_chunk, true);
}

static void
lora_expand(KPool *pool, KLoraJob *jobs, int n, const float *t, int ldt, float *y, int ldy)
{
	LoraJobs	l = {.t = (float *) (uintptr_t) t, .ldt = ldt, .y = y, .ldy = ldy};

	lora_run(pool, jobs, n, &l, expand_chunk, false);
}
