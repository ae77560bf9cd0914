/*
 * blaslt.h
 *	  Products of many rows by cuBLASLt, where it is installed and where it may be used.
 */
#ifndef VLLM_KERNELS_CUDA_BLASLT_H
#define VLLM_KERNELS_CUDA_BLASLT_H

#include "cuda/common.cuh"
#include "kernels.h"

/* Products of fewer rows are own kernels: weights of floats, other weights. */
#define BLASLT_ROWS			512
#define BLASLT_ROWS_BLOCKS	256
/* bytes of weights that are unpacked at once: what is written stays in the L2 until it is read */
#define BLASLT_TILE			((size_t) 32 << 20)

typedef struct Blaslt Blaslt;

/* What it did so far, for tests and for the log. */
typedef struct BlasltCounts
{
	int			plans;			/* shapes that were looked at, */
	int			own;			/* of which own kernels have */
	uint64_t	products;		/* made by cuBLASLt */
} BlasltCounts;

typedef struct BlasltMm
{
	const KMat *w;
	const void *x;
	KType		as;				/* of x */
	int			rows;
	int			ldx;
	float	   *y;
	int			ldy;
	const float *bias;			/* NULL: none */
	bool		captured;		/* the stream is being recorded: nobody may wait */
} BlasltMm;

/*
 * For the device at hand.  invariant: only where it has the bits of cuda_mm(), whatever the number of rows;
 * wgmma: of its kernels of that kind.  NULL: products are cuda_mm()'s; why in `why`.
 */
Blaslt	   *blaslt_open(bool invariant, bool wgmma, size_t tile, void (*log) (char level, const char *text),
						char *why, size_t size);
void		blaslt_close(Blaslt *b);
/* y = x w^T + bias; false: that is cuda_mm()'s */
bool		blaslt_mm(Blaslt *b, const BlasltMm *p, cudaStream_t stream);
BlasltCounts blaslt_counts(const Blaslt *b);

#endif
