/*
 * quant.h
 *	  Weight formats as files store them.
 *
 * A format is one row in quant.def, with a function in kernels/quants.c that decodes its bits.  The
 * loader looks up here what a container's type id means, how many bytes a row takes and whether its
 * scales are finite.  quantize.c makes some of the formats from float weights.
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
	int			gguf_id;		/* type id in a GGUF file, QUANT_NONE = not in GGUF files */
	const char *dtype;			/* dtype in a safetensors header, "" = none */
	int			block;			/* elements in a block */
	int			bytes;			/* bytes in a block */
	int			scale[2];		/* see quant.def */
} Quant;

/* All return NULL if there is no such format. */
const Quant *quant_get(KType type);
const Quant *quant_by_gguf(uint32_t gguf_id);
const Quant *quant_by_dtype(const char *dtype);

/* Lists such as "F32, F16, ..." for hints: the formats of a GGUF file, or of safetensors. */
const char *quant_gguf_list(void);
const char *quant_dtype_list(void);

/* Return the index of the first block with a NaN or Inf scale among n elements at src, -1 if all are
 * finite. */
int64_t		quant_check(const Quant *q, const void *src, int64_t n);

#endif
