/*
 * quantize.h
 *	  Quantized rows from float ones, and the schemes that users name.
 */
#ifndef VLLM_QUANT_QUANTIZE_H
#define VLLM_QUANT_QUANTIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "blocks.h"

/* What the model options "quantization" and "dtype" stand for. */
typedef struct QuantScheme
{
	const char *name;			/* "int8", "q4_k", ...: one of a kind */
	KType		matrix;			/* of all other matrices */
	KType		head;			/* of the embedding and of the head */
	bool		is_float;		/* a dtype: matrices that are quantized already stay as they are */
} QuantScheme;

/* NULL when there is no such scheme; "int4" is "q4_k", so that models quantized
 * alike share weights and their copies on disk. */
const QuantScheme *quant_scheme(const char *name);
/* The same of dtypes: float32, float16 (half), bfloat16. */
const QuantScheme *quant_dtype(const char *name);
/* "int8, int4, ..." for messages */
const char *quant_scheme_list(void);

/*
 * The type that a float matrix with rows of k gets when t is wanted: t, or where
 * k is no multiple of its block the next of about that size (Q4_K: Q4_1, Q6_K:
 * Q8_0), or KT_COUNT: none fits, the matrix stays as it is.
 */
KType		quantize_type(KType t, int64_t k);

/*
 * k floats to a row of type t (as quantize_type returned it) of
 * ktype_row_bytes(t, k) bytes at out, which needs no alignment.  Deterministic.  A
 * NaN or Inf makes its block's scale NaN, so that it shows.
 */
void		quantize_row(KType t, const float *x, int64_t k, void *out);
/* the same without what only some CPUs have; for tests, which compare both */
void		quantize_row_plain(KType t, const float *x, int64_t k, void *out);

#endif
