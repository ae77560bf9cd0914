/*
 * test_attn.c
 *	  KV writes and attention of one implementation, for conform.
 *
 * Each case has three sequences.  First each is computed alone, whole, on one
 * thread; then all of them together in random chunks over a KV full of NaN, on
 * several threads.  Both must have the same bits, and be near ref.
 */
#include "tests/kernels/conform.h"

#define NSEQ	3

/* extras */
#define SINKS	1
#define ALIBI	2
#define CHUNK	4				/* the window is a chunk */
#define BOTH	8				/* rows see what comes behind them, too: at most `window` - 1 of it */
#define BIAS	16

typedef struct AttnCase
{
	KType		type;
	int			hd;
	int			heads;
	int			kv_heads;
	int			bs;
	int			window;
	int			len[NSEQ];
	float		softcap;
	int			v_dim;			/* 0: hd */
	int			extras;
} AttnCase;

typedef struct World
{
	const AttnCase *c;
	const Impl *im;
	KvView		kv;
	int32_t    *table[NSEQ];
	int			max_len;
	float	   *q[NSEQ];		/* [len][heads*hd] */
	float	   *k[NSEQ];		/* [len][kv_heads*hd] */
	float	   *v[NSEQ];		/* [len][kv_heads*vd] */
	float	   *alone[NSEQ];	/* outputs, [len][heads*vd] */
	float	   *mixed[NSEQ];
	int			vd;
	KAttn		attn;
	float		sinks[128];
	float		alibi[128];
	float	   *bias;			/* [heads][2 * max_len - 1] */
} World;

/* of layer 0, which nobody asks for, and of layer 1 */
static const float f8_scales[] = {1e9f, 1e9f, 0.3f, 0.011f};

/* every byte 0xff is a NaN in the float types and in INT8's scales; FP8: so is each code */
static void
poison(World *w)
{
	memset(w->kv.base, 0xff, w->kv.block_stride * w->kv.n_blocks);
}

/* sinks from far below the scores to above them, slopes as for 8 heads and steeper */
static void
make_options(World *w)
{
	const AttnCase *c = w->c;

	w->attn = (KAttn) {.scale = 1.0f / sqrtf((float) c->hd), .window = c->window, .softcap = c->softcap};
	for (int h = 0; h < c->heads; h++)
	{
		w->sinks[h] = (float) (h % 5 * 10 - 25);
		w->alibi[h] = ldexpf(1.0f, -h % 9);
	}
	if (c->extras & CHUNK)
	{
		w->attn.chunk = c->window;
		w->attn.window = 0;
	}
	if (c->extras & SINKS)
		w->attn.sinks = w->sinks;
	if (c->extras & ALIBI)
		w->attn.alibi = w->alibi;
	if (c->extras & BOTH)
		w->attn.ahead = k_max(0, c->window - 1);
	if (c->extras & BIAS)
	{
		size_t		n = (size_t) c->heads * (size_t) (2 * w->max_len - 1);

		w->bias = xalloc(n * sizeof(float));
		rnd_fill(w->bias, n, 3.0f);
		w->attn.bias = w->bias;
		w->attn.span = w->max_len;
	}
}

static void
make_world(World *w, const AttnCase *c, const Impl *im)
{
	int			next = 0;

	*w = (World) {.c = c, .im = im, .vd = c->v_dim ? c->v_dim : c->hd};
	for (int s = 0; s < NSEQ; s++)
		w->max_len = k_max(w->max_len, c->len[s]);
	make_options(w);
	w->kv = (KvView) {
		.type = c->type, .n_layers = 2, .block_size = c->bs, .n_kv_heads = c->kv_heads,
		.head_dim = c->hd, .v_dim = c->v_dim, .scales = f8_scales
	};
	for (int s = 0; s < NSEQ; s++)
	{
		size_t		len = c->len[s];
		int			blocks = (c->len[s] + c->bs - 1) / c->bs;

		w->table[s] = xalloc(blocks * sizeof(int32_t));
		for (int b = 0; b < blocks; b++)
			w->table[s][b] = next++;
		w->q[s] = xalloc(len * c->heads * c->hd * 4);
		w->k[s] = xalloc(len * c->kv_heads * c->hd * 4);
		w->v[s] = xalloc(len * c->kv_heads * w->vd * 4);
		w->alone[s] = xalloc(len * c->heads * w->vd * 4);
		w->mixed[s] = xalloc(len * c->heads * w->vd * 4);
		rnd_fill(w->q[s], len * c->heads * c->hd, 4.0f);
		rnd_fill(w->k[s], len * c->kv_heads * c->hd, 2.0f);
		rnd_fill(w->v[s], len * c->kv_heads * w->vd, 1.0f);
	}
	/* blocks in a scattered order */
	for (int s = 0; s < NSEQ; s++)
		for (int b = 0; b < (c->len[s] + c->bs - 1) / c->bs; b++)
			w->table[s][b] = next - 1 - w->table[s][b] + 1;
	w->kv.n_blocks = next + 2;
	w->kv.base = xalloc(kv_layout(&w->kv));
	poison(w);
}

static void
free_world(World *w)
{
	for (int s = 0; s < NSEQ; s++)
	{
		free(w->table[s]);
		free(w->q[s]);
		free(w->k[s]);
		free(w->v[s]);
		free(w->alone[s]);
		free(w->mixed[s]);
	}
	free(w->kv.base);
	free(w->bias);
}

/*
 * One step: rows from[s]..to[s]-1 of each sequence.  Outputs go to out[s].  The
 * inputs lie in one matrix [rows][heads*hd + kv_heads*(hd + vd)], as a model has them.
 */
static void
step(World *w, const Kernels *k, KPool *pool, const int *from, const int *to, float **out)
{
	const AttnCase *c = w->c;
	int			rows = 0,
				n = 0,
				qd = c->heads * c->hd,
				kd = c->kv_heads * c->hd,
				vd = c->kv_heads * w->vd,
				od = c->heads * w->vd,
				ld = qd + kd + vd;
	int32_t		seq_start[NSEQ + 1],
			   *pos,
			   *ends;
	KAttn		a = w->attn;
	const int32_t *tables[NSEQ];
	int			seqs[NSEQ];
	float	   *x,
			   *o;
	void	   *ws;
	KRows		r;

	for (int s = 0; s < NSEQ; s++)
		rows += to[s] - from[s];
	pos = xalloc(rows * sizeof(int32_t));
	ends = xalloc(rows * sizeof(int32_t));
	if (c->extras & BOTH)
		a.ends = ends;
	x = xalloc((size_t) rows * ld * 4);
	o = xalloc((size_t) rows * od * 4);
	ws = xalloc(k->attn_scratch(&w->kv, c->heads, rows, kpool_nthreads(pool)));
	rows = 0;
	for (int s = 0; s < NSEQ; s++)
	{
		if (from[s] == to[s])
			continue;
		tables[n] = w->table[s];
		seqs[n] = s;
		seq_start[n++] = rows;
		for (int i = from[s]; i < to[s]; i++, rows++)
		{
			float	   *to_row = x + (size_t) rows * ld;

			pos[rows] = i;
			ends[rows] = to[s];
			memcpy(to_row, w->q[s] + (size_t) i * qd, qd * 4);
			memcpy(to_row + qd, w->k[s] + (size_t) i * kd, kd * 4);
			memcpy(to_row + qd + kd, w->v[s] + (size_t) i * vd, vd * 4);
		}
	}
	seq_start[n] = rows;
	r = (KRows) {rows, n, seq_start, pos, tables, NULL, 0, 0};
	k->kv_write(pool, &w->kv, 1, &r, x + qd, ld, x + qd + kd, ld);
	k->attn(pool, &w->kv, 1, &r, x, ld, c->heads, &a, o, ws);
	for (int i = 0; i < n; i++)
	{
		int			s = seqs[i];

		memcpy(out[s] + (size_t) from[s] * od, o + (size_t) seq_start[i] * od,
			   (size_t) (to[s] - from[s]) * od * 4);
	}
	free(pos);
	free(ends);
	free(x);
	free(o);
	free(ws);
}

/* all sequences together, in random chunks; with BOTH each in one */
static void
run_mixed(World *w, int threads, int max_chunk)
{
	int			from[NSEQ] = {0},
				to[NSEQ];

	for (;;)
	{
		bool		more = false;

		for (int s = 0; s < NSEQ; s++)
		{
			if (w->c->extras & BOTH)
				to[s] = from[s] > 0 || rnd_int(2) ? w->c->len[s] : 0;
			else
				to[s] = k_min(w->c->len[s], from[s] + rnd_int(max_chunk + 1));
			more |= from[s] < w->c->len[s];
		}
		if (!more)
			return;
		step(w, w->im->k, pools[threads], from, to, w->mixed);
		memcpy(from, to, sizeof(from));
	}
}

static void
run_alone(World *w)
{
	for (int s = 0; s < NSEQ; s++)
	{
		int			from[NSEQ] = {0},
					to[NSEQ] = {0};

		to[s] = w->c->len[s];
		step(w, w->im->k, pools[1], from, to, w->alone);
	}
}

static bool
seqs_same(const World *w)
{
	for (int s = 0; s < NSEQ; s++)
		if (memcmp(w->alone[s], w->mixed[s], (size_t) w->c->len[s] * w->c->heads * w->vd * 4) != 0)
			return false;
	return true;
}

/* ref over what the implementation wrote; the first and last rows of a sequence */
static double
worst_error(World *w)
{
	const AttnCase *c = w->c;
	size_t		row = (size_t) c->heads * c->hd,
				out = (size_t) c->heads * w->vd;
	double		worst = 0;
	float	   *o = xalloc(out * 4);
	void	   *ws = xalloc(ref->attn_scratch(&w->kv, c->heads, 1, 1));

	for (int s = 0; s < NSEQ; s++)
		for (int i = 0; i < c->len[s]; i += 1 + c->len[s] / 6)
		{
			int			at = c->len[s] - 1 - i;
			int32_t		pos = at;
			const int32_t *tables[1] = {w->table[s]};
			KRows		r = {1, 1, (int32_t[]) {0, 1}, &pos, tables, NULL, 0, 0};
			KAttn		a = w->attn;
			double		e;

			a.ends = c->extras & BOTH ? &c->len[s] : NULL;
			ref->attn(pools[1], &w->kv, 1, &r, w->q[s] + at * row, (int) row, c->heads, &a, o, ws);
			e = nmse(o, w->alone[s] + at * out, out);
			/* not e > worst: a NaN must count */
			if (!(e <= worst))
				worst = e;
		}
	free(o);
	free(ws);
	return worst;
}

/* the same cells as ref writes, bit for bit (the padding of V aside) */
static bool
same_cells(World *w)
{
	const AttnCase *c = w->c;
	size_t		len = w->kv.block_stride * w->kv.n_blocks;
	uint8_t    *mine = xalloc(len);
	int			from[NSEQ] = {0};
	bool		same;

	memcpy(mine, w->kv.base, len);
	poison(w);
	if (c->window == 0 && w->max_len <= 200)
		step(w, ref, pools[1], from, c->len, w->mixed);
	else
		memcpy(w->kv.base, mine, len);
	same = memcmp(mine, w->kv.base, len) == 0;
	free(mine);
	return same;
}

/*
 * Codes against F32: what quantizing costs.  INT8: an element is off by at most half a
 * scale, absmax/254; the values here are even in [-a, a], so absmax is about a and
 * the mean square error of K and V (1/254 a)^2 / 3, 5e-6 of their own.  FP8: an element is off by at
 * most 1/16 (E5M2: 1/8) of itself.
 */
static void
check_code_error(World *w, double most)
{
	AttnCase	c = *w->c;
	World		f;
	int			from[NSEQ] = {0};
	uint32_t	seed = rnd();

	c.type = KT_F32;
	rnd_seed(seed);
	make_world(&f, &c, w->im);
	for (int s = 0; s < NSEQ; s++)
	{
		size_t		row = (size_t) c.heads * c.hd * 4,
					kd = (size_t) c.kv_heads * c.hd * 4;

		memcpy(f.q[s], w->q[s], row * c.len[s]);
		memcpy(f.k[s], w->k[s], kd * c.len[s]);
		memcpy(f.v[s], w->v[s], (size_t) c.kv_heads * w->vd * 4 * c.len[s]);
	}
	step(&f, w->im->k, pools[1], from, c.len, f.alone);
	for (int s = 0; s < NSEQ; s++)
	{
		double		e = nmse(f.alone[s], w->alone[s], (size_t) c.len[s] * c.heads * w->vd);

		EXPECT(e <= most, "%s attn %s hd %d: nmse %g against F32", w->im->k->name, ktype_name(w->c->type),
			   c.hd, e);
	}
	free_world(&f);
}

/*
 * INT8 codes and scales of rows that are all zero, tiny, huge or bad are ref's; a
 * NaN gives NaN as scale and no code.
 */
static void
check_int8_extremes(const Impl *im)
{
	static const float values[] = {0.0f, -0.0f, 0x1p-110f, 1e-30f, 3e38f, NAN, INFINITY, -INFINITY, 1.0f};
	enum
	{
		HD = 40, ROWS = 9
	};
	AttnCase	c = {KT_INT8, HD, 1, 1, 16, 0, {ROWS, 1, 1}, 0, 0, 0};
	World		w;
	int			from[NSEQ] = {0},
				to[NSEQ] = {ROWS, 0, 0};
	size_t		len;
	uint8_t    *mine;

	make_world(&w, &c, im);
	for (int i = 0; i < ROWS; i++)
		for (int d = 0; d < HD; d++)
		{
			/* rows 4 and 8: ties at half a scale, too */
			w.k[0][i * HD + d] = d == 33 ? values[i] : values[i] != values[i] ? 1.0f : i < 4 ? values[i] :
				rnd_float(1.0f);
			w.v[0][i * HD + d] = d == i ? values[i] : d == 39 ? 127.0f : (float) (rnd_int(509) - 254) * 0.5f;
		}
	step(&w, im->k, pools[2], from, to, w.alone);
	len = w.kv.block_stride * w.kv.n_blocks;
	mine = xalloc(len);
	memcpy(mine, w.kv.base, len);
	poison(&w);
	step(&w, ref, pools[1], from, to, w.mixed);
	EXPECT(memcmp(mine, w.kv.base, len) == 0, "%s attn INT8: extreme rows aren't ref's", im->k->name);
	for (int i = 0; i < ROWS; i++)
	{
		uint8_t    *cell = kv_cell(&w.kv, 1, w.table[0][0], 0);
		float	   *scale = kv_cell_scales(&w.kv, cell);
		int8_t	   *codes = (int8_t *) kv_cell_v(&w.kv, cell) + (size_t) i * kv_vdim(&w.kv);

		EXPECT(isfinite(values[i]) ? scale[i] >= 0 && scale[16 + i] > 0 : isnan(scale[i]) &&
			   isnan(scale[16 + i]), "%s attn INT8: scales of row %d", im->k->name, i);
		for (int d = 0; d < HD && isfinite(scale[16 + i]); d++)
			EXPECT(fabsf(w.v[0][i * HD + d] - (float) codes[d] * scale[16 + i]) <= scale[16 + i] * 0.5001f,
				   "%s attn INT8: code %d of row %d", im->k->name, d, i);
	}
	free(mine);
	free_world(&w);
}

/*
 * Bad values in K, V and q of a row: rows of its sequence that don't see it and the other
 * sequences keep their bits, in whatever tile they are computed.
 */
static void
check_nan(World *w)
{
	const AttnCase *c = w->c;
	size_t		row = (size_t) c->heads * w->vd,
				kd = (size_t) c->kv_heads * c->hd,
				vd = (size_t) c->kv_heads * w->vd;
	int			from[NSEQ] = {0},
				at = c->len[1] / 2,
				clean = at;		/* rows that don't see it */

	if (c->extras & BOTH)
		clean = c->window > 0 ? k_max(0, at - (c->window - 1)) : 0;
	w->k[1][at * kd + rnd_int((int) kd)] = NAN;
	for (size_t i = 0; i < vd; i++)
		w->v[1][at * vd + i] = i % 2 ? NAN : INFINITY;
	w->q[1][(size_t) at * c->heads * c->hd] = NAN;
	poison(w);
	step(w, w->im->k, pools[2], from, c->len, w->mixed);
	EXPECT(memcmp(w->alone[0], w->mixed[0], c->len[0] * row * 4) == 0 &&
		   memcmp(w->alone[2], w->mixed[2], c->len[2] * row * 4) == 0,
		   "%s attn hd %d: a bad value reached another sequence", w->im->k->name, c->hd);
	EXPECT(memcmp(w->alone[1], w->mixed[1], clean * row * 4) == 0,
		   "%s attn hd %d: a bad value reached an earlier row", w->im->k->name, c->hd);
	EXPECT(!isfinite(w->mixed[1][at * row + w->vd - 1]),
		   "%s attn hd %d: a bad value was lost", w->im->k->name, c->hd);
}

static void
check_case(const Impl *im, const AttnCase *c, int id)
{
	World		w;
	double		e;
	char		name[120];

	rnd_seed(id + 1000);
	make_world(&w, c, im);
	snprintf(name, sizeof(name), "%s attn %s hd %d/%d heads %d/%d block %d window %d cap %g extras %d len %d",
			 im->k->name, ktype_name(c->type), c->hd, w.vd, c->heads, c->kv_heads, c->bs, c->window,
			 (double) c->softcap, c->extras, w.max_len);
	run_alone(&w);
	e = worst_error(&w);
	EXPECT(e <= 1e-11, "%s: nmse %g", name, e);
	for (int s = 0; s < NSEQ; s++)
		EXPECT(same_bits(im, ID_ATTN + id * NSEQ + s, w.alone[s],
						 (size_t) c->len[s] * c->heads * w.vd * 4),
			   "%s: not the bits of the others", name);
	EXPECT(same_cells(&w), "%s: cells", name);
	if (c->type == KT_INT8 && c->softcap == 0)
		check_code_error(&w, 3e-4);
	else if (kv_is_f8(c->type) && c->softcap == 0)
		check_code_error(&w, c->type == KT_F8_E4M3 ? 0.02 : 0.08);
	for (int threads = 1; threads <= 3; threads++)
	{
		if (im->slow && threads != 2)
			continue;
		poison(&w);
		run_mixed(&w, threads, w.max_len / (threads * 2) + 1);
		EXPECT(seqs_same(&w), "%s: chunks and company on %d threads", name, threads);
	}
	check_nan(&w);
	free_world(&w);
}

/*
 * Steps of every number of rows from 1 to 67, all of one sequence or cut in two or
 * three, over KV that is there already.
 */
static void
check_counts(const Impl *im, const AttnCase *c, int id)
{
	World		w;
	size_t		row;

	rnd_seed(id + 2000);
	make_world(&w, c, im);
	row = (size_t) c->heads * w.vd;
	run_alone(&w);
	EXPECT(worst_error(&w) <= 1e-11, "%s attn %s hd %d: nmse %g", im->k->name, ktype_name(c->type),
		   c->hd, worst_error(&w));
	for (int rows = 1; rows <= 67; rows++)
	{
		int			n[NSEQ] = {0},
					from[NSEQ],
					to[NSEQ],
					wrong = 0;

		n[0] = rows % 3 == 0 ? rows : rnd_int(rows + 1);
		n[1] = rows % 3 == 1 ? rows - n[0] : rnd_int(rows - n[0] + 1);
		n[2] = rows - n[0] - n[1];
		for (int s = 0; s < NSEQ; s++)
		{
			from[s] = rnd_int(c->len[s] - n[s] + 1);
			to[s] = from[s] + n[s];
		}
		step(&w, im->k, pools[1 + rows % 3], from, to, w.mixed);
		for (int s = 0; s < NSEQ; s++)
			wrong += memcmp(w.alone[s] + from[s] * row, w.mixed[s] + from[s] * row, n[s] * row * 4) != 0;
		EXPECT(wrong == 0, "%s attn %s hd %d: steps of %d rows (%d, %d, %d)", im->k->name,
			   ktype_name(c->type), c->hd, rows, n[0], n[1], n[2]);
	}
	free_world(&w);
}

/* one row over many splits, alone and beside others, on 1..4 threads */
static void
check_long(const Impl *im, int id)
{
	AttnCase	c = {KT_BF16, 64, 4, 2, 16, 0, {2300, 513, 1}, 0, 0, 0};
	World		w;
	int			from[NSEQ] = {2290, 512, 0},
				none[NSEQ] = {0};

	rnd_seed(id);
	make_world(&w, &c, im);
	/* fill with cheap writes: chunks of one thread each */
	step(&w, im->k, pools[3], none, from, w.alone);
	for (int t = 1; t <= MAX_THREADS; t++)
	{
		int			one_from[NSEQ] = {2299, 0, 0},
					one_to[NSEQ] = {2300, 0, 0};

		step(&w, im->k, pools[t], from, c.len, t == 1 ? w.alone : w.mixed);
		if (t > 1)
			EXPECT(memcmp(w.alone[0] + 2290 * 256, w.mixed[0] + 2290 * 256, 10 * 256 * 4) == 0,
				   "%s attn: long context on %d threads", im->k->name, t);
		step(&w, im->k, pools[t], one_from, one_to, w.mixed);
		EXPECT(memcmp(w.alone[0] + 2299 * 256, w.mixed[0] + 2299 * 256, 256 * 4) == 0,
			   "%s attn: one row of a long context on %d threads", im->k->name, t);
	}
	free_world(&w);
}

/*
 * Sink and slope against attention without them, where they are two dimensions more: a
 * first key without a value, whose score is the sink, and keys that grow with their
 * position.  Scores may differ by what is one number for all keys of a row.
 */
static void
check_extras(const Impl *im)
{
	enum
	{
		HD = 32, LEN = 150
	};
	const float slope = 0.125f,
				sink = 1.5f;
	AttnCase	with = {KT_F32, HD, 1, 1, 16, 0, {LEN, 1, 1}, 0, HD, SINKS | ALIBI},
				without = {KT_F32, HD + 2, 1, 1, 16, 0, {LEN + 1, 1, 1}, 0, HD, 0};
	World		a,
				b;
	int			none[NSEQ] = {0};
	double		e;

	rnd_seed(3000);
	make_world(&a, &with, im);
	make_world(&b, &without, im);
	a.sinks[0] = sink;
	a.alibi[0] = slope;
	a.attn.scale = b.attn.scale = 1.0f;
	memset(b.k[0], 0, (HD + 2) * 4);
	memset(b.v[0], 0, HD * 4);
	b.k[0][HD + 1] = 1.0f;
	for (int i = 0; i < LEN; i++)
	{
		float	   *q = b.q[0] + (i + 1) * (HD + 2),
				   *k = b.k[0] + (i + 1) * (HD + 2);

		memcpy(q, a.q[0] + i * HD, HD * 4);
		memcpy(k, a.k[0] + i * HD, HD * 4);
		memcpy(b.v[0] + (i + 1) * HD, a.v[0] + i * HD, HD * 4);
		q[HD] = 1.0f;
		k[HD] = slope * (float) i;
		q[HD + 1] = sink + slope * (float) i;
		k[HD + 1] = 0.0f;
	}
	step(&a, im->k, pools[2], none, (int[]) {LEN, 0, 0}, a.alone);
	step(&b, im->k, pools[2], none, (int[]) {LEN + 1, 0, 0}, b.alone);
	e = nmse(b.alone[0] + HD, a.alone[0], LEN * HD);
	EXPECT(e <= 1e-11, "%s attn: sink and slope as dimensions: nmse %g", im->k->name, e);
	/* slopes of 0 and a sink that is infinitely far below change no bit */
	step(&b, im->k, pools[2], none, (int[]) {LEN + 1, 0, 0}, b.alone);
	b.alibi[0] = 0.0f;
	b.sinks[0] = -1e30f;
	b.attn.alibi = b.alibi;
	b.attn.sinks = b.sinks;
	step(&b, im->k, pools[2], none, (int[]) {LEN + 1, 0, 0}, b.mixed);
	EXPECT(memcmp(b.alone[0], b.mixed[0], (LEN + 1) * HD * 4) == 0, "%s attn: slope 0, no sink", im->k->name);
	free_world(&a);
	free_world(&b);
}

void
test_attn(const Impl *im)
{
	static const AttnCase cases[] = {
		{KT_F32, 16, 2, 2, 16, 0, {1, 37, 70}, 0, 0, 0},
		{KT_F16, 64, 14, 2, 16, 0, {5, 33, 90}, 0, 0, 0},
		{KT_BF16, 80, 3, 1, 32, 0, {20, 64, 65}, 0, 0, 0},
		{KT_BF16, 20, 8, 2, 16, 0, {17, 16, 40}, 0, 0, 0},
		{KT_F16, 96, 8, 1, 32, 7, {50, 12, 130}, 0, 0, 0},
		{KT_F32, 72, 4, 4, 16, 1, {9, 30, 66}, 0, 0, 0},
		{KT_BF16, 32, 30, 1, 64, 0, {8, 40, 70}, 0, 0, 0},
		{KT_F16, 128, 8, 2, 16, 100, {150, 3, 120}, 0, 0, 0},
		{KT_BF16, 256, 4, 1, 32, 0, {10, 25, 40}, 0, 0, 0},
		{KT_BF16, 64, 14, 2, 16, 0, {700, 40, 530}, 0, 0, 0},
		{KT_F16, 64, 6, 2, 48, 600, {1100, 520, 33}, 0, 0, 0},
		{KT_INT8, 64, 14, 2, 16, 0, {700, 40, 530}, 0, 0, 0},
		{KT_INT8, 96, 6, 2, 48, 100, {300, 129, 33}, 0, 0, 0},
		{KT_F8_E4M3, 64, 14, 2, 16, 0, {700, 40, 530}, 0, 0, 0},
		{KT_F8_E5M2, 96, 6, 2, 48, 100, {300, 129, 33}, 0, 0, 0},
	};
	/* as far as emulated and slow ones go, too */
	static const AttnCase short_cases[] = {
		{KT_INT8, 64, 14, 2, 16, 0, {5, 33, 90}, 0, 0, 0},
		{KT_INT8, 32, 2, 2, 16, 0, {1, 37, 70}, 0, 0, 0},
		{KT_INT8, 80, 3, 1, 32, 0, {20, 64, 65}, 0, 0, 0},
		{KT_INT8, 20, 8, 2, 16, 7, {17, 16, 140}, 0, 0, 0},
		{KT_INT8, 256, 4, 1, 64, 0, {10, 25, 70}, 0, 0, 0},
		{KT_INT8, 128, 30, 1, 16, 40, {8, 40, 70}, 5.0f, 0, 0},
		{KT_F32, 64, 2, 1, 16, 0, {9, 30, 66}, 0.7f, 0, 0},
		{KT_BF16, 72, 7, 1, 32, 33, {9, 30, 80}, 50.0f, 0, 0},
		{KT_F16, 48, 1, 1, 16, 0, {19, 30, 129}, 0, 0, 0},
		{KT_BF16, 64, 8, 1, 16, 20, {9, 30, 80}, 0, 0, SINKS},
		{KT_BF16, 64, 6, 2, 16, 24, {9, 48, 80}, 0, 0, CHUNK},
		{KT_F32, 32, 4, 2, 16, 70, {71, 30, 150}, 0, 0, CHUNK},
		{KT_F32, 40, 6, 3, 16, 0, {9, 70, 20}, 0, 0, ALIBI},
		{KT_INT8, 32, 9, 1, 16, 50, {30, 9, 140}, 4.0f, 0, SINKS | ALIBI},
		{KT_F16, 24, 4, 2, 16, 0, {1, 19, 66}, 0, 40, 0},
		{KT_BF16, 192, 3, 1, 16, 0, {17, 5, 67}, 0, 128, 0},
		{KT_INT8, 48, 5, 5, 16, 0, {12, 31, 68}, 0, 7, SINKS},
		{KT_BF16, 576, 128, 1, 16, 0, {3, 2, 20}, 0, 512, 0},
		{KT_INT8, 576, 40, 1, 16, 0, {6, 20, 4}, 0, 512, ALIBI},
		{KT_F32, 1024, 2, 1, 16, 9, {5, 18, 33}, 0, 0, 0},
		{KT_F16, 1024, 2, 2, 16, 0, {5, 18, 33}, 0, 1024, SINKS},
		{KT_BF16, 1024, 1, 1, 16, 0, {5, 18, 66}, 0, 1000, 0},
		{KT_INT8, 1024, 2, 1, 32, 0, {5, 18, 33}, 0, 0, 0},
		{KT_F32, 32, 12, 12, 16, 0, {9, 30, 150}, 0, 0, BOTH},
		{KT_F32, 64, 3, 3, 16, 33, {100, 1, 150}, 0, 0, BOTH},
		{KT_BF16, 24, 8, 8, 32, 0, {66, 30, 5}, 0, 0, BOTH | ALIBI},
		{KT_F32, 40, 4, 4, 16, 0, {67, 17, 33}, 0, 0, BOTH | BIAS},
		{KT_F16, 48, 6, 2, 16, 20, {67, 17, 90}, 0, 0, BOTH | BIAS | SINKS},
		{KT_BF16, 40, 6, 2, 16, 20, {67, 17, 90}, 0, 0, BIAS},
		{KT_F8_E4M3, 128, 4, 2, 16, 0, {5, 33, 90}, 0, 0, 0},
		{KT_F8_E4M3, 20, 8, 2, 16, 7, {17, 16, 140}, 0, 0, SINKS},
		{KT_F8_E4M3, 576, 40, 1, 16, 0, {6, 20, 4}, 0, 512, ALIBI},
		{KT_F8_E5M2, 64, 14, 2, 16, 0, {5, 33, 90}, 0, 0, 0},
		{KT_F8_E5M2, 48, 5, 5, 32, 0, {12, 31, 68}, 4.0f, 7, 0},
	};
	static const AttnCase count_cases[] = {
		{KT_F32, 20, 3, 1, 16, 0, {70, 67, 68}, 0, 0, 0},
		{KT_F16, 32, 4, 2, 16, 9, {67, 80, 68}, 0, 0, 0},
		{KT_F16, 32, 4, 2, 16, 9, {67, 80, 68}, 0, 0, CHUNK},
		{KT_BF16, 16, 7, 1, 32, 0, {67, 69, 90}, 3.0f, 0, 0},
		{KT_INT8, 24, 7, 1, 16, 0, {70, 67, 81}, 0, 0, 0},
		{KT_F8_E4M3, 24, 7, 1, 16, 0, {70, 67, 81}, 0, 0, 0},
		{KT_F8_E5M2, 32, 4, 2, 16, 9, {67, 80, 68}, 0, 0, 0},
		{KT_BF16, 40, 5, 1, 16, 0, {70, 67, 81}, 0, 24, SINKS | ALIBI},
	};
	int			count = sizeof(cases) / sizeof(cases[0]);

	for (size_t i = 0; i < sizeof(count_cases) / sizeof(count_cases[0]); i++)
		check_counts(im, &count_cases[i], (int) i);
	for (int i = 0; i < count; i++)
	{
		if (i >= (im->slow ? 7 : im->emulated ? 9 : count))
			break;
		check_case(im, &cases[i], i);
	}
	for (size_t i = 0; i < sizeof(short_cases) / sizeof(short_cases[0]); i++)
		check_case(im, &short_cases[i], count + (int) i);
	check_int8_extremes(im);
	check_extras(im);
	if (!im->slow && !im->emulated)
		check_long(im, 99);
}
