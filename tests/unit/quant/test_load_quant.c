/*
 * test_load_quant.c
 *	  The table of weight formats: look-ups, conversions against the kernels' own, checks of contents.
 */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "quant/quant.h"
#include "quant/quantize.h"
#include "tests/unit/check.h"

static void
test_table(void)
{
	for (int t = 0; t < KT_COUNT; t++)
	{
		const Quant *q = quant_get((KType) t);

		if (t >= KT_INT8 || t == KT_NF4 || t == KT_FP4 || t == KT_NV4)
		{
			CHECK(q == NULL, "%s is in no file", ktype_name((KType) t));
			continue;
		}
		CHECK(q != NULL && q->type == (KType) t, "type %d", t);
		CHECK(ktype_row_bytes((KType) t, q->block) == (size_t) q->bytes, "%s: block of %d bytes",
			  ktype_name((KType) t), q->bytes);
		CHECK(quant_by_gguf((uint32_t) q->gguf_id) == q, "GGUF id %d", q->gguf_id);
		CHECK(strstr(quant_gguf_list(), ktype_name((KType) t)) != NULL, "%s is listed",
			  ktype_name((KType) t));
		CHECK(q->dtype[0] == '\0' || quant_by_dtype(q->dtype) == q, "dtype %s", q->dtype);
	}
	CHECK(quant_get(KT_COUNT) == NULL, "no such type");
	CHECK(quant_by_gguf(16) == NULL, "IQ2_XXS is not supported");
	CHECK(quant_by_gguf(UINT32_MAX) == NULL, "no such id");
	CHECK(quant_by_dtype("") == NULL, "no dtype");
	CHECK(quant_by_dtype("I64") == quant_get(KT_I64) && quant_by_dtype("I16") == quant_get(KT_I16) &&
		  quant_by_dtype("U16") == NULL, "I64, I16, U16");
}

static void
test_halves(void)
{
	CHECK(kf16_to_f32(0x3c00) == 1.0f && kf16_to_f32(0xc000) == -2.0f, "one and minus two");
	CHECK(kf16_to_f32(0x0001) == 0x1p-24f && kf16_to_f32(0x83ff) == -1023 * 0x1p-24f, "subnormals");
	CHECK(isinf(kf16_to_f32(0x7c00)) && isnan(kf16_to_f32(0x7e00)), "Inf and NaN");
	CHECK(kbf16_to_f32(0x3f80) == 1.0f, "bfloat16 one");
}

static void
test_dtypes(void)
{
	float		x[3] = {1.00390625f, -3.25f, 65536.0f}; /* halfway between two values of bfloat16 */
	uint16_t	h[3];

	CHECK(quant_dtype("half") == quant_dtype("float16") && quant_dtype("int8") == NULL &&
		  quant_scheme("bfloat16") == NULL, "names");
	CHECK(quantize_type(KT_BF16, 7) == KT_BF16, "rows of any length");
	quantize_row(KT_BF16, x, 3, h);
	CHECK(h[0] == 0x3f80 && h[1] == 0xc050 && h[2] == 0x4780, "bfloat16: %x %x %x", h[0], h[1], h[2]);
	quantize_row(KT_F16, x, 3, h);
	CHECK(h[0] == 0x3c04 && h[1] == 0xc280 && h[2] == 0x7c00, "float16: %x %x %x", h[0], h[1], h[2]);
}

static void
test_to_float(void)
{
	float		in[2] = {1.5f, -3.25f};
	uint16_t	h[2] = {0x3e00, 0xc280};	/* 1.5, -3.25 */
	uint16_t	b[2] = {0x3fc0, 0xc050};
	uint8_t		shifted[9];
	float		out[2];

	kblock_to_float(KT_F32, in, 2, out);
	CHECK(out[0] == 1.5f && out[1] == -3.25f, "F32");
	kblock_to_float(KT_F16, h, 2, out);
	CHECK(out[0] == 1.5f && out[1] == -3.25f, "F16: %g %g", (double) out[0], (double) out[1]);
	kblock_to_float(KT_BF16, b, 2, out);
	CHECK(out[0] == 1.5f && out[1] == -3.25f, "BF16: %g %g", (double) out[0], (double) out[1]);
	/* tensors in files need not be aligned */
	memcpy(shifted + 1, in, 8);
	kblock_to_float(KT_F32, shifted + 1, 2, out);
	CHECK(out[0] == 1.5f, "unaligned F32");
	memcpy(shifted + 1, h, 4);
	kblock_to_float(KT_F16, shifted + 1, 2, out);
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
	kblock_to_float(KT_Q8_0, raw + 1, 96, out);
	CHECK(out[0] == -8.0f && out[31] == 7.5f && out[64] == -9.0f, "values");
	CHECK(quant_check(q, raw + 1, 96) == -1, "all scales are finite");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		memcpy(raw + 1 + 2 * 34, &bad[i], 2);
		CHECK(quant_check(q, raw + 1, 96) == 2, "scale %04x in block 2", bad[i]);
		CHECK(quant_check(q, raw + 1, 64) == -1, "only two blocks asked for");
	}
}

/* Each scale of each format is checked, in the block that has it. */
static void
test_scales(void)
{
	static const uint16_t bad[] = {0x7c00, 0xfc00, 0x7e00, 0xffff};

	for (int t = 0; t < KT_COUNT; t++)
	{
		const Quant *q = quant_get((KType) t);
		uint8_t		raw[3 * 256] = {0};
		int			n = q != NULL ? 3 * q->block : 0;

		if (q == NULL)
			continue;
		CHECK(quant_check(q, raw, n) == -1, "%s: zeros", ktype_name((KType) t));
		for (int s = 0; s < 2; s++)
			for (int i = 0; i < 4 && q->scale[s] >= 0; i++)
			{
				uint8_t    *at = raw + 2 * q->bytes + q->scale[s];

				memcpy(at, &bad[i], 2);
				CHECK(quant_check(q, raw, n) == 2, "%s: scale %d is %04x", ktype_name((KType) t), s, bad[i]);
				CHECK(quant_check(q, raw, n - q->block) == -1, "%s: two blocks", ktype_name((KType) t));
				memset(at, 0, 2);
			}
	}
}

static void
test_mxfp4(void)
{
	const Quant *q = quant_get(KT_MXFP4);
	KBlockMXFP4 b[2] = {{.e = 128}, {.e = 254}};
	float		out[32];

	for (int i = 0; i < 16; i++)
		b[0].qs[i] = (uint8_t) (i | (15 - i) << 4);
	kblock_to_float(KT_MXFP4, &b[0], 32, out);
	CHECK(out[1] == 1.0f && out[7] == 12.0f && out[15] == -12.0f && out[16] == -12.0f && out[31] == 0.0f,
		  "values: %g %g %g %g %g", (double) out[1], (double) out[7], (double) out[15], (double) out[16],
		  (double) out[31]);
	b[0].e = 127;
	kblock_to_float(KT_MXFP4, &b[0], 32, out);
	CHECK(out[1] == 0.5f && out[7] == 6.0f, "E2M1: %g %g", (double) out[1], (double) out[7]);
	CHECK(quant_check(q, b, 64) == -1, "254 is a number");
	b[1].e = 255;
	CHECK(quant_check(q, b, 64) == 1, "255 is NaN");
}

static void
test_schemes(void)
{
	const QuantScheme *q4 = quant_scheme("q4_k");
	const QuantScheme *int4 = quant_scheme("int4");

	CHECK(quant_scheme("int8")->matrix == KT_INT8 && q4->matrix == KT_Q4_K && q4->head == KT_Q6_K, "types");
	CHECK(int4 == q4, "int4 is q4_k");
	CHECK(quant_scheme("") == NULL && quant_scheme("Q4_K") == NULL && quant_scheme("q5_0") == NULL,
		  "unknown");
	CHECK(quantize_type(KT_Q4_K, 512) == KT_Q4_K && quantize_type(KT_Q4_K, 96) == KT_Q4_1, "Q4_K");
	CHECK(quantize_type(KT_Q6_K, 96) == KT_Q8_0 && quantize_type(KT_Q6_K, 80) == KT_COUNT, "Q6_K");
	CHECK(quantize_type(KT_Q4_0, 96) == KT_Q4_0 && quantize_type(KT_Q8_0, 80) == KT_COUNT, "Q4_0, Q8_0");
	CHECK(quantize_type(KT_INT8, 77) == KT_INT8 && quantize_type(KT_INT8, INT8_MAX_K + 1) == KT_COUNT,
		  "INT8");
}

#define ROW 512

/* Return the share of the squared values that quantizing to a type loses. */
static double
loss(KType t, const float *x, float *back)
{
	uint8_t		row[ROW * 2 + 1];
	double		lost = 0,
				all = 0;

	quantize_row(t, x, ROW, row + 1);
	kblock_to_float(t, row + 1, ROW, back);
	for (int i = 0; i < ROW; i++)
	{
		lost += ((double) x[i] - (double) back[i]) * ((double) x[i] - (double) back[i]);
		all += (double) x[i] * (double) x[i];
	}
	return all > 0 ? lost / all : lost;
}

static void
test_quantize(void)
{
	/*
	 * uniform distribution in -1..1: a step of d loses d^2 / 12 of 1/3; INT8's is up to twice Q8_0's
	 * (INT8_QUAD)
	 */
	static const struct
	{
		KType		type;
		double		most;
	}			types[] = {
		{KT_INT8, 6.8e-5}, {KT_Q8_0, 1.7e-5}, {KT_Q6_K, 3e-4}, {KT_Q4_0, 4.2e-3}, {KT_Q4_1, 4.2e-3},
		{KT_Q4_K, 4.4e-3}
	};
	float		x[ROW];
	float		back[ROW];
	uint32_t	seed = 1;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
	{
		KType		t = types[i].type;
		const char *name = ktype_name(t);
		int			nans = 0;

		for (int j = 0; j < ROW; j++)
			x[j] = (float) ((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1.0f;
		CHECK(loss(t, x, back) < types[i].most, "%s: loses %g", name, loss(t, x, back));
		for (int j = 0; j < ROW; j++)
			x[j] *= 1e-3f;
		CHECK(loss(t, x, back) < types[i].most * 1.1, "%s: small values: loses %g", name, loss(t, x, back));
		/* rows without a scale */
		memset(x, 0, sizeof(x));
		CHECK(loss(t, x, back) == 0, "%s: zeros", name);
		for (int j = 0; j < ROW; j++)
			x[j] = -0.75f;
		CHECK(loss(t, x, back) < 1e-5, "%s: all the same: loses %g", name, loss(t, x, back));
		for (int j = 0; j < ROW; j++)
			x[j] = 0.75f;
		CHECK(loss(t, x, back) < 1e-5, "%s: all the same above 0: loses %g", name, loss(t, x, back));
		for (int j = 0; j < ROW; j++)
			x[j] = j % 2 ? 1e-41f : 3e-39f;
		loss(t, x, back);
		CHECK(back[0] == 0.0f && back[ROW - 1] == 0.0f, "%s: subnormals: %g", name, (double) back[0]);
		x[3] = NAN;
		loss(t, x, back);
		for (int j = 0; j < 32; j++)
			nans += isnan(back[j]);
		CHECK(nans == 32, "%s: a NaN shows in %d of 32 values", name, nans);
	}
}

/* INT8's codes are small, and at their limit, unless the largest weight needs a larger scale. */
static void
test_int8_small(void)
{
	float		x[ROW];
	uint8_t		row[ROW + 4];
	uint32_t	seed = 3;

	/* not in a short row */
	for (int j = 0; j < 255; j++)
		x[j] = 1.0f;
	quantize_row(KT_INT8, x, 255, row);
	CHECK(row[4] == 127 && row[4 + 254] == 127, "a short row: %d", row[4]);
	for (int k = ROW - 9; k <= ROW; k++)
		for (int spread = 0; spread < 6; spread++)
		{
			int			most = 0;
			int			largest = 0;

			for (int j = 0; j < k; j++)
			{
				float		r = (float) (int32_t) (seed = seed * 1664525u + 1013904223u) * 0x1p-31f;

				x[j] = spread == 5 ? (j % 64 == 1 ? 1.0f : 0.01f * r) :
					powf(fabsf(r), (float) spread) * (r < 0 ? -1.0f : 1.0f);
			}
			/* in the last group of eight, which may be shorter */
			x[k - 1] = -1.5f;
			quantize_row(KT_INT8, x, k, row);
			for (int i = 0; i < k; i += 8)
				for (int j = 0; j < 4; j += 2)
				{
					int			sum = 0;

					for (int n = 0; n < 4; n++)
					{
						int			at = i + j + n / 2 * 4 + n % 2;
						int			code = at < k ? abs((int8_t) row[4 + at]) : 0;

						sum += code;
						largest = code > largest ? code : largest;
					}
					most = sum > most ? sum : most;
				}
			CHECK(most <= INT8_QUAD, "%d weights, spread %d: four add up to %d", k, spread, most);
			CHECK(most >= INT8_QUAD - 4 || largest == 127, "%d weights, spread %d: %d and %d are too small",
				  k, spread, most, largest);
		}
}

#define BITS_ROW 2816			/* 11 super-blocks: 88 blocks; with one block less not a multiple of 8 */

/* Fill a row with some kind of weights: ordinary ones, and all special cases of the search for scales. */
static void
fill_row(float *x, int kind, uint32_t *seed)
{
	for (int i = 0; i < BITS_ROW; i++)
	{
		float		r = (float) (int32_t) (*seed = *seed * 1664525u + 1013904223u) * 0x1p-31f;
		int			part = i / 256;

		if (kind < 4)
			x[i] = r * r * r * (i % 700 == 0 ? 6.0f : 1.0f) * (kind + 1) - 0.1f * (float) kind;
		else if (kind == 4)
			x[i] = part == 0 ? 0.0f : part == 1 ? 0x1p-110f * r : part == 2 ? 0.3f : part == 3 ? fabsf(r) :
				part == 4 ? -fabsf(r) : part == 5 ? floorf(r * 9.0f) * 0.5f : part == 6 ? 3e38f * r :
				part == 7 ? (i % 256 == 77 ? NAN : r) : part == 8 ? (i % 256 == 200 ? INFINITY : r) :
				part == 9 ? -0.0f : 1e-40f * r;
		else
			x[i] = part < 5 ? (i % 32 == 5 ? 1.0f : i % 3 == 0 ? -0.0f : 0.0f) : i % 7 == 0 ? 1e4f * r :
				1e-3f * r;
	}
}

/* Weights become the same codes as in earlier versions: caches and results depend on them. */
static void
test_bits(void)
{
	static const struct
	{
		KType		type;
		uint64_t	hash;		/* FNV-1a of all rows */
	}			types[] = {
		{KT_INT8, 0xdd148af7117dfc00}, {KT_Q8_0, 0x01b43682572985bd}, {KT_Q6_K, 0x5347a287d63f76c6},
		{KT_Q4_0, 0xbea3bb1e3b68c8dc}, {KT_Q4_1, 0x1e62d2edac9980e3}, {KT_Q4_K, 0x99942ec81d258fa5}
	};
	static float x[BITS_ROW + 1];
	static uint8_t row[BITS_ROW * 2];
	static uint8_t plain[BITS_ROW * 2];

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
	{
		uint64_t	h = 1469598103934665603u;
		uint32_t	seed = 7;
		int			differ = 0;

		for (int kind = 0; kind < 12; kind++)
		{
			/* sometimes one block less, and an address as in a file */
			int			k = BITS_ROW - (kind % 2 != 0 ? ktype_block(types[i].type) : 0);
			size_t		len = ktype_row_bytes(types[i].type, k);

			fill_row(x + 1, kind % 6, &seed);
			quantize_row(types[i].type, x + 1, k, row + 1);
			quantize_row_plain(types[i].type, x + 1, k, plain);
			differ += memcmp(row + 1, plain, len) != 0;
			for (size_t b = 0; b < len; b++)
				h = (h ^ row[1 + b]) * 1099511628211u;
		}
		CHECK(differ == 0, "%s: %d rows depend on the CPU", ktype_name(types[i].type), differ);
		CHECK(h == types[i].hash, "%s: other codes than ever: 0x%016llx", ktype_name(types[i].type),
			  (unsigned long long) h);
	}
}

int
main(void)
{
	RUN(test_table());
	RUN(test_halves());
	RUN(test_dtypes());
	RUN(test_to_float());
	RUN(test_q8_0());
	RUN(test_scales());
	RUN(test_mxfp4());
	RUN(test_schemes());
	RUN(test_quantize());
	RUN(test_int8_small());
	RUN(test_bits());
	return check_done("test_load_quant");
}
