/*
 * quantize.h
 *	  Make quantized rows from float rows, and the schemes that users name.
 */
#ifndef VLLM_QUANT_QUANTIZE_H
#define VLLM_QUANT_QUANTIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "blocks.h"

/* What products do with the activations of quantized weights: values of the option activation_scheme. */
typedef enum XScheme
{
	X_AUTO,						/* round them to 8 bits, in groups that the kernels choose */
	X_FLOAT,					/* use them as they are */
	X_DYNAMIC,					/* INT8: round them to 8 bits with one scale a token */
	X_STATIC,					/* INT8: round them to 8 bits with the scale that the files have */
	X_SCHEMES
} XScheme;

/* Return the option's value: "auto", "float", "dynamic" or "static". */
const char *x_scheme_name(XScheme x);

/* A value of the model options "quantization" and "dtype". */
typedef struct QuantScheme
{
	const char *name;			/* "int8", "q4_k", ...: one name for each scheme, aliases resolved */
	KType		matrix;			/* type of all other matrices */
	KType		head;			/* type of the embedding and of the head */
	bool		is_float;		/* a dtype: matrices that are quantized already stay as they are */
	XScheme		x;				/* quant_with_x() */
} QuantScheme;

/* Return a scheme, NULL if there is none of that name.  "int4" gives "q4_k", so that models quantized by
 * either name share weights and their copies on disk. */
const QuantScheme *quant_scheme(const char *name);
/* Return the scheme of a dtype: float32, float16 (half), bfloat16. */
const QuantScheme *quant_dtype(const char *name);
/* Return "int8, int4, ..." for messages. */
const char *quant_scheme_list(void);
/*
 * Return the scheme that converts as q does (NULL: not at all) and then changes types as quantize_for_x()
 * says; q for X_AUTO.
 */
const QuantScheme *quant_with_x(const QuantScheme *q, XScheme x);
/*
 * Return the type in which a matrix of type t is multiplied by such activations.  Floats and FP8 stay.
 * X_FLOAT: Q4_0, Q4_1 and INT8 become KT_Q4_0F, KT_Q4_1F and KT_INT8F, which have the same rows, all
 * others F16.  X_DYNAMIC: INT8 becomes KT_INT8D, which has the same rows.  X_STATIC: it becomes KT_INT8S,
 * whose rows only a reader has (KReader.with_x).
 */
KType		quantize_for_x(KType t, XScheme x);
/* Return the type of the file whose rows those of t are: t, except for what quantize_for_x() makes. */
KType		quantize_rows_of(KType t);

/*
 * Return the type that a float matrix with rows of k gets if t is requested: t, or if k is no multiple
 * of its block the next type of about that size (Q4_K: Q4_1, Q6_K: Q8_0), or KT_COUNT if none fits; then
 * the matrix stays as it is.
 */
KType		quantize_type(KType t, int64_t k);

/*
 * Quantize k floats to a row of type t (as returned by quantize_type()).  The row has ktype_row_bytes(t,
 * k) bytes at out, which needs no alignment.  Deterministic.  A NaN or Inf makes its block's scale NaN,
 * so that checks find it.
 */
void		quantize_row(KType t, const float *x, int64_t k, void *out);
/* The same without CPU-specific instructions.  Tests compare both. */
void		quantize_row_plain(KType t, const float *x, int64_t k, void *out);

#endif
