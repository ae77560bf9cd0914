/*
 * test_f8.c
 *	  FP8 codes, for conform: all of them as floats, and 10^5 floats as codes, by
 *	  tests/golden/f8_golden.py.
 */
#include "tests/kernels/conform.h"

#include <inttypes.h>
#include <stdio.h>

#define FLOATS	100000
#define CHUNK	1000

static void
check_decode(FILE *in, KType t)
{
	unsigned	want;
	int			bad = 0;

	for (int c = 0; c < 256; c++)
	{
		float		f = kf8_to_f32(t, (uint8_t) c);

		bad += fscanf(in, "%x", &want) != 1 || (want == 0x7fc00000u ? !isnan(f) : k_bits(f) != want);
		if (!isnan(f) && !isinf(f))
			bad += kf32_to_f8(t, f) != c;
	}
	EXPECT(bad == 0, "%s: %d codes are wrong", ktype_name(t), bad);
}

/* the floats of f8_golden.py */
static float
next_float(uint32_t *x, int i, int drop)
{
	uint32_t	u;

	*x ^= *x << 13;
	*x ^= *x >> 17;
	*x ^= *x << 5;
	u = (*x & 0x807fffffu) | (100 + (*x >> 8) % 48) << 23;
	if (i % 2)
		u = (u >> drop << drop | 1u << (drop - 1)) + (uint32_t) (i / 2 % 3) - 1;
	return k_float(u);
}

static void
check_encode(FILE *in, KType t, const char *name, int drop)
{
	uint32_t	x = 2463534242u;

	for (int from = 0; from < FLOATS; from += CHUNK)
	{
		uint64_t	h = UINT64_C(0xcbf29ce484222325);
		uint64_t	want = 0;
		char		word[8] = "";

		for (int i = from; i < from + CHUNK; i++)
			h = (h ^ kf32_to_f8(t, next_float(&x, i, drop))) * UINT64_C(0x100000001b3);
		EXPECT(fscanf(in, "%7s %" SCNx64, word, &want) == 2 && strcmp(word, name) == 0 && want == h,
			  "%s: floats %d to %d", name, from, from + CHUNK - 1);
	}
}

void
test_f8(void)
{
	FILE	   *in = fopen("tests/golden/f8_golden.txt", "r");
	int			n = -1;

	EXPECT(in != NULL, "tests/golden/f8_golden.txt is missing");
	if (in == NULL)
		return;
	if (fscanf(in, " e4m3 decode%n", &n) == 0 && n > 0)
		check_decode(in, KT_F8_E4M3);
	check_encode(in, KT_F8_E4M3, "e4m3", 20);
	EXPECT(n > 0 && fscanf(in, " e5m2 decode%n", &n) == 0, "f8_golden.txt");
	check_decode(in, KT_F8_E5M2);
	check_encode(in, KT_F8_E5M2, "e5m2", 21);
	fclose(in);
	EXPECT(kf32_to_f8(KT_F8_E4M3, 1e30f) == 0x7e && kf32_to_f8(KT_F8_E4M3, -449.0f) == 0xfe &&
		  kf32_to_f8(KT_F8_E5M2, -1e30f) == 0xfb, "FP8 saturates");
	EXPECT(isnan(kf8_to_f32(KT_F8_E4M3, kf32_to_f8(KT_F8_E4M3, INFINITY))) &&
		  kf8_to_f32(KT_F8_E5M2, kf32_to_f8(KT_F8_E5M2, -INFINITY)) == -INFINITY &&
		  isnan(kf8_to_f32(KT_F8_E5M2, kf32_to_f8(KT_F8_E5M2, NAN))), "FP8 of what isn't finite");
}
