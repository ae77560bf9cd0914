/*
 * tmpl_mm.h
 *	  Weight matrices: packed layouts, matrix product, row look-up.
 *
 * Layout of F32, F16, BF16: panels of 16 output columns, each [k][16] elements,
 * the last panel filled with zeros up to 16.  With MM_BF16_PAIRS, BF16 is
 * [k/2][16][2] instead (k odd: a zero), what vdpbf16ps wants.  Quantized formats:
 * panels of 32 columns, see tmpl_qpack.h.
 *
 * A product's work is cut into chunks of whole panels; rows within a chunk are
 * cut evenly into register tiles.  Neither cut changes the order of any sum
 * (tmpl_tile.h, tmpl_qtile.h).  For quantized weights the activations are
 * quantized first, per row and group of 32, or for INT8 per row.
 */
#define PANEL		16

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
	const float *xsrc;			/* float activations, before packing */
	int			ldxsrc;
	/* quantized */
	int8_t	   *xq;				/* [rows][groups * 32] */
	float	   *xd;				/* [rows][groups] scales; INT8: [rows] */
	int32_t    *xi;				/* ... sums, see q_xi() */
	int			groups;			/* of 32 k, the last one filled up */
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

static inline bool
is_quantized(KType t)
{
	return t > KT_BF16;
}

static inline size_t
panel_bytes(KType t, int k)
{
	if (is_quantized(t))
		return q_panel_bytes(t, k);
	if (BF16_PAIRS && t == KT_BF16)
		k = (k + 1) & ~1;
	return (size_t) k * PANEL * kv_elem(t);
}

static inline int
panel_cols(KType t)
{
	return is_quantized(t) ? Q_COLS : PANEL;
}

static size_t
mat_bytes(KType type, int n, int k)
{
	int			cols = panel_cols(type);

	if (type >= KT_COUNT || (is_quantized(type) && !q_shape_ok(type, k)))
		return 0;
	return ((size_t) n + cols - 1) / cols * panel_bytes(type, k);
}

/* words of 32 bits, which 16 columns lay side by side for each */
static inline bool
panel_of_words(KType t)
{
	return t == KT_F32 || (BF16_PAIRS && t == KT_BF16);
}

/* 16 bytes of 16 columns to a panel */
static inline void
pack_float_step(KType t, uint8_t *to, const uint8_t *const *src, size_t at)
{
	pv			w[4];

	if (!panel_of_words(t))
	{
		p_transpose16(to, src, at);
		return;
	}
	for (int c0 = 0; c0 < PANEL; c0 += P_LANES)
	{
		p_load(w, src + c0, at);
		for (int i = 0; i < 4; i++)
			memcpy(to + (i * PANEL + c0) * 4, &w[i], sizeof(pv));
	}
}

/* A panel from rows of floats; NULL: zeros. */
static void
pack_float_panel(KType t, uint8_t *panel, const uint8_t *const *rows, int k)
{
	static const uint8_t zeros[16];
	size_t		es = kv_elem(t),
				row = (size_t) k * es,
				at = 0;
	const uint8_t *src[PANEL];

	for (int c = 0; c < PANEL; c++)
		src[c] = rows[c] != NULL ? rows[c] : zeros;
	for (; at + 16 <= row; at += 16, panel += 16 * PANEL)
	{
		pack_float_step(t, panel, src, 0);
		for (int c = 0; c < PANEL; c++)
			if (rows[c] != NULL)
				src[c] += 16;
	}
	/* the rest of k, element by element; a pair is filled up with zeros */
	if (at < row)
		memset(panel, 0, panel_bytes(t, (int) ((row - at) / es)));
	for (size_t i = 0; i < (row - at) / es; i++)
		for (size_t c = 0; c < PANEL; c++)
			memcpy(panel + panel_at(t, i, c) * es, src[c] + i * es, es);
}

static void
mat_pack(KMat *m, const KTensor *src, int n0, int n1)
{
	int			cols = panel_cols(m->type);
	size_t		pb = panel_bytes(m->type, m->k);

	/* the matrix's last panel is filled up */
	if (n1 == m->n)
		n1 = (n1 + cols - 1) / cols * cols;
	if (is_quantized(m->type))
	{
		q_mat_pack(m, src, n0 / cols, n1 / cols);
		return;
	}
	for (int p = n0 / PANEL; p < n1 / PANEL; p++)
	{
		const uint8_t *rows[PANEL];

		for (int c = 0; c < PANEL; c++)
			rows[c] = p * PANEL + c < m->n ? ktensor_row(src, p * PANEL + c) : NULL;
		pack_float_panel(m->type, (uint8_t *) m->data + (size_t) p * pb, rows, m->k);
	}
}

static void
mat_row(const KMat *m, int j, float *out)
{
	const uint8_t *panel = (const uint8_t *) m->data + (size_t) (j / PANEL) * panel_bytes(m->type, m->k);

	if (m->type == KT_INT8)
		i8_mat_row(m, j, out);
	else if (is_quantized(m->type))
		q_mat_row(m, j, out);
	else
		for (int i = 0; i < m->k; i++)
			out[i] = kelem_get(m->type, panel, panel_at(m->type, i, j % PANEL));
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

/* panels that advance together while rows are so few that memory's speed counts */
#define Q_MAX_NP	4
#define Q_FEW_ROWS	2

/* A tile may compute a row more than there is (q_tile_rows), and drop it. */
static void
mm_q_tile(const MmJob *j, size_t r0, int mr, int col, int np)
{
	KType		t = j->w->type;
	int			tile_mr = q_tile_rows(mr);
	size_t		ldb = t == KT_INT8 ? 1 : (size_t) j->groups;
	_Alignas(64) float c[Q_MAX_NP * Q_MAX_MR * Q_COLS];
	QTile		tile = {
		.x = j->xq + r0 * j->groups * KGROUP, .ldx = (size_t) j->groups * KGROUP,
		.xd = j->xd + r0 * ldb, .xi = j->xi + r0 * ldb, .ldb = ldb,
		.spans = t == KT_INT8 ? (j->w->k + I8_ALIGN - 1) / I8_ALIGN : j->groups / q_span_groups(t),
		.ps = q_panel_bytes(t, j->w->k), .np = np, .c = c
	};

	tile.w = (const uint8_t *) j->w->data + (size_t) (col / Q_COLS) * tile.ps;
	memset(c, 0, (size_t) np * tile_mr * Q_COLS * sizeof(float));
	q_tile(t, tile_mr, &tile);
	for (int p = 0; p < np; p++, col += Q_COLS)
		for (int r = 0; r < mr; r++)
		{
			int			n = k_min(Q_COLS, j->w->n - col);
			float	   *y = j->y + (r0 + r) * j->ldy + col;

			memcpy(y, c + (p * tile_mr + r) * Q_COLS, n * sizeof(float));
			for (int i = 0; j->bias && i < n; i++)
				y[i] += j->bias[col + i];
		}
}

static void
mm_q_chunk(void *arg, int chunk, int ith)
{
	const MmJob *j = arg;
	int			c0 = (int) ((int64_t) j->units * chunk / j->nchunks) * 64;
	int			c1 = k_min((int) ((int64_t) j->units * (chunk + 1) / j->nchunks) * 64, j->w->n);
	int			ntiles = (j->rows + Q_MAX_MR - 1) / Q_MAX_MR;
	int			np = j->rows <= Q_FEW_ROWS ? Q_MAX_NP : 1;

	(void) ith;
	for (int col = c0; col < c1; col += np * Q_COLS)
		for (int t = 0; t < ntiles; t++)
		{
			size_t		r0 = (size_t) ((int64_t) j->rows * t / ntiles);
			int			mr = (int) ((int64_t) j->rows * (t + 1) / ntiles - (int64_t) r0);

			mm_q_tile(j, r0, mr, col, k_min(np, (c1 - col + Q_COLS - 1) / Q_COLS));
		}
}

/* 32 activations to bytes; all zero where inv is */
static inline void
quantize_group(int8_t *q, const float *x, float inv, int32_t *s0, int32_t *s1)
{
	*s0 = *s1 = 0;
	if (inv == 0.0f)
		memset(q, 0, KGROUP);
	else
		q8_quantize(q, x, inv, s0, s1);
}

/* quantize the activations of one row */
static void
mm_q_quantize(void *arg, int row, int ith)
{
	const MmJob *j = arg;
	const float *x = j->xsrc + (size_t) row * j->ldxsrc;

	(void) ith;
	for (int b = 0; b < j->groups; b++, x += KGROUP)
	{
		size_t		at = (size_t) row * j->groups + b;
		int32_t		s0,
					s1;
		float		inv;

		j->xd[at] = q8_scale(q8_absmax(x), &inv);
		quantize_group(j->xq + at * KGROUP, x, inv, &s0, &s1);
		j->xi[at] = q_xi(j->w->type, s0, s1);
	}
}

/* ... with one scale for the row, of any length */
static void
mm_i8_quantize(void *arg, int row, int ith)
{
	const MmJob *j = arg;
	const float *x = j->xsrc + (size_t) row * j->ldxsrc;
	int8_t	   *q = j->xq + (size_t) row * j->groups * KGROUP;
	int			whole = j->w->k / KGROUP;
	float		tail[KGROUP] = {0};
	uint32_t	amax;
	int32_t		s0,
				s1,
				sum = 0;
	float		inv;

	(void) ith;
	memcpy(tail, x + (size_t) whole * KGROUP, (size_t) (j->w->k % KGROUP) * sizeof(float));
	amax = q8_absmax(tail);
	for (int b = 0; b < whole; b++)
	{
		uint32_t	m = q8_absmax(x + (size_t) b * KGROUP);

		amax = m > amax ? m : amax;
	}
	j->xd[row] = q8_scale(amax, &inv);
	for (int b = 0; b < j->groups; b++)
	{
		quantize_group(q + (size_t) b * KGROUP, b < whole ? x + (size_t) b * KGROUP : tail, inv, &s0, &s1);
		sum += s0 + s1;
	}
	j->xi[row] = -Q8_OFF * sum;
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

/* groups of a row of activations */
static inline size_t
q_groups(int k)
{
	return ((size_t) k + KGROUP - 1) / KGROUP;
}

/* rows of activations for tiles that take one more than there is */
static inline size_t
q_padded_rows(int rows)
{
	return (size_t) rows + (rows > 1);
}

/* place the packed activations in ws, and prepare them */
static void
mm_q_prepare(KPool *pool, MmJob *j, void *ws)
{
	int			k = j->w->k;
	size_t		rows = q_padded_rows(j->rows),
				groups = q_groups(k),
				per_row = j->w->type == KT_INT8 ? 1 : groups;

	j->groups = (int) groups;
	j->xq = ws;
	j->xd = (float *) ((char *) ws + k_align64(rows * groups * KGROUP));
	j->xi = (int32_t *) ((char *) j->xd + k_align64(rows * groups * 4));
	run_rows(pool, j->w->type == KT_INT8 ? mm_i8_quantize : mm_q_quantize, j, j->rows,
			 (size_t) j->rows * (size_t) k);
	if (rows > (size_t) j->rows)
	{
		memset(j->xq + (rows - 1) * groups * KGROUP, 0, groups * KGROUP);
		memset(j->xd + (rows - 1) * per_row, 0, per_row * sizeof(float));
		memset(j->xi + (rows - 1) * per_row, 0, per_row * sizeof(int32_t));
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

	if (is_quantized(type))
	{
		r = q_padded_rows(rows);
		return k_align64(r * q_groups(k) * KGROUP) + k_align64(r * q_groups(k) * 4) * 2;
	}
	if (BF16_PAIRS && type == KT_BF16)
		return k_align64(r * pairs_row(k) * 4);
	return 0;
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

	if (is_quantized(w->type))
	{
		mm_q_prepare(pool, &j, ws);
		fn = mm_q_chunk;
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
