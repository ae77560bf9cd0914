/*
 * checksum.c
 *	  A 64-bit checksum at the speed of memory: four lanes of xor, rotate and multiplication by an odd
 *	  number.  Each step is invertible, so a single changed word always changes the sum.
 *
 * The sum is part of a file format (src/model/weights/pack_cache.c): a change of this function needs a
 * new version of that format.  Tested by tests/unit/model/weights/test_packcache.c.
 */
#include "base/checksum.h"

#include <string.h>

#define ODD UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t
mix(uint64_t lane, uint64_t word)
{
	lane ^= word;
	lane = lane << 29 | lane >> 35;
	return lane * ODD;
}

static inline uint64_t
word_at(const unsigned char *p)
{
	uint64_t	w;

	memcpy(&w, p, sizeof(w));
	return w;
}

uint64_t
digest(const void *data, size_t n, uint64_t seed)
{
	const unsigned char *p = data;
	uint64_t	lane[4] = {seed, seed ^ 1, seed ^ 2, seed ^ 3};
	unsigned char last[32] = {0};
	uint64_t	sum = seed ^ n;
	size_t		i = 0;

	for (; i + 32 <= n; i += 32)
		for (int j = 0; j < 4; j++)
			lane[j] = mix(lane[j], word_at(p + i + j * 8));
	if (i < n)
		memcpy(last, p + i, n - i);
	for (int j = 0; j < 4; j++)
		sum = mix(sum, mix(lane[j], word_at(last + j * 8)));
	return sum ^ sum >> 32;
}
