/*
 * rng.c
 *	  Philox4x32-10 and seeds.  Stateless; tests/unit/core/sample/test_sample.c compares it with the
 *	  published known answers.
 */
#include "base/rng.h"

#include <sys/random.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/clock.h"

void
rng_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4])
{
	uint32_t	c0 = ctr[0],
				c1 = ctr[1],
				c2 = ctr[2],
				c3 = ctr[3];
	uint32_t	k0 = key[0],
				k1 = key[1];

	for (int i = 0; i < 10; i++)
	{
		uint64_t	a = (uint64_t) c0 * 0xD2511F53u;
		uint64_t	b = (uint64_t) c2 * 0xCD9E8D57u;

		c0 = (uint32_t) (b >> 32) ^ c1 ^ k0;
		c1 = (uint32_t) b;
		c2 = (uint32_t) (a >> 32) ^ c3 ^ k1;
		c3 = (uint32_t) a;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

/*
 * Lane j of a vector belongs to counter j.  A 64-bit product needs two lanes, so the products of four
 * lanes come in two vectors.
 */
typedef uint32_t Lanes4 __attribute__((vector_size(16)));
typedef uint64_t Wide2 __attribute__((vector_size(16)));

static inline Wide2
mul_even(Wide2 x, uint32_t m)
{
#ifdef __SSE2__
	/* gcc 12 does not see that the upper halves are zero, and emits a 64 by 64 bit multiplication */
	return (Wide2) _mm_mul_epu32((__m128i) x, _mm_set1_epi32((int) m));
#else
	return (x & 0xffffffffu) * m;
#endif
}

static inline void
mul_wide(Lanes4 x, uint32_t m, Lanes4 *hi, Lanes4 *lo)
{
	Wide2		even = mul_even((Wide2) x, m);
	Wide2		odd = mul_even((Wide2) x >> 32, m);

	*lo = (Lanes4) ((even & 0xffffffffu) | odd << 32);
	*hi = (Lanes4) (even >> 32 | (odd & ~(uint64_t) 0xffffffffu));
}

void
rng_philox4(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4][4])
{
	Lanes4		c0 = {ctr[0], ctr[0] + 1, ctr[0] + 2, ctr[0] + 3};
	Lanes4		c1 = {ctr[1], ctr[1], ctr[1], ctr[1]};
	Lanes4		c2 = {ctr[2], ctr[2], ctr[2], ctr[2]};
	Lanes4		c3 = {ctr[3], ctr[3], ctr[3], ctr[3]};
	uint32_t	k0 = key[0],
				k1 = key[1];

	for (int i = 0; i < 10; i++)
	{
		Lanes4		ahi,
					alo,
					bhi,
					blo;

		mul_wide(c0, 0xD2511F53u, &ahi, &alo);
		mul_wide(c2, 0xCD9E8D57u, &bhi, &blo);
		c0 = bhi ^ c1 ^ k0;
		c1 = blo;
		c2 = ahi ^ c3 ^ k1;
		c3 = alo;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	for (int j = 0; j < 4; j++)
	{
		out[j][0] = c0[j];
		out[j][1] = c1[j];
		out[j][2] = c2[j];
		out[j][3] = c3[j];
	}
}

uint64_t
rng_seed(void)
{
	uint64_t	seed;

	if (getrandom(&seed, sizeof(seed), 0) != (ssize_t) sizeof(seed))
	{
		/* no entropy source: the clock still gives two requests different seeds */
		uint32_t	ctr[4] = {0};
		uint32_t	key[2];
		uint32_t	out[4];
		uint64_t	now = (uint64_t) clock_us();

		key[0] = (uint32_t) now;
		key[1] = (uint32_t) (now >> 32);
		rng_philox(ctr, key, out);
		seed = out[0] | (uint64_t) out[1] << 32;
	}
	return seed;
}
