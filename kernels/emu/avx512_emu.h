/*
 * avx512_emu.h
 *	  AVX-512 instructions for tests on a CPU without them: SIMDe (Debian package libsimde-dev), and
 *	  what its version 0.7.4 lacks.
 *
 * SIMDe was written by other people from the manuals, so a misunderstanding of an instruction shows as a
 * difference to the reference.  Its fmadd isn't fused if the compiler's macros don't announce FMA; ours
 * always is.
 *
 * Build: -DVLLM_KERNELS_EMU -mavx2 -mfma -mf16c -Wno-psabi (tests only).
 */
#ifndef VLLM_KERNELS_AVX512_EMU_H
#define VLLM_KERNELS_AVX512_EMU_H

/* see tmpl_qtile.h */
#define EMU_ONE_FOR_ALL

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>

#undef _mm512_fmadd_ps
#undef _mm512_cvtepi32_epi16
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtepi8_epi32
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtepu8_epi16
#undef _mm512_cvtepu8_epi32
#undef _mm512_cvtph_ps
#undef _mm512_cvtps_epi32
#undef _mm512_cvtps_ph
#undef _mm512_mask_storeu_ps
#undef _mm512_maskz_loadu_ps
#undef _mm512_srai_epi32
/* SIMDe's macro takes four arguments, by mistake */
#undef _mm512_madd_epi16
#define _mm512_madd_epi16		simde_mm512_madd_epi16
#define _mm512_fmadd_ps			emu_fmadd_ps
#define _mm512_cvtepi32_epi16	emu_cvtepi32_epi16
#define _mm512_cvtepi32_ps		emu_cvtepi32_ps
#define _mm512_cvtepi8_epi32	emu_cvtepi8_epi32
#define _mm512_cvtepu16_epi32	emu_cvtepu16_epi32
#define _mm512_cvtepu8_epi16	emu_cvtepu8_epi16
#define _mm512_cvtepu8_epi32	emu_cvtepu8_epi32
#define _mm512_cvtph_ps			emu_cvtph_ps
#define _mm512_cvtps_epi32		emu_cvtps_epi32
#define _mm512_cvtps_ph			emu_cvtps_ph
#define _mm512_mask_storeu_ps	emu_mask_storeu_ps
#define _mm512_maskz_loadu_ps	emu_maskz_loadu_ps
#define _mm512_srai_epi32		emu_srai_epi32

typedef struct EmuF
{
	float		l[16];
} EmuF;
typedef struct EmuI
{
	int32_t		l[16];
} EmuI;
typedef struct EmuH
{
	uint16_t	l[16];
} EmuH;
typedef struct EmuQ
{
	int8_t		l[16];
} EmuQ;
typedef struct EmuB
{
	uint8_t		l[32];
} EmuB;
typedef struct EmuW
{
	uint16_t	l[32];
} EmuW;

/* reinterpret any two types of one size */
#define EMU_CAST(to, from, x) \
	(((union { from f; to t; }) {.f = (x)}).t)

static inline __m512
emu_fmadd_ps(__m512 a, __m512 b, __m512 c)
{
	EmuF		x = EMU_CAST(EmuF, __m512, a);
	EmuF		y = EMU_CAST(EmuF, __m512, b);
	EmuF		z = EMU_CAST(EmuF, __m512, c);

	for (int i = 0; i < 16; i++)
		z.l[i] = __builtin_fmaf(x.l[i], y.l[i], z.l[i]);
	return EMU_CAST(__m512, EmuF, z);
}

static inline __m256i
emu_cvtepi32_epi16(__m512i a)
{
	EmuI		x = EMU_CAST(EmuI, __m512i, a);
	EmuH		r;

	for (int i = 0; i < 16; i++)
		r.l[i] = (uint16_t) x.l[i];
	return EMU_CAST(__m256i, EmuH, r);
}

static inline __m512
emu_cvtepi32_ps(__m512i a)
{
	EmuI		x = EMU_CAST(EmuI, __m512i, a);
	EmuF		r;

	for (int i = 0; i < 16; i++)
		r.l[i] = (float) x.l[i];
	return EMU_CAST(__m512, EmuF, r);
}

static inline __m512i
emu_cvtepu16_epi32(__m256i a)
{
	EmuH		x = EMU_CAST(EmuH, __m256i, a);
	EmuI		r;

	for (int i = 0; i < 16; i++)
		r.l[i] = x.l[i];
	return EMU_CAST(__m512i, EmuI, r);
}

static inline __m512i
emu_cvtepu8_epi32(__m128i a)
{
	EmuQ		x = EMU_CAST(EmuQ, __m128i, a);
	EmuI		r;

	for (int i = 0; i < 16; i++)
		r.l[i] = (uint8_t) x.l[i];
	return EMU_CAST(__m512i, EmuI, r);
}

static inline __m512i
emu_cvtepi8_epi32(__m128i a)
{
	EmuQ		x = EMU_CAST(EmuQ, __m128i, a);
	EmuI		r;

	for (int i = 0; i < 16; i++)
		r.l[i] = x.l[i];
	return EMU_CAST(__m512i, EmuI, r);
}

static inline __m512i
emu_cvtepu8_epi16(__m256i a)
{
	EmuB		x = EMU_CAST(EmuB, __m256i, a);
	EmuW		r;

	for (int i = 0; i < 32; i++)
		r.l[i] = x.l[i];
	return EMU_CAST(__m512i, EmuW, r);
}

static inline __m512
emu_cvtph_ps(__m256i a)
{
	EmuH		x = EMU_CAST(EmuH, __m256i, a);
	EmuF		r;

	for (int i = 0; i < 16; i++)
		r.l[i] = kf16_to_f32(x.l[i]);
	return EMU_CAST(__m512, EmuF, r);
}

/* round to nearest even; values that don't fit (NaN too) give the integer indefinite */
static inline __m512i
emu_cvtps_epi32(__m512 a)
{
	EmuF		x = EMU_CAST(EmuF, __m512, a);
	EmuI		r;

	for (int i = 0; i < 16; i++)
		r.l[i] = x.l[i] >= -0x1p31f && x.l[i] < 0x1p31f ? (int32_t) rintf(x.l[i]) : INT32_MIN;
	return EMU_CAST(__m512i, EmuI, r);
}

static inline __m256i
emu_cvtps_ph(__m512 a, int round)
{
	EmuF		x = EMU_CAST(EmuF, __m512, a);
	EmuH		r;

	(void) round;
	for (int i = 0; i < 16; i++)
		r.l[i] = kf32_to_f16(x.l[i]);
	return EMU_CAST(__m256i, EmuH, r);
}

static inline void
emu_mask_storeu_ps(void *p, __mmask16 m, __m512 a)
{
	EmuF		x = EMU_CAST(EmuF, __m512, a);

	for (int i = 0; i < 16; i++)
		if (m >> i & 1)
			memcpy((float *) p + i, &x.l[i], sizeof(float));
}

static inline __m512
emu_maskz_loadu_ps(__mmask16 m, const void *p)
{
	EmuF		r = {{0}};

	for (int i = 0; i < 16; i++)
		if (m >> i & 1)
			memcpy(&r.l[i], (const float *) p + i, sizeof(float));
	return EMU_CAST(__m512, EmuF, r);
}

static inline __m512i
emu_srai_epi32(__m512i a, unsigned n)
{
	EmuI		x = EMU_CAST(EmuI, __m512i, a);

	for (int i = 0; i < 16; i++)
		x.l[i] >>= n;
	return EMU_CAST(__m512i, EmuI, x);
}

#endif
