/*
 * tmpl_attn.h
 *	  Causal attention over paged KV, for prefill, decode and any mix of them.
 *
 * An item is (up to ATTN_TILE rows = query rows x heads of one KV group, KV
 * head): K and V are read once for all rows of an item.  The keys are worked
 * through in strips of ATTN_STRIP positions by online softmax, and in splits of
 * ATTN_SPLIT positions; a split gives a part (m, d, o) = (max, sum of exp,
 * weighted V), and the parts of a row are merged in ascending order.  Strips and
 * splits begin at absolute multiples of their size, whatever else is in the
 * batch: a row's bits depend on its position only.
 *
 * When there are few items (decode of long contexts), splits run in parallel, in
 * waves that bound the scratch; else a thread takes a whole item.  Both do the
 * same arithmetic in the same order.
 *
 * A row sees exactly positions lo..hi-1.  Scores of other lanes are computed
 * where a vector covers them and dropped by selection; V is never multiplied
 * outside the row's own range, not even by 0: it may be stale, or belong to a
 * later row of the tile.
 *
 * Scratch: tile_start [n_rows + 1], then an AttnTile for each thread, then
 * states and parts for the waves.
 */
#define ATTN_TILE	24
#define ATTN_ITEMS	2			/* per thread: fewer items than that are split */
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
	float		scale;
	int			window;
	int			vdim;
	int			group;			/* heads of a KV head */
	int			heads;			/* of them in an item */
	int			hparts;			/* items a KV head's group is cut into */
	int			qrows;			/* query rows of an item, at most */
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
	int			split0;			/* splits that concern it: split0..split1-1 */
	int			split1;
} AttnItem;

static inline size_t
part_bytes(int vdim)
{
	return k_align64(sizeof(AttnPart) + (size_t) ATTN_TILE * vdim * sizeof(float));
}

/* per thread: scaled queries, scores, lanes of the sum, a part and a state */
static inline size_t
thread_bytes(const KvView *kv)
{
	size_t		qs = (size_t) ATTN_TILE * kv->head_dim * sizeof(float);

	return k_align64(qs) + ATTN_TILE * (ATTN_STRIP + 16) * sizeof(float) + 2 * part_bytes(kv_vdim(kv));
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
	return j->r->pos[row] + 1;
}

static inline int
row_lo(const AttnJob *j, int row)
{
	return j->window > 0 ? k_max(0, row_hi(j, row) - j->window) : 0;
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
	/* positions ascend within a sequence */
	it.split0 = row_lo(j, it.row0) / ATTN_SPLIT;
	it.split1 = (row_hi(j, it.row0 + it.nq - 1) - 1) / ATTN_SPLIT + 1;
	return it;
}

/* s[rows][ATTN_STRIP] at column c0 = q times the keys of one block */
static void
attn_scores(const AttnJob *j, const float *q, int r0, int r1, float *s, int c0,
			const uint8_t *kc, int from, int to)
{
	const TileRow *tt = tiles[j->kv->type];
	int			bs = j->kv->block_size,
				hd = j->kv->head_dim;
	size_t		es = kv_elem(j->kv->type);

	for (int mr; r0 < r1; r0 += mr)
	{
		const TileRow *t;

		mr = tile_rows(r1 - r0);
		t = &tt[mr];
		for (int p = from; p < to;)
		{
			int			np = p + t->np * 16 <= to ? t->np : 1;

			(np > 1 ? t->wide : t->one) (q + (size_t) r0 * hd, hd, kc + p * es, 16, bs, hd,
										 s + (size_t) r0 * ATTN_STRIP + c0 + p - from,
										 ATTN_STRIP, true);
			p += np * 16;
		}
	}
}

/* o[rows] += p[rows][n] times n rows of V */
static void
attn_values(const AttnJob *j, const float *p, int r0, int r1, const uint8_t *vrow, int n, float *o)
{
	const TileRow *tt = tiles[j->kv->type];
	size_t		es = kv_elem(j->kv->type);

	for (int mr; r0 < r1; r0 += mr)
	{
		const TileRow *t;

		mr = tile_rows(r1 - r0);
		t = &tt[mr];
		for (int c = 0; c < j->vdim;)
		{
			int			np = c + t->np * 16 <= j->vdim ? t->np : 1;

			(np > 1 ? t->wide : t->one) (p + (size_t) r0 * ATTN_STRIP, ATTN_STRIP, vrow + c * es,
										 16, j->vdim, n, o + (size_t) r0 * j->vdim + c,
										 j->vdim, false);
			c += np * 16;
		}
	}
}

/*
 * Softmax step of one row over its lanes [a, b) of a strip: s becomes exp(s - m),
 * what was summed under an older maximum is rescaled.
 */
static void
attn_softmax(float *s, int a, int b, float *m, float *lanes, float *o, int vdim)
{
	v16			v[ATTN_STRIP / 16];
	v16			max = v_set1(-INFINITY),
				sum = v_load(lanes);
	float		m_new;
	int			first = a / 16,
				last = (b + 15) / 16;

	for (int i = first; i < last; i++)
	{
		v[i] = v_select_range(v_load(s + i * 16), a - i * 16, b - i * 16, -INFINITY);
		max = v_max(max, v[i]);
	}
	m_new = v_hmax(max);
	m_new = m_new > *m ? m_new : *m;
	if (*m != m_new)
	{
		/* exp(0) is 1, so leaving this out otherwise changes nothing */
		v16			c = v_set1(*m == -INFINITY ? 0.0f : exp1(*m - m_new));

		sum = v_mul(sum, c);
		for (int i = 0; i < vdim; i += 16)
			v_store(o + i, v_mul(v_load(o + i), c));
		*m = m_new;
	}
	for (int i = first; i < last; i++)
	{
		v16			e = v_exp(v_sub(v[i], v_set1(m_new)));

		/* not e alone: -Inf less -Inf would be NaN */
		e = v_select_range(e, a - i * 16, b - i * 16, 0.0f);
		sum = v_add(sum, e);
		v_store(s + i * 16, e);
	}
	v_store(lanes, sum);
}

/* a tile's view of one strip */
typedef struct AttnStrip
{
	int			first;			/* position of lane 0 */
	int			begin;			/* first position any row sees */
	int			end;			/* one past the last position any row sees */
	int			a[ATTN_TILE];	/* lanes row i sees: a..b-1; none when a >= b */
	int			b[ATTN_TILE];
} AttnStrip;

/* multiply each block's V by exactly the rows and positions that see it */
static void
attn_strip_values(const AttnJob *j, const AttnItem *it, const AttnStrip *st,
				  const float *s, float *o)
{
	const KvView *kv = j->kv;
	int			bs = kv->block_size,
				rows = it->nq * it->nh;
	size_t		rowlen = (size_t) j->vdim * kv_elem(kv->type);

	for (int pos = st->begin; pos < st->end;)
	{
		int			off = pos % bs,
					lane = pos - st->first,
					n = k_min(k_min(bs - off, ATTN_STRIP - lane), st->end - pos);
		const uint8_t *vc = kv_cell_v(kv, kv_cell(kv, j->layer, it->table[pos / bs], it->kvh));

		/* runs of rows that see the same positions share a tile */
		for (int r0 = 0, r1; r0 < rows; r0 = r1)
		{
			int			a = k_max(st->a[r0], lane),
						b = k_min(st->b[r0], lane + n);

			for (r1 = r0 + 1; r1 < rows; r1++)
				if (k_max(st->a[r1], lane) != a || k_min(st->b[r1], lane + n) != b)
					break;
			if (a < b)
				attn_values(j, s + a, r0, r1, vc + (size_t) (off + a - lane) * rowlen, b - a, o);
		}
		pos += n;
	}
}

/* one strip of keys for all rows of an item */
static void
attn_strip(const AttnJob *j, const AttnItem *it, int first, int end,
		   const float *q, float *s, float *lanes, AttnPart *part)
{
	const KvView *kv = j->kv;
	int			bs = kv->block_size;
	AttnStrip	st = {.first = first, .begin = end, .end = first};
	int			r0 = -1,
				r1 = 0;
	float	   *o = part_o(part);

	for (int i = 0; i < it->nq; i++)
	{
		int			lo = k_max(row_lo(j, it->row0 + i), first),
					hi = k_min(row_hi(j, it->row0 + i), end);

		for (int h = 0; h < it->nh; h++)
		{
			st.a[i * it->nh + h] = lo - first;
			st.b[i * it->nh + h] = hi - first;
		}
		if (lo >= hi)
			continue;
		r0 = r0 < 0 ? i * it->nh : r0;
		r1 = (i + 1) * it->nh;
		st.begin = k_min(st.begin, lo);
		st.end = k_max(st.end, hi);
	}
	if (r0 < 0)
		return;
	for (int pos = st.begin / 16 * 16; pos < st.end;)
	{
		int			off = pos % bs,
					n = k_min(bs - off, (st.end - pos + 15) & ~15);

		attn_scores(j, q, r0, r1, s, pos - first,
					kv_cell(kv, j->layer, it->table[pos / bs], it->kvh), off, off + n);
		pos += n;
	}
	for (int r = r0; r < r1; r++)
		if (st.a[r] < st.b[r])
			attn_softmax(s + r * ATTN_STRIP, st.a[r], st.b[r], &part->m[r], lanes + r * 16,
						 o + (size_t) r * j->vdim, j->vdim);
	attn_strip_values(j, it, &st, s, o);
}

/* one split of an item: part = (m, d, o) of each row */
static void
attn_split(const AttnJob *j, const AttnItem *it, int split, char *mem, AttnPart *part)
{
	int			hd = j->kv->head_dim,
				rows = it->nq * it->nh,
				end = k_min((split + 1) * ATTN_SPLIT, row_hi(j, it->row0 + it->nq - 1)),
				pos = k_max(split * ATTN_SPLIT, row_lo(j, it->row0));
	float	   *q = (float *) mem;
	float	   *s = (float *) (mem + k_align64((size_t) ATTN_TILE * hd * sizeof(float)));
	float	   *lanes = s + ATTN_TILE * ATTN_STRIP;

	for (int r = 0; r < rows; r++)
	{
		const float *src = j->q + (size_t) (it->row0 + r / it->nh) * j->ldq +
			(size_t) (it->head0 + r % it->nh) * hd;

		for (int d = 0; d < hd; d++)
			q[(size_t) r * hd + d] = src[d] * j->scale;
		part->m[r] = -INFINITY;
	}
	memset(lanes, 0, rows * 16 * sizeof(float));
	memset(part_o(part), 0, (size_t) rows * j->vdim * sizeof(float));
	for (pos = pos / ATTN_STRIP * ATTN_STRIP; pos < end; pos += ATTN_STRIP)
		attn_strip(j, it, pos, k_min(pos + ATTN_STRIP, end), q, s, lanes, part);
	for (int r = 0; r < rows; r++)
		part->d[r] = v_sum(v_load(lanes + r * 16));
}

/* state = state merged with part, row by row; the state's positions come first */
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

static void
attn_finish(const AttnJob *j, const AttnItem *it, AttnPart *state)
{
	int			hd = j->kv->head_dim;

	for (int r = 0; r < it->nq * it->nh; r++)
	{
		const float *o = part_o(state) + (size_t) r * j->vdim;
		float	   *out = j->out + ((size_t) (it->row0 + r / it->nh) * j->n_heads +
									it->head0 + r % it->nh) * hd;
		float		inv = 1.0f / state->d[r];

		for (int i = 0; i < hd; i++)
			out[i] = o[i] * inv;
	}
}

/* a whole item on one thread */
static void
attn_item_chunk(void *arg, int chunk, int ith)
{
	const AttnJob *j = arg;
	/* the last tiles of a sequence have the longest way: take them first */
	AttnItem	it = attn_item(j, j->items - 1 - chunk);
	char	   *mem = j->threads + (size_t) ith * thread_bytes(j->kv);
	AttnPart   *part = (AttnPart *) (mem + thread_bytes(j->kv) - 2 * part_bytes(j->vdim));
	AttnPart   *state = (AttnPart *) ((char *) part + part_bytes(j->vdim));

	attn_state_init(j, &it, state);
	for (int split = it.split0; split < it.split1; split++)
	{
		attn_split(j, &it, split, mem, part);
		attn_merge(j, &it, state, part, split);
	}
	attn_finish(j, &it, state);
}

static inline AttnPart *
wave_part(const AttnJob *j, int item, int i)
{
	return (AttnPart *) (j->parts + (size_t) (item * j->wave_len + i) * part_bytes(j->vdim));
}

/* one split of one item, in a wave */
static void
attn_wave_chunk(void *arg, int chunk, int ith)
{
	const AttnJob *j = arg;
	AttnItem	it = attn_item(j, chunk / j->wave_len);
	int			split = it.split0 + j->wave + chunk % j->wave_len;

	if (split < it.split1)
		attn_split(j, &it, split, j->threads + (size_t) ith * thread_bytes(j->kv),
				   wave_part(j, chunk / j->wave_len, chunk % j->wave_len));
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

/* cut the rows into items; scratch into its parts */
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

static void
attn(KPool *pool, const KvView *kv, int layer, const KRows *r,
	 const float *q, int ldq, int n_heads, float scale, int window,
	 float *out, void *ws)
{
	int			nthreads = kpool_nthreads(pool);
	int			max_splits = 0;
	size_t		work = 0;
	AttnJob		j = {
		.kv = kv, .r = r, .q = q, .out = out, .layer = layer, .ldq = ldq, .n_heads = n_heads,
		.scale = scale, .window = window, .vdim = kv_vdim(kv)
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
