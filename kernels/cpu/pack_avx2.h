/*
 * pack_avx2.h
 *	  The vector functions of packing for AVX2, and for AVX-512 too: packing waits for memory, so wider
 *	  vectors would not help.
 *
 * A strip is 8 columns; lane c of a pv belongs to column c of it.
 */
#ifndef VLLM_KERNELS_PACK_AVX2_H
#define VLLM_KERNELS_PACK_AVX2_H

#define P_LANES		8

typedef uint32_t pv __attribute__((vector_size(4 * P_LANES)));

/* load 16 bytes of column c to the low half, of column c + 4 to the high one */
static inline __m256i
p_load2(const uint8_t *const *src, int c, size_t at)
{
	__m128i		x = _mm_loadu_si128((const __m128i *) (const void *) (src[c] + at));

	return _mm256_inserti128_si256(_mm256_castsi128_si256(x),
								   _mm_loadu_si128((const __m128i *) (const void *) (src[c + 4] + at)), 1);
}

/* load 16 bytes at src[c] + at of each column: out[i] has their 32-bit words i */
static inline void
p_load(pv out[4], const uint8_t *const *src, size_t at)
{
	__m256i		a = p_load2(src, 0, at),
				b = p_load2(src, 1, at),
				c = p_load2(src, 2, at),
				d = p_load2(src, 3, at);
	__m256i		ab = _mm256_unpacklo_epi32(a, b),
				cd = _mm256_unpacklo_epi32(c, d);

	out[0] = (pv) _mm256_unpacklo_epi64(ab, cd);
	out[1] = (pv) _mm256_unpackhi_epi64(ab, cd);
	ab = _mm256_unpackhi_epi32(a, b);
	cd = _mm256_unpackhi_epi32(c, d);
	out[2] = (pv) _mm256_unpacklo_epi64(ab, cd);
	out[3] = (pv) _mm256_unpackhi_epi64(ab, cd);
}

/* store four k of the strip that begins at column c0, at their positions in `row` (Q_LANE) */
static inline void
p_put(uint8_t *row, int c0, pv x)
{
	_mm256_storeu_si256((__m256i *) (void *) (row + c0 * 4), (__m256i) x);
}

/* to[j * stride + c0 + c] = byte j of lane c */
static inline void
p_put_bytes(uint8_t *to, size_t stride, int c0, pv x)
{
	__m256i		t = _mm256_shuffle_epi8((__m256i) x, _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14,
																	  3, 7, 11, 15, 0, 4, 8, 12, 1, 5, 9, 13,
																	  2, 6, 10, 14, 3, 7, 11, 15));
	uint64_t	rows[4];

	t = _mm256_permutevar8x32_epi32(t, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
	_mm256_storeu_si256((__m256i *) (void *) rows, t);
	for (int j = 0; j < 4; j++)
		memcpy(to + (size_t) j * stride + c0, &rows[j], 8);
}

/* the same for 16 bits: to[j * stride + (c0 + c) * 2] = half j of lane c */
static inline void
p_put_halves(uint8_t *to, size_t stride, int c0, pv x)
{
	__m256i		t = _mm256_shuffle_epi8((__m256i) x, _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7,
																	  10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12,
																	  13, 2, 3, 6, 7, 10, 11, 14, 15));

	t = _mm256_permute4x64_epi64(t, 0xd8);
	_mm_storeu_si128((__m128i *) (void *) (to + c0 * 2), _mm256_castsi256_si128(t));
	_mm_storeu_si128((__m128i *) (void *) (to + stride + c0 * 2), _mm256_extracti128_si256(t, 1));
}

/* to[(c0 + c) * 2] = the low half of lane c; the high one is 0 */
static inline void
p_put_low(uint8_t *to, int c0, pv x)
{
	__m256i		t = _mm256_packus_epi32((__m256i) x, (__m256i) x);

	t = _mm256_permute4x64_epi64(t, 0x08);
	_mm_storeu_si128((__m128i *) (void *) (to + c0 * 2), _mm256_castsi256_si128(t));
}

/* transpose 8 elements of 16 bits at src[c] + at of 16 columns to rows of 16, 32 bytes each */
static inline void
p_transpose16(uint8_t *to, const uint8_t *const *src, size_t at)
{
	__m256i		a[8],
				b[8];

	for (int c = 0; c < 8; c++)
	{
		__m128i		x = _mm_loadu_si128((const __m128i *) (const void *) (src[c] + at));

		a[c] = _mm256_inserti128_si256(_mm256_castsi128_si256(x),
									   _mm_loadu_si128((const __m128i *) (const void *) (src[c + 8] + at)),
									   1);
	}
	for (int i = 0; i < 4; i++)
	{
		b[2 * i] = _mm256_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
		b[2 * i + 1] = _mm256_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
	}
	for (int i = 0; i < 8; i += 4)
	{
		a[i] = _mm256_unpacklo_epi32(b[i], b[i + 2]);
		a[i + 1] = _mm256_unpackhi_epi32(b[i], b[i + 2]);
		a[i + 2] = _mm256_unpacklo_epi32(b[i + 1], b[i + 3]);
		a[i + 3] = _mm256_unpackhi_epi32(b[i + 1], b[i + 3]);
	}
	for (int i = 0; i < 4; i++)
	{
		_mm256_storeu_si256((__m256i *) (void *) (to + i * 64), _mm256_unpacklo_epi64(a[i], a[i + 4]));
		_mm256_storeu_si256((__m256i *) (void *) (to + i * 64 + 32), _mm256_unpackhi_epi64(a[i], a[i + 4]));
	}
}

#endif
