/*
 * tmpl_mm.h
 *	  Weight matrices: packed layouts, matrix product, row look-up.
 *
 * Layout of F32, F16, BF16: panels of 16 output columns, each [k][16] elements, the last panel padded
 * with zeros to 16.  With MM_BF16_PAIRS, BF16 is [k/2][16][2] instead (k odd: a zero), as vdpbf16ps
 * requires.  FP8: tmpl_w8.h.  4 bits for float activations: tmpl_w4.h.  Quantized formats: panels of 32
 * columns, see tmpl_qpack.h.
 *
 * A product's work is divided into chunks of whole panels; rows within a chunk are divided evenly into
 * register tiles.  Neither division changes the order of any sum (tmpl_tile.h, tmpl_qtile.h).  For
 * quantized weights the activations are quantized first, per row and group of 32, or for INT8 of 128.
 */
#define PANEL		16

#include "cpu/tmpl/tmpl_w8.h"
#include "cpu/tmpl/tmpl_w4.h"

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
	size_t		pe;				/* elements of a panel; FP8 and 4 bits: its bytes */
	size_t		wsize;			/* bytes of such an element */
	int			units;			/* units of 64 columns */
	int			nchunks;
	int			npasses;		/* of nchunks chunks each */
	KPoolFn		run;			/* computes a chunk */
	const float *xsrc;			/* float activations, before packing */
	int			ldxsrc;
	KPoolFn		convert;		/* packs a part of them; NULL: they aren't packed */
	int			nconverts;		/* parts */
	/* float, many rows (tmpl_fstrip.h) */
	float	   *xt;				/* activations, tile by tile */
	int			ntiles;
	int			tile_rows;		/* rows of a tile, */
	int			tiles_more;		/* this many tiles have one more */
	/* quantized */
	int8_t	   *xq;				/* [rows][groups][xstep] */
	size_t		xstep;			/* bytes of a group of activations */
	float	   *xd;				/* [rows][groups] scales */
	int32_t    *xi;				/* [rows][groups] sums, see q_xi() */
	int			groups;			/* of 32 k; INT8: of 128, the last one padded */
	bool		records;		/* scales and sums are within xq (tmpl_qstrip.h, tmpl_i8tile.h) */
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
	return t > KT_BF16 && t < KT_FP8;
}

static inline size_t
panel_bytes(KType t, int k)
{
	if (is_quantized(t))
		return q_panel_bytes(t, k);
	if (is_w8(t))
		return w8_panel_bytes(t, k);
	if (is_w4(t))
		return w4_at(t, (size_t) k);
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

	if (type >= KT_COUNT || (is_quantized(type) && !q_shape_ok(type, k)) ||
		(is_w4(type) && k % W4_GROUP != 0))
		return 0;
	return ((size_t) n + cols - 1) / cols * panel_bytes(type, k);
}

/* return true if elements are words of 32 bits, which are stored side by side for 16 columns */
static inline bool
panel_of_words(KType t)
{
	return t == KT_F32 || (BF16_PAIRS && t == KT_BF16);
}

/* copy 16 bytes of 16 columns to a panel */
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

/* Make a panel from rows of floats; NULL: zeros. */
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
	/* the rest of k, element by element; a pair is completed by a zero */
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

	/* the matrix's last panel is padded */
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
		if (is_w8(m->type))
			w8_pack_panel(m->type, (uint8_t *) m->data + (size_t) p * pb, rows, m->k);
		else if (is_w4(m->type))
			w4_pack_panel(m->type, (uint8_t *) m->data + (size_t) p * pb, rows, m->k);
		else
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
	else if (is_w8(m->type))
		w8_panel_row(m->type, panel, j % PANEL, m->k, out);
	else if (is_w4(m->type))
		w4_panel_row(m->type, panel, j % PANEL, m->k, out);
	else
		for (int i = 0; i < m->k; i++)
			out[i] = kelem_get(m->type, panel, panel_at(m->type, i, j % PANEL));
}

/*
 * How activations are rounded: for KT_INT8D x becomes scale * rint(x * inv), for KT_INT8S as KInt8X says.
 * Each has the operations of those who made the checkpoints or multiply them elsewhere.
 */
typedef struct XRound
{
	float		scale;
	float		inv;
	float		zero;
	bool		fixed;			/* KT_INT8S */
} XRound;

static inline bool
rounds_x(KType t)
{
	return t == KT_INT8D || t == KT_INT8S;
}

/* for row x[k] of the activations of w */
static XRound
x_round(const KMat *w, const float *x)
{
	uint32_t	amax = 0;
	XRound		r = {.fixed = w->type == KT_INT8S};

	if (r.fixed)
	{
		KInt8X		all;

		memcpy(&all, (const char *) w->data + w8_x_at(w->k), sizeof(all));
		r.scale = all.scale;
		r.zero = all.zero;
		return r;
	}
	for (int i = 0; i < w->k; i++)
	{
		uint32_t	u = k_bits(x[i]) & 0x7fffffffu;

		amax = u > amax ? u : amax;
	}
	r.scale = q8_scale(amax, &r.inv);
	return r;
}

static inline float
x_rounded(XRound r, float x)
{
	float		v;

	/* without a scale x may be too large for k_nearest(), or no number */
	if (!r.fixed)
		return r.scale * (r.inv == 0.0f ? 0.0f : (float) k_nearest(x * r.inv));
	v = x / r.scale + r.zero;
	v = v < -128.0f ? -128.0f : v > 127.0f ? 127.0f : v;
	/* as k_nearest(), but NaN stays; infinity must show, too, and for others x - x is 0 */
	return r.scale * (v + 12582912.0f - 12582912.0f - r.zero) + (x - x);
}

/* run a row-wise preparation, on the pool if it is worthwhile */
static void
run_rows(KPool *pool, KPoolFn fn, void *arg, int rows, size_t elems)
{
	if (rows > 1 && elems > ROW_INLINE)
		kpool_run(pool, fn, arg, rows);
	else
		for (int i = 0; i < rows; i++)
			fn(arg, i, 0);
}

/* compute columns p*PANEL.. of a tile through a buffer: the matrix's last columns */
static void
mm_edge_tile(const MmJob *j, const TileRow *t, int r0, int mr, int p)
{
	float		c[V_MAX_MR * PANEL];
	int			n = j->w->n - p * PANEL;

	t->one((const char *) j->x + (size_t) r0 * j->ldx * j->xsize, j->ldx,
		   (const char *) j->w->data + (size_t) p * j->pe * j->wsize,
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

/* compute panels: np at once if they are complete, else one */
static int
mm_tile(const MmJob *j, const TileRow *t, int r0, int mr, int p, int pend)
{
	const char *x = (const char *) j->x + (size_t) r0 * j->ldx * j->xsize;
	size_t		pe = j->pe;
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
	/* four panels stay in cache while all rows are processed */
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

#include "cpu/tmpl/tmpl_qmm.h"
#ifdef FS_MR
#include "cpu/tmpl/tmpl_fstrip.h"
#endif

static void
mm_round_row(void *arg, int row, int ith)
{
	const MmJob *j = arg;
	const float *x = j->xsrc + (size_t) row * j->ldxsrc;
	XRound		r = x_round(j->w, x);
	float	   *to = (float *) (uintptr_t) j->x + (size_t) row * j->ldx;

	(void) ith;
	for (int i = 0; i < j->w->k; i++)
		to[i] = x_rounded(r, x[i]);
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
		return mm_q_scratch(type, rows, k);
	if (BF16_PAIRS && type == KT_BF16)
		return k_align64(r * pairs_row(k) * 4);
	if (rounds_x(type))
		return k_align64(r * (size_t) k * sizeof(float));
#ifdef FS_MR
	if (fs_wanted(type, rows))
		return k_align64(r * (size_t) k * sizeof(float));
#endif
	return 0;
}

/* decide how rows of x times w are computed, and where in ws their activations go */
static MmJob
mm_plan(const KMat *w, const float *x, int rows, int ldx, float *y, int ldy, const float *bias, void *ws)
{
	MmJob		j = {
		.w = w, .x = x, .rows = rows, .ldx = ldx, .xsize = 4, .y = y, .ldy = ldy, .bias = bias,
		.ksteps = w->k, .pe = (size_t) w->k * PANEL, .wsize = kv_elem(w->type),
		.units = (w->n + 63) / 64, .npasses = 1, .run = mm_float_chunk,
		.xsrc = x, .ldxsrc = ldx,
	};

	if (is_w8(w->type))
	{
		j.tiles = w8_tiles[w->type != KT_FP8];
		j.pe = w8_panel_bytes(w->type, w->k);
	}
	else if (is_w4(w->type))
	{
		j.tiles = w4_tiles[w->type == KT_Q4_1F];
		j.pe = panel_bytes(w->type, w->k);
	}
	else if (!is_quantized(w->type))
		j.tiles = tiles[w->type];
	if (is_quantized(w->type))
		mm_q_plan(&j, ws);
#ifdef MM_BF16_PAIRS
	else if (w->type == KT_BF16)
	{
		j.xq = ws;
		j.ldx = (int) pairs_row(w->k);
		j.x = ws;
		j.wsize = 4;
		j.ksteps = j.ldx;
		j.pe = (size_t) j.ksteps * PANEL;
		j.tiles = pair_tiles;
		j.convert = mm_pairs_row;
		j.nconverts = rows;
	}
#endif
#ifdef FS_MR
	else if (fs_wanted(w->type, rows))
		mm_fs_plan(&j, ws);
#endif
	else if (rounds_x(w->type))
	{
		j.x = ws;
		j.ldx = w->k;
		j.convert = mm_round_row;
		j.nconverts = rows;
	}
	return j;
}

/* true for a product for which it isn't worthwhile to wake other threads; elems: of x */
static inline bool
mm_is_small(size_t elems, int n)
{
	return elems * (size_t) n < 1 << 16;
}

/* chunks of a product: about 8 per thread, or 4 if chunks are several memory streams */
static inline int
mm_chunks(KPool *pool, KType t, int rows)
{
	return (mm_streams(t, rows) ? 4 : 8) * kpool_nthreads(pool);
}

static void
mm(KPool *pool, const KMat *w, const float *x, int rows, int ldx,
   float *y, int ldy, const float *bias, void *ws)
{
	MmJob		j;
	size_t		elems = (size_t) rows * w->k;

	if (rows <= 0)
		return;
	j = mm_plan(w, x, rows, ldx, y, ldy, bias, ws);
	if (j.convert != NULL)
		run_rows(pool, j.convert, &j, j.nconverts, elems);
	j.nchunks = mm_is_small(elems, w->n) ? 1 : k_min(j.units, mm_chunks(pool, w->type, rows));
	kpool_run(pool, j.run, &j, j.npasses * j.nchunks);
}
