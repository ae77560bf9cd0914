/*
 * attn_sm90.cu
 *	  The kernels of attn.cuh with wgmma, for compute capability 9.0: sums and their order are the same.
 *
 * A warpgroup of 64 rows, including padding, processes 64 keys or 64 columns of V per instruction, with
 * q in shared memory and P in registers.  It is not specified that its sums have mma.sync's bits, so a
 * device uses these kernels for all of attention or for none (CudaCaps.wgmma).
 *
 * If K and V have the products' type and are stored as 8 x 8 matrices (kv.h), tiles are loaded by bulk
 * copies: attn_bulk_kernel has one or two warpgroups that multiply, and one that only fetches, up to
 * STAGES tiles in advance.  A tile then is [8 keys][8 columns][8][8], so 8 keys of a page are contiguous
 * on both sides.  The first and the last strip, in which not all rows have all keys, are fetched by
 * threads, with zeros for unread keys.  For other types (attn_kernel) all warps fetch, as they have to
 * convert the data.
 */
#include "cuda/attn/attn.cuh"
#include "cuda/wgmma.cuh"

#define SLAB	(KEYS * 16)		/* attn_kernel: bytes from 8 columns of a tile to the next 8 */
#define CORE	128				/* attn_kernel: bytes from 8 keys to the next 8 */
#define STAGES	ATTN_STAGES
#define FETCHERS ATTN_FETCHERS
#define MOST_ROWS (2 * MAX_WARPS * 16)	/* of two warpgroups */

/* ---- products ---- */

/* s += q K^T for one tile, for the warpgroup's q; step: elements from 16 columns to the next 16 */
template <typename H> static __device__ __forceinline__ void
group_scores(float (*s)[4], const H *q, int rows, const H *k, int cols, int step, int lead, int stride)
{
	wgmma_begin();
#pragma unroll
	for (int i = 0; i < PIECE / 16; i++)
		if (i * 16 < cols)
			wgmma_shared<64, BY_K>(s, q + i * 16 * rows, rows * 16, CORE, k + i * step, lead, stride);
	wgmma_end();
	wgmma_result<64>(s);
}

/* o += P V for one tile; keys, columns: elements from 16 keys, from 64 columns to the next ones */
template <typename H, int COLS> static __device__ __forceinline__ void
group_values(float (*o)[4], const uint32_t (*a)[4], const H *v, int keys, int columns, int lead, int stride)
{
	/* also for missing columns: there must be no condition between these instructions */
	wgmma_begin();
#pragma unroll
	for (int j = 0; j < KEYS / 16; j++)
#pragma unroll
		for (int n = 0; n < COLS / 64; n++)
			wgmma<64, BY_N>(o + n * 8, a[j], v + n * columns + j * keys, lead, stride);
	wgmma_end();
#pragma unroll
	for (int n = 0; n < COLS / 64; n++)
		wgmma_result<64>(o + n * 8);
}

/* ---- tiles loaded by all threads ---- */

struct ByWgmma
{
};

static __device__ __forceinline__ int
rows_here(ByWgmma)
{
	return blockDim.x / 2;
}

/* the first row of q for a warp's products */
static __device__ __forceinline__ int
row_of(ByWgmma, int warp)
{
	return warp / 4 * 64;
}

/* data of a tile and, before the first one, of q is in shared memory */
static __device__ __forceinline__ void
tile_there(ByWgmma)
{
	async_stored();
}

static __device__ __forceinline__ bool
all_warps(ByWgmma)
{
	return true;
}

template <typename H> static __device__ __forceinline__ void
add_scores(ByWgmma, float (*s)[4], const H *q, int rows, const H *k, int cols)
{
	group_scores(s, q, rows, k, cols, 16 * KEYS, SLAB, CORE);
}

template <typename H, int COLS> static __device__ __forceinline__ void
add_values(ByWgmma, float (*o)[4], const uint32_t (*a)[4], const H *v, int)
{
	group_values<H, COLS>(o, a, v, 16 * 8, 64 * KEYS, CORE, SLAB);
}

/* ---- tiles loaded by bulk copies ---- */

struct ByBulk
{
	int			width;			/* columns of a tile */
};

static __device__ __forceinline__ int
rows_here(ByBulk)
{
	return (blockDim.x - FETCHERS) / 2;
}

template <typename H> static __device__ __forceinline__ void
add_scores(ByBulk by, float (*s)[4], const H *q, int rows, const H *k, int cols)
{
	group_scores(s, q, rows, k, cols, 16 * 8, CORE, by.width * 16);
}

template <typename H, int COLS> static __device__ __forceinline__ void
add_values(ByBulk by, float (*o)[4], const uint32_t (*a)[4], const H *v, int)
{
	group_values<H, COLS>(o, a, v, 16 * by.width, 64 * 8, by.width * 16, CORE);
}

/* a block's ring of tiles */
template <typename H> struct AttnRing
{
	H		   *tiles;			/* [STAGES], of KEYS x width */
	uint64_t   *full;			/* [STAGES]: each fetching warp arrives */
	uint64_t   *empty;			/* [STAGES]: each multiplying warp arrives */
	int			stage;
	unsigned	parity;
	int			k_pieces;
	int			v_cols;
};

template <typename H> static __device__ __forceinline__ H *
ring_tile(const AttnRing<H> *l, int width)
{
	return l->tiles + l->stage * KEYS * width;
}

template <typename H> static __device__ __forceinline__ void
ring_next(AttnRing<H> *l)
{
	if (++l->stage == STAGES)
	{
		l->stage = 0;
		l->parity ^= 1;
	}
}

template <typename H> static __device__ __forceinline__ void
tiles_begin(const AttnArgs &, AttnRing<H> *, int, int)
{
}

template <typename H> static __device__ __forceinline__ const H *
next_tile(ByBulk by, const AttnArgs &, AttnRing<H> *l, bool, int)
{
	mbar_wait(&l->full[l->stage], l->parity);
	return ring_tile(l, by.width);
}

template <typename H> static __device__ __forceinline__ void
tile_done(AttnRing<H> *l)
{
	__syncwarp();
	if (threadIdx.x % 32 == 0)
		mbar_arrive(&l->empty[l->stage]);
	ring_next(l);
}

/* INT8 isn't supported here */
template <typename H> static __device__ __forceinline__ const float *
scales_of(const AttnArgs &, const AttnRing<H> *, int)
{
	return NULL;
}

/* fetch `cols` columns from c0 on of K or V (part), rows of len: a strip's keys lo .. hi - 1, by all
 * fetching threads */
template <typename H> static __device__ __forceinline__ void
fetch_by_threads(const AttnArgs &p, const int32_t *table, int kv_head, H *tile, size_t part, int len, int c0,
				 int cols, int strip, int lo, int hi)
{
	/* unrolled loops would need more registers than these threads have */
#pragma unroll 1
	for (int i = threadIdx.x % FETCHERS; i < KEYS * (cols / 8); i += FETCHERS)
	{
		int			row = i / cols * 8 + i % 8,
					c = i % cols / 8 * 8,
					key = strip * KEYS + row;
		bool		seen = key >= lo && key < hi;
		const uint8_t *from = p.kv.base;

		if (seen)
			from += kv_cell_at(p.kv, table[key / p.kv.block_size], kv_head) + part +
				cuda_kv_at(p.kv.type, len, key % p.kv.block_size, c0 + c) * sizeof(H);
		cp_async16(tile + row / 8 * p.width * 8 + c * 8 + row % 8 * 8, from, seen ? 16 : 0);
	}
	cp_commit();
	cp_wait<0>();
	async_stored();
	__syncwarp();
}

/* the block of the 8 keys that start at `key`; any block for unread keys */
static __device__ __forceinline__ int
block_of(const AttnArgs &p, const int32_t *table, int key, int hi)
{
	return key < hi ? table[key / p.kv.block_size] : 0;
}

/* Fetch the tiles of keys lo .. hi - 1, in the order in which attend() uses them. */
template <typename H> static __device__ __forceinline__ void
fetch(const AttnArgs &p, AttnRing<H> *l, const int32_t *table, int kv_head, int v0, int lo, int hi)
{
	int			lane = threadIdx.x % 32,
				next = block_of(p, table, lo / KEYS * KEYS + lane % 8 * 8, hi);

#pragma unroll 1
	for (int strip = lo / KEYS; strip * KEYS < hi; strip++)
	{
		bool		whole = strip * KEYS >= lo && (strip + 1) * KEYS <= hi;
		int			key = strip * KEYS + lane % 8 * 8,
					block = next;

		/* the table is read one strip in advance */
		next = block_of(p, table, key + KEYS, hi);
#pragma unroll 1
		for (int i = 0; i < l->k_pieces + (l->v_cols + PIECE - 1) / PIECE; i++)
		{
			bool		is_v = i >= l->k_pieces;
			int			at = (is_v ? i - l->k_pieces : i) * PIECE,
						cols = min(PIECE, (is_v ? l->v_cols : p.dim_pad) - at),
						c0 = at + (is_v ? v0 : 0),
						len = is_v ? p.kv.v_pad : p.kv.head_dim;
			size_t		part = is_v ? p.kv.v_at : 0;
			uint64_t   *full = &l->full[l->stage];
			H		   *tile = ring_tile(l, p.width);

			mbar_wait(&l->empty[l->stage], l->parity ^ 1);
			if (!whole)
				fetch_by_threads(p, table, kv_head, tile, part, len, c0, cols, strip, lo, hi);
			if (whole && threadIdx.x % FETCHERS < 32)
			{
				if (lane == 0)
					mbar_expect(full, KEYS * cols * sizeof(H));
				__syncwarp();
				/* each lane copies 8 keys */
				if (lane < KEYS / 8)
					bulk_copy(tile + lane * p.width * 8, p.kv.base + kv_cell_at(p.kv, block, kv_head) + part +
							  cuda_kv_at(p.kv.type, len, key % p.kv.block_size, c0) * sizeof(H),
							  8 * cols * sizeof(H), full);
			}
			else if (lane == 0)
				mbar_arrive(full);
			ring_next(l);
		}
	}
}

/* 16 rows per multiplying warp; grid: as attn_kernel's */
template <typename H, int VT> __global__ void __launch_bounds__(2 * MAX_WARPS * 32 + FETCHERS, 1)
attn_bulk_kernel(AttnArgs p)
{
	SMEM(H, shared);
	SHARED(uint64_t, full, [STAGES]);
	SHARED(uint64_t, empty, [STAGES]);
	SHARED(int, redo, [MOST_ROWS]);
	SHARED(int, keys, [MOST_ROWS][2]);
	int			rows = rows_here(ByBulk()),
				warp = threadIdx.x / 32,
				kv_head = blockIdx.y / p.v_chunks,
				v0 = blockIdx.y % p.v_chunks * VT,
				lo,
				hi,
				from,
				to,
				queries;
	AttnRing<H> l = {};
	AttnTile	t;

	if (!attn_tile(p, blockIdx.x, rows, &t) || !block_keys(p, t, rows, kv_head, &lo, &hi))
		return;
	queries = query_keys(p, t, rows, kv_head, lo, hi, keys, redo);
	if (threadIdx.x == 0)
	{
		for (int i = 0; i < STAGES; i++)
		{
			mbar_init(&full[i], FETCHERS / 32);
			mbar_init(&empty[i], rows / 16);
		}
		async_stored();
	}
	load_q(p, t, kv_head, rows, shared);
	async_stored();
	l.tiles = shared + (size_t) rows * p.dim_pad;
	l.full = full;
	l.empty = empty;
	l.k_pieces = (p.dim_pad + PIECE - 1) / PIECE;
	l.v_cols = min(VT, p.kv.v_pad - v0);
	__syncthreads();
	/* the last warpgroup fetches: setmaxnreg requires each role to be one branch */
	if (warp >= rows / 16)
	{
		fewer_registers<72>();
		for (int query = -1; query < queries; query++)
			if (pass_keys(query, redo, keys, lo, hi, &from, &to))
			{
				fetch(p, &l, p.r.table + (size_t) t.seq * p.r.ld_table, kv_head, v0, from, to);
				pass_ends();
			}
	}
	else
	{
		const H    *q = shared + row_of(ByWgmma(), warp) * 8;
		float	   *o = (float *) (l.tiles + (size_t) STAGES * KEYS * p.width) + warp * 16 * VT +
			threadIdx.x % 32;
		ByBulk		by = {p.width};
		AttnRow		w[2];
		AttnAcc<VT>	acc;

		more_registers<216>();
#pragma unroll
		for (int r = 0; r < 2; r++)
			w[r] = attn_row(p, t, t.at + warp * 16 + threadIdx.x % 32 / 4 + 8 * r, kv_head);
		for (int query = -1; query < queries; query++)
			if (pass_keys(query, redo, keys, lo, hi, &from, &to))
			{
				attend(by, p, &l, w, q, true, from, to, o, &acc);
				write_rows(p, t, w, warp, v0, query, lo, hi, redo, acc);
				pass_ends();
			}
	}
}

/* ---- for the host ---- */

/* not with 256 columns of V: registers don't suffice */
template <typename H> static void
launch(const AttnArgs *p, const AttnLaunch *l, cudaStream_t stream)
{
	if (l->bulk && l->vt == 64)
		LAUNCH((attn_bulk_kernel<H, 64>), l->grid, l->threads, l->smem, stream, *p);
	else if (l->bulk)
		LAUNCH((attn_bulk_kernel<H, 128>), l->grid, l->threads, l->smem, stream, *p);
	else if (l->vt == 64)
		LAUNCH((attn_kernel<H, 64, ByWgmma>), l->grid, l->threads, l->smem, stream, *p);
	else
		LAUNCH((attn_kernel<H, 128, ByWgmma>), l->grid, l->threads, l->smem, stream, *p);
}

void
attn_launch_sm90(const AttnArgs *p, bool f16, const AttnLaunch *l, cudaStream_t stream)
{
	(f16 ? launch<F16> : launch<BF16>) (p, l, stream);
}

template <typename H> static void
allow(int smem)
{
	cudaFuncSetAttribute((const void *) attn_kernel<H, 64, ByWgmma>,
						 cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
	cudaFuncSetAttribute((const void *) attn_kernel<H, 128, ByWgmma>,
						 cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
	cudaFuncSetAttribute((const void *) attn_bulk_kernel<H, 64>, cudaFuncAttributeMaxDynamicSharedMemorySize,
						 smem);
	cudaFuncSetAttribute((const void *) attn_bulk_kernel<H, 128>, cudaFuncAttributeMaxDynamicSharedMemorySize,
						 smem);
}

void
attn_allow_sm90(int smem)
{
	allow<F16>(smem);
	allow<BF16>(smem);
}
