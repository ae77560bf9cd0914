/*
 * prims_kernels.cuh
 *	  A kernel for each function of common.cuh and mma.cuh.
 *
 * test_prims.cu runs them under emulation against plain code; seam.cu lets nvcc compile all of them, for
 * every compute capability.
 */
#include "cuda/mma.cuh"

struct Lane
{
	int			idx,
				up,
				down,
				exor;
	double		wide;
	unsigned	ballot,
				any,
				all,
				match,
				match_all,
				sum,
				most;
	int			least;
};

/* With `halves`, each half of the warp calls separately. */
__global__ void
lanes_kernel(Lane *out, const int *in, int by, int width, int halves)
{
	int			l = threadIdx.x,
				v = in[l],
				same;
	unsigned	mask = halves ? l < 16 ? 0xffffu : 0xffff0000u : FULL_MASK;
	Lane		o;

	o.idx = __shfl_sync(mask, v, by, width);
	o.up = __shfl_up_sync(mask, v, by, width);
	o.down = __shfl_down_sync(mask, v, by, width);
	o.exor = __shfl_xor_sync(mask, v, by & (width - 1), width);
	o.wide = __shfl_xor_sync(mask, (double) v, 1);
	o.ballot = __ballot_sync(mask, v & 1);
	o.any = __any_sync(mask, v == 3);
	o.all = __all_sync(mask, v < 100);
	o.match = __match_any_sync(mask, v);
	o.match_all = __match_all_sync(mask, v / 1000, &same);
	o.match_all += same;
	o.sum = reduce_add(mask, (unsigned) v);
	o.most = reduce_max(mask, (unsigned) v);
	o.least = reduce_min(mask, v - 7);
	out[l] = o;
}

template <typename T, int KIND> __global__ void
mma_kernel(T *d, const T *a, const T *b, const T *c)
{
	int			l = threadIdx.x,
				g = l / 4,
				t = l % 4,
				per = KIND == 2 ? 4 : 2,
				K = KIND == 2 ? 32 : 16;
	uint32_t	fa[4] = {0},
				fb[2] = {0};
	T			fc[4];

	for (int r = 0; r < 4; r++)
		for (int i = 0; i < per; i++)
		{
			int			row = g + (r & 1) * 8,
						k = t * per + i + (r >> 1) * K / 2;
			float		va = (float) a[row * K + k],
						vb = (float) b[k * 8 + g];
			F16			ha,
						hb;
			BF16		ba,
						bb;

			from_float(&ha, va);
			from_float(&hb, vb);
			from_float(&ba, va);
			from_float(&bb, vb);
			fa[r] |= KIND == 2 ? (uint32_t) ((int) va & 255) << 8 * i :
				(uint32_t) (KIND == 0 ? ha.u : ba.u) << 16 * i;
			if (r < 2)
			{
				vb = (float) b[(t * per + i + r * K / 2) * 8 + g];
				from_float(&hb, vb);
				from_float(&bb, vb);
				fb[r] |= KIND == 2 ? (uint32_t) ((int) vb & 255) << 8 * i :
					(uint32_t) (KIND == 0 ? hb.u : bb.u) << 16 * i;
			}
		}
	for (int r = 0; r < 4; r++)
		fc[r] = c[(g + r / 2 * 8) * 8 + 2 * t + r % 2];
	if constexpr (KIND == 0)
		mma_f16(fc, fa, fb, fc);
	else if constexpr (KIND == 1)
		mma_bf16(fc, fa, fb, fc);
	else
		mma_s8(fc, fa, fb, fc);
	for (int r = 0; r < 4; r++)
		d[(g + r / 2 * 8) * 8 + 2 * t + r % 2] = fc[r];
}

/* The result of ldmatrix, and a product from shared memory with it. */
__global__ void
ldmatrix_kernel(uint32_t *out, float *d, const uint16_t *in)
{
	SHARED(uint16_t, tile, [32][8]);
	SHARED(uint16_t, a, [16][16]);
	SHARED(uint16_t, b, [16][8]);
	int			l = threadIdx.x;
	uint32_t	v[12],
				fa[4],
				fb[2];
	float		acc[4] = {0, 0, 0, 0};

	for (int i = 0; i < 8; i++)
	{
		tile[l][i] = in[l * 8 + i];
		a[l / 2][l % 2 * 8 + i] = in[l * 8 + i];
		if (l < 16)
			b[l][i] = in[(31 - l) * 8 + i];
	}
	__syncwarp();
	ldmatrix_x4(v, tile[l]);
	ldmatrix_x4_trans(v + 4, tile[l]);
	ldmatrix_x2(v + 8, tile[l % 16]);
	ldmatrix_x2_trans(v + 10, tile[l % 16]);
	for (int i = 0; i < 12; i++)
		out[l * 12 + i] = v[i];
	ldmatrix_x4(fa, &a[l % 16][l / 16 * 8]);
	ldmatrix_x2_trans(fb, b[l % 16]);
	mma_f16(acc, fa, fb, acc);
	for (int r = 0; r < 4; r++)
		d[(l / 4 + r / 2 * 8) * 8 + l % 4 * 2 + r % 2] = acc[r];
}

__global__ void
pipeline_kernel(float *out, const float *in, int n_tiles, int last)
{
	SMEM(float, buf);			/* [2][128] */
	int			t = threadIdx.x;
	float		sum = 0;

	if (t < 32)
		cp_async16(buf + 4 * t, in + 4 * t);
	cp_commit();
	for (int i = 0; i < n_tiles; i++)
	{
		if (t < 32 && i + 1 < n_tiles)
			cp_async16(buf + (i + 1) % 2 * 128 + 4 * t, in + (i + 1) * 128 + 4 * t, i + 2 == n_tiles &&
					   4 * t >= last ? 0 : 16);
		cp_commit();
		cp_wait<1>();
		__syncthreads();
		sum += buf[i % 2 * 128 + t];
		__syncthreads();
	}
	out[t] = sum;
}

__global__ void
blocks_kernel(int *counts, const int *in, int n)
{
	SHARED(int, hist, [16]);
	int			i = blockIdx.x * blockDim.x + threadIdx.x,
				v = i < n ? in[i] : 0;

	if (threadIdx.x < 16)
		hist[threadIdx.x] = 0;
	__syncthreads();
	if (i < n)
		atomicAdd(&hist[v], 1);
	__syncthreads();
	if (threadIdx.x < 16)
		atomicAdd(&counts[threadIdx.x], hist[threadIdx.x]);
	if (i < n)
	{
		atomicMax(&counts[16], v);
		atomicMin(&counts[17], v);
	}
	if (__syncthreads_or(i == n - 1))
		atomicAdd(&counts[18], 1);
	if (__syncthreads_and(i < n))
		atomicAdd(&counts[19], 1);
	if (__syncthreads_count(i < n) == 36 && threadIdx.x == 0)
		atomicExch(&counts[20], 36);
	if (threadIdx.x == 0)
	{
		atomicInc((unsigned *) &counts[21], 2);
		atomicCAS(&counts[22], 5, 6);
	}
}

__global__ void
decode_kernel(float *out)
{
	int			i = blockIdx.x * 256 + threadIdx.x;
	F16			h = {(uint16_t) i};
	BF16		b = {(uint16_t) i};
	F8E4M3		e4 = {(uint8_t) i};
	F8E5M2		e5 = {(uint8_t) i};

	out[i] = to_float(h);
	out[65536 + i] = to_float(b);
	out[2 * 65536 + i] = to_float(e4);
	out[3 * 65536 + i] = to_float(e5);
	from_float(&h, out[i]);
	from_float(&b, out[65536 + i]);
	from_float(&e4, out[2 * 65536 + i]);
	from_float(&e5, out[3 * 65536 + i]);
	out[4 * 65536 + i] = h.u;
	out[5 * 65536 + i] = b.u;
	out[6 * 65536 + i] = e4.u;
	out[7 * 65536 + i] = e5.u;
}

__global__ void
add_kernel(float *x, float by)
{
	x[threadIdx.x] += by;
}

__global__ void
mul_kernel(float *x, float by)
{
	x[threadIdx.x] *= by;
}

/* Each thread of all blocks writes its number, computed from all dimensions. */
__global__ void
index_kernel(int *out)
{
	int			block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z),
				thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z),
				threads = blockDim.x * blockDim.y * blockDim.z,
				n;

	n = __syncthreads_count(thread % 3 == 0);
	out[block * threads + thread] = 1000 * n + warp_sum(thread % 32) + block;
}
