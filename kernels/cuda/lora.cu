/*
 * lora.cu
 *	  Low-rank products of adapters, added to those of matrices.
 *
 * Each element of t is a separate sum, in 32 lanes (a lane has the quads lane, lane + 32, ... of the
 * inputs) that warp_sum() adds; each element of y is a sum in the order of ranks, added at the end.  So
 * no element depends on which rows, ranks and adapters are computed together.  Tiles of rows and ranks
 * only share loads.
 */
#include "cuda/common.cuh"
#include "cuda/quad.cuh"
#include "cuda/cuda_ops.h"

#include <string.h>

#define WARPS			4
#define THREADS			(WARPS * 32)
#define SHRINK_ROWS		4		/* rows of x, and of A, of a warp */
#define SHRINK_RANKS	4
#define EXPAND_ROWS		8		/* rows of y; a thread computes one output of each */

/* ---- the host's side ---- */

static int
cuts(int n, int of)
{
	return (n + of - 1) / of;
}

static int
job_blocks(const KLoraJob *j, int op)
{
	if (op == CUDA_LORA_SHRINK)
		return cuts(j->n_rows, SHRINK_ROWS) * cuts(j->p->rank, SHRINK_RANKS * WARPS);
	if (op == CUDA_LORA_EXPAND)
		return cuts(j->n_rows, EXPAND_ROWS) * cuts(j->p->n, THREADS);
	return cuts(j->n_rows, WARPS);
}

size_t
cuda_lora_bytes(const KLoraJob *jobs, int n)
{
	size_t		bytes = n * sizeof(CudaLoraJob);

	for (int i = 0; i < n; i++)
		bytes += jobs[i].n_rows * sizeof(int32_t);
	return bytes;
}

CudaLora
cuda_lora_stage(void *host, void *device, const KLoraJob *jobs, int n)
{
	CudaLoraJob *to = (CudaLoraJob *) host;
	int32_t    *rows = (int32_t *) (to + n);
	CudaLora	l = {(const CudaLoraJob *) device, n, {0, 0, 0}};

	for (int i = 0; i < n; i++)
	{
		to[i].p = *jobs[i].p;
		to[i].rows = (const int32_t *) ((uint8_t *) device + ((uint8_t *) rows - (uint8_t *) host));
		to[i].n_rows = jobs[i].n_rows;
		memcpy(rows, jobs[i].rows, jobs[i].n_rows * sizeof(int32_t));
		rows += jobs[i].n_rows;
		for (int op = 0; op < CUDA_LORA_OPS; op++)
		{
			to[i].first[op] = l.blocks[op];
			l.blocks[op] += job_blocks(&jobs[i], op);
		}
	}
	return l;
}

/* ---- kernels ---- */

/* return the block's job; every job with rows has blocks */
static __device__ __forceinline__ const CudaLoraJob *
job_of(const CudaLoraJob *jobs, int n, int op)
{
	int			lo = 0,
				hi = n;

	while (hi - lo > 1)
	{
		int			mid = (lo + hi) / 2;

		if (jobs[mid].first[op] <= (int) blockIdx.x)
			lo = mid;
		else
			hi = mid;
	}
	return &jobs[lo];
}

static __device__ __forceinline__ float
quad_dot(float4 a, float4 b, float sum)
{
	return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

/* compute t of up to 4 rows and ranks r0 .. r1 - 1 */
template <typename X, typename W, bool V> static __device__ __forceinline__ void
shrink_tile(const CudaLoraJob *j, const X *const x[SHRINK_ROWS], int n, int r0, int r1,
			float *const t[SHRINK_ROWS])
{
	int			k = j->p.k,
				lane = threadIdx.x % 32;
	const W    *a = (const W *) j->p.a + (size_t) r0 * k;
	float		acc[SHRINK_ROWS][SHRINK_RANKS] = {};

	for (int i = 4 * lane; i < k; i += 4 * 32)
	{
		float4		v[SHRINK_ROWS];

#pragma unroll
		for (int m = 0; m < SHRINK_ROWS; m++)
			if (m < n)
				v[m] = quad_get<V>(x[m] + i, k - i);
#pragma unroll
		for (int q = 0; q < SHRINK_RANKS; q++)
			if (r0 + q < r1)
			{
				float4		w = quad_get<V>(a + (size_t) q * k + i, k - i);

#pragma unroll
				for (int m = 0; m < SHRINK_ROWS; m++)
					if (m < n)
						acc[m][q] = quad_dot(v[m], w, acc[m][q]);
			}
	}
#pragma unroll
	for (int m = 0; m < SHRINK_ROWS; m++)
#pragma unroll
		for (int q = 0; q < SHRINK_RANKS; q++)
		{
			float		sum = warp_sum(acc[m][q]);

			if (lane == 0 && m < n && r0 + q < r1)
				t[m][r0 + q] = sum * j->p.scale;
		}
}

template <typename X, typename W> static __device__ __forceinline__ void
shrink_as(const CudaLoraJob *j, const X *const x[SHRINK_ROWS], int ldx, int n, int r0, int r1,
		  float *const t[SHRINK_ROWS])
{
	bool		whole = j->p.k % 4 == 0 && ldx % 4 == 0 && (uintptr_t) x[0] % (4 * sizeof(X)) == 0 &&
		(uintptr_t) j->p.a % (4 * sizeof(W)) == 0;

	if (whole)
		shrink_tile<X, W, true>(j, x, n, r0, r1, t);
	else
		shrink_tile<X, W, false>(j, x, n, r0, r1, t);
}

template <typename X> __global__ void __launch_bounds__(THREADS)
shrink_kernel(const CudaLoraJob *jobs, int n_jobs, const X *x, int ldx, float *t, int ldt)
{
	const CudaLoraJob *j = job_of(jobs, n_jobs, CUDA_LORA_SHRINK);
	int			at = blockIdx.x - j->first[CUDA_LORA_SHRINK],
				parts = (j->p.rank + SHRINK_RANKS * WARPS - 1) / (SHRINK_RANKS * WARPS),
				i0 = at / parts * SHRINK_ROWS,
				r0 = at % parts * SHRINK_RANKS * WARPS + threadIdx.x / 32 * SHRINK_RANKS,
				n = min(SHRINK_ROWS, j->n_rows - i0);
	const X    *from[SHRINK_ROWS];
	float	   *to[SHRINK_ROWS];

	if (r0 >= j->p.rank)
		return;
#pragma unroll
	for (int m = 0; m < SHRINK_ROWS; m++)
	{
		size_t		row = m < n ? j->rows[i0 + m] : 0;

		from[m] = x + row * ldx;
		to[m] = t + row * ldt + j->p.at;
	}
	if (j->p.type == KT_F32)
		shrink_as<X, float>(j, from, ldx, n, r0, j->p.rank, to);
	else if (j->p.type == KT_F16)
		shrink_as<X, F16>(j, from, ldx, n, r0, j->p.rank, to);
	else
		shrink_as<X, BF16>(j, from, ldx, n, r0, j->p.rank, to);
}

template <typename X> static void
shrink(const X *x, int ldx, const CudaLora *l, float *t, int ldt, cudaStream_t stream)
{
	LAUNCH(shrink_kernel<X>, l->blocks[CUDA_LORA_SHRINK], THREADS, 0, stream, l->jobs, l->n, x, ldx, t, ldt);
}

void
cuda_lora_shrink(const CudaLora *l, const void *x, KType as, int ldx, float *t, int ldt, cudaStream_t stream)
{
	if (l->blocks[CUDA_LORA_SHRINK] > 0)
		WITH_OPERAND(shrink, as, x, ldx, l, t, ldt, stream);
}

/* compute output c of rows i0 .. i0 + n - 1 of a job */
template <typename W> static __device__ __forceinline__ void
expand_column(const CudaLoraJob *j, int i0, int n, int c, const float *t, int ldt, float *y, int ldy)
{
	const W    *b = (const W *) j->p.b + (size_t) (c / KLORA_PANEL) * j->p.rank * KLORA_PANEL +
		c % KLORA_PANEL;
	const float *from[EXPAND_ROWS];
	float		acc[EXPAND_ROWS] = {};

#pragma unroll
	for (int m = 0; m < EXPAND_ROWS; m++)
		from[m] = t + (m < n ? (size_t) j->rows[i0 + m] * ldt + j->p.at : 0);
	for (int r = 0; r < j->p.rank; r++)
	{
		float		w = to_float(b[(size_t) r * KLORA_PANEL]);

#pragma unroll
		for (int m = 0; m < EXPAND_ROWS; m++)
			if (m < n)
				acc[m] = fmaf(from[m][r], w, acc[m]);
	}
#pragma unroll
	for (int m = 0; m < EXPAND_ROWS; m++)
		if (m < n)
			y[(size_t) j->rows[i0 + m] * ldy + j->p.col + c] += acc[m];
}

__global__ void __launch_bounds__(THREADS)
expand_kernel(const CudaLoraJob *jobs, int n_jobs, const float *t, int ldt, float *y, int ldy)
{
	const CudaLoraJob *j = job_of(jobs, n_jobs, CUDA_LORA_EXPAND);
	int			at = blockIdx.x - j->first[CUDA_LORA_EXPAND],
				parts = (j->p.n + THREADS - 1) / THREADS,
				i0 = at / parts * EXPAND_ROWS,
				c = at % parts * THREADS + threadIdx.x,
				n = min(EXPAND_ROWS, j->n_rows - i0);

	if (c >= j->p.n)
		return;
	if (j->p.type == KT_F32)
		expand_column<float>(j, i0, n, c, t, ldt, y, ldy);
	else if (j->p.type == KT_F16)
		expand_column<F16>(j, i0, n, c, t, ldt, y, ldy);
	else
		expand_column<BF16>(j, i0, n, c, t, ldt, y, ldy);
}

void
cuda_lora_expand(const CudaLora *l, const float *t, int ldt, float *y, int ldy, cudaStream_t stream)
{
	if (l->blocks[CUDA_LORA_EXPAND] > 0)
		LAUNCH(expand_kernel, l->blocks[CUDA_LORA_EXPAND], THREADS, 0, stream, l->jobs, l->n, t, ldt, y, ldy);
}

/* one warp per row: row of an adapter's embedding, whose a is [inputs][rank] */
__global__ void __launch_bounds__(THREADS)
lora_rows_kernel(const CudaLoraJob *jobs, int n_jobs, const int32_t *ids, float *t, int ldt)
{
	const CudaLoraJob *j = job_of(jobs, n_jobs, CUDA_LORA_ROWS);
	int			i = (blockIdx.x - j->first[CUDA_LORA_ROWS]) * WARPS + threadIdx.x / 32,
				row = i < j->n_rows ? j->rows[i] : -1,
				id = row >= 0 ? ids[row] : -1;

	for (int r = threadIdx.x % 32; row >= 0 && r < j->p.rank; r += 32)
	{
		size_t		at = (size_t) id * j->p.rank + r;
		float		v = 0.0f;

		if (id >= 0 && id < j->p.k)
			v = j->p.type == KT_F32 ? ((const float *) j->p.a)[at] : j->p.type == KT_F16 ?
				to_float(((const F16 *) j->p.a)[at]) : to_float(((const BF16 *) j->p.a)[at]);
		t[(size_t) row * ldt + j->p.at + r] = v * j->p.scale;
	}
}

void
cuda_lora_rows(const CudaLora *l, const int32_t *ids, float *t, int ldt, cudaStream_t stream)
{
	if (l->blocks[CUDA_LORA_ROWS] > 0)
		LAUNCH(lora_rows_kernel, l->blocks[CUDA_LORA_ROWS], THREADS, 0, stream, l->jobs, l->n, ids, t, ldt);
}
