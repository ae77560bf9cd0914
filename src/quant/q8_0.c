/*
 * q8_0.c
 *	  Weight format Q8_0 of GGUF: blocks of 32 weights along the innermost
 *	  dimension, a half-precision scale and 32 signed bytes; w = d * q.
 */
#include <string.h>

#include "quant/quant.h"

void
q8_0_to_float(const void *src, int64_t n, float *out)
{
	const uint8_t *p = src;

	for (int64_t b = 0; b < n / Q8_0_BLOCK; b++)
	{
		KBlockQ8_0	blk;
		float		d;

		memcpy(&blk, p + (size_t) b * sizeof(blk), sizeof(blk));
		d = quant_half(blk.d);
		for (int i = 0; i < Q8_0_BLOCK; i++)
			out[b * Q8_0_BLOCK + i] = d * (float) blk.qs[i];
	}
}

int64_t
q8_0_check(const void *src, int64_t n)
{
	const uint8_t *p = src;

	for (int64_t b = 0; b < n / Q8_0_BLOCK; b++)
	{
		uint16_t	d;

		memcpy(&d, p + (size_t) b * sizeof(KBlockQ8_0), sizeof(d));
		if ((d & 0x7c00) == 0x7c00)
			return b;
	}
	return -1;
}
