/*
 * mats.h
 *	  Random rows of matrices, of every type, for tests.
 */
#ifndef VLLM_TESTS_EMU_MATS_H
#define VLLM_TESTS_EMU_MATS_H

#include "emu_test.h"

extern "C"
{
#include "cuda/pack.h"
#include "groups.h"
#include "kutil.h"
}

/* Make a row of random bits, except for scales, which are small. */
static inline void
random_row(KType t, int k, uint8_t *row)
{
	size_t		size = ktype_row_bytes(t, k),
				block = ktype_row_bytes(t, ktype_block(t));

	/* no NaN of FP8, since it would make its whole group NaN */
	for (size_t i = 0; i < size; i++)
		row[i] = (uint8_t) dice() & (t == KT_FP8 ? 0xfe : 0xff);
	for (size_t b = 0; b < size && t != KT_INT8 && t != KT_FP8; b += block)
	{
		size_t		at = t == KT_Q2_K ? offsetof(KBlockQ2_K, d) : t == KT_Q3_K ? offsetof(KBlockQ3_K, d) :
			t == KT_Q6_K ? offsetof(KBlockQ6_K, d) : 0;
		uint16_t	h[2] = {kf32_to_f16(0.01f * (float) (1 + dice() % 50)),
							kf32_to_f16(-0.02f * (float) (dice() % 50))};
		bool		two = t == KT_Q4_1 || t == KT_Q5_1 || t == KT_Q2_K || t == KT_Q4_K || t == KT_Q5_K;
		float		f = (float) (dice() % 1000) / 300.0f - 1.5f;
		uint16_t	small = t == KT_F16 ? kf32_to_f16(f) : kf32_to_bf16(f);

		if (t == KT_F32)
			memcpy(row + b, &f, 4);
		else if (t == KT_F16 || t == KT_BF16)
			memcpy(row + b, &small, 2);
		else if (t == KT_MXFP4)
			row[b] = (uint8_t) (dice() % 3 == 0 ? dice() % 3 : 120 + dice() % 16);
		else
			memcpy(row + b + at, h, two ? 4 : 2);
	}
	for (int i = 0; i < (t == KT_INT8 ? 1 : t == KT_FP8 ? (k + FP8_GROUP - 1) / FP8_GROUP : 0); i++)
	{
		float		d = 0.01f * (float) (1 + dice() % 50);

		memcpy(row + 4 * i, &d, 4);
	}
}

#endif
