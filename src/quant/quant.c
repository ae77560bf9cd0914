/*
 * quant.c
 *	  The table of weight formats, built from quant.def, and its look-ups.
 *
 * Tested by tests/unit/quant/test_load_quant.c.
 */
#include "quant/quant.h"

#include <string.h>

static const Quant quants[] = {
#define QUANT(type, id, dtype, block, bytes, scale1, scale2) \
	{type, id, dtype, block, bytes, {scale1, scale2}},
#include "quant/quant.def"
#undef QUANT
};

#define N_QUANTS (sizeof(quants) / sizeof(quants[0]))

_Static_assert(N_QUANTS == KT_END - 11, "quant.def has one row for each KType that files hold");

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
		if (quants[i].gguf_id >= 0 && (uint32_t) quants[i].gguf_id == gguf_id)
			return &quants[i];
	return NULL;
}

const Quant *
quant_by_dtype(const char *dtype)
{
	/* Boolean masks of old checkpoints: accept them as U8, as nothing reads them. */
	if (strcmp(dtype, "BOOL") == 0)
		dtype = "U8";
	for (size_t i = 0; i < N_QUANTS; i++)
		if (quants[i].dtype[0] != '\0' && strcmp(quants[i].dtype, dtype) == 0)
			return &quants[i];
	return NULL;
}

const char *
quant_gguf_list(void)
{
	return "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, "
		"IQ4_NL, IQ4_XS, MXFP4 and NVFP4";
}

const char *
quant_dtype_list(void)
{
	return "F32, F16 and BF16; of quantized checkpoints also U8, I8, I16, I32, I64, F8_E4M3, F8_E5M2 and "
		   "F8_E8M0";
}

/* Return true if the scale at offset `at` of a block is NaN or Inf. */
static bool
bad_scale(const uint8_t *block, int at)
{
	if (at == QUANT_NONE)
		return false;
	if (at == QUANT_E8M0)
		return block[0] == 0xff;
	return (block[at + 1] & 0x7c) == 0x7c;	/* the exponent of a half, little endian */
}

int64_t
quant_check(const Quant *q, const void *src, int64_t n)
{
	const uint8_t *p = src;

	if (q->scale[0] == QUANT_NONE)
		return -1;
	for (int64_t b = 0; b < n / q->block; b++, p += q->bytes)
		if (bad_scale(p, q->scale[0]) || bad_scale(p, q->scale[1]))
			return b;
	return -1;
}
