/*
 * mm_w8a8.cuh
 *	  Products of 8-bit codes by 8-bit codes, as for INT8.
 *
 * Rows of x are first converted to codes, each group of W8A8_GROUP k with its own scale, then
 *	acc = 0;  for each group: acc = fma(scale, the group's sum of products of codes, acc)
 * from the first k to the last, whatever the number of rows, the tile and the launch; there are no
 * segments as in mm.cuh.  A format's file defines how codes are made and how acc becomes the output.
 *
 * Weights have the layout of layout.h, for tensor cores of halves.  Tensor cores of bytes take 4
 * adjacent k where those take 2, so x's codes are stored in the order that gives both the same k: of a
 * group's 128 bytes lane t of four has 32, its 4 of each 16 k (2t, 2t + 1, 2t + 8, 2t + 9) one after the
 * other.
 *
 * Few rows: a block has 16 outputs, and its 8 warps take groups in turn; their sums are collected in
 * shared memory, where a thread adds up an output's sums, ascending.  Many rows: a block has 128 outputs
 * and 64 rows, and x is copied to shared memory.
 */
#ifndef VLLM_KERNELS_CUDA_MM_W8A8_CUH
#define VLLM_KERNELS_CUDA_MM_W8A8_CUH

#include "cuda/mm/mm.cuh"
#include "cuda/quad.cuh"

#define W8A8_PIECES (W8A8_GROUP / CUDA_PIECE)
#define W8A8_WARPS	8
#define W8A8_ROWS	64			/* rows of a block for many rows */

/* x: MmArgs.x is the codes, [rows][groups * W8A8_GROUP] */
typedef struct MmCodes
{
	MmArgs		a;
	const float *scales;		/* [rows][groups] */
	int			groups;
} MmCodes;

/* ---- converting rows of x to codes ---- */

/* the lane's 4 elements of a group, which are adjacent among the codes: zeros after the row's end */
template <typename X> static __device__ __forceinline__ void
w8a8_get(float *to, const X *row, int group, int k)
{
	int			lane = threadIdx.x % 32,
				first = group * W8A8_GROUP + lane % 8 * 16 + lane / 8 * 2;

#pragma unroll
	for (int i = 0; i < 4; i++)
	{
		int			at = first + i / 2 * 8 + i % 2;

		to[i] = at < k ? to_float(row[at]) : 0.0f;
	}
}

/* one warp for each group */
template <typename Q, typename X> __global__ void __launch_bounds__(W8A8_WARPS * 32)
w8a8_codes_kernel(uint32_t *codes, float *scales, const X *x, int ldx, int rows, int k)
{
	int			groups = w8a8_groups(k),
				lane = threadIdx.x % 32;
	size_t		at = (size_t) blockIdx.x * W8A8_WARPS + threadIdx.x / 32;
	float		v[4],
				scale;

	if (at >= (size_t) rows * (size_t) groups)
		return;
	w8a8_get(v, x + at / groups * (size_t) ldx, (int) (at % groups), k);
	codes[at * 32 + lane] = Q::codes(v, &scale);
	if (lane == 0)
		scales[at] = scale;
}

/* ---- products ---- */

/* the A fragment of a piece */
static __device__ __forceinline__ void
w8a8_frag(uint32_t *a, const uint32_t *c)
{
#pragma unroll
	for (int i = 0; i < 4; i++)
		a[i] = byte_perm(c[i / 2 * 2], c[i / 2 * 2 + 1], i % 2 ? 0x7632u : 0x5410u);
}

/* load piece p of a tile; zeros after the matrix's last */
template <typename W> static __device__ __forceinline__ void
w8a8_load(typename W::Raw *r, const uint8_t *strip, int tile, int p, int end)
{
	if (p < end)
		W::load(r, strip, tile, p);
	else
		*r = typename W::Raw{};
}

static __device__ __forceinline__ void
w8a8_store(const MmCodes &c, const MmRows &r, int n, int row, float v)
{
	const float *bias = c.a.ws == NULL ? c.a.bias : c.a.biases != NULL ? c.a.biases[r.mat] : NULL;

	if (n < c.a.n && row < r.end)
		c.a.y[(size_t) row * c.a.ldy + n] = bias != NULL ? v + bias[n] : v;
}

/*
 * Q: a format.  W: its weights; sum: type of the products' sum; mma(); codes(); scale(): a group's, of
 * the weights and of x; last(): acc with the output's own scale; UNROLL: halves of a group at once,
 * limited by registers. grid: tiles of 16 outputs, tiles of NT * 8 rows
 */
template <typename Q, int NT> __global__ void __launch_bounds__(W8A8_WARPS * 32, NT == 1 ? 4 : 2)
w8a8_few_kernel(MmCodes c)
{
	typedef typename Q::W W;
	const int	tokens = NT * 8,
				mine = tokens * CUDA_TILE / (W8A8_WARPS * 32) > 0 ? tokens * CUDA_TILE / (W8A8_WARPS * 32) :
				1;
	SHARED(typename Q::sum, sums, [W8A8_WARPS][tokens][CUDA_TILE + 4]);	/* a warp's writes hit 32 banks */
	SHARED(float, d, [W8A8_WARPS][CUDA_TILE]);
	MmRows		r = mm_rows(c.a, blockIdx.y, tokens);
	int			warp = threadIdx.x / 32,
				lane = threadIdx.x % 32,
				tile = blockIdx.x % 4,
				end = (c.a.k + CUDA_PIECE - 1) / CUDA_PIECE,
				out = threadIdx.x % CUDA_TILE,
				row = threadIdx.x / CUDA_TILE;	/* and every 16th after it */
	const uint8_t *strip;
	typename W::Raw raw[W8A8_PIECES];
	float		acc[mine];

	/* true for the whole block */
	if (r.mat < 0 || r.first >= r.end)
		return;
	strip = (c.a.ws != NULL ? (const uint8_t *) c.a.ws[r.mat] : c.a.w) +
		blockIdx.x / 4 * W::strip_bytes(c.a.k);
	for (int i = 0; i < mine; i++)
		acc[i] = 0.0f;
#pragma unroll
	for (int p = 0; p < W8A8_PIECES; p++)
		w8a8_load<W>(&raw[p], strip, tile, warp * W8A8_PIECES + p, end);
	for (int first = 0; first < c.groups; first += W8A8_WARPS)
	{
		int			group = first + warp;

		if (group < c.groups)
		{
			typename Q::sum sum[NT][4] = {};
			uint32_t	a[W8A8_PIECES][4];

#pragma unroll
			for (int p = 0; p < W8A8_PIECES; p++)
				w8a8_frag(a[p], raw[p].c);
			for (int h = 0; h < 2; h++)
				if (lane % 4 == 0)
					d[warp][lane / 4 + h * 8] = Q::of_group(raw[0].h, h);
#pragma unroll
			for (int p = 0; p < W8A8_PIECES; p++)
				w8a8_load<W>(&raw[p], strip, tile, (group + W8A8_WARPS) * W8A8_PIECES + p, end);
#pragma unroll
			for (int j = 0; j < NT; j++)
			{
				int			at = r.first + j * 8 + lane / 4;
				uint4		b[2] = {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0)};

				if (at < r.end)
				{
					const uint4 *x = (const uint4 *) c.a.x +
						((size_t) at * c.groups + group) * (W8A8_GROUP / 16) + lane % 4 * 2;

					b[0] = x[0];
					b[1] = x[1];
				}
#pragma unroll
				for (int p = 0; p < W8A8_PIECES; p++)
				{
					uint32_t	of_piece[2] = {p % 2 ? b[p / 2].z : b[p / 2].x,
											   p % 2 ? b[p / 2].w : b[p / 2].y};

					Q::mma(sum[j], a[p], of_piece, sum[j]);
				}
#pragma unroll
				for (int e = 0; e < 4; e++)
					sums[warp][j * 8 + lane % 4 * 2 + e % 2][lane / 4 + e / 2 * 8] = sum[j][e];
			}
		}
		__syncthreads();
#pragma unroll
		for (int i = 0; i < mine; i++)
			if (row + i * 16 < tokens && r.first + row + i * 16 < r.end)
				for (int w = 0; w < min(W8A8_WARPS, c.groups - first); w++)
					acc[i] = fmaf(Q::scale(d[w][out],
										   c.scales[(size_t) (r.first + row + i * 16) * c.groups + first +
													w]),
								  (float) sums[w][row + i * 16][out], acc[i]);
		__syncthreads();
	}
#pragma unroll
	for (int i = 0; i < mine; i++)
		if (row + i * 16 < tokens)
			w8a8_store(c, r, blockIdx.x * CUDA_TILE + out, r.first + row + i * 16,
					   Q::last(acc[i], strip, tile, out));
}

/*
 * Start copying the codes of a group of x into a stage: 16 bytes c of a row to index c ^ (row & 7);
 * zeros after the last row.
 */
static __device__ __forceinline__ void
w8a8_fetch(uint4 *stage, const MmCodes &c, const MmRows &r, int group)
{
	const int	vectors = W8A8_GROUP / 16;

#pragma unroll
	for (int i = threadIdx.x; i < W8A8_ROWS * vectors; i += W8A8_WARPS * 32)
	{
		int			row = i / vectors,
					v = i % vectors;
		bool		has = r.first + row < r.end;

		cp_async16(stage + row * vectors + (v ^ (row & 7)),
				   (const uint4 *) c.a.x + (has ? ((size_t) (r.first + row) * c.groups + group) * vectors +
											v : 0), has ? 16 : 0);
	}
}

/* end of a group: add a warp's sums, from row `row` of the block on; d: scales of the weights */
template <typename Q, int MT, int NT> static __device__ __forceinline__ void
w8a8_add(float (*acc)[NT][4], const typename Q::sum (*sum)[NT][4], const float (*d)[2], const MmCodes &c,
		 const MmRows &r, int row, int group)
{
	int			lane = threadIdx.x % 32;

#pragma unroll
	for (int j = 0; j < NT; j++)
#pragma unroll
		for (int e = 0; e < 2; e++)
		{
			/* rows after the last one are unused */
			float		s = c.scales[(size_t) min(r.first + row + j * 8 + lane % 4 * 2 + e,
												  r.end - 1) * c.groups + group];

#pragma unroll
			for (int i = 0; i < MT; i++)
#pragma unroll
				for (int o = 0; o < 2; o++)
					acc[i][j][o * 2 + e] = fmaf(Q::scale(d[i][o], s), (float) sum[i][j][o * 2 + e],
												acc[i][j][o * 2 + e]);
		}
}

/* grid: 128 outputs, W8A8_ROWS rows; warps 4 x 2, each 2 tiles of outputs and 4 of 8 rows */
template <typename Q> __global__ void __launch_bounds__(W8A8_WARPS * 32, 1)
w8a8_many_kernel(MmCodes c)
{
	typedef typename Q::W W;
	const int	MT = 2,
				NT = 4,
				halves = 2;		/* halves of a group: 16 bytes of x's codes per lane */
	SHARED(uint4, x, [MM_STAGES][W8A8_ROWS * W8A8_GROUP / 16]);
	MmRows		r = mm_rows(c.a, blockIdx.y, W8A8_ROWS);
	int			lane = threadIdx.x % 32,
				row = threadIdx.x / 128 * NT * 8,
				end = (c.a.k + CUDA_PIECE - 1) / CUDA_PIECE,
				n0[MT];
	const uint8_t *strip[MT];
	typename W::Raw raw[2][MT];
	float		acc[MT][NT][4] = {};

	/* true for the whole block */
	if (r.mat < 0 || r.first >= r.end)
		return;
#pragma unroll
	for (int i = 0; i < MT; i++)
	{
		int			tile = (blockIdx.x * 4 + threadIdx.x / 32 % 4) * MT + i;

		/* tiles after the last strip's read that strip and store nothing */
		n0[i] = tile * CUDA_TILE;
		strip[i] = (c.a.ws != NULL ? (const uint8_t *) c.a.ws[r.mat] : c.a.w) +
			min(tile / 4, (c.a.n - 1) / CUDA_STRIP) * W::strip_bytes(c.a.k);
		for (int p = 0; p < 2; p++)
			w8a8_load<W>(&raw[p][i], strip[i], tile % 4, p, end);
	}
	for (int g = 0; g < MM_STAGES - 1; g++)
	{
		if (g < c.groups)
			w8a8_fetch(x[g], c, r, g);
		cp_commit();
	}
	for (int g = 0; g < c.groups; g++)
	{
		typename Q::sum sum[MT][NT][4] = {};
		float		d[MT][2];

		cp_wait<MM_STAGES - 2>();
		__syncthreads();
		if (g + MM_STAGES - 1 < c.groups)
			w8a8_fetch(x[(g + MM_STAGES - 1) % MM_STAGES], c, r, g + MM_STAGES - 1);
		cp_commit();
#pragma unroll Q::UNROLL
		for (int h = 0; h < halves; h++)
		{
			uint4		b[NT];

#pragma unroll
			for (int j = 0; j < NT; j++)
				b[j] = x[g % MM_STAGES][(row + j * 8 + lane / 4) * (W8A8_GROUP / 16) +
										((lane % 4 * 2 + h) ^ lane / 4)];
#pragma unroll
			for (int p = 0; p < 2; p++)
#pragma unroll
				for (int i = 0; i < MT; i++)
				{
					uint32_t	a[4];

					w8a8_frag(a, raw[p][i].c);
					if (h == 0 && p == 0)
						for (int e = 0; e < 2; e++)
							d[i][e] = Q::of_group(raw[p][i].h, e);
					w8a8_load<W>(&raw[p][i], strip[i], n0[i] / CUDA_TILE % 4, (g * halves + h + 1) * 2 + p,
								 end);
#pragma unroll
					for (int j = 0; j < NT; j++)
					{
						uint32_t	of_piece[2] = {p ? b[j].z : b[j].x, p ? b[j].w : b[j].y};

						Q::mma(sum[i][j], a, of_piece, sum[i][j]);
					}
				}
		}
		w8a8_add<Q, MT, NT>(acc, sum, d, c, r, row, g);
	}
#pragma unroll
	for (int i = 0; i < MT; i++)
#pragma unroll
		for (int j = 0; j < NT; j++)
#pragma unroll
			for (int e = 0; e < 4; e++)
			{
				int			out = lane / 4 + e / 2 * 8;

				w8a8_store(c, r, n0[i] + out, r.first + row + j * 8 + lane % 4 * 2 + e % 2,
							  Q::last(acc[i][j][e], strip[i], n0[i] / CUDA_TILE % 4, out));
			}
}

/* ---- launches ---- */

/* bytes of codes and scales */
static inline size_t
w8a8_codes_bytes(int rows, int k)
{
	return (size_t) rows * (size_t) w8a8_groups(k) * W8A8_GROUP;
}

template <typename Q, typename X> static inline void
w8a8_codes(const X *x, const MmArgs *a, void *codes, float *scales, cudaStream_t stream)
{
	size_t		groups = (size_t) a->rows * (size_t) w8a8_groups(a->k);

	LAUNCH((w8a8_codes_kernel<Q, X>), (unsigned) ((groups + W8A8_WARPS - 1) / W8A8_WARPS), W8A8_WARPS * 32, 0,
		   stream, (uint32_t *) codes, scales, x, a->ldx, a->rows, a->k);
}

/* a format's products for all numbers of rows; ws: w8a8_scratch() bytes */
template <typename Q> static inline void
w8a8_go(const MmArgs *a, KType x, MmShape shape, void *ws, cudaStream_t stream)
{
	float	   *scales = (float *) ((char *) ws + (size_t) a->rows * (size_t) w8a8_groups(a->k) * W8A8_GROUP);
	MmCodes		c = {*a, scales, w8a8_groups(a->k)};
	int			tokens = shape == MM_8 ? 8 : shape == MM_32 ? 32 : W8A8_ROWS,
				tiles = (a->rows + tokens - 1) / tokens,
				outputs = (a->n + CUDA_TILE - 1) / CUDA_TILE;

	/* upper bound for several matrices */
	if (a->ws != NULL)
		tiles = min(a->rows, (a->rows + a->n_mats * (tokens - 1)) / tokens);
	WITH_OPERAND(w8a8_codes<Q>, x, a->x, a, ws, scales, stream);
	c.a.x = ws;
	if (shape == MM_8)
		LAUNCH((w8a8_few_kernel<Q, 1>), dim3(outputs, tiles), W8A8_WARPS * 32, 0, stream, c);
	else if (shape == MM_32)
		LAUNCH((w8a8_few_kernel<Q, 4>), dim3(outputs, tiles), W8A8_WARPS * 32, 0, stream, c);
	else
		LAUNCH((w8a8_many_kernel<Q>), dim3((a->n + 127) / 128, tiles), W8A8_WARPS * 32, 0, stream, c);
}

#endif
