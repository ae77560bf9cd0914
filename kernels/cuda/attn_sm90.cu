/*
 * attn_sm90.cu
 *	  The kernels of attn.cuh with wgmma, for compute capability 9.0.
 *
 * Nothing but the products differs: a warpgroup of 64 rows, padding included, takes 64 keys or 64 columns
 * of V an instruction, with q and P in registers and the same tiles.  Nobody promises that the sums in it have
 * mma.sync's bits, so a device takes these kernels for all of attention or for none (CudaCaps.wgmma).
 */
#include "cuda/attn.cuh"
#include "cuda/wgmma.cuh"

#define SLAB	(KEYS * 16)		/* bytes from 8 columns of a tile to the next ones */
#define CORE	128				/* ... from 8 keys to the next ones */

struct ByWgmma
{
};

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
	int			lane = threadIdx.x % 32;
	uint32_t	a[PIECE / 16][4];

	q += tile_at(rows, lane / 8 % 2 * 8 + lane % 8, lane / 16 * 8);
#pragma unroll
	for (int i = 0; i < PIECE / 16; i++)
		if (i * 16 < cols)
			ldmatrix_x4(a[i], q + i * 16 * rows);
	wgmma_begin();
#pragma unroll
	for (int i = 0; i < PIECE / 16; i++)
		if (i * 16 < cols)
			wgmma<64, BY_K>(s, a[i], k + i * 16 * KEYS, SLAB, CORE);
	wgmma_end();
	wgmma_result<64>(s);
}

template <typename H, int COLS> static __device__ __forceinline__ void
add_values(ByWgmma, float (*o)[4], const uint32_t (*a)[4], const H *v, int)
{
	/* columns that there aren't, too: no condition may come between these instructions */
	wgmma_begin();
#pragma unroll
	for (int j = 0; j < KEYS / 16; j++)
#pragma unroll
		for (int n = 0; n < COLS / 64; n++)
			wgmma<64, BY_N>(o + n * 8, a[j], v + n * 64 * KEYS + j * 16 * 8, CORE, SLAB);
	wgmma_end();
#pragma unroll
	for (int n = 0; n < COLS / 64; n++)
		wgmma_result<64>(o + n * 8);
}

/* not 256 columns of V: registers don't suffice */
template <typename H> static void
launch(const AttnArgs *p, int vt, dim3 grid, int threads, size_t smem, cudaStream_t stream)
{
	if (vt == 64)
		LAUNCH((attn_kernel<H, 64, ByWgmma>), grid, threads, smem, stream, *p);
	else
		LAUNCH((attn_kernel<H, 128, ByWgmma>), grid, threads, smem, stream, *p);
}

void
attn_launch_sm90(const AttnArgs *p, bool f16, int vt, dim3 grid, int threads, size_t smem, cudaStream_t stream)
{
	(f16 ? launch<F16> : launch<BF16>) (p, vt, grid, threads, smem, stream);
}

template <typename H> static void
allow(int smem)
{
	cudaFuncSetAttribute((const void *) attn_kernel<H, 64, ByWgmma>, cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
	cudaFuncSetAttribute((const void *) attn_kernel<H, 128, ByWgmma>, cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
}

void
attn_allow_sm90(int smem)
{
	allow<F16>(smem);
	allow<BF16>(smem);
}
