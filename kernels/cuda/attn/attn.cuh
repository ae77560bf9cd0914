/*
 * attn.cuh
 *	  Attention: the same arithmetic for decoding and for prompts.
 *
 * A row is a query of one head.  Its keys are processed in strips of KEYS, which begin at absolute
 * multiples of that: S = q K^T in steps of 16 columns, ascending; scale, cap and bias of scores; the
 * online softmax; o += P V in steps of 16 keys, ascending.  After SPLIT keys, also at absolute
 * multiples, a row's m (largest score), d (sum) and o start again, and those of splits are merged in
 * ascending order (attn_merge).  Where that happens doesn't matter: a block may walk through all splits
 * of its rows, or several blocks compute one split each and a second kernel merges them.  It also
 * doesn't matter which rows are computed together: a warp has 16 rows of a KV head, and neither sums nor
 * the order of keys depend on other rows.
 *
 * Scores are in units of log2: q is multiplied by scale * log2 e before it is rounded to the type of the
 * products, H (BF16; F16 if K is F16, and on sm_75).  P is rounded to H, its sum isn't.  INT8's and
 * FP8's codes of K are exact in H, and their scale multiplies the scores; V of INT8 is multiplied by its
 * scale; FP8's scale multiplies the output.
 *
 * A tile in shared memory consists of contiguous 8 x 8 matrices of halves, 128 bytes each, and those of
 * the same 8 columns are adjacent: ldmatrix reads this without bank conflicts, and wgmma accepts it
 * (attn_sm90.cu), which differs only in products().
 *
 * Keys that no row of a block sees are replaced by zeros: stale memory may contain NaN.  A NaN in the V
 * of a key that some rows see and others don't would reach the others as 0 * NaN.  Rows that aren't
 * finite are therefore computed again with only their own keys (redo).
 */
#ifndef VLLM_KERNELS_CUDA_ATTN_CUH
#define VLLM_KERNELS_CUDA_ATTN_CUH

#include "cuda/attn/kv.cuh"
#include "cuda/mma.cuh"

#define KEYS	64				/* keys of a strip */
#define SPLIT	512
#define STRIPS	(SPLIT / KEYS)
#define PIECE	128				/* columns of K or V in a tile of shared memory */
#define RUN		16				/* keys that are certainly in one block */
#define RUNS	(2 * SPLIT / RUN)	/* runs of two splits */
#define MAX_WARPS 4
#define ATTN_STAGES 4			/* tiles of attn_sm90.cu's kernel with bulk copies */
#define ATTN_FETCHERS 128		/* threads of that kernel that fetch */
#define LOG2E	1.44269504088896340736f
#define LARGEST	3.402823466e38f

typedef struct AttnArgs
{
	CudaKv		kv;
	CudaRows	r;
	const float *q;
	int			ldq;
	int			n_heads;
	int			group;			/* heads per KV head */
	float		q_scale;		/* with log2 e, as softcap */
	int			window;
	int			chunk;
	const int32_t *ends;
	int			ahead;
	float		softcap;
	const float *alibi;
	const float *bias;
	int			span;
	const float *sinks;
	int			dim_pad;		/* head_dim rounded up to 16 */
	int			width;			/* columns of a tile, a multiple of 8 */
	int			v_chunks;		/* parts of V's columns, one for each block */
	int			splits;			/* splits computed by separate blocks; 1: a block walks through them */
	int			part_rows;		/* rows of a tile: the sequence's rows, if there are fewer than a block's */
	float	   *part;			/* [tile][KV head, chunk][split][part_rows][columns] o */
	float	   *part_md;		/* [...][part_rows][2] */
	void	   *out;
	KType		out_type;
} AttnArgs;

/*
 * The rows of a block: flat rows from `at` on of a sequence that has n: query first + flat / group, head
 * flat % group
 */
typedef struct AttnTile
{
	int			seq;
	int			first;
	int			n;
	int			at;
} AttnTile;

/* one row */
typedef struct AttnRow
{
	int			row;			/* index in the step */
	int			head;
	int			pos;
	int			lo;				/* sees positions lo .. hi - 1 */
	int			hi;
} AttnRow;

/*
 * Find the block with this number, of `rows` rows.  Sequence s has the numbers from start(s) * group /
 * rows + s on: these are enough for it, and no table is needed.  Some numbers are unused: return false.
 */
static __device__ __forceinline__ bool
attn_tile(const AttnArgs &p, int number, int rows, AttnTile *t)
{
	int			lo = 0,
				hi = p.r.n_seqs;

	while (hi - lo > 1)
	{
		int			mid = (lo + hi) / 2;

		if (seq_first(p.r, mid) * p.group / rows + mid <= number)
			lo = mid;
		else
			hi = mid;
	}
	t->seq = lo;
	t->first = seq_first(p.r, lo);
	t->n = (seq_first(p.r, lo + 1) - t->first) * p.group;
	t->at = (number - (t->first * p.group / rows + lo)) * rows;
	return t->at < t->n;
}

/* a row after the sequence's last one, or at position -1, has no keys */
static __device__ __forceinline__ AttnRow
attn_row(const AttnArgs &p, const AttnTile &t, int flat, int kv_head)
{
	AttnRow		w;

	w.row = t.first + (flat < t.n ? flat : t.n - 1) / p.group;
	w.head = kv_head * p.group + (flat < t.n ? flat % p.group : 0);
	w.pos = p.r.pos[w.row];
	w.lo = w.hi = 0;
	if (flat >= t.n || w.pos < 0)
		return w;
	w.hi = p.ends != NULL ? p.ends[w.row] : w.pos + 1;
	if (p.ends != NULL && p.ahead > 0)
		w.hi = min(w.hi, w.pos + 1 + p.ahead);
	if (p.chunk > 0)
		w.lo = w.pos / p.chunk * p.chunk;
	else if (p.window > 0)
		w.lo = max(0, w.pos + 1 - p.window);
	return w;
}

/* merge m, d of one more split; o = o * *a + that split's * *b */
static __device__ __forceinline__ void
attn_merge(float *m, float *d, float more_m, float more_d, float *a, float *b)
{
	float		top = fmaxf(*m, more_m);

	*a = exp2f(*m - top);
	*b = exp2f(more_m - top);
	*d = *d * *a + more_d * *b;
	*m = top;
}

static __device__ __forceinline__ float
attn_merged(float o, float more, float a, float b)
{
	return o * a + more * b;
}

/* the final factor of o */
static __device__ __forceinline__ float
attn_finish(const AttnArgs &p, const AttnRow &w, float m, float d)
{
	float		a = 1.0f;

	if (w.lo >= w.hi)
		return 0.0f;
	if (p.sinks != NULL)
	{
		float		b;

		attn_merge(&m, &d, p.sinks[w.head] * LOG2E, 1.0f, &a, &b);
	}
	return a / d * p.kv.v_scale;
}

static __device__ __forceinline__ void
attn_out(const AttnArgs &p, const AttnRow &w, int col, float v)
{
	size_t		at = ((size_t) w.row * p.n_heads + w.head) * p.kv.v_dim + col;

	if (col >= p.kv.v_dim)
		return;
	if (p.out_type == KT_F32)
		((float *) p.out)[at] = v;
	else if (p.out_type == KT_BF16)
		from_float((BF16 *) p.out + at, v);
	else
		from_float((F16 *) p.out + at, fabsf(v) > 65504.0f && fabsf(v) <= LARGEST ? copysignf(65504.0f, v) :
				   v);
}

/* ---- halves ---- */

static __device__ __forceinline__ unsigned
half_of(BF16, float f)
{
	BF16		h;

	from_float(&h, f);
	return h.u;
}

/* too large numbers become the largest one; infinities stay */
static __device__ __forceinline__ unsigned
half_of(F16, float f)
{
	F16			h;

	from_float(&h, fabsf(f) > 65504.0f && fabsf(f) <= LARGEST ? copysignf(65504.0f, f) : f);
	return h.u;
}

template <typename H> static __device__ __forceinline__ uint32_t
halves(float low, float high)
{
	return half_of(H(), low) | half_of(H(), high) << 16;
}

static __device__ __forceinline__ void
product(BF16, float *d, const uint32_t *a, const uint32_t *b)
{
	mma_bf16(d, a, b, d);
}

static __device__ __forceinline__ void
product(F16, float *d, const uint32_t *a, const uint32_t *b)
{
	mma_f16(d, a, b, d);
}

/* sm_75 has no products of BF16; no code is generated for them then */
static __device__ __forceinline__ bool
has_products(F16)
{
	return true;
}

static __device__ __forceinline__ bool
has_products(BF16)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
	return false;
#else
	return true;
#endif
}

static __device__ __forceinline__ bool
is_half(BF16, KType t)
{
	return t == KT_BF16;
}

static __device__ __forceinline__ bool
is_half(F16, KType t)
{
	return t == KT_F16;
}

/* ---- tiles of K and V in shared memory ---- */

/* index of element (row, c) of a tile; c a multiple of 8, or of 1 on the way there */
static __device__ __forceinline__ int
tile_at(int rows, int row, int c)
{
	return (c / 8 * rows + row) * 8 + c % 8;
}

/*
 * Selects how products are computed and tiles are loaded: here a warp uses mma.sync, and all threads
 * load; attn_sm90.cu has other variants.
 */
struct ByMma
{
};

/* rows of a block */
static __device__ __forceinline__ int
rows_here(ByMma)
{
	return blockDim.x / 2;
}

/* the first row of q for a warp's products */
static __device__ __forceinline__ int
row_of(ByMma, int warp)
{
	return warp * 16;
}

/* a thread's part of a tile is in shared memory */
static __device__ __forceinline__ void
tile_there(ByMma)
{
}

/*
 * Return true if a warp without rows must execute the products, too: ptxas serializes two products of a
 * warpgroup if its warps diverge in between.
 */
static __device__ __forceinline__ bool
all_warps(ByMma)
{
	return false;
}

/* s += a K^T, for columns at .. at + 15 of a tile */
template <typename H> static __device__ __forceinline__ void
products_k(float (*d)[4], const uint32_t *a, const H *k, int at)
{
	int			lane = threadIdx.x % 32;

	k += tile_at(KEYS, lane / 16 * 8 + lane % 8, at + lane / 8 % 2 * 8);
#pragma unroll
	for (int n = 0; n < KEYS / 16; n++)
	{
		uint32_t	b[4];

		ldmatrix_x4(b, k + n * 16 * 8);
		product(H(), d[2 * n], a, b);
		product(H(), d[2 * n + 1], a, b + 2);
	}
}

/* o += a V, for keys at .. at + 15 of a tile and the first `cols` of 64 columns */
template <typename H> static __device__ __forceinline__ void
products_v(float (*d)[4], const uint32_t *a, const H *v, int at, int cols)
{
	int			lane = threadIdx.x % 32;

	v += tile_at(KEYS, at + lane / 8 % 2 * 8 + lane % 8, lane / 16 * 8);
#pragma unroll
	for (int n = 0; n < 64 / 16; n++)
		if (n * 16 < cols)
		{
			uint32_t	b[4];

			ldmatrix_x4_trans(b, v + n * 16 * KEYS);
			product(H(), d[2 * n], a, b);
			product(H(), d[2 * n + 1], a, b + 2);
		}
}

/* a block's shared memory, its sources, and the next tile */
template <typename H> struct AttnLoad
{
	H		   *tiles;			/* [2], of KEYS x width */
	size_t	   *cells;			/* [RUNS] cells of two splits, indexed by number of run % RUNS; */
	int		   *places;			/* for each of these the first key's place in its block */
	float	   *k_scales;		/* [2][KEYS] INT8's scales of two strips */
	const int32_t *table;
	int			kv_head;
	int			v0;				/* first column of V */
	int			v_cols;			/* columns of V, a multiple of 16 */
	int			k_pieces;
	int			pieces;
	int			lo;				/* keys lo .. hi - 1 are read */
	int			hi;
	int			strip;			/* next: load this strip's piece into that half of tiles */
	int			piece;
	int			stage;
};

/* element i of those at p in any type, without a scale */
static __device__ __forceinline__ float
kv_element(KType t, const uint8_t *p, int i)
{
	switch (t)
	{
		case KT_F32:
			return ((const float *) p)[i];
		case KT_F16:
			return to_float(((const F16 *) p)[i]);
		case KT_BF16:
			return to_float(((const BF16 *) p)[i]);
		case KT_F8_E4M3:
			return to_float(((const F8E4M3 *) p)[i]);
		case KT_F8_E5M2:
			return to_float(((const F8E5M2 *) p)[i]);
		default:
			return (float) ((const int8_t *) p)[i];
	}
}

/* four bytes of codes */
static __device__ __forceinline__ void
kv_codes(KType t, uint32_t u, float *f)
{
#pragma unroll
	for (int i = 0; i < 4; i++)
	{
		F8E4M3		a = {(uint8_t) (u >> 8 * i)};
		F8E5M2		b = {(uint8_t) (u >> 8 * i)};

		f[i] = t == KT_F8_E4M3 ? to_float(a) : t == KT_F8_E5M2 ? to_float(b) : (float) (int8_t) (u >> 8 * i);
	}
}

/* the eight columns at p, of rows of len elements; only n exist, the others are zeros */
static __device__ __forceinline__ void
kv_eight(KType t, const uint8_t *p, int n, int len, float *f)
{
	if (n < 8 || len % 8 != 0)
	{
		for (int i = 0; i < 8; i++)
			f[i] = i < n ? kv_element(t, p, i) : 0.0f;
	}
	else if (t == KT_F32)
	{
		const float4 *from = (const float4 *) p;
		float4		a = from[0],
					b = from[1];

		f[0] = a.x, f[1] = a.y, f[2] = a.z, f[3] = a.w;
		f[4] = b.x, f[5] = b.y, f[6] = b.z, f[7] = b.w;
	}
	else if (t == KT_F16 || t == KT_BF16)
	{
		uint4		u = *(const uint4 *) p;
		uint32_t	w[4] = {u.x, u.y, u.z, u.w};

#pragma unroll
		for (int i = 0; i < 8; i++)
		{
			uint16_t	h = (uint16_t) (w[i / 2] >> 16 * (i % 2));

			f[i] = t == KT_F16 ? to_float(F16{h}) : to_float(BF16{h});
		}
	}
	else
	{
		uint2		u = *(const uint2 *) p;

		kv_codes(t, u.x, f);
		kv_codes(t, u.y, f + 4);
	}
}

/* find the positions of the runs of one split; each run once, by the threads of a warp */
template <typename H> static __device__ __forceinline__ void
find_runs(const AttnArgs &p, const AttnLoad<H> &l, int split)
{
	int			run = split * (SPLIT / RUN) + threadIdx.x,
				key = run * RUN;

	if (threadIdx.x >= SPLIT / RUN || key + RUN <= l.lo || key >= l.hi)
		return;
	l.cells[run % RUNS] = kv_cell_at(p.kv, l.table[key / p.kv.block_size], l.kv_head);
	l.places[run % RUNS] = key % p.kv.block_size;
}

/* load the next tile, by all threads of the block */
template <typename H> static __device__ __forceinline__ void
load_next(const AttnArgs &p, AttnLoad<H> *l)
{
	bool		is_v = l->piece >= l->k_pieces;
	int			c0 = (is_v ? l->piece - l->k_pieces : l->piece) * PIECE,
				cols = min(PIECE, (is_v ? l->v_cols : p.dim_pad) - c0),
				n = is_v ? p.kv.v_dim : p.kv.head_dim,
				len = is_v ? p.kv.v_pad : p.kv.head_dim;
	size_t		part = is_v ? p.kv.v_at : 0;
	bool		copies = is_half(H(), p.kv.type) && len % 8 == 0;
	H		   *tile = l->tiles + (size_t) l->stage * KEYS * p.width;

	if (l->strip * KEYS >= l->hi)
		return;
	if (is_v)
		c0 += l->v0;
	/*
	 * 8 lanes load 8 keys, the next 8 lanes the next columns: without bank conflicts in shared memory,
	 * and contiguous in the device's memory for halves
	 */
	for (int i = threadIdx.x; i < KEYS * (cols / 8); i += blockDim.x)
	{
		int			row = i / cols * 8 + i % 8,
					c = i % cols / 8 * 8,
					key = l->strip * KEYS + row,
					run = key / RUN % RUNS,
					there = min(8, n - c0 - c);	/* columns that exist */
		bool		seen = key >= l->lo && key < l->hi && there > 0;
		H		   *to = tile + tile_at(KEYS, row, c);
		const uint8_t *from = p.kv.base;
		float		f[8];
		int			place = 0;

		if (seen)
		{
			place = l->places[run] + key % RUN;
			from += l->cells[run] + part + cuda_kv_at(p.kv.type, len, place,
													  c0 + c) * cuda_kv_size(p.kv.type);
		}
		if (copies)
		{
			cp_async16(to, from, seen ? there * 2 : 0);
			continue;
		}
		for (int j = 0; j < 8; j++)
			f[j] = 0.0f;
		if (seen)
			kv_eight(p.kv.type, from, there, len, f);
		if (seen && is_v && p.kv.type == KT_INT8)
		{
			float		scale =
				((const float *) (p.kv.base + l->cells[run] + p.kv.scales_at))[p.kv.block_size + place];

			for (int j = 0; j < 8; j++)
				f[j] *= scale;
		}
		*(uint4 *) to = make_uint4(halves<H>(f[0], f[1]), halves<H>(f[2], f[3]), halves<H>(f[4], f[5]),
								   halves<H>(f[6], f[7]));
	}
	if (l->piece == 0 && p.kv.type == KT_INT8)
		for (int i = threadIdx.x; i < KEYS; i += blockDim.x)
		{
			int			key = l->strip * KEYS + i,
						run = key / RUN % RUNS;

			l->k_scales[l->strip % 2 * KEYS + i] = key < l->lo || key >= l->hi ? 0.0f :
				((const float *) (p.kv.base + l->cells[run] + p.kv.scales_at))[l->places[run] + key % RUN];
		}
	cp_commit();
	l->stage ^= 1;
	if (++l->piece == l->pieces)
	{
		l->piece = 0;
		l->strip++;
	}
}

/* start the tiles of keys lo .. hi - 1 */
template <typename H> static __device__ __forceinline__ void
tiles_begin(const AttnArgs &p, AttnLoad<H> *l, int lo, int hi)
{
	l->lo = lo;
	l->hi = hi;
	l->strip = lo / KEYS;
	l->piece = 0;
	__syncthreads();
	find_runs(p, *l, lo / SPLIT);
	find_runs(p, *l, lo / SPLIT + 1);
	__syncthreads();
	load_next(p, l);
}

/* return the tile loaded last, and start the next one; begins: it is the first one of that strip */
template <typename H, typename By> static __device__ __forceinline__ const H *
next_tile(By by, const AttnArgs &p, AttnLoad<H> *l, bool begins, int strip)
{
	const H    *tile = l->tiles + (size_t) (l->stage ^ 1) * KEYS * p.width;

	cp_wait<0>();
	tile_there(by);
	__syncthreads();
	load_next(p, l);
	/* after the barrier no thread reads the runs of the previous split */
	if (begins && strip % STRIPS == 0)
		find_runs(p, *l, strip / STRIPS + 1);
	return tile;
}

/* the tile isn't read any more; the next tile's barrier signals this */
template <typename H> static __device__ __forceinline__ void
tile_done(AttnLoad<H> *)
{
}

/* INT8's scales of a strip's keys */
template <typename H> static __device__ __forceinline__ const float *
scales_of(const AttnArgs &p, const AttnLoad<H> *l, int strip)
{
	return p.kv.type == KT_INT8 ? l->k_scales + strip % 2 * KEYS : NULL;
}

/* ---- a warp's 16 rows: lane 4g + t has rows g and g + 8 ---- */

template <int VT> struct AttnAcc
{
	float		m[2];
	float		d[2];			/* this lane's columns' part of the sum */
	float		o[VT / 8][4];
};

template <int VT> static __device__ __forceinline__ void
acc_clear(AttnAcc<VT> *acc)
{
	acc->m[0] = acc->m[1] = -INFINITY;
	acc->d[0] = acc->d[1] = 0.0f;
#pragma unroll
	for (int n = 0; n < VT / 8; n++)
		acc->o[n][0] = acc->o[n][1] = acc->o[n][2] = acc->o[n][3] = 0.0f;
}

/* s += q K^T for one tile */
template <typename H> static __device__ __forceinline__ void
add_scores(ByMma, float (*s)[4], const H *q, int rows, const H *k, int cols)
{
	int			lane = threadIdx.x % 32;

	q += tile_at(rows, lane / 8 % 2 * 8 + lane % 8, lane / 16 * 8);
	/* 8 products in flight are enough; there are no registers for more */
#pragma unroll 1
	for (int c = 0; c < cols; c += 16)
	{
		uint32_t	a[4];

		ldmatrix_x4(a, q + c * rows);
		products_k(s, a, k, c);
	}
}

/* return the final score */
static __device__ __forceinline__ float
score(const AttnArgs &p, const AttnRow &w, int key, float s, float k_scale)
{
	if (key < w.lo || key >= w.hi)
		return -INFINITY;
	s *= k_scale;
	if (p.softcap > 0)
		s = p.softcap * tanhf(s / p.softcap);
	if (p.alibi != NULL)
		s -= p.alibi[w.head] * (float) abs(key - w.pos) * LOG2E;
	if (p.bias != NULL)
		s += p.bias[(size_t) w.head * (size_t) (2 * p.span - 1) + (size_t) (key - w.pos + p.span - 1)] *
			LOG2E;
	return s;
}

/* convert scores to probabilities relative to the largest score so far, and rescale the sums */
template <int VT> static __device__ __forceinline__ void
probabilities(const AttnArgs &p, const AttnRow *w, int strip, const float *k_scales, float (*s)[4],
			  AttnAcc<VT> *acc)
{
	int			lane = threadIdx.x % 32,
				key = strip * KEYS + lane % 4 * 2;
	float		by[2];

#pragma unroll
	for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
		for (int e = 0; e < 4; e++)
		{
			int			i = n * 8 + e % 2;

			s[n][e] = score(p, w[e / 2], key + i, s[n][e],
							k_scales != NULL ? k_scales[lane % 4 * 2 + i] : p.kv.k_scale);
		}
#pragma unroll
	for (int r = 0; r < 2; r++)
	{
		float		top = acc->m[r],
					sum = 0.0f,
					from;

#pragma unroll
		for (int n = 0; n < KEYS / 8; n++)
			top = fmaxf(top, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
		top = fmaxf(top, __shfl_xor_sync(FULL_MASK, top, 1));
		top = fmaxf(top, __shfl_xor_sync(FULL_MASK, top, 2));
		/* no key yet: all probabilities are e^-inf */
		from = top == -INFINITY ? 0.0f : top;
		by[r] = exp2f(acc->m[r] - from);
#pragma unroll
		for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
			for (int e = 2 * r; e < 2 * r + 2; e++)
			{
				s[n][e] = exp2f(s[n][e] - from);
				sum += s[n][e];
			}
		acc->m[r] = top;
		acc->d[r] = acc->d[r] * by[r] + sum;
	}
	/* skip a factor of 1, which changes nothing.  + 0: never -0, which a strip without keys would turn
	 * to +0 */
	if (__any_sync(FULL_MASK, by[0] != 1.0f || by[1] != 1.0f))
#pragma unroll
		for (int n = 0; n < VT / 8; n++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				acc->o[n][e] = acc->o[n][e] * by[e / 2] + 0.0f;
}

/* o += P V for one tile */
template <typename H, int COLS> static __device__ __forceinline__ void
add_values(ByMma, float (*o)[4], const uint32_t (*a)[4], const H *v, int cols)
{
#pragma unroll
	for (int j = 0; j < KEYS / 16; j++)
#pragma unroll
		for (int n = 0; n < COLS / 64; n++)
			if (n * 64 < cols)
				products_v(o + n * 8, a[j], v + n * 64 * KEYS, j * 16, cols - n * 64);
}

/*
 * Process one strip for a warp's rows w, whose q is in shared memory.  Called by all threads of the
 * block; `works`: the warp has rows.
 */
template <typename H, int VT, typename By, typename Load> static __device__ __forceinline__ void
attend_strip(By by, const AttnArgs &p, Load *l, const AttnRow *w, const H *q, bool works, int strip,
			 AttnAcc<VT> *acc)
{
	const int	cols = VT < PIECE ? VT : PIECE;
	const int	rows = rows_here(by);
	float		s[KEYS / 8][4] = {};
	uint32_t	a[KEYS / 16][4];

	for (int i = 0; i < l->k_pieces; i++)
	{
		const H    *k = next_tile(by, p, l, i == 0, strip);

		if (works)
			add_scores(by, s, q + i * PIECE * rows, rows, k, min(PIECE, p.dim_pad - i * PIECE));
		tile_done(l);
	}
	if (works)
		probabilities(p, w, strip, scales_of(p, l, strip), s, acc);
#pragma unroll
	for (int j = 0; j < KEYS / 16; j++)
	{
		a[j][0] = halves<H>(s[2 * j][0], s[2 * j][1]);
		a[j][1] = halves<H>(s[2 * j][2], s[2 * j][3]);
		a[j][2] = halves<H>(s[2 * j + 1][0], s[2 * j + 1][1]);
		a[j][3] = halves<H>(s[2 * j + 1][2], s[2 * j + 1][3]);
	}
#pragma unroll
	for (int i = 0; i < VT / cols; i++)
		if (i * PIECE < l->v_cols)
		{
			const H    *v = next_tile(by, p, l, false, strip);

			if (works)
				add_values<H, cols>(by, acc->o + i * (PIECE / 8), a, v, l->v_cols - i * PIECE);
			tile_done(l);
		}
}

/* sum d of a row over all lanes */
template <int VT> static __device__ __forceinline__ void
acc_sum(AttnAcc<VT> *acc)
{
#pragma unroll
	for (int r = 0; r < 2; r++)
	{
		acc->d[r] += __shfl_xor_sync(FULL_MASK, acc->d[r], 1);
		acc->d[r] += __shfl_xor_sync(FULL_MASK, acc->d[r], 2);
	}
}

/* ---- a block ---- */

/* a warp's results for its rows over some keys: m, d, and o of all of them */
template <int VT> struct AttnTotal
{
	float		m[2];
	float		d[2];
	bool		seen[2];
	float	   *o;				/* the lane's o, in shared memory: [VT / 8][4], 32 apart */
};

/* end of a split: merge acc into the total */
template <int VT> static __device__ __forceinline__ void
total_add(const AttnRow *w, int split, AttnAcc<VT> *acc, AttnTotal<VT> *all)
{
	float		a[2] = {1.0f, 1.0f},
				b[2] = {0.0f, 0.0f};

#pragma unroll
	for (int r = 0; r < 2; r++)
	{
		/* decide by positions, not by the sums: a row of NaN has keys, too */
		bool		has = w[r].lo < (split + 1) * SPLIT && w[r].hi > split * SPLIT;

		if (has && all->seen[r])
		{
			attn_merge(&all->m[r], &all->d[r], acc->m[r], acc->d[r], &a[r], &b[r]);
#pragma unroll
			for (int n = 0; n < VT / 8; n++)
#pragma unroll
				for (int e = 2 * r; e < 2 * r + 2; e++)
					all->o[(n * 4 + e) * 32] = attn_merged(all->o[(n * 4 + e) * 32], acc->o[n][e], a[r],
														   b[r]);
		}
		else if (has)
		{
			all->m[r] = acc->m[r];
			all->d[r] = acc->d[r];
			all->seen[r] = true;
#pragma unroll
			for (int n = 0; n < VT / 8; n++)
#pragma unroll
				for (int e = 2 * r; e < 2 * r + 2; e++)
					all->o[(n * 4 + e) * 32] = acc->o[n][e];
		}
	}
}

/* process the block's rows over keys lo .. hi - 1; acc: the result, with d summed over lanes */
template <typename H, int VT, typename By, typename Load> static __device__ __forceinline__ void
attend(By by, const AttnArgs &p, Load *l, const AttnRow *w, const H *q, bool works, int lo, int hi, float *o,
	   AttnAcc<VT> *acc)
{
	AttnTotal<VT> all = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}, {false, false}, o};
	bool		one = (hi - 1) / SPLIT == lo / SPLIT;

	tiles_begin(p, l, lo, hi);
	acc_clear(acc);
	for (int strip = lo / KEYS; strip * KEYS < hi; strip++)
	{
		bool		last = (strip + 1) * KEYS >= hi;

		attend_strip(by, p, l, w, q, works, strip, acc);
		if (!last && (strip + 1) % STRIPS != 0)
			continue;
		acc_sum(acc);
		if (one)
			continue;
		total_add(w, strip / STRIPS, acc, &all);
		acc_clear(acc);
	}
	if (one)
		return;
#pragma unroll
	for (int r = 0; r < 2; r++)
	{
		acc->m[r] = all.m[r];
		acc->d[r] = all.d[r];
#pragma unroll
		for (int n = 0; n < VT / 8; n++)
#pragma unroll
			for (int e = 2 * r; e < 2 * r + 2; e++)
				acc->o[n][e] = all.seen[r] ? o[(n * 4 + e) * 32] : 0.0f;
	}
}

/* load q of the block's rows, rounded; missing rows and columns are zeros */
template <typename H> static __device__ __forceinline__ void
load_q(const AttnArgs &p, const AttnTile &t, int kv_head, int rows, H *q)
{
	int			pairs = p.dim_pad / 2;

	for (int i = threadIdx.x; i < rows * pairs; i += blockDim.x)
	{
		int			row = i / pairs,
					c = i % pairs * 2,
					flat = t.at + row;
		float		a = 0.0f,
					b = 0.0f;

		if (flat < t.n)
		{
			const float *from = p.q + (size_t) (t.first + flat / p.group) * p.ldq +
				(size_t) (kv_head * p.group + flat % p.group) * p.kv.head_dim;

			if (c < p.kv.head_dim)
				a = from[c] * p.q_scale;
			if (c + 1 < p.kv.head_dim)
				b = from[c + 1] * p.q_scale;
		}
		*(uint32_t *) (q + tile_at(rows, row, c)) = halves<H>(a, b);
	}
}

/* offset of a split's part of a row */
static __device__ __forceinline__ size_t
attn_part(const AttnArgs &p, int tile, int split, int row)
{
	return (((size_t) tile * gridDim.y + blockIdx.y) * p.splits + split) * p.part_rows + row;
}

/* Row r of the warp is complete: write it to the output, or as a split's part. */
template <int VT> static __device__ __forceinline__ void
write_row(const AttnArgs &p, const AttnRow &w, int in_tile, int v0, int r, const AttnAcc<VT> &acc)
{
	int			t = threadIdx.x % 4;
	float		by = 1.0f;
	size_t		part = attn_part(p, blockIdx.x, blockIdx.z, in_tile);

	if (p.splits == 1)
		by = attn_finish(p, w, acc.m[r], acc.d[r]);
	else if (t == 0)
	{
		p.part_md[part * 2] = acc.m[r];
		p.part_md[part * 2 + 1] = acc.d[r];
	}
#pragma unroll
	for (int n = 0; n < VT / 8; n++)
#pragma unroll
		for (int e = 0; e < 2; e++)
		{
			int			col = n * 8 + 2 * t + e;

			if (p.splits == 1)
				attn_out(p, w, v0 + col, acc.o[n][2 * r + e] * by);
			else if (v0 + col < p.kv.v_dim)
				p.part[part * VT + col] = acc.o[n][2 * r + e];
		}
}

/* return true if a row's o has no NaN and Inf, in this lane's existing columns */
template <int VT> static __device__ __forceinline__ bool
finite_row(const AttnArgs &p, int v0, int r, const AttnAcc<VT> &acc)
{
	bool		finite = true;

#pragma unroll
	for (int n = 0; n < VT / 8; n++)
#pragma unroll
		for (int e = 0; e < 2; e++)
			if (v0 + n * 8 + 2 * (int) (threadIdx.x % 4) + e < p.kv.v_dim)
				finite = finite && fabsf(acc.o[n][2 * r + e]) <= LARGEST;
	return finite;
}

/* get the keys lo .. hi - 1 of the block's rows, in its split; false: there are none */
static __device__ __forceinline__ bool
block_keys(const AttnArgs &p, const AttnTile &t, int rows, int kv_head, int *lo, int *hi)
{
	*lo = attn_row(p, t, t.at, kv_head).lo;
	*hi = attn_row(p, t, min(t.at + rows, t.n) - 1, kv_head).hi;
	if (p.splits > 1)
	{
		int			split = *lo / SPLIT + blockIdx.z;

		*lo = max(*lo, split * SPLIT);
		*hi = min(*hi, (split + 1) * SPLIT);
		return *lo < *hi;
	}
	return true;
}

/*
 * For each of the block's queries compute its keys in the split; called by all threads.  Return the
 * number of queries.
 */
static __device__ __forceinline__ int
query_keys(const AttnArgs &p, const AttnTile &t, int rows, int kv_head, int lo, int hi, int (*keys)[2],
		   int *redo)
{
	int			queries = (min(t.at + rows, t.n) - 1) / p.group - t.at / p.group + 1;

	for (int i = threadIdx.x; i < queries; i += blockDim.x)
	{
		AttnRow		one = attn_row(p, t, max(t.at, (t.at / p.group + i) * p.group), kv_head);

		keys[i][0] = max(lo, one.lo);
		keys[i][1] = min(hi, one.hi);
		redo[i] = 0;
	}
	return queries;
}

/* get the keys *from .. *to - 1 of all queries (-1), or of one query if it must be computed again;
 * false: it need not */
static __device__ __forceinline__ bool
pass_keys(int query, const int *redo, const int (*keys)[2], int lo, int hi, int *from, int *to)
{
	*from = query < 0 ? lo : keys[query][0];
	*to = query < 0 ? hi : keys[query][1];
	return query < 0 || redo[query] != 0;
}

/* barrier of all threads of the block */
static __device__ __forceinline__ void
pass_ends(void)
{
	__syncthreads();
}

/* write a warp's rows of a pass; rows that saw others' keys and aren't finite are marked to be computed
 * again */
template <int VT> static __device__ __forceinline__ void
write_rows(const AttnArgs &p, const AttnTile &t, const AttnRow *w, int warp, int v0, int query, int lo,
		   int hi, int *redo, const AttnAcc<VT> &acc)
{
#pragma unroll
	for (int r = 0; r < 2; r++)
	{
		int			in_tile = warp * 16 + threadIdx.x % 32 / 4 + 8 * r,
					mine = w[r].row - t.first - t.at / p.group;
		bool		other_keys = max(w[r].lo, lo) != lo || min(w[r].hi, hi) != hi;

		if (t.at + in_tile < t.n && (query < 0 || mine == query))
		{
			if (query < 0 && other_keys && !finite_row(p, v0, r, acc))
				atomicOr(&redo[mine], 1);
			write_row(p, w[r], in_tile, v0, r, acc);
		}
	}
}

/*
 * 16 rows per warp; grid: numbers of attn_tile(), KV heads and chunks of V's columns, splits from the
 * block's first key on.
 */
template <typename H, int VT, typename By> __global__ void __launch_bounds__(MAX_WARPS * 32,
		VT == 256 ? 1 : VT == 128 ? 2 : 3)
attn_kernel(AttnArgs p)
{
	SMEM(H, shared);
	SHARED(size_t, cells, [RUNS]);
	SHARED(int, places, [RUNS]);
	SHARED(float, k_scales, [2 * KEYS]);
	SHARED(int, redo, [MAX_WARPS * 16]);
	SHARED(int, keys, [MAX_WARPS * 16][2]);
	int			rows = rows_here(By()),
				warp = threadIdx.x / 32,
				kv_head = blockIdx.y / p.v_chunks,
				lo,
				hi,
				queries;
	H		   *q = shared;
	AttnLoad<H> l = {};
	AttnTile	t;
	AttnRow		w[2];
	AttnAcc<VT>	acc;
	float	   *o;
	bool		works;

	if (!has_products(H()) || !attn_tile(p, blockIdx.x, rows, &t) ||
		!block_keys(p, t, rows, kv_head, &lo, &hi))
		return;
	queries = query_keys(p, t, rows, kv_head, lo, hi, keys, redo);
	load_q(p, t, kv_head, rows, q);
	l.tiles = q + (size_t) rows * p.dim_pad;
	l.cells = cells;
	l.places = places;
	l.k_scales = k_scales;
	l.table = p.r.table + (size_t) t.seq * p.r.ld_table;
	l.kv_head = kv_head;
	l.v0 = blockIdx.y % p.v_chunks * VT;
	l.v_cols = min(VT, p.kv.v_pad - l.v0);
	l.k_pieces = (p.dim_pad + PIECE - 1) / PIECE;
	l.pieces = l.k_pieces + (l.v_cols + PIECE - 1) / PIECE;
	o = (float *) (l.tiles + 2 * KEYS * p.width) + warp * 16 * VT + threadIdx.x % 32;
	q += row_of(By(), warp) * 8;
	works = all_warps(By()) || t.at + warp * 16 < t.n;
#pragma unroll
	for (int r = 0; r < 2; r++)
		w[r] = attn_row(p, t, t.at + warp * 16 + threadIdx.x % 32 / 4 + 8 * r, kv_head);

	/* first all queries with all keys, then each query that isn't finite, perhaps due to others' keys,
	 * with its own keys */
	for (int query = -1; query < queries; query++)
	{
		int			from,
					to;

		if (!pass_keys(query, redo, keys, lo, hi, &from, &to))
			continue;
		attend(By(), p, &l, w, q, works, from, to, o, &acc);
		write_rows(p, t, w, warp, l.v0, query, lo, hi, redo, acc);
		pass_ends();
	}
}

/* ---- merging splits of separate blocks ---- */

/* one block per row: grid as attn_kernel's, with rows of the tile instead of splits */
template <int VT> __global__ void __launch_bounds__(VT)
attn_merge_kernel(AttnArgs p, int rows)
{
	int			kv_head = blockIdx.y / p.v_chunks,
				col = threadIdx.x,
				v0 = blockIdx.y % p.v_chunks * VT,
				first;
	AttnTile	t;
	AttnRow		w;
	float		m = -INFINITY,
				d = 0.0f,
				o = 0.0f;

	if (!attn_tile(p, blockIdx.x, rows, &t) || t.at + (int) blockIdx.z >= t.n || v0 + col >= p.kv.v_dim)
		return;
	first = attn_row(p, t, t.at, kv_head).lo / SPLIT;
	w = attn_row(p, t, t.at + blockIdx.z, kv_head);
	for (int split = w.lo / SPLIT; split * SPLIT < w.hi; split++)
	{
		size_t		part = attn_part(p, blockIdx.x, split - first, blockIdx.z);
		float		a,
					b;

		if (split == w.lo / SPLIT)
		{
			m = p.part_md[part * 2];
			d = p.part_md[part * 2 + 1];
			o = p.part[part * VT + col];
			continue;
		}
		attn_merge(&m, &d, p.part_md[part * 2], p.part_md[part * 2 + 1], &a, &b);
		o = attn_merged(o, p.part[part * VT + col], a, b);
	}
	attn_out(p, w, v0 + col, o * attn_finish(p, w, m, d));
}

/* ---- for the host ---- */

/* one of VT's kernels, for products of H */
template <typename H> static inline void
attn_launch(const AttnArgs *p, int vt, dim3 grid, int threads, size_t smem, cudaStream_t stream)
{
	if (vt == 64)
		LAUNCH((attn_kernel<H, 64, ByMma>), grid, threads, smem, stream, *p);
	else if (vt == 128)
		LAUNCH((attn_kernel<H, 128, ByMma>), grid, threads, smem, stream, *p);
	else
		LAUNCH((attn_kernel<H, 256, ByMma>), grid, threads, smem, stream, *p);
}

template <typename H> static inline void
attn_allow(int smem)
{
	cudaFuncSetAttribute((const void *) attn_kernel<H, 64, ByMma>,
						 cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
	cudaFuncSetAttribute((const void *) attn_kernel<H, 128, ByMma>,
						 cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
	cudaFuncSetAttribute((const void *) attn_kernel<H, 256, ByMma>,
						 cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
}

/* how to launch attn_sm90.cu's kernels */
typedef struct AttnLaunch
{
	bool		bulk;			/* attn_bulk_kernel */
	int			vt;
	dim3		grid;
	int			threads;
	size_t		smem;
} AttnLaunch;

/* attn_bf16.cu, attn_f16.cu, attn_sm90.cu */
void		attn_launch_bf16(const AttnArgs *p, int vt, dim3 grid, int threads, size_t smem,
							 cudaStream_t stream);
void		attn_launch_f16(const AttnArgs *p, int vt, dim3 grid, int threads, size_t smem,
							cudaStream_t stream);
void		attn_allow_bf16(int smem);
void		attn_allow_f16(int smem);
void		attn_launch_sm90(const AttnArgs *p, bool f16, const AttnLaunch *l, cudaStream_t stream);
void		attn_allow_sm90(int smem);

#endif
