/*
 * blake2.c
 *	  BLAKE2b (RFC 7693), only the variants that the engine needs.
 *
 * Tested by tests/unit/core/offload/test_offload.c against digests of Python's hashlib.
 */
#include "base/blake2.h"

#include <string.h>

static const uint64_t iv[8] = {
	UINT64_C(0x6a09e667f3bcc908), UINT64_C(0xbb67ae8584caa73b), UINT64_C(0x3c6ef372fe94f82b),
	UINT64_C(0xa54ff53a5f1d36f1), UINT64_C(0x510e527fade682d1), UINT64_C(0x9b05688c2b3e6c1f),
	UINT64_C(0x1f83d9abfb41bd6b), UINT64_C(0x5be0cd19137e2179)
};

static const uint8_t sigma[12][16] = {
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	{14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
	{11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
	{7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
	{9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
	{2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
	{12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
	{13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
	{6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
	{10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	{14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3}
};

static uint64_t
rotr(uint64_t x, int n)
{
	return x >> n | x << (64 - n);
}

static void
mix(uint64_t v[16], int a, int b, int c, int d, uint64_t x, uint64_t y)
{
	v[a] += v[b] + x;
	v[d] = rotr(v[d] ^ v[a], 32);
	v[c] += v[d];
	v[b] = rotr(v[b] ^ v[c], 24);
	v[a] += v[b] + y;
	v[d] = rotr(v[d] ^ v[a], 16);
	v[c] += v[d];
	v[b] = rotr(v[b] ^ v[c], 63);
}

/* Process the block in buf; `last` is set for the final block. */
static void
compress(Blake2 *b, int last)
{
	uint64_t	v[16];
	uint64_t	m[16];

	/* the digest is defined little-endian, as both supported machines are */
	memcpy(m, b->buf, sizeof(m));
	memcpy(v, b->h, sizeof(b->h));
	memcpy(v + 8, iv, sizeof(iv));
	v[12] ^= b->n;
	if (last)
		v[14] = ~v[14];
	for (int r = 0; r < 12; r++)
	{
		const uint8_t *s = sigma[r];

		mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
		mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
		mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
		mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
		mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
		mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
		mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
		mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
	}
	for (int i = 0; i < 8; i++)
		b->h[i] ^= v[i] ^ v[i + 8];
}

void
blake2_begin(Blake2 *b, const void *key, size_t n_key)
{
	memset(b, 0, sizeof(*b));
	memcpy(b->h, iv, sizeof(iv));
	b->h[0] ^= UINT64_C(0x01010000) ^ (uint64_t) n_key << 8 ^ BLAKE2_BYTES;
	if (n_key == 0)
		return;
	memcpy(b->buf, key, n_key);
	b->have = sizeof(b->buf);
}

void
blake2_add(Blake2 *b, const void *data, size_t n)
{
	const uint8_t *p = data;

	while (n > 0)
	{
		size_t		k = sizeof(b->buf) - b->have;

		/* keep a full buffer until more data arrives: it may be the last block */
		if (k == 0)
		{
			b->n += sizeof(b->buf);
			compress(b, 0);
			b->have = 0;
			continue;
		}
		k = n < k ? n : k;
		memcpy(b->buf + b->have, p, k);
		b->have += k;
		p += k;
		n -= k;
	}
}

void
blake2_end(Blake2 *b, uint8_t out[BLAKE2_BYTES])
{
	b->n += b->have;
	memset(b->buf + b->have, 0, sizeof(b->buf) - b->have);
	compress(b, 1);
	memcpy(out, b->h, BLAKE2_BYTES);
}
