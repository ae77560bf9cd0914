/*
 * quant.c
 *	  The table of weight formats, built from quant.def, and its look-ups.
 *
 * Tested by tests/unit/test_load_quant.c.
 */
#include "quant/quant.h"

#include <string.h>

static const Quant quants[] = {
#define QUANT(type, prefix, id, dtype, block, bytes) \
	{type, id, dtype, block, bytes, prefix##_to_float, prefix##_check},
#include "quant/quant.def"
#undef QUANT
};

#define N_QUANTS (sizeof(quants) / sizeof(quants[0]))

_Static_assert(N_QUANTS <= KT_COUNT, "quant.def has at most one row for each KType");

const Quant *
quant_get(KType type)
{
	for (size_t i = 0; i < N_QUANTS; i++)
		if (quants[i].type == type)
			return &quants[i];
	return NULL;
}

const Quant *
quant_by_gguf(uint32_t gguf_id)
{
	for (size_t i = 0; i < N_QUANTS; i++)
		if ((uint32_t) quants[i].gguf_id == gguf_id)
			return &quants[i];
	return NULL;
}

const Quant *
quant_by_dtype(const char *dtype)
{
	for (size_t i = 0; i < N_QUANTS; i++)
		if (quants[i].dtype[0] != '\0' && strcmp(quants[i].dtype, dtype) == 0)
			return &quants[i];
	return NULL;
}

const char *
quant_gguf_list(void)
{
	return "F32, F16, BF16 and Q8_0";
}

const char *
quant_dtype_list(void)
{
	return "F32, F16 and BF16";
}

float
quant_bhalf(uint16_t h)
{
	uint32_t	u = (uint32_t) h << 16;
	float		f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

float
quant_half(uint16_t h)
{
	uint32_t	sign = (uint32_t) (h & 0x8000) << 16;
	uint32_t	exp = (h >> 10) & 31;
	uint32_t	man = h & 1023;
	uint32_t	u;
	float		f;

	if (exp == 0)
	{
		/* zero and subnormals: man * 2^-24 is exact in float */
		f = (float) man * 0x1p-24f;
		return sign ? -f : f;
	}
	if (exp == 31)
		u = sign | 0x7f800000u | man << 13;
	else
		u = sign | (exp + 112) << 23 | man << 13;
	memcpy(&f, &u, sizeof(f));
	return f;
}
