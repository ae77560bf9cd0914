/*
 * quant.h
 *	  Weight formats as they lie in files.
 *
 * A format is one row in quant.def (and a function in kernels/quants.c, which
 * knows its bits).  The loader asks here what a container's type id means, how
 * many bytes a row takes and whether its scales make sense.  quantize.c makes
 * some of the formats from float weights.
 */
#ifndef VLLM_QUANT_QUANT_H
#define VLLM_QUANT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocks.h"

#define QUANT_NONE	(-1)
#define QUANT_E8M0	(-2)

typedef struct Quant
{
	KType		type;
	int			gguf_id;		/* type id in a GGUF file, QUANT_NONE = can't be there */
	const char *dtype;			/* dtype in a safetensors header, "" = none */
	int			block;			/* elements in a block */
	int			bytes;			/* bytes in a block */
	int			scale[2];		/* see quant.def */
} Quant;

/* All return NULL when there is no such format. */
const Quant *quant_get(KType type);
const Quant *quant_by_gguf(uint32_t gguf_id);
const Quant *quant_by_dtype(const char *dtype);

/* "F32, F16, ..." for hints: the formats of a GGUF file, or of safetensors */
const char *quant_gguf_list(void);
const char *quant_dtype_list(void);

/* Of n elements at src: index of the first block with a NaN or Inf scale, -1 =
 * all are finite. */
int64_t		quant_check(const Quant *q, const void *src, int64_t n);

#endif
