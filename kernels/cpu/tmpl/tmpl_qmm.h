/*
 * tmpl_qmm.h
 *	  Products of quantized weights: the activations, and the division into tiles.
 *
 * Few rows are bound by memory bandwidth and read weights as they are packed (tmpl_qtile.h); more rows
 * share the cost of unpacking (tmpl_qstrip.h, in implementations that have it).
 */
#define Q_FEW_ROWS	2

/* return true for so few rows that memory bandwidth is the limit: panels advance together */
static inline bool
mm_streams(KType t, int rows)
{
	return is_quantized(t) && rows <= Q_FEW_ROWS;
}

/*
 * Compute np panels, `step` columns apart.  A tile may compute one row too many (q_tile_rows), and drop
 * it.
 */
static void
mm_q_tile(const MmJob *j, size_t r0, int mr, int col, int np, int step)
{
	KType		t = j->w->type;
	int			tile_mr = q_tile_rows(mr);
	bool		int8 = t == KT_INT8;
	size_t		ldb = int8 ? 0 : (size_t) j->groups;
	_Alignas(64) float c[Q_MAX_NP * Q_MAX_MR * Q_COLS];
	QTile		tile = {
		.x = j->xq + r0 * j->groups * j->xstep, .ldx = (size_t) j->groups * j->xstep,
		.xd = j->xd + r0 * ldb, .xi = j->xi + r0 * ldb, .ldb = ldb,
		.spans = int8 ? i8_steps(j->w->k) : j->groups / q_span_groups(t),
		.ps = q_panel_bytes(t, j->w->k) * (size_t) (step / Q_COLS), .np = np, .c = c
	};

	tile.w = (const uint8_t *) j->w->data + (size_t) (col / Q_COLS) * q_panel_bytes(t, j->w->k);
	memset(c, 0, (size_t) np * tile_mr * Q_COLS * sizeof(float));
	q_tile(t, tile_mr, &tile);
	for (int p = 0; p < np; p++, col += step)
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
	int			left = (c1 - c0 + Q_COLS - 1) / Q_COLS;

	(void) ith;
	/*
	 * With few rows the chunk is up to Q_MAX_NP memory streams, each as long as possible: the end of a
	 * panel is followed by what the same stream reads next.
	 */
	for (int col = c0; left > 0;)
	{
		int			np = mm_streams(j->w->type, j->rows) ? k_min(left, Q_MAX_NP) : 1,
					len = left / np;

		for (int i = 0; i < len; i++, col += Q_COLS)
			for (int t = 0; t < ntiles; t++)
			{
				size_t		r0 = (size_t) ((int64_t) j->rows * t / ntiles);
				int			mr = (int) ((int64_t) j->rows * (t + 1) / ntiles - (int64_t) r0);

				mm_q_tile(j, r0, mr, col, np, len * Q_COLS);
			}
		col += (np - 1) * len * Q_COLS;
		left -= np * len;
	}
}

#ifdef QS_MAX_MR
/* rows processed with a block together, so that their activations stay in L2 */
#define QS_BLOCK_ROWS	(32 * QS_MAX_MR)

/* an unpacked block: QS_COLS columns of some groups */
typedef struct QsBlock
{
	const MmJob *j;
	int			col;			/* the first column */
	int			g0;				/* the first group */
	int			n;				/* groups */
	bool		small;			/* INT8: the panel's codes are small */
	int			rows;			/* most rows of a tile */
	const uint8_t *from;		/* the weights that a tile multiplies: w, or INT8's panel */
	const uint8_t *ahead;		/* later packed weights, to be prefetched meanwhile: */
	int			lines;			/* cache lines per group */
	_Alignas(64) uint8_t w[QS_BLOCK_BYTES];
} QsBlock;

static inline const uint8_t *
mm_panel(const MmJob *j, int col)
{
	return (const uint8_t *) j->w->data + (size_t) (col / Q_COLS) * q_panel_bytes(j->w->type, j->w->k);
}

/* copy n floats, most often QS_COLS */
static inline void
qs_copy(float *to, const float *from, int n)
{
	if (n == QS_COLS)
		memcpy(to, from, QS_COLS * sizeof(float));
	else
		memcpy(to, from, (size_t) n * sizeof(float));
}

/*
 * Write a tile's sums to y; after the last groups they become results: times the column's scale (INT8),
 * plus the bias, by a separate addition.
 */
static inline void
mm_strip_out(const QsBlock *b, int r0, int mr, const float *c)
{
	const MmJob *j = b->j;
	bool		last = b->g0 + b->n == j->groups,
				scaled = last && j->w->type == KT_INT8,
				biased = last && j->bias != NULL;
	const float *d = scaled ? (const float *) (const void *) mm_panel(j, b->col) + b->col % Q_COLS : c,
			   *bias = biased ? j->bias + b->col : c;
	float	   *y = j->y + (size_t) r0 * j->ldy + b->col;
	qf			d0 = qf_load(d),
				d1 = qf_load(d + Q_STRIP),
				bias0 = qf_load(bias),
				bias1 = qf_load(bias + Q_STRIP),
				one = qf_set1(1.0f);

	for (int r = 0; r < mr; r++, c += QS_COLS, y += j->ldy)
	{
		qf			v0 = qf_load(c),
					v1 = qf_load(c + Q_STRIP);

		if (scaled)
		{
			v0 = qf_mul(v0, d0);
			v1 = qf_mul(v1, d1);
		}
		if (biased)
		{
			v0 = qf_fma(v0, one, bias0);
			v1 = qf_fma(v1, one, bias1);
		}
		qf_store(y, v0);
		qf_store(y + Q_STRIP, v1);
	}
}

/* for the last columns of a matrix, fewer than QS_COLS */
static void
mm_strip_edge(const QsBlock *b, int r0, int mr, const float *c)
{
	const MmJob *j = b->j;
	int			cols = j->w->n - b->col;
	bool		last = b->g0 + b->n == j->groups;
	const float *d = (const float *) (const void *) mm_panel(j, b->col) + b->col % Q_COLS;

	for (int r = 0; r < mr; r++, c += QS_COLS)
	{
		float	   *y = j->y + (size_t) (r0 + r) * j->ldy + b->col;

		for (int i = 0; i < cols; i++)
		{
			y[i] = last && j->w->type == KT_INT8 ? c[i] * d[i] : c[i];
			if (last && j->bias != NULL)
				y[i] += j->bias[b->col + i];
		}
	}
}

/*
 * Multiply mr rows from r0 by a block.  The results so far are in y.  A tile may compute one row too
 * many, and drop it.
 */
static void
mm_strip_tile(QsBlock *b, int r0, int mr)
{
	static const float zeros[QS_MAX_MR * QS_COLS];
	const MmJob *j = b->j;
	KType		t = j->w->type;
	size_t		ldx = (size_t) j->groups * j->xstep;
	bool		blank = b->g0 == 0;
	int			cols = k_min(QS_COLS, j->w->n - b->col);
	_Alignas(64) float c[QS_MAX_MR * QS_COLS];
	QsTile		tile = {
		.x = (const uint8_t *) j->xq + (size_t) r0 * ldx + (size_t) b->g0 * j->xstep, .ldx = ldx,
		.w = b->from, .groups = b->n, .c = c, .from = blank ? zeros : c, .col = b->col % Q_COLS,
		.steps = k_min(b->n * I8_STEPS, i8_steps(j->w->k) - b->g0 * I8_STEPS),
		.ahead = b->ahead, .lines = b->lines, .small = b->small
	};

	/* all of it, since a tile also computes rows and columns that are dropped */
	if (blank ? t != KT_INT8 : cols < QS_COLS || mr % 2 != 0)
		memset(c, 0, (size_t) ((mr + 1) & ~1) * QS_COLS * sizeof(float));
	for (int r = 0; !blank && r < mr; r++)
		qs_copy(c + r * QS_COLS, j->y + (size_t) (r0 + r) * j->ldy + b->col, cols);
	qs_tile(t, (mr + 1) & ~1, &tile);
	b->ahead += (size_t) b->n * b->lines * 64;
	if (cols == QS_COLS)
		mm_strip_out(b, r0, mr, c);
	else
		mm_strip_edge(b, r0, mr, c);
}

/* packed bytes of a group, and where a block's groups begin */
static inline size_t
mm_group_bytes(KType t)
{
	return t == KT_INT8 ? I8_GROUP_BYTES : q_span_bytes(t) / (size_t) q_span_groups(t);
}

static inline const uint8_t *
mm_groups_at(const MmJob *j, int col, int g0)
{
	KType		t = j->w->type;

	return mm_panel(j, col) + (t == KT_INT8 ? I8_HEADER : 0) + (size_t) g0 * mm_group_bytes(t);
}

/* multiply rows r0 .. r1-1 by a block of a panel */
static void
mm_strip_block(QsBlock *b, int col, int r0, int r1)
{
	const MmJob *j = b->j;
	int			tiles;
	int			lines = (int) ((size_t) b->n * mm_group_bytes(j->w->type) / 64);

	b->small = false;
	b->rows = QS_MAX_MR;
#ifdef I8_SMALL_MR
	if (j->w->type == KT_INT8 && mm_panel(j, col)[I8_SMALL] != 0)
	{
		b->small = true;
		b->rows = I8_SMALL_MR;
	}
#endif
	tiles = (r1 - r0 + b->rows - 1) / b->rows * (Q_COLS / QS_COLS) * b->n;
	b->lines = b->ahead == NULL ? 0 : (lines + tiles - 1) / tiles;
	for (b->col = col; b->col < k_min(col + Q_COLS, j->w->n); b->col += QS_COLS)
	{
		b->from = mm_groups_at(j, col, b->g0);
		if (j->w->type != KT_INT8)
		{
			qs_unpack_block(j->w->type, mm_panel(j, col), b->col - col, b->g0, b->n, b->w);
			b->from = b->w;
		}
		for (int r = r0; r < r1; r += b->rows)
			mm_strip_tile(b, r, k_min(b->rows, r1 - r));
	}
}

static void
mm_strip_chunk(void *arg, int chunk, int ith)
{
	const MmJob *j = arg;
	int			c0 = (int) ((int64_t) j->units * chunk / j->nchunks) * 64;
	int			c1 = k_min((int) ((int64_t) j->units * (chunk + 1) / j->nchunks) * 64, j->w->n);
	int			n = qs_groups(q_kind(j->w->type));
	QsBlock		b;

	(void) ith;
	b.j = j;
	for (int r = 0; r < j->rows; r += QS_BLOCK_ROWS)
		for (b.g0 = 0; b.g0 < j->groups; b.g0 += n)
		{
			b.n = k_min(n, j->groups - b.g0);
			for (int col = c0; col < c1; col += Q_COLS)
			{
				/* the next panel; after the chunk perhaps that of the next chunk */
				if (col + Q_COLS < c1)
					b.ahead = mm_groups_at(j, col + Q_COLS, b.g0);
				else if (b.g0 + b.n < j->groups)
					b.ahead = mm_groups_at(j, c0, b.g0 + b.n);
				else
					b.ahead = c1 < j->w->n ? mm_groups_at(j, c1, 0) : NULL;
				mm_strip_block(&b, col, r, k_min(r + QS_BLOCK_ROWS, j->rows));
			}
		}
}
#endif							/* QS_MAX_MR */

/* quantize 32 activations to bytes; all zero if inv is 0 */
static inline void
quantize_group(int8_t *q, const float *x, float inv, int32_t *s0, int32_t *s1)
{
	*s0 = *s1 = 0;
	if (inv == 0.0f)
		memset(q, 0, KGROUP);
	else
		q8_quantize(q, x, inv, s0, s1);
}

/* store the scale and sums of group b of a row, whose bytes are at q */
static inline void
mm_q_scales(const MmJob *j, size_t at, int8_t *q, float xd, int32_t s0, int32_t s1)
{
#ifdef QS_MAX_MR
	if (j->records)
	{
		q_x_finish(j->w->type, (uint8_t *) q, xd, s0, s1);
		return;
	}
#endif
	(void) q;
	j->xd[at] = xd;
	j->xi[at] = q_xi(j->w->type, s0, s1);
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
		int8_t	   *q = j->xq + at * j->xstep;
		int32_t		s0,
					s1;
		float		inv,
					xd = q8_scale(q8_absmax(x), &inv);

		quantize_group(q, x, inv, &s0, &s1);
		mm_q_scales(j, at, q, xd, s0, s1);
	}
}

/* INT8: make the record of n activations, at most a group */
static void
i8_record(uint8_t *record, const float *x, int n)
{
	float		tail[I8_GROUP];
	v16			max = v_zero(),
				min = v_zero(),
				bad = v_zero();
	float		inv,
				s;
	int32_t		zero;

	if (n < I8_GROUP)
	{
		memcpy(tail, x, (size_t) n * sizeof(float));
		memset(tail + n, 0, (size_t) (I8_GROUP - n) * sizeof(float));
		x = tail;
	}
	for (int i = 0; i < I8_GROUP; i += 16)
	{
		v16			v = v_load(x + i);

		max = v_max(v, max);
		min = v_min(v, min);
		bad = v_fma(v, v_zero(), bad);
	}
	s = i8_scale(v_hmax(max), v_hmax(v_sub(v_zero(), min)), v_sum(bad) == 0.0f, &inv, &zero);
	for (int i = 0; inv != 0.0f && i < I8_GROUP; i += 32)
		i8_quantize(record + i, x + i, inv, zero);
	if (inv == 0.0f)
		memset(record, 0, I8_GROUP);
	zero = -zero;
	memcpy(record + I8_GROUP, &s, 4);
	memcpy(record + I8_GROUP + 4, &zero, 4);
}

static void
mm_i8_quantize(void *arg, int row, int ith)
{
	const MmJob *j = arg;
	const float *x = j->xsrc + (size_t) row * j->ldxsrc;
	uint8_t    *to = (uint8_t *) j->xq + (size_t) row * j->groups * j->xstep;

	(void) ith;
	for (int k = 0; k < j->w->k; k += I8_GROUP, to += I8_RECORD)
		i8_record(to, x + k, k_min(I8_GROUP, j->w->k - k));
}

/* groups of a row of activations */
static inline size_t
q_groups(KType t, int k)
{
	size_t		group = t == KT_INT8 ? I8_GROUP : KGROUP;

	return ((size_t) k + group - 1) / group;
}

/* return true for so many rows that blocks of weights, unpacked for most formats, are worthwhile */
static inline bool
mm_strips(int rows)
{
#ifdef QS_MAX_MR
	return rows > Q_MAX_MR;
#else
	(void) rows;
	return false;
#endif
}

/* bytes of a group of activations */
static inline size_t
mm_xstep(KType t, int rows)
{
	if (t == KT_INT8)
		return I8_RECORD;
#ifdef QS_MAX_MR
	if (mm_strips(rows))
		return q_x_bytes(t);
#endif
	(void) rows;
	return KGROUP;
}

/* bytes of scales and sums of a row that aren't within records */
static inline size_t
mm_apart(KType t, int rows, int k)
{
	return t == KT_INT8 || mm_strips(rows) ? 0 : q_groups(t, k);
}

/* rows of activations, including one more for tiles that compute one too many */
static inline size_t
mm_padded_rows(int rows)
{
	return (size_t) rows + (rows > 1);
}

static size_t
mm_q_scratch(KType t, int rows, int k)
{
	size_t		r = mm_padded_rows(rows),
				per_row = mm_apart(t, rows, k);

	return k_align64(r * q_groups(t, k) * mm_xstep(t, rows)) + 2 * k_align64(r * per_row * 4);
}

/* set the positions of the quantized activations in ws, and the functions to run */
static void
mm_q_plan(MmJob *j, void *ws)
{
	int			k = j->w->k;
	KType		t = j->w->type;
	size_t		rows = mm_padded_rows(j->rows),
				groups = q_groups(t, k),
				per_row = mm_apart(t, j->rows, k);

	j->groups = (int) groups;
	j->records = per_row == 0;
	j->xstep = mm_xstep(t, j->rows);
	j->xq = ws;
	j->xd = (float *) ((char *) ws + k_align64(rows * groups * j->xstep));
	j->xi = (int32_t *) ((char *) j->xd + k_align64(rows * per_row * 4));
	j->convert = t == KT_INT8 ? mm_i8_quantize : mm_q_quantize;
	j->nconverts = j->rows;
	j->run = mm_q_chunk;
	if (rows > (size_t) j->rows)
	{
		memset(j->xq + (rows - 1) * groups * j->xstep, 0, groups * j->xstep);
		memset(j->xd + (rows - 1) * per_row, 0, per_row * sizeof(float));
		memset(j->xi + (rows - 1) * per_row, 0, per_row * sizeof(int32_t));
	}
#ifdef QS_MAX_MR
	if (mm_strips(j->rows))
		j->run = mm_strip_chunk;
#endif
}
