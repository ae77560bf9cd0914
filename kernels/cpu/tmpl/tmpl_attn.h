/*
 * tmpl_attn.h
 *	  Attention over paged KV, for prefill, decode, encoders and any mix of these.
 *
 * An item is (up to ATTN_TILE rows = query rows x heads of one KV group, KV head): K and V are read once
 * for all rows of an item.  The keys are processed in strips of ATTN_STRIP positions with online
 * softmax, and in splits of ATTN_SPLIT positions; a split gives a part (m, d, o) = (max, sum of exp,
 * weighted V), and the parts of a row are merged in ascending order.  Strips and splits begin at
 * absolute multiples of their size, whatever else is in the batch: a row's bits depend only on its
 * position.
 *
 * If there are few items (decode of long contexts), splits run in parallel, in waves that bound the
 * scratch; otherwise a thread processes a whole item.  Both do the same arithmetic in the same order.
 *
 * A row sees exactly positions lo..hi-1.  Scores of other lanes are computed if a vector covers them and
 * dropped by selection; V is never multiplied outside the row's own range, not even by 0: it may be
 * stale, or belong to a later row of the tile.
 *
 * K and V are converted to float once for all rows of an item, a strip at a time: scores and values are
 * then products of small float matrices.  With few rows that costs more than it saves, and the products
 * widen the elements in registers.  The values and their order are the same, so are the bits.  INT8: the
 * codes are widened, a key's scale multiplies its score and a value's scale its weight.  FP8: a layer's
 * scale of K multiplies the queries, that of V the sums.
 *
 * While a strip is processed, the cells of the next one are prefetched to L2.
 *
 * Scratch: tile_start [n_rows + 1], then an AttnWork for each thread, then
 * states and parts for the waves.
 */
#define ATTN_TILE	24
#define ATTN_DIRECT 2			/* with up to this many rows of an item K and V aren't widened beforehand */
#define ATTN_ITEMS	2			/* per thread: with fewer items, splits run in parallel */
#define ATTN_PARTS	4			/* per thread and wave */

/* (m, d, o) of the rows of an item; o: [ATTN_TILE][vdim] follows it */
typedef struct AttnPart
{
	float		m[ATTN_TILE];
	float		d[ATTN_TILE];
} AttnPart;

typedef struct AttnJob
{
	const KvView *kv;
	const KRows *r;
	const float *q;
	float	   *out;
	int			layer;
	int			ldq;
	int			n_heads;
	const KAttn *a;
	int			vdim;			/* V's width, rounded up to whole vectors */
	int			qdim;			/* q's and K's */
	int			wdim;			/* the larger of both */
	float		kscale;			/* the layer's (kv_scale) */
	float		vscale;
	int			group;			/* heads per KV head */
	int			heads;			/* heads of that group in an item */
	int			hparts;			/* items into which a KV head's group is divided */
	int			qrows;			/* most query rows of an item */
	int			items;
	int32_t    *tile_start;		/* [n_seqs + 1] */
	char	   *threads;
	char	   *states;
	char	   *parts;
	int			wave;			/* first split of the wave, counted from the item's first */
	int			wave_len;
} AttnJob;

/* one item, decoded */
typedef struct AttnItem
{
	const int32_t *table;
	int			row0;			/* first query row */
	int			nq;				/* query rows */
	int			head0;			/* first head */
	int			nh;				/* heads */
	int			kvh;
	int			split0;			/* its splits: split0..split1-1 */
	int			split1;
} AttnItem;

/* a thread's buffers for one split of an item */
typedef struct AttnWork
{
	float	   *q;				/* [ATTN_TILE][qdim], rows of head_dim, scaled */
	float	   *s;				/* [ATTN_TILE][ATTN_STRIP] scores, then weights */
	float	   *lanes;			/* [ATTN_TILE][16] sums of the weights */
	float	   *wide;			/* a strip of K, then of V, as float */
	float	   *kscale;			/* [ATTN_STRIP]; INT8 only */
	float	   *vscale;
	AttnPart   *part;
	AttnPart   *state;
} AttnWork;

static inline size_t
part_bytes(int vdim)
{
	return k_align64(sizeof(AttnPart) + (size_t) ATTN_TILE * vdim * sizeof(float));
}

/* elements of q and K, in whole vectors */
static inline int
attn_qdim(const KvView *kv)
{
	return (kv->head_dim + 15) & ~15;
}

static inline size_t
thread_bytes(const KvView *kv)
{
	size_t		qdim = attn_qdim(kv),
				wdim = k_max(kv_vdim(kv), attn_qdim(kv));

	return (ATTN_TILE * (qdim + ATTN_STRIP + 16) + ATTN_STRIP * (wdim + 2)) * sizeof(float) +
		2 * part_bytes(kv_vdim(kv));
}

static AttnWork
thread_work(const AttnJob *j, int ith)
{
	char	   *mem = j->threads + (size_t) ith * thread_bytes(j->kv);
	AttnWork	w = {.q = (float *) mem};

	w.s = w.q + (size_t) ATTN_TILE * j->qdim;
	w.lanes = w.s + ATTN_TILE * ATTN_STRIP;
	w.wide = w.lanes + ATTN_TILE * 16;
	w.kscale = w.wide + (size_t) ATTN_STRIP * j->wdim;
	w.vscale = w.kscale + ATTN_STRIP;
	w.part = (AttnPart *) (w.vscale + ATTN_STRIP);
	w.state = (AttnPart *) ((char *) w.part + part_bytes(j->vdim));
	return w;
}

static size_t
attn_scratch(const KvView *kv, int n_heads, int rows, int nthreads)
{
	(void) n_heads;
	return k_align64(((size_t) rows + 1) * sizeof(int32_t)) +
		(size_t) nthreads * (thread_bytes(kv) + (ATTN_ITEMS + ATTN_PARTS) * part_bytes(kv_vdim(kv)));
}

static inline float *
part_o(AttnPart *p)
{
	return (float *) (p + 1);
}

static inline int
row_hi(const AttnJob *j, int row)
{
	const KAttn *a = j->a;
	int			own = j->r->pos[row] + 1;

	if (a->ends == NULL)
		return own;
	return a->ahead > 0 ? k_min(a->ends[row], own + a->ahead) : a->ends[row];
}

static inline int
row_lo(const AttnJob *j, int row)
{
	if (j->a->chunk > 0)
		return j->r->pos[row] / j->a->chunk * j->a->chunk;
	return j->a->window > 0 ? k_max(0, j->r->pos[row] + 1 - j->a->window) : 0;
}

static AttnItem
attn_item(const AttnJob *j, int item)
{
	AttnItem	it;
	int			per_tile = j->kv->n_kv_heads * j->hparts;
	int			tile = item / per_tile;
	int			part = item % j->hparts;
	int			lo = 0,
				hi = j->r->n_seqs;

	while (hi - lo > 1)
	{
		int			mid = (lo + hi) / 2;

		if (j->tile_start[mid] <= tile)
			lo = mid;
		else
			hi = mid;
	}
	it.table = j->r->block_table[lo];
	it.row0 = j->r->seq_start[lo] + (tile - j->tile_start[lo]) * j->qrows;
	it.nq = k_min(j->qrows, j->r->seq_start[lo + 1] - it.row0);
	it.kvh = item % per_tile / j->hparts;
	it.nh = k_min(j->heads, j->group - part * j->heads);
	it.head0 = it.kvh * j->group + part * j->heads;
	/* positions and ends ascend within a sequence */
	it.split0 = row_lo(j, it.row0) / ATTN_SPLIT;
	it.split1 = (row_hi(j, it.row0 + it.nq - 1) - 1) / ATTN_SPLIT + 1;
	return it;
}

/* ---- products ---- */

/* cells of one KV head that a strip's products prefetch to L2 */
typedef struct AttnFetch
{
	const uint8_t *at;			/* the rest of the current cell */
	const uint8_t *to;
	const int32_t *block;		/* the cells after it: those of block .. end-1 */
	const int32_t *end;
	const KvView *kv;
	int			layer;
	int			kvh;
	int			lines;			/* cache lines to prefetch for each row and panel of a product */
} AttnFetch;

/* prefetch the blocks that begin in positions from .. to-1, during a strip's products of `rows` rows */
static AttnFetch
attn_fetch(const AttnJob *j, const AttnItem *it, int from, int to, int rows)
{
	const KvView *kv = j->kv;
	int			b0 = (from + kv->block_size - 1) / kv->block_size,
				b1 = (to + kv->block_size - 1) / kv->block_size,
				steps = rows * (ATTN_STRIP + j->vdim) / 16;
	AttnFetch	f = {.kv = kv, .layer = j->layer, .kvh = it->kvh, .block = it->table + b0,
					 .end = it->table + b0};

	/* with more rows an item reads the same cells again soon */
	if (it->nq > 1 || b1 <= b0)
		return f;
	f.end = it->table + b1;
	f.lines = (int) ((size_t) (b1 - b0) * kv->head_stride / 64 / steps) + 1;
	return f;
}

static inline void
fetch_lines(AttnFetch *f, int n)
{
	const uint8_t *p = f->at,
			   *to;

	if (p == f->to)
	{
		if (f->block == f->end)
			return;
		p = kv_cell(f->kv, f->layer, *f->block++, f->kvh);
		f->to = p + f->kv->head_stride;
	}
	to = f->to - p > n * 64 ? p + n * 64 : f->to;
	for (; p < to; p += 64)
		__builtin_prefetch(p, 0, 2);
	f->at = p;
}

/* one product: rows r0..r1-1 of x, panels of w; c[r][panels*16] = or += x[r][n] w[n] */
typedef struct AttnMat
{
	const TileRow *tiles;
	size_t		es;				/* bytes of an element of w */
	size_t		ps;				/* elements from panel to panel */
	size_t		ldw;			/* elements from row to row of w */
	int			panels;
	size_t		ldx;
	size_t		ldc;
	bool		zero;
} AttnMat;

static void
attn_product(const AttnMat *m, const float *x, int r0, int r1, const void *w, int n, float *c,
			 AttnFetch *f)
{
	for (int mr; r0 < r1; r0 += mr)
	{
		const TileRow *t;

		mr = tile_rows(r1 - r0);
		t = &m->tiles[mr];
		for (int p = 0; p < m->panels;)
		{
			int			np = p + t->np <= m->panels ? t->np : 1;

			(np > 1 ? t->wide : t->one) (x + r0 * m->ldx, m->ldx, (const uint8_t *) w + p * m->ps * m->es,
										 m->ps, m->ldw, n, c + r0 * m->ldc + p * 16, m->ldc, m->zero);
			fetch_lines(f, f->lines * mr * np);
			p += np;
		}
	}
}

/* ---- K and V as float ---- */

/* panels of 16 positions of a block's K [hd][bs] to [panels][hd][16]; V: n elements */
#define DEF_WIDEN(T) \
static void \
widen_keys_##T(const void *src, size_t bs, int hd, int panels, float *dst) \
{ \
	const ELEM_##T *k = src; \
	for (int p = 0; p < panels; p++) \
		for (int d = 0; d < hd; d++, dst += 16) \
			v_store(dst, v_load_##T(k + d * bs + p * 16)); \
} \
static void \
widen_values_##T(const void *src, size_t n, float *dst) \
{ \
	const ELEM_##T *v = src; \
	for (size_t i = 0; i < n; i += 16) \
		v_store(dst + i, v_load_##T(v + i)); \
}

#define v_load_f32 v_load
DEF_WIDEN(f32)
DEF_WIDEN(f16)
DEF_WIDEN(bf16)
DEF_WIDEN(i8)
DEF_WIDEN(e4m3)
DEF_WIDEN(e5m2)

typedef struct AttnType
{
	const TileRow *tiles;
	void		(*keys) (const void *src, size_t bs, int hd, int panels, float *dst);
	void		(*values) (const void *src, size_t n, float *dst);
} AttnType;

static inline AttnType
attn_type(KType t)
{
	switch (t)
	{
		case KT_F32:
			return (AttnType) {tiles[KT_F32], widen_keys_f32, widen_values_f32};
		case KT_F16:
			return (AttnType) {tiles[KT_F16], widen_keys_f16, widen_values_f16};
		case KT_BF16:
			return (AttnType) {tiles[KT_BF16], widen_keys_bf16, widen_values_bf16};
		case KT_F8_E4M3:
			return (AttnType) {tiles_e4m3, widen_keys_e4m3, widen_values_e4m3};
		case KT_F8_E5M2:
			return (AttnType) {tiles_e5m2, widen_keys_e5m2, widen_values_e5m2};
		default:
			return (AttnType) {tiles_i8, widen_keys_i8, widen_values_i8};
	}
}

/* a tile's view of one strip; lanes are positions less `first` */
typedef struct AttnStrip
{
	int			first;			/* position of lane 0 */
	int			begin;			/* lanes that any row sees: begin..end-1 */
	int			end;
	int			r0;				/* rows that see any of them: r0..r1-1 */
	int			r1;
	int			a[ATTN_TILE];	/* lanes that row i sees: a..b-1; none if a >= b */
	int			b[ATTN_TILE];
	bool		direct;			/* K and V aren't widened beforehand */
} AttnStrip;

/* the part of a strip in the block of lane `at`: n lanes, from offset off of the cell on */
static const uint8_t *
strip_cell(const AttnJob *j, const AttnItem *it, const AttnStrip *st, int at, int end, int *off, int *n)
{
	int			pos = st->first + at,
				bs = j->kv->block_size;

	*off = pos % bs;
	*n = k_min(bs - *off, end - at);
	return kv_cell(j->kv, j->layer, it->table[pos / bs], it->kvh);
}

/* s = q K for whole vectors of lanes that cover the strip */
static void
attn_scores(const AttnJob *j, const AttnItem *it, const AttnStrip *st, const AttnWork *w, AttnFetch *f)
{
	AttnType	type = attn_type(j->kv->type);
	size_t		es = kv_elem(j->kv->type);
	int			bs = j->kv->block_size,
				hd = j->kv->head_dim,
				begin = st->begin & ~15,
				end = (st->end + 15) & ~15,
				off,
				n;
	AttnMat		m = {.tiles = type.tiles, .es = es, .ps = 16, .ldw = bs, .ldx = hd, .ldc = ATTN_STRIP,
					 .zero = true};

	for (int at = begin; at < end; at += n)
	{
		const uint8_t *kc = strip_cell(j, it, st, at, end, &off, &n) + off * es;

		m.panels = n / 16;
		if (st->direct)
			attn_product(&m, w->q, st->r0, st->r1, kc, hd, w->s + at, f);
		else
			type.keys(kc, bs, hd, m.panels, w->wide + (size_t) (at - begin) * hd);
	}
	if (st->direct)
		return;
	m = (AttnMat) {tiles[KT_F32], sizeof(float), (size_t) hd * 16, 16, (end - begin) / 16, hd, ATTN_STRIP,
				   true};
	attn_product(&m, w->q, st->r0, st->r1, w->wide, hd, w->s + begin, f);
}

static void
attn_widen_values(const AttnJob *j, const AttnItem *it, const AttnStrip *st, const AttnWork *w)
{
	AttnType	type = attn_type(j->kv->type);
	int			off,
				n;

	for (int at = st->begin; at < st->end; at += n)
	{
		const uint8_t *vc = kv_cell_v(j->kv, (uint8_t *) strip_cell(j, it, st, at, st->end, &off, &n));

		type.values(vc + (size_t) off * j->vdim * kv_elem(j->kv->type), (size_t) n * j->vdim,
					w->wide + (size_t) at * j->vdim);
	}
}

/* o += weights times V for rows r0..r1-1, lanes a..b-1 */
static void
attn_values(const AttnJob *j, const AttnItem *it, const AttnStrip *st, const AttnWork *w,
			int r0, int r1, int a, int b, AttnFetch *f)
{
	size_t		es = st->direct ? kv_elem(j->kv->type) : sizeof(float);
	AttnMat		m = {
		.tiles = st->direct ? attn_type(j->kv->type).tiles : tiles[KT_F32], .es = es, .ps = 16,
		.ldw = j->vdim, .panels = j->vdim / 16, .ldx = ATTN_STRIP, .ldc = j->vdim
	};
	int			off,
				n;

	for (int at = a; at < b; at += n)
	{
		const uint8_t *v;

		if (st->direct)
		{
			v = kv_cell_v(j->kv, (uint8_t *) strip_cell(j, it, st, at, b, &off, &n));
			v += (size_t) off * j->vdim * es;
		}
		else
		{
			v = (const uint8_t *) (w->wide + (size_t) at * j->vdim);
			n = b - at;
		}
		attn_product(&m, w->s + at, r0, r1, v, n, part_o(w->part), f);
	}
}

/*
 * Multiply V by exactly the rows and positions that see it: first by the positions that only some rows
 * see before the common ones, then by those that all rows see, then by those after them, in order of
 * position.
 */
static void
attn_strip_values(const AttnJob *j, const AttnItem *it, const AttnStrip *st, const AttnWork *w,
				  AttnFetch *f)
{
	int			a = st->begin,
				b = st->end;

	for (int r = st->r0; r < st->r1; r++)
	{
		a = k_max(a, st->a[r]);
		b = k_min(b, st->b[r]);
	}
	/* no common positions: each run of rows separately */
	if (a >= b)
		a = b = st->end;
	for (int r0 = st->r0; r0 < st->r1; r0 += it->nh)
		attn_values(j, it, st, w, r0, r0 + it->nh, st->a[r0], k_min(st->b[r0], a), f);
	attn_values(j, it, st, w, st->r0, st->r1, a, b, f);
	for (int r0 = st->r0; r0 < st->r1; r0 += it->nh)
		attn_values(j, it, st, w, r0, r0 + it->nh, k_max(st->a[r0], b), st->b[r0], f);
}

/* ---- softmax ---- */

/* rescale sums computed with maximum `from` to maximum `to` */
static void
attn_rescale(float from, float to, float *lanes, float *o, int vdim)
{
	v16			c = v_set1(from == -INFINITY ? 0.0f : exp1(from - to));

	v_store(lanes, v_mul(v_load(lanes), c));
	for (int i = 0; i < vdim; i += 16)
		v_store(o + i, v_mul(v_load(o + i), c));
}

/*
 * Softmax step of row r over its lanes [a, b) of a strip: replace the scores by exp(score - m).  whole:
 * the row sees all lanes.
 */
static inline void
attn_softmax(const AttnJob *j, const AttnWork *w, int r, int a, int b, bool whole)
{
	float	   *s = w->s + r * ATTN_STRIP,
			   *lanes = w->lanes + r * 16,
			   *m = &w->part->m[r];
	v16			v[ATTN_STRIP / 16];
	v16			max = v_set1(-INFINITY),
				sum;
	float		m_new;
	int			first = whole ? 0 : a / 16,
				last = whole ? ATTN_STRIP / 16 : (b + 15) / 16;

	for (int i = first; i < last; i++)
	{
		v[i] = v_load(s + i * 16);
		if (!whole)
			v[i] = v_select_range(v[i], a - i * 16, b - i * 16, -INFINITY);
		max = v_max(max, v[i]);
	}
	m_new = v_hmax(max);
	m_new = m_new > *m ? m_new : *m;
	/* exp(0) is 1, so skipping this otherwise changes nothing */
	if (*m != m_new)
		attn_rescale(*m, m_new, lanes, part_o(w->part) + (size_t) r * j->vdim, j->vdim);
	*m = m_new;
	sum = v_load(lanes);
	for (int i = first; i < last; i++)
	{
		v16			e = v_exp_neg(v_sub(v[i], v_set1(m_new)));

		/* select, as -Inf minus -Inf would be NaN */
		if (!whole)
			e = v_select_range(e, a - i * 16, b - i * 16, 0.0f);
		sum = v_add(sum, e);
		v_store(s + i * 16, e);
	}
	v_store(lanes, sum);
}

/* multiply n whole vectors of lanes by their positions' scales */
static void
scale_lanes(float *s, const float *scale, int n)
{
	for (int i = 0; i < n; i += 16)
		v_store(s + i, v_mul(v_load(s + i), v_load(scale + i)));
}

static void
softcap_lanes(float *s, int n, float cap)
{
	v16			c = v_set1(cap),
				inv = v_set1(1.0f / cap);

	for (int i = 0; i < n; i += 16)
		v_store(s + i, v_mul(c, v_tanh(v_mul(v_load(s + i), inv))));
}

/* s -= slope * distance of the lane's position and the row's; rel: lane 0's position minus the row's */
static void
alibi_lanes(float *s, int n, float slope, int rel)
{
	static const float iota[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

	for (int i = 0; i < n; i += 16)
	{
		v16			d = v_add(v_load(iota), v_set1((float) (rel + i)));

		d = v_min(d, v_sub(v_set1(0.0f), d));
		v_store(s + i, v_fma(v_set1(slope), d, v_load(s + i)));
	}
}

/* s += a head's bias by distance; rel as above.  Only lanes a .. b-1: the table may end there. */
static void
bias_lanes(float *s, int a, int b, const float *bias, int span, int rel)
{
	for (int i = a; i < b; i++)
		s[i] += bias[rel + i + span - 1];
}

/* convert scores of all rows to weights, with INT8's scales, cap, slopes and bias */
static void
attn_weights(const AttnJob *j, const AttnItem *it, const AttnStrip *st, const AttnWork *w)
{
	bool		int8 = j->kv->type == KT_INT8;

	for (int r = st->r0; r < st->r1; r++)
	{
		int			a = st->a[r],
					b = st->b[r],
					n = ((b + 15) & ~15) - (a & ~15),
					rel = st->first + (a & ~15) - j->r->pos[it->row0 + r / it->nh];
		float	   *s = w->s + r * ATTN_STRIP + (a & ~15);

		if (a >= b)
			continue;
		if (int8)
			scale_lanes(s, w->kscale + (a & ~15), n);
		if (j->a->softcap > 0)
			softcap_lanes(s, n, j->a->softcap);
		if (j->a->alibi)
			alibi_lanes(s, n, j->a->alibi[it->head0 + r % it->nh], rel);
		if (j->a->bias)
			bias_lanes(s, a & 15, b - (a & ~15),
					   j->a->bias + (size_t) (it->head0 + r % it->nh) * (size_t) (2 * j->a->span - 1),
					   j->a->span, rel);
		if (b - a == ATTN_STRIP)
			attn_softmax(j, w, r, 0, ATTN_STRIP, true);
		else
			attn_softmax(j, w, r, a, b, false);
		if (int8)
			scale_lanes(s, w->vscale + (a & ~15), n);
	}
}

/* the scales of a strip's positions, in whole vectors */
static void
attn_load_scales(const AttnJob *j, const AttnItem *it, const AttnStrip *st, const AttnWork *w)
{
	int			end = (st->end + 15) & ~15,
				off,
				n;

	for (int at = st->begin & ~15; at < end; at += n)
	{
		const uint8_t *cell = strip_cell(j, it, st, at, end, &off, &n);
		const float *sc = kv_cell_scales(j->kv, (uint8_t *) cell);

		memcpy(w->kscale + at, sc + off, n * sizeof(float));
		memcpy(w->vscale + at, sc + j->kv->block_size + off, n * sizeof(float));
	}
}

/* ---- strips and splits ---- */

/* find which rows see which lanes of the strip; false: none */
static bool
strip_rows(const AttnJob *j, const AttnItem *it, int first, int end, AttnStrip *st)
{
	st->first = first;
	st->begin = ATTN_STRIP;
	st->end = 0;
	st->r0 = -1;
	st->r1 = 0;
	st->direct = it->nq * it->nh <= ATTN_DIRECT;
	for (int i = 0; i < it->nq; i++)
	{
		int			lo = k_max(row_lo(j, it->row0 + i), first) - first,
					hi = k_min(row_hi(j, it->row0 + i), end) - first;

		for (int h = 0; h < it->nh; h++)
		{
			st->a[i * it->nh + h] = lo;
			st->b[i * it->nh + h] = hi;
		}
		if (lo >= hi)
			continue;
		st->r0 = st->r0 < 0 ? i * it->nh : st->r0;
		st->r1 = (i + 1) * it->nh;
		st->begin = k_min(st->begin, lo);
		st->end = k_max(st->end, hi);
	}
	return st->r0 >= 0;
}

/* process one strip of keys for all rows of an item; the next one ends at most at next_end */
static void
attn_strip(const AttnJob *j, const AttnItem *it, int first, int end, int next_end, const AttnWork *w)
{
	AttnStrip	st;
	AttnFetch	f;

	if (!strip_rows(j, it, first, end, &st))
		return;
	f = attn_fetch(j, it, first + ATTN_STRIP, next_end, st.r1 - st.r0);
	attn_scores(j, it, &st, w, &f);
	if (j->kv->type == KT_INT8)
		attn_load_scales(j, it, &st, w);
	attn_weights(j, it, &st, w);
	if (!st.direct)
		attn_widen_values(j, it, &st, w);
	attn_strip_values(j, it, &st, w, &f);
}

/* process one split of an item: w->part = (m, d, o) of each row */
static void
attn_split(const AttnJob *j, const AttnItem *it, int split, const AttnWork *w)
{
	int			hd = j->kv->head_dim,
				rows = it->nq * it->nh,
				end = k_min((split + 1) * ATTN_SPLIT, row_hi(j, it->row0 + it->nq - 1)),
				pos = k_max(split * ATTN_SPLIT, row_lo(j, it->row0));
	float		scale = j->a->scale * j->kscale;

	for (int r = 0; r < rows; r++)
	{
		const float *src = j->q + (size_t) (it->row0 + r / it->nh) * j->ldq +
			(size_t) (it->head0 + r % it->nh) * hd;

		for (int d = 0; d < hd; d++)
			w->q[(size_t) r * hd + d] = src[d] * scale;
		w->part->m[r] = -INFINITY;
	}
	memset(w->lanes, 0, rows * 16 * sizeof(float));
	memset(part_o(w->part), 0, (size_t) rows * j->vdim * sizeof(float));
	for (pos = pos / ATTN_STRIP * ATTN_STRIP; pos < end; pos += ATTN_STRIP)
		attn_strip(j, it, pos, k_min(pos + ATTN_STRIP, end),
				   k_min(pos + 2 * ATTN_STRIP, end), w);
	for (int r = 0; r < rows; r++)
		w->part->d[r] = v_sum(v_load(w->lanes + r * 16));
}

/* merge part into state, row by row; the state's positions come first */
static void
attn_merge(const AttnJob *j, const AttnItem *it, AttnPart *state, AttnPart *part, int split)
{
	for (int r = 0; r < it->nq * it->nh; r++)
	{
		int			row = it->row0 + r / it->nh;
		float	   *so = part_o(state) + (size_t) r * j->vdim;
		float	   *po = part_o(part) + (size_t) r * j->vdim;
		float		m,
					a,
					b;

		/* a row that sees nothing of this split */
		if (row_hi(j, row) <= split * ATTN_SPLIT || row_lo(j, row) >= (split + 1) * ATTN_SPLIT)
			continue;
		m = state->m[r] > part->m[r] ? state->m[r] : part->m[r];
		a = state->m[r] == -INFINITY ? 0.0f : exp1(state->m[r] - m);
		b = exp1(part->m[r] - m);
		state->m[r] = m;
		state->d[r] = state->d[r] * a + part->d[r] * b;
		for (int i = 0; i < j->vdim; i += 16)
			v_store(so + i, v_fma(v_load(so + i), v_set1(a), v_mul(v_load(po + i), v_set1(b))));
	}
}

static void
attn_state_init(const AttnJob *j, const AttnItem *it, AttnPart *state)
{
	for (int r = 0; r < it->nq * it->nh; r++)
	{
		state->m[r] = -INFINITY;
		state->d[r] = 0.0f;
	}
	memset(part_o(state), 0, (size_t) it->nq * it->nh * j->vdim * sizeof(float));
}

/* the final factor of a row's sums */
static float
attn_inverse(const AttnJob *j, int head, float m, float d)
{
	float		sink,
				max,
				c;

	if (j->a->sinks == NULL)
		return 1.0f / d;
	sink = j->a->sinks[head];
	max = m > sink ? m : sink;
	c = exp1(m - max);
	return c / (d * c + exp1(sink - max));
}

static void
attn_finish(const AttnJob *j, const AttnItem *it, AttnPart *state)
{
	int			vw = kv_vwidth(j->kv);

	for (int r = 0; r < it->nq * it->nh; r++)
	{
		int			head = it->head0 + r % it->nh;
		const float *o = part_o(state) + (size_t) r * j->vdim;
		float	   *out = j->out + ((size_t) (it->row0 + r / it->nh) * j->n_heads + head) * vw;
		float		inv = attn_inverse(j, head, state->m[r], state->d[r]) * j->vscale;

		for (int i = 0; i < vw; i++)
			out[i] = o[i] * inv;
	}
}

/* process a whole item on one thread */
static void
attn_item_chunk(void *arg, int chunk, int ith)
{
	const AttnJob *j = arg;
	/* the last tiles of a sequence take longest: process them first */
	AttnItem	it = attn_item(j, j->items - 1 - chunk);
	AttnWork	w = thread_work(j, ith);

	attn_state_init(j, &it, w.state);
	for (int split = it.split0; split < it.split1; split++)
	{
		attn_split(j, &it, split, &w);
		attn_merge(j, &it, w.state, w.part, split);
	}
	attn_finish(j, &it, w.state);
}

static inline AttnPart *
wave_part(const AttnJob *j, int item, int i)
{
	return (AttnPart *) (j->parts + (size_t) (item * j->wave_len + i) * part_bytes(j->vdim));
}

/* process one split of one item, in a wave */
static void
attn_wave_chunk(void *arg, int chunk, int ith)
{
	const AttnJob *j = arg;
	AttnItem	it = attn_item(j, chunk / j->wave_len);
	int			split = it.split0 + j->wave + chunk % j->wave_len;
	AttnWork	w = thread_work(j, ith);

	w.part = wave_part(j, chunk / j->wave_len, chunk % j->wave_len);
	if (split < it.split1)
		attn_split(j, &it, split, &w);
}

static void
attn_waves(KPool *pool, AttnJob *j, int max_splits)
{
	for (j->wave = 0; j->wave < max_splits; j->wave += j->wave_len)
	{
		kpool_run(pool, attn_wave_chunk, j, j->items * j->wave_len);
		for (int i = 0; i < j->items; i++)
		{
			AttnItem	it = attn_item(j, i);
			AttnPart   *state = (AttnPart *) (j->states + (size_t) i * part_bytes(j->vdim));
			int			split = it.split0 + j->wave;

			if (j->wave == 0)
				attn_state_init(j, &it, state);
			for (int s = 0; s < j->wave_len && split < it.split1; s++, split++)
				attn_merge(j, &it, state, wave_part(j, i, s), split);
			if (j->wave + j->wave_len >= max_splits)
				attn_finish(j, &it, state);
		}
	}
}

/* divide the rows into items, and the scratch into its parts */
static void
attn_plan(AttnJob *j, int nthreads, void *ws)
{
	int			tiles_n = 0;
	size_t		pb = part_bytes(j->vdim);

	j->group = j->n_heads / j->kv->n_kv_heads;
	j->hparts = (j->group + ATTN_TILE - 1) / ATTN_TILE;
	j->heads = (j->group + j->hparts - 1) / j->hparts;
	j->qrows = ATTN_TILE / j->heads;
	j->tile_start = ws;
	for (int s = 0; s < j->r->n_seqs; s++)
	{
		j->tile_start[s] = tiles_n;
		tiles_n += (j->r->seq_start[s + 1] - j->r->seq_start[s] + j->qrows - 1) / j->qrows;
	}
	j->tile_start[j->r->n_seqs] = tiles_n;
	j->items = tiles_n * j->kv->n_kv_heads * j->hparts;
	j->threads = (char *) ws + k_align64(((size_t) j->r->n_rows + 1) * sizeof(int32_t));
	j->states = j->threads + (size_t) nthreads * thread_bytes(j->kv);
	j->parts = j->states + (size_t) nthreads * ATTN_ITEMS * pb;
	j->wave_len = j->items > 0 ? k_max(1, ATTN_PARTS * nthreads / j->items) : 1;
}

static inline float
f8_up(KType t)
{
	return t == KT_F8_E4M3 ? F8_UP : 1.0f;
}

static void
attn(KPool *pool, const KvView *kv, int layer, const KRows *r,
	 const float *q, int ldq, int n_heads, const KAttn *a, float *out, void *ws)
{
	int			nthreads = kpool_nthreads(pool);
	int			max_splits = 0;
	size_t		work = 0;
	AttnJob		j = {
		.kv = kv, .r = r, .q = q, .out = out, .layer = layer, .ldq = ldq, .n_heads = n_heads,
		.a = a, .vdim = kv_vdim(kv), .qdim = attn_qdim(kv), .wdim = k_max(kv_vdim(kv), attn_qdim(kv)),
		.kscale = kv_scale(kv, layer, 0) * f8_up(kv->type), .vscale = kv_scale(kv, layer, 1) * f8_up(kv->type)
	};

	attn_plan(&j, nthreads, ws);
	for (int i = 0; i < j.items && j.items < ATTN_ITEMS * nthreads; i++)
	{
		AttnItem	it = attn_item(&j, i);

		max_splits = k_max(max_splits, it.split1 - it.split0);
	}
	if (nthreads > 1 && max_splits > 1)
	{
		attn_waves(pool, &j, max_splits);
		return;
	}
	for (int i = 0; i < r->n_rows && work <= ROW_INLINE * 4; i++)
		work += (size_t) (row_hi(&j, i) - row_lo(&j, i)) * kv->n_kv_heads * kv->head_dim;
	if (work > ROW_INLINE * 4)
		kpool_run(pool, attn_item_chunk, &j, j.items);
	else
		for (int i = 0; i < j.items; i++)
			attn_item_chunk(&j, i, 0);
}
