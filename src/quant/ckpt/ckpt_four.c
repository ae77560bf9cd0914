/*
 * ckpt_four.c
 *	  Matrices that are offered in 4 bits, in addition to Q8_0 or BF16 (ckpt_read.c).
 *
 *		NF4, FP4	codes of bitsandbytes' tables, with one scale for whole blocks of 32: they stay, the
 *					scale becomes a half
 *		NV4			codes of E2M1 with a scale for each 16 (or 32), as NVFP4 has them: they stay, two
 *					scales become a half and two signed bytes
 *
 * Scales s0, s1 of NV4 are d * m0 and d * m1.  The larger m is the one of 64..127 for which the smaller
 * scale needs the least rounding.  Scales of E4M3 are 8..15 times a power of two: if their powers differ
 * by a factor of up to 8, nothing is rounded; else the rounding is at most 1/254 of the larger scale,
 * the most that Q8_0 rounds a weight.
 *
 * Tested by tests/unit/quant/ckpt/test_ckpt.c and tests/golden/ckpt_golden.c.
 */
#include <math.h>

#include "quant/ckpt/ckpt_internal.h"

#define BLOCK 32
#define HALF 16
#define MOST_M 127
#define LEAST_M 64
/* tolerance for m: float's rounding of a whole number */
#define WHOLE 1e-4f

/* Return true if the reader's 16 values are these codes times step. */
static bool
same_table(const CkptReader *r, const int8_t *codes, float step)
{
	for (int i = 0; i < 16; i++)
		if (!(fabsf(r->value[i] / step - (float) codes[i]) <= 0.5f))
			return false;
	return true;
}

KType
ckpt_four(const CkptReader *r, float most)
{
	if (r->bits != 4 || r->value == NULL || r->columns != NULL || r->g_idx != NULL || r->zero_of != NULL ||
		r->zero0 != 0 || r->k % BLOCK != 0)
		return KT_COUNT;
	/* the largest d must be a normal half */
	if (r->e2m1)
		return (r->group == HALF || r->group == BLOCK) && !r->flat && most <= 2 * LEAST_M * 65504 * NV4_D &&
			(most == 0 || most >= 2 * MOST_M * 0x1p-14f * NV4_D) ? KT_NV4 : KT_COUNT;
	if (!(r->group % BLOCK == 0 || (r->group >= r->k && !r->flat)) || most > 65504 ||
		(most != 0 && most * FP4_STEP < 0x1p-14f))
		return KT_COUNT;
	return same_table(r, kcode_nf4, NF4_STEP) ? KT_NF4 : same_table(r, kcode_fp4, FP4_STEP) ? KT_FP4 :
		KT_COUNT;
}

/* Store s0 and s1 as d and sc.  The table of the codes is doubled, so d is halved. */
static void
put_scales(float s0, float s1, KBlockNV4 *b)
{
	float		most = fmaxf(fabsf(s0), fabsf(s1));
	float		share = fminf(fabsf(s0), fabsf(s1)) / most;
	float		best = INFINITY;
	int			large = LEAST_M;
	int			small;

	/* It was finite when it was checked, but another process may have changed the file. */
	if (!(most > 0 && most < INFINITY))
		return;
	for (int m = LEAST_M; m <= MOST_M && best > 0; m++)
	{
		float		off = fabsf(share * (float) m - rintf(share * (float) m));

		/* the rounding relative to d * m, which is the larger scale for all m */
		if (off <= WHOLE || off / (float) m < best)
		{
			best = off <= WHOLE ? 0 : off / (float) m;
			large = m;
		}
	}
	small = (int) rintf(share * (float) large);
	b->d = kf32_to_f16(most * 0.5f / (float) large / NV4_D);
	for (int h = 0; h < 2; h++)
	{
		float		s = h == 0 ? s0 : s1;
		int			m = fabsf(s) == most ? large : small;

		b->sc[h] = (int8_t) (s < 0 ? -m : m);
	}
}

static void
put_codes(const uint8_t *codes, uint8_t *qs)
{
	for (int i = 0; i < HALF; i++)
		qs[i] = (uint8_t) (codes[i] | codes[i + HALF] << 4);
}

void
ckpt_put_four(const CkptReader *r, int64_t row, int64_t col0, int m, const uint8_t *codes, uint8_t *to)
{
	KType		type = r->offer_t.type;
	int64_t		before = r->flat ? row * r->k : 0;
	size_t		bytes = ktype_row_bytes(type, BLOCK);

	to += ktype_row_bytes(type, col0);
	for (int64_t col = col0; col < col0 + m; col += BLOCK, codes += BLOCK, to += bytes)
	{
		int64_t		group = (before + col) / r->group;

		if (type == KT_NV4)
		{
			KBlockNV4	b = {0};

			put_scales(ckpt_scale_at(r, row, group),
					   ckpt_scale_at(r, row, (before + col + HALF) / r->group), &b);
			put_codes(codes, b.qs);
			memcpy(to, &b, sizeof(b));
		}
		else
		{
			KBlockQ4_0	b;

			b.d = kf32_to_f16(ckpt_scale_at(r, row, group) * (type == KT_NF4 ? NF4_STEP : FP4_STEP));
			put_codes(codes, b.qs);
			memcpy(to, &b, sizeof(b));
		}
	}
}
