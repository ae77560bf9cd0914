/*
 * tmpl_mm.h
 *	  Weight matrices: packed layouts, matrix product, row look-up.
 *
 * Layout of F32, F16, BF16: panels of 16 output columns, each [k][16] elements,
 * the last panel filled with zeros up to 16.  With MM_BF16_PAIRS, BF16 is
 * [k/2][16][2] instead (k odd: a zero), what vdpbf16ps wants.
 * Q8_0: panels of 32 columns; a panel is a stream of k/32 blocks of 1,088 bytes:
 * 1,024 quants, the place of (k, column) being Q8_POS and each byte xor'ed with
 * Q8_FLIP, then 32 half scales.  Zeros beyond n.
 *
 * A product's work is cut into chunks of whole panels; rows within a chunk are
 * cut evenly into register tiles.  Neither cut changes the order of any sum
 * (tmpl_tile.h).  Q8_0 activations are quantized per row and block of 32 first.
 */
#define PANEL		16
#define Q8_COLS		32

typedef struct MmJob
{
	const KMat *w;
	const void *x;				/* float [rows][ldx], or packed activations in ws */
	int			rows;
	int			ldx;			/* elements of x */
	size_t		xsize;			/* bytes of an element of x */
	float	   *y;
	int			ldy;
	const float *bias;
	const TileRow *tiles;
	int			ksteps;			/* rows of 16 elements in a panel */
	size_t		wsize;			/* bytes of such an element */
	int			units;			/* of 64 columns */
	int			nchunks;
	/* Q8_0 */
	const float *xsrc;			/* float activations, before quantizing */
	int			ldxsrc;
	int8_t	   *xq;				/* [rows][k] */
	float	   *xd;				/* [rows][k/32] scales */
	int32_t    *xs;				/* [rows][k/32] -128 * sum of the block */
} MmJob;

#ifdef MM_BF16_PAIRS
#define BF16_PAIRS	true
#else
#define BF16_PAIRS	false
#endif

/* index of (k, column within the panel) in a panel of 16-bit elements */
static inline size_t
panel_at(KType t, size_t k, size_t c)
{
	if (BF16_PAIRS && t == KT_BF16)
		return k / 2 * (2 * PANEL) + c * 2 + k % 2;
	return k * PANEL + c;
}

static inline size_t
panel_bytes(KType t, int k)
{
	if (t == KT_Q8_0)
		return (size_t) k / Q8_0_BLOCK * Q8_PANEL_BLOCK;
	if (BF16_PAIRS && t == KT_BF16)
		k = (k + 1) & ~1;
	return (size_t) k * PANEL * kv_elem(t);
}

static inline int
panel_cols(KType t)
{
	return t == KT_Q8_0 ? Q8_COLS : PANEL;
}

static size_t
mat_bytes(KType type, int n, int k)
{
	int			cols = panel_cols(type);

	if (type > KT_Q8_0 || (type == KT_Q8_0 && k % Q8_0_BLOCK != 0))
		return 0;
	return ((size_t) n + cols - 1) / cols * panel_bytes(type, k);
}

/* one column of a Q8_0 panel; src NULL: zeros */
static void
pack_q8_column(uint8_t *panel, const uint8_t *src, int c, int k)
{
	for (int b = 0; b < k / Q8_0_BLOCK; b++, panel += Q8_PANEL_BLOCK)
	{
		KBlockQ8_0	blk = {0};

		if (src != NULL)
			memcpy(&blk, src + (size_t) b * sizeof(blk), sizeof(blk));
		for (int i = 0; i < Q8_0_BLOCK; i++)
			panel[Q8_POS(i, c)] = (uint8_t) blk.qs[i] ^ Q8_FLIP;
		memcpy(panel + 1024 + c * 2, &blk.d, 2);
	}
}

/* 32-bit elements or 16-bit ones; src NULL: zeros */
static void
pack_float_column(KType t, uint8_t *panel, const uint8_t *src, int c, int k)
{
	size_t		es = kv_elem(t);

	for (int i = 0; i < k; i++)
	{
		uint8_t    *to = panel + panel_at(t, i, c) * es;

		if (src != NULL)
			memcpy(to, src + (size_t) i * es, es);
		else
			memset(to, 0, es);
	}
	if (BF16_PAIRS && t == KT_BF16 && k % 2 != 0)
		memset(panel + panel_at(t, k, c) * es, 0, es);
}

static void
mat_pack(KMat *m, const KTensor *src, int n0, int n1)
{
	int			cols = panel_cols(m->type);
	size_t		pb = panel_bytes(m->type, m->k);

	/* the matrix's last panel is filled up */
	if (n1 == m->n)
		n1 = (n1 + cols - 1) / cols * cols;
	for (int j = n0; j < n1; j++)
	{
		uint8_t    *panel = (uint8_t *) m->data + (size_t) (j / cols) * pb;
		const uint8_t *row = j < m->n ? ktensor_row(src, j) : NULL;

		if (m->type == KT_Q8_0)
			pack_q8_column(panel, row, j % cols, m->k);
		else
			pack_float_column(m->type, panel, row, j % cols, m->k);
	}
}

static void
mat_row(const KMat *m, int j, float *out)
{
	int			cols = panel_cols(m->type),
				c = j % cols;
	const uint8_t *panel = (const uint8_t *) m->data + (size_t) (j / cols) * panel_bytes(m->type, m->k);

	if (m->type != KT_Q8_0)
	{
		for (int i = 0; i < m->k; i++)
			out[i] = kelem_get(m->type, panel, panel_at(m->type, i, c));
		return;
	}
	for (int b = 0; b < m->k / Q8_0_BLOCK; b++, panel += Q8_PANEL_BLOCK)
	{
		uint16_t	d;

		memcpy(&d, panel + 1024 + c * 2, 2);
		for (int i = 0; i < Q8_0_BLOCK; i++)
			*out++ = kf16_to_f32(d) * (float) (int8_t) (panel[Q8_POS(i, c)] ^ Q8_FLIP);
	}
}

/* columns p*PANEL.. of a tile through a buffer: the matrix's last columns */
static void
mm_edge_tile(const MmJob *j, const TileRow *t, int r0, int mr, int p)
{
	float		c[V_MAX_MR * PANEL];
	int			n = j->w->n - p * PANEL;

	t->one((const char *) j->x + (size_t) r0 * j->ldx * j->xsize, j->ldx,
		   (const char *) j->w->data + (size_t) p * j->ksteps * PANEL * j->wsize,
		   0, PANEL, j->ksteps, c, PANEL, true);
	for (int r = 0; r < mr; r++)
		memcpy(j->y + (size_t) (r0 + r) * j->ldy + p * PANEL, c + r * PANEL, n * sizeof(float));
}

static void
mm_add_bias(const MmJob *j, int r0, int mr, int c0, int c1)
{
	for (int r = r0; r < r0 + mr; r++)
	{
		float	   *y = j->y + (size_t) r * j->ldy;

		for (int c = c0; c < c1; c++)
			y[c] += j->bias[c];
	}
}

/* panels of np columns at once where they are whole, else one */
static int
mm_tile(const MmJob *j, const TileRow *t, int r0, int mr, int p, int pend)
{
	const char *x = (const char *) j->x + (size_t) r0 * j->ldx * j->xsize;
	size_t		pe = (size_t) j->ksteps * PANEL;
	const char *w = (const char *) j->w->data + (size_t) p * pe * j->wsize;
	float	   *y = j->y + (size_t) r0 * j->ldy + p * PANEL;
	int			np = 1;

	if (p + t->np <= pend && (p + t->np) * PANEL <= j->w->n)
	{
		np = t->np;
		t->wide(x, j->ldx, w, pe, PANEL, j->ksteps, y, j->ldy, true);
	}
	else if ((p + 1) * PANEL <= j->w->n)
		t->one(x, j->ldx, w, pe, PANEL, j->ksteps, y, j->ldy, true);
	else
		mm_edge_tile(j, t, r0, mr, p);
	if (j->bias)
		mm_add_bias(j, r0, mr, p * PANEL, k_min((p + np) * PANEL, j->w->n));
	return np;
}

static void
mm_float_chunk(void *arg, int chunk, int ith)
{
	const MmJob *j = arg;
	int			npanels = (j->w->n + PANEL - 1) / PANEL;
	int			p0 = (int) ((int64_t) j->units * chunk / j->nchunks) * 4;
	int			p1 = k_min((int) ((int64_t) j->units * (chunk + 1) / j->nchunks) * 4, npanels);
	int			ntiles = (j->rows + V_MAX_MR - 1) / V_MAX_MR;

	(void) ith;
	/* four panels stay in cache while all rows pass by */
	for (int pb = p0; pb < p1; pb += 4)
		for (int t = 0; t < ntiles; t++)
		{
			int			r0 = (int) ((int64_t) j->rows * t / ntiles);
			int			mr = (int) ((int64_t) j->rows * (t + 1) / ntiles) - r0;
			int			pend = k_min(pb + 4, p1);

			for (int p = pb; p < pend;)
				p += mm_tile(j, &j->tiles[mr], r0, mr, p, pend);
		}
}

typedef void (*Q8TileFn) (const int8_t *x, size_t ldx, const float *xd, const int32_t *xs,
						  size_t ldb, int nb, const uint8_t *w, size_t ps, int np, float *c);

static const Q8TileFn q8_tiles[Q8_MAX_MR + 1] = {Q8_TILE_TABLE};

/* panels that advance together while rows are so few that memory's speed counts */
#define Q8_MAX_NP	4
#define Q8_FEW_ROWS	2

static void
mm_q8_tile(const MmJob *j, size_t r0, int mr, int col, int np)
{
	int			nb = j->w->k / Q8_0_BLOCK;
	size_t		ps = (size_t) nb * Q8_PANEL_BLOCK;
	_Alignas(64) float c[Q8_MAX_NP * Q8_MAX_MR * Q8_COLS];

	memset(c, 0, (size_t) np * mr * Q8_COLS * sizeof(float));
	q8_tiles[mr] (j->xq + r0 * j->w->k, j->w->k, j->xd + r0 * nb, j->xs + r0 * nb, nb,
				  nb, (const uint8_t *) j->w->data + (size_t) (col / Q8_COLS) * ps, ps, np, c);
	for (int p = 0; p < np; p++, col += Q8_COLS)
		for (int r = 0; r < mr; r++)
		{
			int			n = k_min(Q8_COLS, j->w->n - col);
			float	   *y = j->y + (r0 + r) * j->ldy + col;

			memcpy(y, c + (p * mr + r) * Q8_COLS, n * sizeof(float));
			for (int i = 0; j->bias && i < n; i++)
				y[i] += j->bias[col + i];
		}
}

static void
mm_q8_chunk(void *arg, int chunk, int ith)
{
	const MmJob *j = arg;
	int			c0 = (int) ((int64_t) j->units * chunk / j->nchunks) * 64;
	int			c1 = k_min((int) ((int64_t) j->units * (chunk + 1) / j->nchunks) * 64, j->w->n);
	int			ntiles = (j->rows + Q8_MAX_MR - 1) / Q8_MAX_MR;
	int			np = j->rows <= Q8_FEW_ROWS ? Q8_MAX_NP : 1;

	(void) ith;
	for (int col = c0; col < c1; col += np * Q8_COLS)
		for (int t = 0; t < ntiles; t++)
		{
			size_t		r0 = (size_t) ((int64_t) j->rows * t / ntiles);
			int			mr = (int) ((int64_t) j->rows * (t + 1) / ntiles - (int64_t) r0);

			mm_q8_tile(j, r0, mr, col, k_min(np, (c1 - col + Q8_COLS - 1) / Q8_COLS));
		}
}

/* quantize the activations of one row */
static void
mm_q8_quantize(void *arg, int row, int ith)
{
	const MmJob *j = arg;
	int			nb = j->w->k / Q8_0_BLOCK;
	const float *x = j->xsrc + (size_t) row * j->ldxsrc;

	(void) ith;
	for (int b = 0; b < nb; b++, x += Q8_0_BLOCK)
	{
		size_t		at = (size_t) row * nb + b;
		float		inv;

		j->xd[at] = q8_scale(q8_absmax(x), &inv);
		if (inv == 0.0f)
		{
			memset(j->xq + at * Q8_0_BLOCK, 0, Q8_0_BLOCK);
			j->xs[at] = 0;
		}
		else
			j->xs[at] = -128 * q8_quantize(j->xq + at * Q8_0_BLOCK, x, inv);
	}
}

/* activations as pairs of bfloat16, [rows][k+1 & ~1] */
static inline size_t
pairs_row(int k)
{
	return ((size_t) k + 1) / 2;
}

#ifdef MM_BF16_PAIRS
static void
mm_pairs_row(void *arg, int row, int ith)
{
	const MmJob *j = arg;
	uint16_t   *to = (uint16_t *) j->xq + (size_t) row * j->ldx * 2;
	const float *x = j->xsrc + (size_t) row * j->ldxsrc;
	int			i = 0;

	(void) ith;
	for (; i + 16 <= j->w->k; i += 16)
		v_store_bf16(to + i, v_load(x + i));
	for (; i < j->w->k; i++)
		to[i] = kf32_to_bf16(x[i]);
	if (i % 2 != 0)
		to[i] = 0;
}
#endif

static size_t
mm_scratch(KType type, int rows, int k)
{
	size_t		r = (size_t) rows;

	if (type == KT_Q8_0)
		return k_align64(r * k) + k_align64(r * (k / Q8_0_BLOCK) * 4) * 2;
	if (BF16_PAIRS && type == KT_BF16)
		return k_align64(r * pairs_row(k) * 4);
	return 0;
}

/* a row-wise preparation: on the pool when it is worth it */
static void
run_rows(KPool *pool, KPoolFn fn, void *arg, int rows, size_t elems)
{
	if (rows > 1 && elems > ROW_INLINE)
		kpool_run(pool, fn, arg, rows);
	else
		for (int i = 0; i < rows; i++)
			fn(arg, i, 0);
}

static void
mm(KPool *pool, const KMat *w, const float *x, int rows, int ldx,
   float *y, int ldy, const float *bias, void *ws)
{
	MmJob		j = {
		.w = w, .x = x, .rows = rows, .ldx = ldx, .xsize = 4, .y = y, .ldy = ldy, .bias = bias,
		.ksteps = w->k, .wsize = kv_elem(w->type),
		.units = (w->n + 63) / 64,
		.xsrc = x, .ldxsrc = ldx,
	};
	size_t		elems = (size_t) rows * w->k;
	KPoolFn		fn = mm_float_chunk;

	if (w->type == KT_Q8_0)
	{
		j.xq = ws;
		j.xd = (float *) ((char *) ws + k_align64(elems));
		j.xs = (int32_t *) ((char *) j.xd + k_align64(elems / Q8_0_BLOCK * 4));
		run_rows(pool, mm_q8_quantize, &j, rows, elems);
		fn = mm_q8_chunk;
	}
#ifdef MM_BF16_PAIRS
	else if (w->type == KT_BF16)
	{
		j.xq = ws;
		j.ldx = (int) pairs_row(w->k);
		j.x = ws;
		j.wsize = 4;
		j.ksteps = j.ldx;
		run_rows(pool, mm_pairs_row, &j, rows, elems);
		j.tiles = pair_tiles;
	}
#endif
	else
		j.tiles = tiles[w->type];

	/* about 8 chunks a thread; one, on this thread, when there is little to do */
	j.nchunks = k_min(j.units, 8 * kpool_nthreads(pool));
	if (elems * w->n < 1 << 16)
		j.nchunks = 1;
	if (rows > 0)
		kpool_run(pool, fn, &j, j.nchunks);
}
