/*
 * norm.cu
 *	  RMSNorm: a block a row.
 *
 * Row invariant: thread t sums columns t, t + THREADS, ... (of float4 where the row's
 * length is a multiple of 4), then the tree of block_sum(); neither knows the number of
 * rows.  Reads a row twice; the second time it comes from L2.
 */
#include "cuda/common.cuh"
#include "cuda/cuda_ops.h"

#define WARPS	8
#define THREADS (WARPS * 32)

static __device__ __forceinline__ float
square(float v, float sum)
{
	return fmaf(v, v, sum);
}

static __device__ __forceinline__ float
square(float4 v, float sum)
{
	return fmaf(v.w, v.w, fmaf(v.z, v.z, fmaf(v.y, v.y, fmaf(v.x, v.x, sum))));
}

static __device__ __forceinline__ float
scaled(float v, float r)
{
	return v * r;
}

static __device__ __forceinline__ float4
scaled(float4 v, float r)
{
	return make_float4(v.x * r, v.y * r, v.z * r, v.w * r);
}

static __device__ __forceinline__ float
times(float v, float w)
{
	return v * w;
}

static __device__ __forceinline__ float4
times(float4 v, float4 w)
{
	return make_float4(v.x * w.x, v.y * w.y, v.z * w.z, v.w * w.w);
}

/* n: of V in a row */
template <typename V> __global__ void __launch_bounds__(THREADS)
rmsnorm_kernel(V *y, const V *x, const V *w, int n, float dim, float eps)
{
	SHARED(float, sums, [WARPS]);
	size_t		row = (size_t) blockIdx.x * n;
	float		sum = 0.0f,
				r;

	for (int i = threadIdx.x; i < n; i += THREADS)
		sum = square(x[row + i], sum);
	sum = block_sum<WARPS>(sum, sums);
	r = 1.0f / sqrtf(sum / dim + eps);
	for (int i = threadIdx.x; i < n; i += THREADS)
	{
		V			v = scaled(x[row + i], r);

		y[row + i] = w != NULL ? times(v, w[i]) : v;
	}
}

void
cuda_rmsnorm(float *y, const float *x, const float *w, int rows, int dim, float eps, cudaStream_t stream)
{
	if (rows == 0)
		return;
	if (dim % 4 == 0)
		LAUNCH(rmsnorm_kernel<float4>, rows, THREADS, 0, stream,
			   (float4 *) y, (const float4 *) x, (const float4 *) w, dim / 4, (float) dim, eps);
	else
		LAUNCH(rmsnorm_kernel<float>, rows, THREADS, 0, stream, y, x, w, dim, (float) dim, eps);
}
