/*
 * f32.c
 *	  Weight format F32: IEEE single, little-endian.
 */
#include <string.h>

#include "quant/quant.h"

void
f32_to_float(const void *src, int64_t n, float *out)
{
	memcpy(out, src, (size_t) n * sizeof(float));
}

int64_t
f32_check(const void *src, int64_t n)
{
	(void) src;
	(void) n;
	return -1;					/* no scales */
}
