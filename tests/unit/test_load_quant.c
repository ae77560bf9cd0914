/*
 * test_load_quant.c
 *	  The table of weight formats: look-ups, conversions against the kernels' own,
 *	  contents checks.
 */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "quant/quant.h"
#include "tests/unit/check.h"

static bool
same(float a, float b)
{
	return isnan(a) ? isnan(b) : memcmp(&a, &b, sizeof(a)) == 0;
}

static void
test_table(void)
{
	for (int t = 0; t < KT_COUNT; t++)
	{
		const Quant *q = quant_get((KType) t);

		if (t > KT_Q8_0 && q == NULL)
			continue;
		CHECK(q != NULL && q->type == (KType) t, "type %d", t);
		CHECK(ktype_row_bytes((KType) t, q->block) == (size_t) q->bytes, "%s: block of %d bytes",
			  ktype_name((KType) t), q->bytes);
		CHECK(quant_by_gguf((uint32_t) q->gguf_id) == q, "GGUF id %d", q->gguf_id);
		CHECK(q->dtype[0] == '\0' || quant_by_dtype(q->dtype) == q, "dtype %s", q->dtype);
	}
	CHECK(quant_get(KT_COUNT) == NULL, "no such type");
	CHECK(quant_by_gguf(12) == NULL, "Q4_K is not there yet");
	CHECK(quant_by_gguf(UINT32_MAX) == NULL, "no such id");
	CHECK(quant_by_dtype("") == NULL, "no dtype");
	CHECK(quant_by_dtype("I64") == NULL, "I64");
}

static void
test_halves(void)
{
	int			bad = 0;

	for (uint32_t h = 0; h < 65536; h++)
	{
		bad += !same(quant_half((uint16_t) h), kf16_to_f32((uint16_t) h));
		bad += !same(quant_bhalf((uint16_t) h), kbf16_to_f32((uint16_t) h));
	}
	CHECK(bad == 0, "%d of 131072 conversions differ", bad);
	CHECK(quant_half(0x3c00) == 1.0f && quant_half(0xc000) == -2.0f, "one and minus two");
	CHECK(quant_half(0x0001) == 0x1p-24f && quant_half(0x83ff) == -1023 * 0x1p-24f, "subnormals");
	CHECK(isinf(quant_half(0x7c00)) && isnan(quant_half(0x7e00)), "Inf and NaN");
	CHECK(quant_bhalf(0x3f80) == 1.0f, "bfloat16 one");
}

static void
test_to_float(void)
{
	float		in[2] = {1.5f, -3.25f};
	uint16_t	h[2] = {0x3e00, 0xc280};	/* 1.5, -3.25 */
	uint16_t	b[2] = {0x3fc0, 0xc050};
	uint8_t		shifted[9];
	float		out[2];

	quant_get(KT_F32)->to_float(in, 2, out);
	CHECK(out[0] == 1.5f && out[1] == -3.25f, "F32");
	quant_get(KT_F16)->to_float(h, 2, out);
	CHECK(out[0] == 1.5f && out[1] == -3.25f, "F16: %g %g", (double) out[0], (double) out[1]);
	quant_get(KT_BF16)->to_float(b, 2, out);
	CHECK(out[0] == 1.5f && out[1] == -3.25f, "BF16: %g %g", (double) out[0], (double) out[1]);
	/* tensors in files need not be aligned */
	memcpy(shifted + 1, in, 8);
	quant_get(KT_F32)->to_float(shifted + 1, 2, out);
	CHECK(out[0] == 1.5f, "unaligned F32");
	memcpy(shifted + 1, h, 4);
	quant_get(KT_F16)->to_float(shifted + 1, 2, out);
	CHECK(out[1] == -3.25f, "unaligned F16");
}

static void
test_q8_0(void)
{
	const Quant *q = quant_get(KT_Q8_0);
	uint8_t		raw[3 * 34 + 1];
	float		out[96];
	static const uint16_t bad[] = {0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xffff};

	memset(raw, 0, sizeof(raw));
	for (int b = 0; b < 3; b++)
	{
		uint16_t	d = 0x3800;	/* 0.5 */

		memcpy(raw + 1 + b * 34, &d, 2);
		for (int i = 0; i < 32; i++)
			raw[1 + b * 34 + 2 + i] = (uint8_t) (int8_t) (i - 16 - b);
	}
	q->to_float(raw + 1, 96, out);
	CHECK(out[0] == -8.0f && out[31] == 7.5f && out[64] == -9.0f, "values");
	CHECK(q->check(raw + 1, 96) == -1, "all scales are finite");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		memcpy(raw + 1 + 2 * 34, &bad[i], 2);
		CHECK(q->check(raw + 1, 96) == 2, "scale %04x in block 2", bad[i]);
		CHECK(q->check(raw + 1, 64) == -1, "only two blocks asked for");
	}
}

int
main(void)
{
	test_table();
	test_halves();
	test_to_float();
	test_q8_0();
	return check_done("test_load_quant");
}
