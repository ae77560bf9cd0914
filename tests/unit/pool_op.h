/*
 * pool_op.h
 *	  The op `pool_rows` for a device that is the CPUs (hostdev.h), as kernels.h defines it.
 */
#ifndef VLLM_TESTS_POOL_OP_H
#define VLLM_TESTS_POOL_OP_H

#include <float.h>
#include <math.h>
#include <stdatomic.h>

#include "kernels.h"

static atomic_int pool_op_rows;	/* rows that it was given */

static inline float
pool_op_add(KPoolAdd how, float sum, float x, int pos)
{
	switch (how)
	{
		case KPOOL_COPY:
			return x;
		case KPOOL_SUM:
			return sum + x;
		case KPOOL_MAX:
			return x > sum || isnan(x) ? x : sum;
		case KPOOL_WEIGHTED:
			break;
	}
	return sum + (float) (pos + 1) * x;
}

static inline void
pool_op(KPool *pool, KPoolAdd how, float *sums, int lds, const KPoolSeq *seqs, int n, const float *x, int ldx,
		int width)
{
	(void) pool;
	for (const KPoolSeq *q = seqs; q < seqs + n; q++)
		for (int c = 0; c < width; c++)
		{
			float	   *at = sums + (size_t) q->slot * (size_t) lds + c;
			float		sum = !q->begins ? *at : how == KPOOL_MAX ? -FLT_MAX : 0;

			for (int i = 0; i < q->rows; i++)
				sum = pool_op_add(how, sum, x[(size_t) (q->row + i) * (size_t) ldx + (size_t) c], q->pos + i);
			*at = q->by != 0 ? (float) (sum / q->by) : sum;
		}
	for (int i = 0; i < n; i++)
		atomic_fetch_add(&pool_op_rows, seqs[i].rows);
}

#endif
