/*
 * bf16.c
 *	  Weight format BF16: the upper half of an IEEE single, little-endian.
 */
#include <string.h>

#include "quant/quant.h"

void
bf16_to_float(const void *src, int64_t n, float *out)
{
	const uint8_t *p = src;

	for (int64_t i = 0; i < n; i++)
	{
		uint16_t	h;

		memcpy(&h, p + 2 * i, sizeof(h));
		out[i] = quant_bhalf(h);
	}
}

int64_t
bf16_check(const void *src, int64_t n)
{
	(void) src;
	(void) n;
	return -1;					/* no scales */
}
