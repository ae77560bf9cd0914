/*
 * mm.h
 *	  Products with packed matrices on CUDA: the interface between cuda_mm() and cuda_mm_grouped()
 *	  (cuda_ops.h) and the files with their kernels.
 */
#ifndef VLLM_KERNELS_CUDA_MM_H
#define VLLM_KERNELS_CUDA_MM_H

#include "cuda/mm/mm_weights.cuh"

/*
 * k of one partial sum; a row's partial sums are added in float, ascending.  It is a constant, so that
 * the bits depend only on k and not on rows, columns or the GPU.
 */
#define MM_SEGMENT	1024

/* Matrices of at least this many outputs have enough blocks without splitting k. */
#define MM_WIDE		16384
/* At most this many rows are "few": a block has all of them, and one segment of k. */
#define MM_FEW		32

/*
 * For products of codes by codes: k that share a scale of x, and the scratch of such products: codes,
 * and a float for each group.
 */
#define W8A8_GROUP	128

LAYOUT_FN int
w8a8_groups(int k)
{
	return (k + W8A8_GROUP - 1) / W8A8_GROUP;
}

LAYOUT_FN size_t
w8a8_scratch(int rows, int k)
{
	return (size_t) rows * (size_t) w8a8_groups(k) * (W8A8_GROUP + sizeof(float));
}

typedef struct MmArgs
{
	const uint8_t *w;			/* the matrix */
	const void *const *ws;		/* or, if not NULL: [n_mats] matrices in the device's memory */
	const int32_t *start;		/* [n_mats + 1] first rows, in the device's memory */
	int			n_mats;
	Codebook	book;
	const void *x;
	int			ldx;
	int			rows;
	bool		vectors;		/* rows of x begin at multiples of 16 bytes */
	float	   *y;
	int			ldy;
	const float *bias;
	const float *const *biases; /* with ws: NULL, or for each matrix its bias or NULL; in the device's
								 * memory */
	float	   *part;			/* not NULL: [segment][rows][n] partial sums, for mm_sum */
	int			n;
	int			k;
} MmArgs;

/* the tile of a block */
typedef enum MmShape
{
	MM_8,						/* 64 outputs x 8 rows */
	MM_32,						/* 64 x 32 */
	MM_MANY						/* 128 x 96; weights in groups 128 x 64 */
} MmShape;

/* one file for each; false: it has no such kernel */
bool		mm_dense(const MmArgs *a, const CudaLayout *l, KType w, KType x, MmShape shape,
					 cudaStream_t stream);
bool		mm_nibble(const MmArgs *a, const CudaLayout *l, KType x, MmShape shape, cudaStream_t stream);
bool		mm_byte(const MmArgs *a, const CudaLayout *l, KType x, MmShape shape, cudaStream_t stream);
bool		mm_fp8(const MmArgs *a, const CudaLayout *l, KType x, MmShape shape, cudaStream_t stream);
/* x: any type; ws: w8a8_scratch() bytes */
void		mm_int8(const MmArgs *a, KType x, MmShape shape, void *ws, cudaStream_t stream);
void		mm_fp8_a8(const MmArgs *a, KType x, MmShape shape, void *ws, cudaStream_t stream);
/* with wgmma, for all shapes or for none: other kernels compute the other formats for all numbers of
 * rows */
bool		mm_sm90(const MmArgs *a, const CudaLayout *l, KType w, KType x, MmShape shape,
					cudaStream_t stream);
bool		mm_quant_sm90(const MmArgs *a, const CudaLayout *l, MmShape shape, cudaStream_t stream);

#endif
