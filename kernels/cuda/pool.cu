/*
 * pool.cu
 *	  Pooling: add each sequence's hidden rows of a step to its sums, which outlive the step.
 *
 * A thread has one column and processes a sequence's rows in the order of positions, so the sums have
 * the bits of src/model/layers/pooler.c however a text was split into steps.  The division is in double,
 * as there.
 */
#include "cuda/common.cuh"
#include "cuda/cuda_ops.h"

#include <float.h>

#define THREADS 128

/* sum: the sequence's row of sums; its rows start at seq_start[s] */
__global__ void __launch_bounds__(THREADS)
pool_kernel(KPoolAdd how, float *sums, int lds, const KPoolSeq *seqs, const float *x, int ldx, int width)
{
	const KPoolSeq q = seqs[blockIdx.y];
	int			c = blockIdx.x * THREADS + threadIdx.x;
	float	   *at = sums + (size_t) q.slot * lds + c;
	float		sum;

	if (c >= width)
		return;
	sum = !q.begins ? *at : how == KPOOL_MAX ? -FLT_MAX : 0.0f;
	for (int i = 0; i < q.rows; i++)
	{
		float		v = x[(size_t) (q.row + i) * ldx + c];

		if (how == KPOOL_COPY)
			sum = v;
		else if (how == KPOOL_SUM)
			sum += v;
		else if (how == KPOOL_MAX)
			sum = v > sum || isnan(v) ? v : sum;
		else
			sum += (float) (q.pos + i + 1) * v;
	}
	*at = q.by != 0.0 ? (float) (sum / q.by) : sum;
}

void
cuda_pool_rows(KPoolAdd how, float *sums, int lds, const KPoolSeq *seqs, int n_seqs, const float *x, int ldx,
			   int width, cudaStream_t stream)
{
	if (n_seqs > 0)
		LAUNCH(pool_kernel, dim3((width + THREADS - 1) / THREADS, n_seqs), THREADS, 0, stream, how, sums, lds,
			   seqs, x, ldx, width);
}
