/*
 * blaslt.h
 *	  Products of many rows with cuBLASLt, if it is installed and allowed.
 */
#ifndef VLLM_KERNELS_CUDA_BLASLT_H
#define VLLM_KERNELS_CUDA_BLASLT_H

#include "cuda/common.cuh"
#include "kernels.h"

/* Fewer rows are computed by this code's own kernels: for weights of floats, for other weights. */
#define BLASLT_ROWS			512
#define BLASLT_ROWS_BLOCKS	256
/* bytes of weights that are unpacked at once: they stay in the L2 until they are read */
#define BLASLT_TILE			((size_t) 32 << 20)

typedef struct Blaslt Blaslt;

/* Counters, for tests and for the log. */
typedef struct BlasltCounts
{
	int			plans;			/* shapes that were examined */
	int			own;			/* of these, shapes computed by own kernels */
	uint64_t	products;		/* computed by cuBLASLt */
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
	bool		captured;		/* the stream is being recorded: waiting is not allowed */
} BlasltMm;

/*
 * Open it for the current device.  invariant: use it only where it has the bits of cuda_mm(), whatever
 * the number of rows; wgmma: own kernels are of that kind.  Return NULL with the reason in `why`: then
 * cuda_mm() computes all products.
 */
Blaslt	   *blaslt_open(bool invariant, bool wgmma, size_t tile, void (*log) (char level, const char *text),
						char *why, size_t size);
void		blaslt_close(Blaslt *b);
/* y = x w^T + bias; false: cuda_mm() must compute it */
bool		blaslt_mm(Blaslt *b, const BlasltMm *p, cudaStream_t stream);
BlasltCounts blaslt_counts(const Blaslt *b);

#endif
