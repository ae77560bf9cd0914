/*
 * vnni_emu.h
 *	  vpdpbusd for tests on a CPU that has AVX2 but not AVX-VNNI.
 *
 * Bytes 0 and 2 of each lane, then 1 and 3, as 16 bits: vpmaddwd's sums of two
 * products are exact.
 */
#ifndef VLLM_KERNELS_VNNI_EMU_H
#define VLLM_KERNELS_VNNI_EMU_H

static inline __m256i
emu_dpbusd(__m256i acc, __m256i w, __m256i x)
{
	__m256i		w02 = _mm256_and_si256(w, _mm256_set1_epi16(0xff));
	__m256i		x02 = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8);
	__m256i		w13 = _mm256_srli_epi16(w, 8);
	__m256i		x13 = _mm256_srai_epi16(x, 8);

	acc = _mm256_add_epi32(acc, _mm256_madd_epi16(w02, x02));
	return _mm256_add_epi32(acc, _mm256_madd_epi16(w13, x13));
}

#endif
