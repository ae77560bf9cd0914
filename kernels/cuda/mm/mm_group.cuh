/*
 * mm_group.cuh
 *	  The kernel of products with wgmma, for compute capability 9.0: the sums of mm.cuh, in its order.
 *
 * A warpgroup has a strip of 64 outputs, each of its warps a tile, and NT x 8 rows.  Packed weights are
 * in the order of mma.sync's A fragments, which is that of a warp's quarter of wgmma's A, so they are
 * loaded from global memory to registers, codes are converted to operands there, and shared memory has
 * only x.  A block is GROUPS warpgroups with adjacent outputs that share x.
 *
 * Only a GPU can show whether an instruction of 8 columns rounds its sums as one of 128 does, and as
 * mma.sync does (tests/gpu/wgmma.cu).  Under emulation all three give the same sums.
 */
#ifndef VLLM_KERNELS_CUDA_MM_GROUP_CUH
#define VLLM_KERNELS_CUDA_MM_GROUP_CUH

#include "cuda/mm/mm.cuh"
#include "cuda/wgmma.cuh"

template <typename W, typename O, int NT>
struct MmGroup : MmWarp<W, O, 1, NT>
{
	/* bytes from 8 k to the next 8, from 8 rows to the next 8 */
	enum { TOKENS = NT * 8, SLAB = TOKENS * 16, CORE = 128 };
	typedef typename O::elem E;

	/* d += a times 16 k of x, from k on within the stage */
	static __device__ __forceinline__ void
	product(float (*d)[4], const uint32_t *a, const E *x, int k)
	{
		wgmma<TOKENS, BY_K>(d, a, x + k * TOKENS, SLAB, CORE);
	}

	/* process P pieces, from number `at` of the stage on, of one block of scales; last: they end it */
	template <int P> __device__ __forceinline__ void
	pieces(const typename W::Raw *raw, const Codebook *book, const E *x, int at, bool last)
	{
		uint32_t	a[P][2][4];

#pragma unroll
		for (int q = 0; q < P; q++)
			W::template frags<O>(a[q], &raw[q], book);
		if constexpr (W::PLAIN)
			sum<P>(this->acc[0], a, x, at * CUDA_PIECE);
		else if constexpr (W::WIDE)
		{
			sum<P>(this->wide[0], a, x, at * CUDA_PIECE);
			if (last)
			{
				Scales		s;

				get_scales<W::SCALE>(&s, raw[P - 1].h, raw[P - 1].s);
				this->end_block(&s);
			}
		}
		else
#pragma unroll
			for (int q = 0; q < P; q++)
			{
				Scales		s;

				get_scales<W::SCALE>(&s, raw[q].h, raw[q].s);
				if constexpr (W::HALVES)
					scaled<0, 1>(a[q], &s, x, (at + q) * CUDA_PIECE);
				scaled<W::HALVES ? 1 : 0, 2>(a[q], &s, x, (at + q) * CUDA_PIECE);
			}
	}

	/* d += P pieces */
	template <int P> static __device__ __forceinline__ void
	sum(float (*d)[4], const uint32_t (*a)[2][4], const E *x, int k)
	{
		wgmma_begin();
#pragma unroll
		for (int i = 0; i < 2 * P; i++)
			product(d, a[i / 2][i % 2], x, k + i * 16);
		wgmma_end();
		wgmma_result<TOKENS>(d);
	}

	/* process fragments FROM .. TO - 1 of a piece, whose sum has its own scale */
	template <int FROM, int TO> __device__ __forceinline__ void
	scaled(const uint32_t (*a)[4], const Scales *s, const E *x, int k)
	{
		float		c[NT][4] = {},
					sum[NT][4] = {};
		uint32_t	ones[4] = {O::one(), O::one(), O::one(), O::one()};

		wgmma_begin();
#pragma unroll
		for (int i = FROM; i < TO; i++)
		{
			product(c, a[i], x, k + i * 16);
			if constexpr (W::MIN)
				product(sum, ones, x, k + i * 16);
		}
		wgmma_end();
		wgmma_result<TOKENS>(c);
		if constexpr (W::MIN)
			wgmma_result<TOKENS>(sum);
#pragma unroll
		for (int j = 0; j < NT; j++)
#pragma unroll
			for (int e = 0; e < 4; e++)
			{
				this->acc[0][j][e] = fmaf(s->d[TO - 1][e / 2], c[j][e], this->acc[0][j][e]);
				if constexpr (W::MIN)
					this->acc[0][j][e] = fmaf(s->m[TO - 1][e / 2], sum[j][e], this->acc[0][j][e]);
			}
	}
};

/* grid: outputs, tiles of rows, segments (1: a block walks all of them) */
template <typename W, typename O, int NT, int GROUPS, int KC, int AHEAD>
__global__ void __launch_bounds__(GROUPS * 128, NT == 1 ? 4 : NT == 4 ? 2 : 1)
mm_group_kernel(MmArgs a)
{
	static_assert(!W::WIDE || W::B::PIECES % AHEAD == 0, "a scale's pieces are whole steps");
	const int	tokens = NT * 8,
				threads = GROUPS * 128,
				in_chunk = KC / CUDA_PIECE,
				chunks = MM_SEGMENT / KC;
	SHARED(typename O::elem, x, [MM_STAGES][tokens * KC]);
	MmRows		r = mm_rows(a, blockIdx.y, tokens);
	MmGroup<W, O, NT> group;
	int			tile = threadIdx.x / 32 % 4,
				number = blockIdx.x * GROUPS + threadIdx.x / 128,
				n0 = number * CUDA_STRIP + tile * CUDA_TILE,
				last_piece = (a.k + CUDA_PIECE - 1) / CUDA_PIECE,
				last_chunk = (a.k + KC - 1) / KC,
				from = gridDim.z > 1 ? blockIdx.z * chunks : 0,
				to = gridDim.z > 1 ? min(from + chunks, last_chunk) : last_chunk,
				end = min(last_piece, to * in_chunk);
	const uint8_t *strip;
	typename W::Raw raw[AHEAD];

	/* true for the whole block */
	if (r.mat < 0 || r.first >= r.end)
		return;
	/* a strip after the last one reads the last and stores nothing */
	strip = (a.ws != NULL ? (const uint8_t *) a.ws[r.mat] : a.w) + min(number, (a.n - 1) / CUDA_STRIP) *
		W::strip_bytes(a.k);
	for (int p = 0; p < AHEAD; p++)
		if (from * in_chunk + p < last_piece)
			W::load(&raw[p], strip, tile, from * in_chunk + p);
	group.clear();
	group.clear_block();
	for (int c = from; c < from + MM_STAGES - 1; c++)
	{
		if (c < to)
			mm_fetch<typename O::elem, tokens, KC, threads, true>(x[(c - from) % MM_STAGES], a, r, c);
		cp_commit();
	}
	for (int c = from; c < to; c++)
	{
		const typename O::elem *stage = x[(c - from) % MM_STAGES];

		cp_wait<MM_STAGES - 2>();
		async_stored();
		__syncthreads();
		if (c + MM_STAGES - 1 < to)
			mm_fetch<typename O::elem, tokens, KC, threads, true>(x[(c + MM_STAGES - 1 - from) % MM_STAGES],
																  a, r, c + MM_STAGES - 1);
		cp_commit();
#pragma unroll 1
		for (int p = c * in_chunk; p < min(last_piece, (c + 1) * in_chunk); p += AHEAD)
		{
			typename W::Raw now[AHEAD];

#pragma unroll
			for (int q = 0; q < AHEAD; q++)
			{
				now[q] = raw[q];
				if (p + q + AHEAD < end)
					W::load(&raw[q], strip, tile, p + q + AHEAD);
			}
			if (p + AHEAD <= last_piece)
				group.template pieces<AHEAD>(now, &a.book, stage, p % in_chunk,
											 (p + AHEAD) % W::B::PIECES == 0 || p + AHEAD == last_piece);
			else
				/* the last pieces of the matrix */
#pragma unroll
				for (int q = 0; q < AHEAD - 1; q++)
					if (p + q < last_piece)
						group.template pieces<1>(now + q, &a.book, stage, (p + q) % in_chunk,
												 p + q + 1 == last_piece);
		}
		if ((c + 1) % chunks == 0 || c + 1 == to)
			group.end_segment(c / chunks * chunks <= from);
	}
	group.store(a, r, &n0, 0, blockIdx.z);
}

template <typename W, typename O, int NT, int GROUPS, int KC, int AHEAD> static inline void
mm_group_go(const MmArgs *a, cudaStream_t stream)
{
	int			outputs = GROUPS * CUDA_STRIP,
				tokens = NT * 8,
				tiles = (a->rows + tokens - 1) / tokens,
				segments = a->part != NULL ? (a->k + MM_SEGMENT - 1) / MM_SEGMENT : 1;

	/* upper bound for several matrices */
	if (a->ws != NULL)
		tiles = min(a->rows, (a->rows + a->n_mats * (tokens - 1)) / tokens);
	LAUNCH((mm_group_kernel<W, O, NT, GROUPS, KC, AHEAD>),
		   dim3((a->n + outputs - 1) / outputs, tiles, segments), GROUPS * 128, 0, stream, *a);
}

/*
 * Shapes are limited by registers and by 48 kB of shared memory; these kernels compute all products of a
 * matrix, whatever the number of rows.
 */
template <typename W, typename O> static inline void
mm_group_shapes(const MmArgs *a, MmShape shape, cudaStream_t stream)
{
	if (shape == MM_8)
		mm_group_go<W, O, 1, 1, 256, 4>(a, stream);
	else if (shape == MM_32)
		mm_group_go<W, O, 4, 1, 256, 4>(a, stream);
	else
		mm_group_go<W, O, W::PLAIN ? 16 : 8, 2, 64, 2>(a, stream);
}

#endif
