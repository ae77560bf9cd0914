/*
 * mm.cuh
 *	  The kernel of all products with matrices: y = x w^T; the weights are the M side.
 *
 * The sum of an output, whatever the number of rows, the tile and the launch:
 *	tot = none;  for each segment of MM_SEGMENT k:
 *		acc = 0;  for each 16 k: acc = product(acc), on tensor cores
 *		tot = tot + acc (the first: tot = acc)
 * in float; y = tot + bias.  Weights in groups (docs/user/gpu.md): for each 32 (or 16) k c = product(0),
 * acc = fma(d, c, acc), then acc = fma(m, sum of x, acc), where the sum is a product with ones.  FP8:
 * for each 128 k c = products(0), 16 k after the other, and acc = fma(d, c, acc).
 *
 * A block has WM x WN warps, each MT tiles of 16 outputs and NT of 8 rows.  x is copied to shared memory
 * with cp.async, KC k at a time; weights are loaded directly from global memory to registers, AHEAD
 * pieces in advance.  With few rows each block has one segment, and mm_sum_kernel adds the segments'
 * sums, ascending; otherwise a block walks all segments: the same additions, so the same bits.
 *
 * A row's NaN stays in its row, as each column of a product is computed separately.  Rows and k after
 * the last are zeros in shared memory.
 */
#ifndef VLLM_KERNELS_CUDA_MM_CUH
#define VLLM_KERNELS_CUDA_MM_CUH

#include "blocks.h"
#include "cuda/mm/mm.h"

#define MM_STAGES	3

/* the rows of a block */
struct MmRows
{
	int			mat;
	int			first;
	int			end;			/* of the matrix's rows */
};

/*
 * Find the matrix and rows of tile number `tile` of `tokens` rows: the groups' tiles are numbered
 * consecutively.  Each warp searches for itself.  mat < 0: there are fewer tiles.
 */
static __device__ __forceinline__ MmRows
mm_rows(const MmArgs &a, int tile, int tokens)
{
	MmRows		r = {0, tile * tokens, a.rows};
	int			lane = threadIdx.x % 32,
				before = 0;

	if (a.ws == NULL)
		return r;
	r.mat = -1;
	for (int base = 0; base < a.n_mats && r.mat < 0; base += 32)
	{
		int			m = base + lane,
					from = m < a.n_mats ? a.start[m] : 0,
					to = m < a.n_mats ? a.start[m + 1] : 0,
					tiles = (to - from + tokens - 1) / tokens,
					sum = tiles,
					at;
		unsigned	mine;

		for (int d = 1; d < 32; d *= 2)
		{
			int			other = __shfl_up_sync(FULL_MASK, sum, d);

			sum += lane >= d ? other : 0;
		}
		mine = __ballot_sync(FULL_MASK, tile - before < sum);
		if (mine != 0)
		{
			at = __ffs(mine) - 1;
			r.mat = base + at;
			r.first = __shfl_sync(FULL_MASK, from + (tile - before - sum + tiles) * tokens, at);
			r.end = __shfl_sync(FULL_MASK, to, at);
		}
		before += __shfl_sync(FULL_MASK, sum, 31);
	}
	return r;
}

/*
 * Start copying chunk c of x, KC k of TOKENS rows, into a stage; zeros after the last row and k.  CORES:
 * in wgmma's layout (wgmma.cuh), contiguous matrices of 8 rows of 8 halves, followed by those of the
 * next rows; otherwise in load_b()'s.
 */
template <typename E, int TOKENS, int KC, int THREADS,
	bool CORES = false> static __device__ __forceinline__ void
mm_fetch(E *stage, const MmArgs &a, const MmRows &r, int c)
{
	const int	per = 16 / (int) sizeof(E),
				vectors = KC / per;

#pragma unroll 1
	for (int i = threadIdx.x; i < TOKENS * vectors; i += THREADS)
	{
		/* CORES: 8 lanes load 8 rows, the next ones the next 8 k */
		int			row = CORES ? i / KC * 8 + i % 8 : i / vectors,
					v = CORES ? i % KC / 8 : i % vectors,
					k = c * KC + v * per,
					n = r.first + row < r.end ? min(max(a.k - k, 0), per) : 0;
		const E    *src = (const E *) a.x + (n > 0 ? (size_t) (r.first + row) * a.ldx + k : 0);
		E		   *dst = stage + (CORES ? v * TOKENS + row : row * vectors + (v ^ (row & 7))) * per;

		if (a.vectors)
			cp_async16(dst, src, n * (int) sizeof(E));
		else
			for (int e = 0; e < per; e++)
			{
				E			zero = {};

				dst[e] = e < n ? src[e] : zero;
			}
	}
}

/* a warp's outputs and rows */
template <typename W, typename O, int MT, int NT>
struct MmWarp
{
	enum { WT = W::WIDE ? MT : 1, WN = W::WIDE ? NT : 1 };
	float		acc[MT][NT][4];
	float		tot[MT][NT][4];
	float		wide[WT][WN][4];	/* sums of the pieces of a block that share a scale */

	/* process one piece: 32 k; b: of x's tile; last: last piece of its block */
	__device__ __forceinline__ void
	piece(const typename W::Raw *raw, const Codebook *book, const typename O::elem *x, int width, int row,
		  int c, bool last)
	{
		typename O::reg a[MT][2][O::A_REGS],
					ones[O::A_REGS];
		Scales		s[MT];

#pragma unroll
		for (int i = 0; i < MT; i++)
		{
			W::template frags<O>(a[i], &raw[i], book);
			if constexpr (!W::PLAIN)
				get_scales<W::SCALE>(&s[i], raw[i].h, raw[i].s);
		}
		for (int i = 0; i < O::A_REGS; i++)
			ones[i] = O::one();
#pragma unroll
		for (int j = 0; j < NT; j++)
		{
			typename O::reg b[2][O::B_REGS];
			float		sum[2][4];

			O::load_b(b, x, width, row + j * 8, c);
			if constexpr (W::MIN)
				sums(sum, ones, b);
#pragma unroll
			for (int i = 0; i < MT; i++)
				if constexpr (W::PLAIN)
				{
					O::mma(acc[i][j], a[i][0], b[0], acc[i][j]);
					O::mma(acc[i][j], a[i][1], b[1], acc[i][j]);
				}
				else if constexpr (W::WIDE)
				{
					O::mma(wide[i][j], a[i][0], b[0], wide[i][j]);
					O::mma(wide[i][j], a[i][1], b[1], wide[i][j]);
				}
				else
					scaled(acc[i][j], a[i], b, &s[i], sum);
		}
		if constexpr (W::WIDE)
			if (last)
				end_block(s);
	}

	__device__ __forceinline__ void
	end_block(const Scales *s)
	{
#pragma unroll
		for (int i = 0; i < WT; i++)
#pragma unroll
			for (int j = 0; j < WN; j++)
#pragma unroll
				for (int e = 0; e < 4; e++)
				{
					acc[i][j][e] = fmaf(s[i].d[0][e / 2], wide[i][j][e], acc[i][j][e]);
					wide[i][j][e] = 0.0f;
				}
	}

	/* sums of x over the 32 k, or over each 16 */
	static __device__ __forceinline__ void
	sums(float (*sum)[4], const typename O::reg *ones, const typename O::reg (*b)[O::B_REGS])
	{
		const float zero[4] = {0, 0, 0, 0};

		O::mma(sum[0], ones, b[0], zero);
		O::mma(sum[1], ones, b[1], W::HALVES ? zero : sum[0]);
	}

	static __device__ __forceinline__ void
	scaled(float *acc, const typename O::reg (*a)[O::A_REGS], const typename O::reg (*b)[O::B_REGS],
		   const Scales *s, const float (*sum)[4])
	{
		const float zero[4] = {0, 0, 0, 0};
		float		c[2][4];

		O::mma(c[0], a[0], b[0], zero);
		O::mma(c[1], a[1], b[1], W::HALVES ? zero : c[0]);
#pragma unroll
		for (int h = W::HALVES ? 0 : 1; h < 2; h++)
#pragma unroll
			for (int i = 0; i < 4; i++)
			{
				acc[i] = fmaf(s->d[h][i / 2], c[h][i], acc[i]);
				if constexpr (W::MIN)
					acc[i] = fmaf(s->m[h][i / 2], sum[h][i], acc[i]);
			}
	}

	__device__ __forceinline__ void
	clear(void)
	{
#pragma unroll
		for (int i = 0; i < MT * NT * 4; i++)
			acc[i / (NT * 4)][i / 4 % NT][i % 4] = 0.0f;
	}

	__device__ __forceinline__ void
	clear_block(void)
	{
#pragma unroll
		for (int i = 0; i < WT * WN * 4; i++)
			wide[i / (WN * 4)][i / 4 % WN][i % 4] = 0.0f;
	}

	__device__ __forceinline__ void
	end_segment(bool first)
	{
#pragma unroll
		for (int i = 0; i < MT; i++)
#pragma unroll
			for (int j = 0; j < NT; j++)
#pragma unroll
				for (int e = 0; e < 4; e++)
					tot[i][j][e] = first ? acc[i][j][e] : tot[i][j][e] + acc[i][j][e];
		clear();
	}

	/* tile i's outputs begin at n0[i] */
	__device__ __forceinline__ void
	store(const MmArgs &a, const MmRows &r, const int *n0, int row, int segment)
	{
		const float *bias = a.ws == NULL ? a.bias : a.biases != NULL ? a.biases[r.mat] : NULL;
		int			lane = threadIdx.x % 32;

#pragma unroll
		for (int i = 0; i < MT; i++)
#pragma unroll
			for (int j = 0; j < NT; j++)
#pragma unroll
				for (int e = 0; e < 4; e++)
				{
					int			n = n0[i] + lane / 4 + e / 2 * 8,
								at = r.first + row + j * 8 + lane % 4 * 2 + e % 2;

					if (n >= a.n || at >= r.end)
						continue;
					if (a.part != NULL)
						a.part[((size_t) segment * a.rows + at) * a.n + n] = tot[i][j][e];
					else
						a.y[(size_t) at * a.ldy + n] = bias != NULL ? tot[i][j][e] + bias[n] : tot[i][j][e];
				}
	}
};

/* grid: outputs, tiles of rows, segments (1: a block walks all of them) */
template <typename W, typename O, int MT, int NT, int WM, int WN, int KC, int AHEAD>
__global__ void __launch_bounds__(WM * WN * 32, WM * WN == 8 ? 1 : NT == 1 ? 4 : W::MIN ? 2 : 3)
mm_kernel(MmArgs a)
{
	const int	tokens = WN * NT * 8,
				threads = WM * WN * 32,
				pieces = KC / CUDA_PIECE,
				chunks = MM_SEGMENT / KC;
	SHARED(typename O::elem, x, [MM_STAGES][tokens * KC]);
	MmRows		r = mm_rows(a, blockIdx.y, tokens);
	MmWarp<W, O, MT, NT> warp;
	int			wm = threadIdx.x / 32 % WM,
				row = threadIdx.x / 32 / WM * NT * 8,
				last_piece = (a.k + CUDA_PIECE - 1) / CUDA_PIECE,
				last_chunk = (a.k + KC - 1) / KC,
				from = gridDim.z > 1 ? blockIdx.z * chunks : 0,
				to = gridDim.z > 1 ? min(from + chunks, last_chunk) : last_chunk,
				end = min(last_piece, to * pieces),
				n0[MT];
	const uint8_t *strip[MT];
	typename W::Raw raw[AHEAD][MT];

	/* true for the whole block */
	if (r.mat < 0 || r.first >= r.end)
		return;
#pragma unroll
	for (int i = 0; i < MT; i++)
	{
		int			tile = (blockIdx.x * WM + wm) * MT + i,
					/* tiles after the last strip's read that strip and store nothing */
					s = min(tile / 4, (a.n - 1) / CUDA_STRIP);

		n0[i] = tile * CUDA_TILE;
		strip[i] = (a.ws != NULL ? (const uint8_t *) a.ws[r.mat] : a.w) + s * W::strip_bytes(a.k);
		for (int p = 0; p < AHEAD; p++)
			if (from * pieces + p < last_piece)
				W::load(&raw[p][i], strip[i], tile % 4, from * pieces + p);
	}
	warp.clear();
	warp.clear_block();
	for (int c = from; c < from + MM_STAGES - 1; c++)
	{
		if (c < to)
			mm_fetch<typename O::elem, tokens, KC, threads>(x[(c - from) % MM_STAGES], a, r, c);
		cp_commit();
	}
	for (int c = from; c < to; c++)
	{
		cp_wait<MM_STAGES - 2>();
		__syncthreads();
		if (c + MM_STAGES - 1 < to)
			mm_fetch<typename O::elem, tokens, KC, threads>(x[(c + MM_STAGES - 1 - from) % MM_STAGES], a, r,
															c + MM_STAGES - 1);
		cp_commit();
#pragma unroll 1
		for (int p = c * pieces; p < min(last_piece, (c + 1) * pieces); p += AHEAD)
#pragma unroll
			for (int q = 0; q < AHEAD; q++)
			{
				typename W::Raw now[MT];

				if (p + q >= last_piece)
					break;
#pragma unroll
				for (int i = 0; i < MT; i++)
				{
					now[i] = raw[q][i];
					if (p + q + AHEAD < end)
						W::load(&raw[q][i], strip[i], n0[i] / CUDA_TILE % 4, p + q + AHEAD);
				}
				warp.piece(now, &a.book, x[(c - from) % MM_STAGES], KC, row,
						   (p + q) % pieces * (CUDA_PIECE / 8), (p + q + 1) % W::B::PIECES == 0 ||
						   p + q + 1 == last_piece);
			}
		if ((c + 1) % chunks == 0 || c + 1 == to)
			warp.end_segment(c / chunks * chunks <= from);
	}
	warp.store(a, r, n0, row, blockIdx.z);
}

/* ---- launches ---- */

template <typename W, typename O, int MT, int NT, int WM, int WN, int KC, int AHEAD> static inline void
mm_go(const MmArgs *a, cudaStream_t stream)
{
	int			outputs = WM * MT * CUDA_TILE,
				tokens = WN * NT * 8,
				tiles = (a->rows + tokens - 1) / tokens,
				segments = a->part != NULL ? (a->k + MM_SEGMENT - 1) / MM_SEGMENT : 1;

	/* upper bound for several matrices */
	if (a->ws != NULL)
		tiles = min(a->rows, (a->rows + a->n_mats * (tokens - 1)) / tokens);
	LAUNCH((mm_kernel<W, O, MT, NT, WM, WN, KC, AHEAD>),
		   dim3((a->n + outputs - 1) / outputs, tiles, segments), WM * WN * 32, 0, stream, *a);
}

/* KC, AHEAD and tiles are limited by registers and by 48 kB of shared memory */
template <typename W, typename O> static inline void
mm_shapes(const MmArgs *a, MmShape shape, cudaStream_t stream)
{
	if (shape == MM_8)
		mm_go<W, O, 1, 1, 4, 1, 256, 4>(a, stream);
	else if (shape == MM_32)
		mm_go<W, O, 1, 4, 4, 1, 256, 4>(a, stream);
	else
		mm_go<W, O, 2, W::PLAIN ? 6 : 4, 4, 2, 64, 1>(a, stream);
}

#endif
