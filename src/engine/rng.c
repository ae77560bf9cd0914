/*
 * rng.c
 *	  Philox4x32-10 and seeds.  Stateless; tested against the published known
 *	  answers in tests/unit/test_sample.c.
 */
#include "engine/rng.h"

#include <sys/random.h>

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

uint64_t
rng_seed(void)
{
	uint64_t	seed;

	if (getrandom(&seed, sizeof(seed), 0) != (ssize_t) sizeof(seed))
	{
		/* no entropy source: the clock still keeps two requests apart */
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
