/*
 * vector_encoding.h
 *	  Vectors as bytes: element types, order of bytes, base64.
 */
#ifndef VLLM_SERVER_API_VECTOR_ENCODING_H
#define VLLM_SERVER_API_VECTOR_ENCODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

typedef enum VectorType
{
	VT_FLOAT32, VT_FLOAT16, VT_BFLOAT16, VT_FP8_E4M3, VT_FP8_E5M2
} VectorType;

/* "float32", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2"; false: none of them */
bool		vector_type_by_name(const char *name, VectorType *out);
/* The bits of a number in a type, rounded to nearest even; too large: infinity, with fp8_e4m3 NaN. */
uint32_t	vector_bits(VectorType t, float f);
/* Append the numbers' bytes. */
void		vector_bytes(VectorType t, bool big_endian, const float *v, size_t n, Buf *out);
void		base64_add(Buf *out, const void *data, size_t n);
/*
 * Append what s is in base64; false: it is none, strictly (no white space, whole groups of 4, no bits left
 * over).
 */
bool		base64_read(Buf *out, const char *s, size_t n);

#endif
