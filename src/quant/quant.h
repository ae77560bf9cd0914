/*
 * quant.h
 *	  Weight formats as they lie in files.
 *
 * A format is one file (f16.c, q8_0.c, ...) and one row in quant.def.  The
 * loader asks here what a container's type id means, how many bytes a row takes
 * and whether its contents make sense; to_float is the format's definition in C,
 * against which packed kernels and the reference are tested.
 */
#ifndef VLLM_QUANT_QUANT_H
#define VLLM_QUANT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocks.h"

typedef struct Quant
{
	KType		type;
	int			gguf_id;		/* type id in a GGUF file */
	const char *dtype;			/* dtype in a safetensors header, "" = none */
	int			block;			/* elements in a block */
	int			bytes;			/* bytes in a block */
	/* n elements (a multiple of block) at src, unaligned, to float */
	void		(*to_float) (const void *src, int64_t n, float *out);
	/* index of the first block with a NaN or Inf scale, -1 = all are finite */
	int64_t		(*check) (const void *src, int64_t n);
} Quant;

/* All return NULL when there is no such format. */
const Quant *quant_get(KType type);
const Quant *quant_by_gguf(uint32_t gguf_id);
const Quant *quant_by_dtype(const char *dtype);

/* "F32, F16, ..." for hints: the formats of a GGUF file, or of safetensors */
const char *quant_gguf_list(void);
const char *quant_dtype_list(void);

/* IEEE half and bfloat16 to float, exact (subnormals, Inf and NaN included) */
float		quant_half(uint16_t h);
float		quant_bhalf(uint16_t h);

#define QUANT(type, prefix, id, dtype, block, bytes) \
	void		prefix##_to_float(const void *src, int64_t n, float *out); \
	int64_t		prefix##_check(const void *src, int64_t n);
#include "quant/quant.def"
#undef QUANT

#endif
