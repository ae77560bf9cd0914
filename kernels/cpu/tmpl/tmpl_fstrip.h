/*
 * tmpl_fstrip.h
 *	  Products of float matrices with several rows: weights are widened to float once.
 *
 * A block (a strip of FS_NV vectors of columns, by FS_STEPS k) is widened to a buffer that stays in L1.
 * Then the rows are processed in tiles of up to FS_MR, so a step of k is loads and multiply-adds and
 * nothing else: a core that shares its front end with another thread is bound by the number of
 * instructions.  Between blocks the results so far are stored in y, which is exact, so each output is
 * still the one chain of multiply-adds in k order of tmpl_tile.h.
 *
 * Activations are transposed for it: blocks of k in order, within a block the tiles in order, a tile is
 * [k][rows].  All rows of a pass share a block of weights; their number is chosen so that their
 * activations stay in L2.
 */
#define FS_LANES	Q_STRIP
#define FS_COLS		(FS_NV * FS_LANES)
#define FS_UNIT		48			/* columns of a unit of work: whole strips and whole panels */
#define FS_BYTES	24576		/* bytes of a widened block: most of L1 */
#define FS_STEPS	(FS_BYTES / (FS_COLS * 4))
#define FS_GROUP	16			/* k between two prefetches of later weights */
#define FS_PASS		(16 * FS_MR)	/* rows of a pass */

/* otherwise a pass could begin with one of the last tiles, which are a row short (fs_tile_row) */
_Static_assert(FS_PASS >= 2 * FS_MR * FS_MR, "a pass has at least FS_MR tiles");

/* the work of a tile: rows of activations times a block */
typedef struct FsTile
{
	const float *x;				/* [n][rows] */
	float	   *w;				/* [n][columns], read or written */
	const uint8_t *src[FS_NV];	/* the packed weights, by vectors of columns */
	int			n;				/* k */
	float	   *c;
	size_t		ldc;
	bool		zero;			/* write c instead of adding to it */
	const uint8_t *ahead;		/* later packed weights, to be prefetched meanwhile: */
	int			lines;			/* cache lines every FS_GROUP k */
} FsTile;

/* FS_ROWS_n(M, NV): M##NV(0) .. M##NV(n-1), the statements of each row */
#define FS_ROWS_1(M, NV)	M##NV(0)
#define FS_ROWS_2(M, NV)	FS_ROWS_1(M, NV) M##NV(1)
#define FS_ROWS_3(M, NV)	FS_ROWS_2(M, NV) M##NV(2)
#define FS_ROWS_4(M, NV)	FS_ROWS_3(M, NV) M##NV(3)
#define FS_ROWS_5(M, NV)	FS_ROWS_4(M, NV) M##NV(4)
#define FS_ROWS_6(M, NV)	FS_ROWS_5(M, NV) M##NV(5)
#define FS_ROWS_7(M, NV)	FS_ROWS_6(M, NV) M##NV(6)
#define FS_ROWS_8(M, NV)	FS_ROWS_7(M, NV) M##NV(7)

#define FS_INIT(r, v)	qf a##r##_##v = j->zero ? qf_set1(0.0f) : qf_load(j->c + r * j->ldc + v * FS_LANES);
#define FS_INIT1(r)		FS_INIT(r, 0)
#define FS_INIT2(r)		FS_INIT1(r) FS_INIT(r, 1)
#define FS_INIT3(r)		FS_INIT2(r) FS_INIT(r, 2)
#define FS_PUT(r, v)	qf_store(j->c + r * j->ldc + v * FS_LANES, a##r##_##v);
#define FS_PUT1(r)		FS_PUT(r, 0)
#define FS_PUT2(r)		FS_PUT1(r) FS_PUT(r, 1)
#define FS_PUT3(r)		FS_PUT2(r) FS_PUT(r, 2)
#define FS_FMA(r, v)	a##r##_##v = qf_fma(b, w##v, a##r##_##v);
#define FS_ROW1(r)		{ qf b = qf_set1(x[r]); FS_FMA(r, 0) }
#define FS_ROW2(r)		{ qf b = qf_set1(x[r]); FS_FMA(r, 0) FS_FMA(r, 1) }
#define FS_ROW3(r)		{ qf b = qf_set1(x[r]); FS_FMA(r, 0) FS_FMA(r, 1) FS_FMA(r, 2) }

/* the weights of a step: already widened, or widened now and kept for the other tiles */
#define FS_KEPT(v)		qf w##v = qf_load(w + v * FS_LANES);
#define FS_WIDE(T, v) \
	qf w##v = fs_load_##T(p##v); \
	qf_store(w + v * FS_LANES, w##v); \
	p##v += PANEL * sizeof(ELEM_##T);
#define FS_W_kept1		FS_KEPT(0)
#define FS_W_kept2		FS_W_kept1 FS_KEPT(1)
#define FS_W_kept3		FS_W_kept2 FS_KEPT(2)
#define FS_W_f321		FS_WIDE(f32, 0)
#define FS_W_f322		FS_W_f321 FS_WIDE(f32, 1)
#define FS_W_f323		FS_W_f322 FS_WIDE(f32, 2)
#define FS_W_f161		FS_WIDE(f16, 0)
#define FS_W_f162		FS_W_f161 FS_WIDE(f16, 1)
#define FS_W_f163		FS_W_f162 FS_WIDE(f16, 2)
#define FS_W_bf161		FS_WIDE(bf16, 0)
#define FS_W_bf162		FS_W_bf161 FS_WIDE(bf16, 1)
#define FS_W_bf163		FS_W_bf162 FS_WIDE(bf16, 2)

static inline qf
fs_load_f32(const uint8_t *p)
{
	return qf_load((const float *) (const void *) p);
}

static inline qf
fs_load_f16(const uint8_t *p)
{
	return qf_load_f16(p);
}

static inline qf
fs_load_bf16(const uint8_t *p)
{
	return qf_load_bf16(p);
}

#define FS_STEP(T, MR, NV) \
	{ \
		FS_W_##T##NV \
		FS_ROWS_##MR(FS_ROW, NV) \
		x += MR; \
		w += NV * FS_LANES; \
	}

/* unrolled steps; while widening weights, the compiler would load more than fits the registers */
#define FS_UNROLL_kept	8
#define FS_UNROLL_f32	4
#define FS_UNROLL_f16	4
#define FS_UNROLL_bf16	4

/* T: the type of weights that the tile widens, or "kept" */
#define DEF_FS_TILE(T, MR, NV) \
static void \
tile_strip_##T##_##MR##x##NV(const FsTile *j) \
{ \
	const float *x = j->x; \
	float	   *w = j->w; \
	const uint8_t *p0 = j->src[0], \
			   *p1 = j->src[1], \
			   *p2 = j->src[2], \
			   *ahead = j->ahead; \
	int			n = j->n; \
	FS_ROWS_##MR(FS_INIT, NV) \
\
	(void) p0; \
	(void) p1; \
	(void) p2; \
	for (; n >= FS_GROUP; n -= FS_GROUP) \
	{ \
		for (int i = 0; i < j->lines; i++, ahead += 64) \
			__builtin_prefetch(ahead, 0, 2); \
		QS_UNROLL(FS_UNROLL_##T) \
		for (int i = 0; i < FS_GROUP; i++) \
			FS_STEP(T, MR, NV) \
	} \
	for (; n > 0; n--) \
		FS_STEP(T, MR, NV) \
	FS_ROWS_##MR(FS_PUT, NV) \
}

FS_TILES

typedef void (*FsTileFn) (const FsTile *j);

/* ---- blocks ---- */

/* a block of widened weights, and what comes after it */
typedef struct FsBlock
{
	const struct MmJob *j;
	int			k0;				/* the first k */
	int			n;				/* k */
	int			t0;				/* tiles of the pass: t0 .. t1-1 */
	int			t1;
	const uint8_t *ahead;		/* later packed weights: the run of a panel, */
	size_t		run;			/* its bytes */
	size_t		at;				/* how much of them has been prefetched */
	int			panels;			/* runs left, including this one */
	int			lines;			/* cache lines every FS_GROUP k */
	_Alignas(64) float w[FS_BYTES / 4];
} FsBlock;

/* k of a block, such that blocks have about the same size */
static inline int
fs_steps(int k)
{
	int			blocks = (k + FS_STEPS - 1) / FS_STEPS;

	return ((k + blocks - 1) / blocks + FS_GROUP - 1) / FS_GROUP * FS_GROUP;
}

/* vectors of the next strip when `left` are left: never one, if a panel has two */
static inline int
fs_take(int left)
{
	if (FS_LANES < PANEL && left == 4)
		return 2;
	return k_min(left, FS_NV);
}

static inline size_t
fs_panel_bytes(const MmJob *j)
{
	return j->pe * j->wsize;
}

/* offset of step k of a panel, of its group for 4 bits */
static inline size_t
fs_at(const MmJob *j, int k)
{
	if (is_w4(j->w->type))
		return w4_at(j->w->type, (size_t) k);
	return is_w8(j->w->type) ? w8_at((size_t) k) : (size_t) k * PANEL * j->wsize;
}

/* addresses of nv vectors of columns from col on; any address for a vector after the last */
static inline void
fs_sources(const FsBlock *b, int col, int nv, const uint8_t **src)
{
	const MmJob *j = b->j;

	for (int v = 0; v < FS_NV; v++)
	{
		size_t		c = (size_t) col + (size_t) k_min(v, nv - 1) * FS_LANES;

		src[v] = (const uint8_t *) j->w->data + c / PANEL * fs_panel_bytes(j) +
			fs_at(j, b->k0) + c % PANEL * j->wsize;
	}
}

/* prefetch panels of `steps` k from k0, columns col .. end-1, during `tiles` tiles */
static void
fs_fetch(FsBlock *b, int col, int end, int k0, int steps, int tiles)
{
	const MmJob *j = b->j;
	int			groups;

	b->lines = 0;
	b->panels = (end - col + PANEL - 1) / PANEL;
	if (b->panels <= 0)
		return;
	b->ahead = (const uint8_t *) j->w->data + (size_t) (col / PANEL) * fs_panel_bytes(j) +
		fs_at(j, k0);
	b->run = fs_at(j, k_min(k0 + steps, j->w->k)) - fs_at(j, k0);
	b->at = 0;
	groups = k_max(1, tiles / b->panels) * k_max(1, b->n / FS_GROUP);
	b->lines = (int) ((b->run + 63) / 64 + (size_t) groups - 1) / groups;
}

static inline void
fs_fetched(FsBlock *b)
{
	b->at += (size_t) b->lines * 64 * (size_t) (b->n / FS_GROUP);
	if (b->lines == 0 || b->at < b->run)
		return;
	b->at = 0;
	b->ahead += fs_panel_bytes(b->j);
	if (--b->panels == 0)
		b->lines = 0;
}

/*
 * Return the first row of tile t.  A pass begins with a full tile, which widens the weights; the other
 * tiles have about the same size, and the last ones of fewer than FS_MR rows are one row short.
 */
static inline int
fs_tile_row(const MmJob *j, int t)
{
	return t == 0 ? 0 : FS_MR + (t - 1) * j->tile_rows + k_min(t - 1, j->tiles_more);
}

/*
 * Widen the block of nv vectors of 8 bits from col on.  Its scales change within the block, which the tiles
 * should not have to check.
 */
static void
fs_widen_w8(FsBlock *b, int col, int nv)
{
	const MmJob *j = b->j;

	for (int v = 0; v < nv; v++)
	{
		size_t		c = (size_t) (col + v * FS_LANES);
		const uint8_t *panel = (const uint8_t *) j->w->data + c / PANEL * fs_panel_bytes(j);
		float	   *to = b->w + v * FS_LANES;

		for (int k = b->k0, end; k < b->k0 + b->n; k = end)
		{
			const uint8_t *group = panel + w8_at((size_t) k / FP8_GROUP * FP8_GROUP);
			qf			scale = qf_load((const float *) (const void *) (group - W8_HEAD) + c % PANEL);

			end = k_min((k / FP8_GROUP + 1) * FP8_GROUP, b->k0 + b->n);
			group += (size_t) (k % FP8_GROUP) * PANEL + c % PANEL;
			for (int i = k; i < end; i++, group += PANEL, to += nv * FS_LANES)
				qf_store(to, qf_mul(j->w->type == KT_FP8 ? qf_load_fp8(group) : qf_load_i8(group), scale));
		}
	}
}

/* Do the same for 4 bits.  A block consists of whole halves of groups. */
static void
fs_widen_w4(FsBlock *b, int col, int nv)
{
	const MmJob *j = b->j;
	KType		t = j->w->type;

	for (int v = 0; v < nv; v++)
	{
		size_t		c = (size_t) (col + v * FS_LANES);
		const uint8_t *panel = (const uint8_t *) j->w->data + c / PANEL * fs_panel_bytes(j);
		float	   *to = b->w + v * FS_LANES;

		for (int k = b->k0; k < b->k0 + b->n; k += W4_HALF)
		{
			const uint8_t *head = panel + w4_at(t, (size_t) k) + c % PANEL * sizeof(uint16_t);
			const uint8_t *codes = panel + w4_at(t, (size_t) k) + W4_HEAD(t) + c % PANEL;
			qf			d = qf_load_f16(head),
						m = t == KT_Q4_1F ? qf_load_f16(head + W4_SCALES) : qf_set1(0.0f);

			for (int i = 0; i < W4_HALF; i++, codes += PANEL, to += nv * FS_LANES)
				if (t == KT_Q4_0F)
					qf_store(to, qf_mul(k % W4_GROUP == 0 ? qf_load_4bit(codes, 4, true) :
										qf_load_4bit(codes, 0, true), d));
				else
					qf_store(to, qf_fma(k % W4_GROUP == 0 ? qf_load_4bit(codes, 4, false) :
										qf_load_4bit(codes, 0, false), d, m));
		}
	}
}

/*
 * Widen the block of nv vectors from col on to b->w, before the first tile.  Returns false for types that
 * the first tile widens.
 */
static inline bool
fs_widen(FsBlock *b, int col, int nv)
{
	KType		t = b->j->w->type;

	if (is_w8(t))
		fs_widen_w8(b, col, nv);
	else if (is_w4(t))
		fs_widen_w4(b, col, nv);
	else
		return false;
	return true;
}

/* multiply tile number t by the block of nv vectors from col on */
static void
fs_tile(FsBlock *b, int t, int col, int nv)
{
	static const FsTileFn fns[FS_MR + 1][FS_NV + 1] = {FS_TABLE};
	static const FsTileFn first[3][FS_NV + 1] = {FS_FIRST(f32), FS_FIRST(f16), FS_FIRST(bf16)};
	const MmJob *j = b->j;
	int			r0 = fs_tile_row(j, t),
				r1 = fs_tile_row(j, t + 1),
				cols = k_min(nv * FS_LANES, j->w->n - col);
	bool		whole = cols == nv * FS_LANES;
	float	   *y = j->y + (size_t) r0 * j->ldy + col;
	_Alignas(64) float edge[FS_MR * FS_COLS];
	FsTile		tile = {
		.x = j->xt + (size_t) b->k0 * j->rows + (size_t) r0 * b->n, .w = b->w, .n = b->n,
		.c = whole ? y : edge, .ldc = whole ? (size_t) j->ldy : FS_COLS, .zero = b->k0 == 0,
		.ahead = b->ahead + b->at, .lines = b->lines
	};

	if (!whole)
	{
		memset(edge, 0, sizeof(edge));
		for (int r = 0; b->k0 > 0 && r < r1 - r0; r++)
			memcpy(edge + r * FS_COLS, y + (size_t) r * j->ldy, cols * sizeof(float));
	}
	if (t == b->t0 && !fs_widen(b, col, nv))
	{
		fs_sources(b, col, nv, tile.src);
		first[j->w->type][nv] (&tile);
	}
	else
		fns[r1 - r0][nv] (&tile);
	fs_fetched(b);
	for (int r = 0; !whole && r < r1 - r0; r++)
		memcpy(y + (size_t) r * j->ldy, edge + r * FS_COLS, cols * sizeof(float));
	if (j->bias && b->k0 + b->n == j->w->k)
		mm_add_bias(j, r0, r1 - r0, col, col + cols);
}

/* prefetch the results so far of tile t, which is next, to L1, or the lines to be written */
static inline void
fs_fetch_results(const FsBlock *b, int t, int col)
{
	const MmJob *j = b->j;

	if (t >= b->t1)
		return;
	for (int r = fs_tile_row(j, t); r < fs_tile_row(j, t + 1); r++)
	{
		const float *y = j->y + (size_t) r * j->ldy + col;

		__builtin_prefetch(y, 1, 3);
		__builtin_prefetch(y + 16, 1, 3);
	}
}

/* process columns col .. end-1 of a unit, the b->n k from b->k0, and the pass' rows */
static void
fs_unit(FsBlock *b, int col, int end)
{
	while (col < end)
	{
		int			nv = fs_take(((end + PANEL - 1) / PANEL * PANEL - col) / FS_LANES);

		for (int t = b->t0; t < b->t1; t++)
		{
			fs_fetch_results(b, t + 1, col);
			fs_tile(b, t, col, nv);
		}
		col += nv * FS_LANES;
	}
}

/* process all units of a chunk, block of k by block of k */
static void
mm_fs_chunk(void *arg, int chunk, int ith)
{
	const MmJob *j = arg;
	int			pass = chunk / j->nchunks,
				c = chunk % j->nchunks,
				c0 = (int) ((int64_t) j->units * c / j->nchunks) * FS_UNIT,
				c1 = k_min((int) ((int64_t) j->units * (c + 1) / j->nchunks) * FS_UNIT, j->w->n),
				steps = fs_steps(j->w->k);
	FsBlock		b;

	(void) ith;
	b.j = j;
	b.ahead = j->w->data;
	b.at = 0;
	b.t0 = (int) ((int64_t) j->ntiles * pass / j->npasses);
	b.t1 = (int) ((int64_t) j->ntiles * (pass + 1) / j->npasses);
	for (b.k0 = 0; b.k0 < j->w->k; b.k0 += steps)
	{
		b.n = k_min(steps, j->w->k - b.k0);
		for (int col = c0; col < c1; col += FS_UNIT)
		{
			int			end = k_min(col + FS_UNIT, c1),
						tiles = (b.t1 - b.t0) * ((end - col + FS_COLS - 1) / FS_COLS);

			/* the next unit; after the chunk perhaps that of the next chunk */
			if (end < c1)
				fs_fetch(&b, end, k_min(end + FS_UNIT, c1), b.k0, steps, tiles);
			else if (b.k0 + b.n < j->w->k)
				fs_fetch(&b, c0, k_min(c0 + FS_UNIT, c1), b.k0 + b.n, steps, tiles);
			else
				fs_fetch(&b, c1, k_min(c1 + FS_UNIT, j->w->n), 0, steps, tiles);
			fs_unit(&b, col, end);
		}
	}
}

/* ---- activations ---- */

/* transpose n k of mr rows, ldx apart, to [n][mr] */
static void
fs_transpose(float *to, const float *x, size_t ldx, int mr, int n)
{
	int			i = 0;

	if (mr == FS_MR)
	{
		const uint8_t *src[P_LANES];
		pv			w[4];

		for (int r = 0; r < P_LANES; r++)
			src[r] = (const uint8_t *) (x + (size_t) (r % FS_MR) * ldx);
		for (; i + 4 <= n; i += 4, to += 4 * FS_MR)
		{
			p_load(w, src, (size_t) i * sizeof(float));
			for (int s = 0; s < 4; s++)
				memcpy(to + s * FS_MR, &w[s], FS_MR * sizeof(float));
		}
	}
	for (; i < n; i++)
		for (int r = 0; r < mr; r++)
			*to++ = x[(size_t) r * ldx + i];
}

static void
mm_fs_tile_of_x(void *arg, int t, int ith)
{
	const MmJob *j = arg;
	int			r0 = fs_tile_row(j, t),
				r1 = fs_tile_row(j, t + 1),
				k = j->w->k,
				steps = fs_steps(k);

	XRound		round[FS_MR];

	(void) ith;
	for (int r = r0; rounds_x(j->w->type) && r < r1; r++)
		round[r - r0] = x_round(j->w, j->xsrc + (size_t) r * j->ldxsrc);
	for (int k0 = 0; k0 < k; k0 += steps)
	{
		int			n = k_min(steps, k - k0);
		float	   *to = j->xt + (size_t) k0 * j->rows + (size_t) r0 * n;

		fs_transpose(to, j->xsrc + (size_t) r0 * j->ldxsrc + k0, j->ldxsrc, r1 - r0, n);
		for (int i = 0; rounds_x(j->w->type) && i < n * (r1 - r0); i++)
			to[i] = x_rounded(round[i % (r1 - r0)], to[i]);
	}
}

static inline bool
fs_wanted(KType t, int rows)
{
	return !is_quantized(t) && !(BF16_PAIRS && t == KT_BF16) && rows >= FS_MIN_ROWS;
}

/* set the positions of the activations in ws, tile by tile, and the functions to run */
static void
mm_fs_plan(MmJob *j, void *ws)
{
	j->xt = ws;
	j->ntiles = (j->rows + FS_MR - 1) / FS_MR;
	if (j->ntiles > 1)
	{
		j->tile_rows = (j->rows - FS_MR) / (j->ntiles - 1);
		j->tiles_more = (j->rows - FS_MR) % (j->ntiles - 1);
	}
	j->npasses = (j->rows + FS_PASS - 1) / FS_PASS;
	j->units = (j->w->n + FS_UNIT - 1) / FS_UNIT;
	j->convert = mm_fs_tile_of_x;
	j->nconverts = j->ntiles;
	j->run = mm_fs_chunk;
}
