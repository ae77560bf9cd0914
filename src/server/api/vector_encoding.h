/*
 * vector_encoding.h
 *	  Encodings of vectors as bytes: element types, byte order, base64.
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

/* Find "float32", "float16", "bfloat16", "fp8_e4m3" or "fp8_e5m2".  Returns false for any other name. */
bool		vector_type_by_name(const char *name, VectorType *out);
/*
 * Return the bits of a number in a type, rounded to nearest even.  A number that is too large becomes
 * infinity, with fp8_e4m3 NaN.
 */
uint32_t	vector_bits(VectorType t, float f);
/* Append the numbers' bytes. */
void		vector_bytes(VectorType t, bool big_endian, const float *v, size_t n, Buf *out);
void		base64_add(Buf *out, const void *data, size_t n);
/*
 * Decode base64 and append the bytes.  Returns false if s is not strict base64 (no white space, complete
 * groups of 4, no bits left over).
 */
bool		base64_read(Buf *out, const char *s, size_t n);

#endif
