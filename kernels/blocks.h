/*
 * blocks.h
 *	  Element types of weights and KV, and their packed block layouts: the one
 *	  thing that src/quant, src/load, src/model and the kernels share.
 */
#ifndef VLLM_KERNELS_BLOCKS_H
#define VLLM_KERNELS_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

typedef enum KType
{
	KT_F32 = 0,
	KT_F16,
	KT_BF16,
	KT_Q8_0,
	KT_COUNT
} KType;

/* GGUF Q8_0: 32 weights, value = d * qs[i] */
#define Q8_0_BLOCK 32
typedef struct KBlockQ8_0
{
	uint16_t	d;				/* scale, IEEE half */
	int8_t		qs[Q8_0_BLOCK];
} KBlockQ8_0;

_Static_assert(sizeof(KBlockQ8_0) == 34, "Q8_0 block is 34 bytes, as in GGUF");

/*
 * A tensor as it lies in a file: row-major, outermost dimension first
 * (a matrix is [n_out][n_in]), unaligned and read-only.  Quantized types pack
 * along the innermost dimension.
 */
typedef struct KTensor
{
	const char *name;			/* Hugging Face's name; owned by the loader */
	KType		type;
	int			ndim;			/* 1..4 */
	int64_t		shape[4];
	const void *data;
	size_t		nbytes;
	/* Not NULL: logical row i is stored row row_perm[i] (GGUF's permuted q/k). */
	const int32_t *row_perm;
} KTensor;

/* bytes of n consecutive elements (n a multiple of the block); 0 if it isn't */
size_t		ktype_row_bytes(KType t, int64_t n);
const char *ktype_name(KType t);	/* "F32", "BF16", ... */

#endif
