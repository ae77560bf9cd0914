/*
 * pool.cu
 *	  Pooling: a step's hidden rows of each sequence into its sums, which outlive the step.
 *
 * A thread has a column and goes through a sequence's rows in the order of positions, so the sums have the bits of
 * src/model/pooler.c however a text was cut.  What is divided by, and lengths, are double as there; a length's sum of
 * squares ascends with columns, by one warp whose lanes all add the same numbers.
 */
#include "cuda/common.cuh"
#include "cuda/cuda_ops.h"

#include <float.h>

#define THREADS 128

/* sum of a sequence: its row of sums; rows from seq_start[s] on */
__global__ void __launch_bounds__(THREADS)
pool_kernel(CudaPoolAdd add, float *sums, int lds, const CudaPoolSeq *seqs, const float *x, int ldx, int width)
{
	const CudaPoolSeq q = seqs[blockIdx.y];
	int			c = blockIdx.x * THREADS + threadIdx.x;
	float	   *at = sums + (size_t) q.slot * lds + c;
	float		sum;

	if (c >= width)
		return;
	sum = !q.begins ? *at : add == CUDA_POOL_MAX ? -FLT_MAX : 0.0f;
	for (int i = 0; i < q.rows; i++)
	{
		float		v = x[(size_t) (q.row + i) * ldx + c];

		if (add == CUDA_POOL_COPY)
			sum = v;
		else if (add == CUDA_POOL_SUM)
			sum += v;
		else if (add == CUDA_POOL_MAX)
			sum = v > sum || isnan(v) ? v : sum;
		else
			sum += (float) (q.pos + i + 1) * v;
	}
	*at = q.by != 0.0 ? (float) (sum / q.by) : sum;
}

void
cuda_pool_rows(CudaPoolAdd add, float *sums, int lds, const CudaPoolSeq *seqs, int n_seqs, const float *x, int ldx, int width,
			   cudaStream_t stream)
{
	if (n_seqs > 0)
		LAUNCH(pool_kernel, dim3((width + THREADS - 1) / THREADS, n_seqs), THREADS, 0, stream, add, sums, lds, seqs, x, ldx,
			   width);
}

/* a warp a row; what has no length stays as it is */
__global__ void __launch_bounds__(32)
length1_kernel(float *x, int ld, int n)
{
	float	   *row = x + (size_t) blockIdx.x * ld;
	double		sum = 0.0;

	for (int c = 0; c < n; c += 32)
	{
		int			i = c + threadIdx.x;
		double		v = i < n ? (double) row[i] : 0.0;

		v *= v;
		for (int j = 0; j < 32 && c + j < n; j++)
			sum += __shfl_sync(FULL_MASK, v, j);
	}
	if (sum > 0.0)
		for (int i = threadIdx.x; i < n; i += 32)
			row[i] = (float) (row[i] / sqrt(sum));
}

void
cuda_length1(float *x, int rows, int ld, int n, cudaStream_t stream)
{
	if (rows > 0)
		LAUNCH(length1_kernel, rows, 32, 0, stream, x, ld, n);
}
