/*
 * simd_avx512.h
 *	  The vector functions of the templates for AVX-512 (F, BW, VL, DQ): 16 lanes are one zmm register.
 *
 * With ISA_VNNI, quantized products use vpdpbusd; with ISA_BF16, BF16 products use
 * vdpbf16ps on activations rounded to bfloat16 (tmpl_pairs.h).  Everything else
 * gives the bits of AVX2.  Compiled a second time with VLLM_KERNELS_EMU, the
 * same source runs on emulated instructions (emu/avx512_emu.h).
 */
#ifndef VLLM_KERNELS_SIMD_AVX512_H
#define VLLM_KERNELS_SIMD_AVX512_H

#include "cpu/pack_avx2.h"

typedef __m512 v16;

#define ROUND_EVEN	(_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

static inline v16
v_zero(void)
{
	return _mm512_setzero_ps();
}

static inline v16
v_set1(float f)
{
	return _mm512_set1_ps(f);
}

static inline v16
v_load(const float *p)
{
	return _mm512_loadu_ps(p);
}

static inline void
v_store(float *p, v16 x)
{
	_mm512_storeu_ps(p, x);
}

/* lanes 0..n-1, 0 <= n <= 16 */
static inline __mmask16
first_lanes(int n)
{
	return (__mmask16) ((1u << n) - 1);
}

/* the first n lanes; the others 0 */
static inline v16
v_load_n(const float *p, int n)
{
	return _mm512_maskz_loadu_ps(first_lanes(n), p);
}

static inline void
v_store_n(float *p, v16 x, int n)
{
	_mm512_mask_storeu_ps(p, first_lanes(n), x);
}

static inline v16
v_add(v16 x, v16 y)
{
	return _mm512_add_ps(x, y);
}

static inline v16
v_sub(v16 x, v16 y)
{
	return _mm512_sub_ps(x, y);
}

static inline v16
v_mul(v16 x, v16 y)
{
	return _mm512_mul_ps(x, y);
}

static inline v16
v_div(v16 x, v16 y)
{
	return _mm512_div_ps(x, y);
}

static inline v16
v_fma(v16 x, v16 y, v16 z)
{
	return _mm512_fmadd_ps(x, y, z);
}

/* x > y ? x : y, so a NaN in either gives y */
static inline v16
v_max(v16 x, v16 y)
{
	return _mm512_max_ps(x, y);
}

static inline v16
v_min(v16 x, v16 y)
{
	return _mm512_min_ps(x, y);
}

static inline __m256
high_half(v16 x)
{
	return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
}

/* sum of the lanes in the order all implementations share: halves, quarters, ... */
static inline float
v_sum(v16 x)
{
	__m256		t8 = _mm256_add_ps(_mm512_castps512_ps256(x), high_half(x));
	__m128		t4 = _mm_add_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
	__m128		t2 = _mm_add_ps(t4, _mm_movehl_ps(t4, t4));

	return _mm_cvtss_f32(_mm_add_ss(t2, _mm_movehdup_ps(t2)));
}

static inline float
v_hmax(v16 x)
{
	__m256		t8 = _mm256_max_ps(_mm512_castps512_ps256(x), high_half(x));
	__m128		t4 = _mm_max_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
	__m128		t2 = _mm_max_ps(t4, _mm_movehl_ps(t4, t4));

	return _mm_cvtss_f32(_mm_max_ss(t2, _mm_movehdup_ps(t2)));
}

/* lanes lo..hi-1 of x, `other` elsewhere */
static inline v16
v_select_range(v16 x, int lo, int hi, float other)
{
	unsigned	below_hi = (1u << k_min(k_max(hi, 0), 16)) - 1;
	unsigned	below_lo = (1u << k_min(k_max(lo, 0), 16)) - 1;

	return _mm512_mask_blend_ps((__mmask16) (below_hi & ~below_lo), _mm512_set1_ps(other), x);
}

/* nearest integer, ties to even */
static inline v16
v_rint(v16 x)
{
	return _mm512_roundscale_ps(x, ROUND_EVEN);
}

static inline v16
exp2i(__m512i n)
{
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23));
}

/* p * 2^n for integral n, |n| <= 200; in two steps as for AVX2, to get the same bits */
static inline v16
v_ldexp(v16 p, v16 n)
{
	__m512i		i = _mm512_cvtps_epi32(n);
	__m512i		h = _mm512_srai_epi32(i, 1);

	return _mm512_mul_ps(_mm512_mul_ps(p, exp2i(h)), exp2i(_mm512_sub_epi32(i, h)));
}

/* the low 8 bits of each lane as exponent: 2^(bits - 127) */
static inline v16
v_low_exponent(v16 x)
{
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x), 23));
}

static inline v16
v_load_bf16(const uint16_t *p)
{
	__m512i		u = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *) p));

	return _mm512_castsi512_ps(_mm512_slli_epi32(u, 16));
}

static inline v16
v_load_f16(const uint16_t *p)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) p));
}

static inline v16
v_load_i8(const int8_t *p)
{
	return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *) p)));
}

/*
 * FP8 codes as halves: E5M2 is the upper half of a half; E4M3 has an exponent one bit shorter, and its
 * NaN would become a number.  Uses few constants, as these need registers, too.
 */
static inline __m256i
halves_e5m2(const uint8_t *p)
{
	return _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *) p)), 8);
}

/* E4M3 without its NaN */
static inline __m256i
halves_fp8(const uint8_t *p)
{
	__m256i		u = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *) p));

	return _mm256_and_si256(_mm256_slli_epi16(u, 7), _mm256_set1_epi16((short) 0xbf80));
}

static inline __m256i
halves_e4m3(const uint8_t *p)
{
	__m256i		h = halves_fp8(p);

	return _mm256_or_si256(h, _mm256_cmpeq_epi16(_mm256_add_epi16(h, h), _mm256_set1_epi16(0x7f00)));
}

static inline v16
v_load_e5m2(const uint8_t *p)
{
	return _mm512_cvtph_ps(halves_e5m2(p));
}

/* the values divided by F8_UP */
static inline v16
v_load_e4m3(const uint8_t *p)
{
	return _mm512_cvtph_ps(halves_e4m3(p));
}

/* codes of E4M3, none NaN: the values divided by F8_UP */
static inline v16
v_load_fp8(const uint8_t *p)
{
	return _mm512_cvtph_ps(halves_fp8(p));
}

/*
 * The low 4 bits of each of 16 bytes (shift 4) or the high ones (shift 0), signed or not.  They are shifted
 * down when they are integers, which needs no constants: these need registers, too.
 */
static inline v16
v_load_4bit(const uint8_t *p, int shift, bool is_signed)
{
	__m128i		u = _mm_slli_epi16(_mm_loadu_si128((const __m128i *) (const void *) p), shift);

	if (is_signed)
		return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_cvtepi8_epi32(u), 4));
	return _mm512_cvtepi32_ps(_mm512_srli_epi32(_mm512_cvtepu8_epi32(u), 4));
}

static inline void
v_store_f16(uint16_t *p, v16 x)
{
	_mm256_storeu_si256((__m256i *) p, _mm512_cvtps_ph(x, ROUND_EVEN));
}

/* round to nearest even with integer arithmetic, which keeps subnormals; see kf32_to_bf16 */
static inline void
v_store_bf16(uint16_t *p, v16 x)
{
	__m512i		u = _mm512_castps_si512(x);
	__m512i		odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
	__m512i		r = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
	__m512i		quiet = _mm512_or_si512(u, _mm512_set1_epi32(0x400000));

	r = _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), r, quiet);
	_mm256_storeu_si256((__m256i *) p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}

/* the largest bit pattern of |x[i]| in a block of 32: ordered like the floats, NaN on top */
static inline uint32_t
q8_absmax(const float *x)
{
	__m512i		abs = _mm512_set1_epi32(0x7fffffff);
	__m512i		a = _mm512_and_si512(_mm512_castps_si512(_mm512_loadu_ps(x)), abs);
	__m512i		b = _mm512_and_si512(_mm512_castps_si512(_mm512_loadu_ps(x + 16)), abs);
	__m512i		m = _mm512_max_epi32(a, b);
	__m256i		h = _mm256_max_epi32(_mm512_castsi512_si256(m), _mm512_extracti64x4_epi64(m, 1));
	__m128i		t = _mm_max_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));

	t = _mm_max_epi32(t, _mm_shuffle_epi32(t, 0x4e));
	t = _mm_max_epi32(t, _mm_shuffle_epi32(t, 0xb1));
	return (uint32_t) _mm_cvtsi128_si32(t);
}

/* q[i] = rint(x[i] * inv), finite; the sums of both halves */
static inline void
q8_quantize(int8_t *q, const float *x, float inv, int32_t *s0, int32_t *s1)
{
	__m512		f = _mm512_set1_ps(inv);
	__m512i		a = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), f));
	__m512i		b = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16), f));
	__m256i		ha = _mm256_add_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
	__m256i		hb = _mm256_add_epi32(_mm512_castsi512_si256(b), _mm512_extracti64x4_epi64(b, 1));
	__m256i		s = _mm256_hadd_epi32(ha, hb);
	__m128i		t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));

	_mm_storeu_si128((__m128i *) q, _mm512_cvtsepi32_epi8(a));
	_mm_storeu_si128((__m128i *) (q + 16), _mm512_cvtsepi32_epi8(b));
	t = _mm_hadd_epi32(t, t);
	*s0 = _mm_cvtsi128_si32(t);
	*s1 = _mm_extract_epi32(t, 1);
}

/* INT8's codes of 32 activations: u[i] = min(rint(x[i] * inv) + zero, 127), never below 0 */
static inline void
i8_quantize(uint8_t *u, const float *x, float inv, int32_t zero)
{
	__m512		f = _mm512_set1_ps(inv);
	__m512i		z = _mm512_set1_epi32(zero);
	__m512i		a = _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), f)), z);
	__m512i		b = _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16), f)), z);

	/* this saturates at 127 */
	_mm_storeu_si128((__m128i *) u, _mm512_cvtsepi32_epi8(a));
	_mm_storeu_si128((__m128i *) (u + 16), _mm512_cvtsepi32_epi8(b));
}

/* ---- quantized products: 16 columns are a strip ---- */

#define Q_STRIP		16
#define Q_LANE(j, c)	((c) * 4 + (j))

typedef __m512i qi;
typedef __m512 qf;

#define QV(op)		_mm512_##op
#define QV_SI(op)	_mm512_##op##_si512

/*
 * Return x, computed here: compilers would otherwise postpone adding the products of many rows, and keep
 * them on the stack until then.
 */
static inline qi
q_pin(qi x)
{
#ifndef VLLM_KERNELS_EMU
	__asm__("" : "+v"(x));
#endif
	return x;
}

#include "cpu/simd_ops.h"

/* widen 32 bytes to 16 bits */
static inline qi
q_load_i8_16(const uint8_t *p)
{
	return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *) p));
}

static inline qi
q_load_u8_16(const uint8_t *p)
{
	return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *) p));
}

/* widen 16 bits to 32 */
static inline qi
q_load_u16(const uint8_t *p)
{
	return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *) p));
}

/* bytes table[x] + off */
static inline qi
q_look_up(const int8_t *table, int off, qi x)
{
	__m512i		t = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *) table));

	return _mm512_shuffle_epi8(_mm512_add_epi8(t, q_set1_8(off)), x);
}

static inline qf
qf_load_f16(const uint8_t *p)
{
	return v_load_f16((const uint16_t *) (const void *) p);
}

static inline qf
qf_load_bf16(const uint8_t *p)
{
	return v_load_bf16((const uint16_t *) (const void *) p);
}

static inline qf
qf_load_fp8(const uint8_t *p)
{
	return v_load_fp8(p);
}

static inline qf
qf_load_4bit(const uint8_t *p, int shift, bool is_signed)
{
	return v_load_4bit(p, shift, is_signed);
}

static inline qf
qf_load_i8(const uint8_t *p)
{
	return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *) p)));
}

#ifdef ISA_VNNI
static inline qi
q_dpbusd(qi acc, qi w, qi x)
{
#ifdef VLLM_KERNELS_EMU
	return _mm512_dpbusd_epi32(acc, w, x);
#else
	/* as asm, since gcc 12 copies the accumulator around the intrinsic */
	__asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(w), "v"(x));
	return acc;
#endif
}

#include "cpu/simd_vnni.h"
#else
/* the half's scale in both 16 bits of a lane */
static inline qi
q_multiplier(qi pairs, int half)
{
	__m512i		one = half ? _mm512_srli_epi32(pairs, 16) : _mm512_and_si512(pairs, q_set1(0xffff));

	return q_or(one, _mm512_slli_epi32(one, 16));
}

/* codes of 8 bits: |w| unsigned, x with w's sign: no saturation, see simd_avx2.h */
typedef struct qw
{
	__m512i		abs;
	__mmask64	neg;
} qw;

static inline qw
qw_make(qi w)
{
	return (qw) {_mm512_abs_epi8(w), _mm512_movepi8_mask(w)};
}

static inline qi
q_signed_dot(qw w, const int8_t *x)
{
	__m512i		b = q_bcast(x);
	__m512i		s = _mm512_mask_sub_epi8(b, w.neg, _mm512_setzero_si512(), b);

	return q_madd(_mm512_maddubs_epi16(w.abs, s), q_set1_16(1));
}

static inline qi
q_signed_sum(qi acc, qw w0, qw w1, const int8_t *x)
{
	acc = q_pin(q_add(acc, q_signed_dot(w0, x)));
	return q_pin(q_add(acc, q_signed_dot(w1, x + 4)));
}

/* ---- products of several rows (tmpl_qstrip.h) ---- */

#define I8_SMALL_MR	8
#define I8_SMALL_TILES	DEF_I8_SMALL(2) DEF_I8_SMALL(4) DEF_I8_SMALL(6) DEF_I8_SMALL(8)
#define I8_SMALL_TABLE	[1] = qs_tile_SMALL_2, [2] = qs_tile_SMALL_4, [3] = qs_tile_SMALL_6, \
	[4] = qs_tile_SMALL_8
#endif

/* widen 32 activations to 16 bits, in this order */
static inline void
q_widen(int16_t *to, const int8_t *q)
{
	__m256i		order = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7,
																  8, 10, 9, 11, 12, 14, 13, 15));
	__m256i		v = _mm256_shuffle_epi8(_mm256_loadu_si256((const __m256i *) q), order);

	_mm512_storeu_si512((void *) to, _mm512_cvtepi8_epi16(v));
}

/* 32 registers: 8 x 32 needs 16 for sums */
#define QS_MAX_MR	8
#define QS_TILES \
	DEF_QS_TILE(2) DEF_QS_TILE(4) DEF_QS_TILE(6) DEF_QS_TILE(8) \
	QS_KINDS(DEF_QS_FN, 2) QS_KINDS(DEF_QS_FN, 4) QS_KINDS(DEF_QS_FN, 6) QS_KINDS(DEF_QS_FN, 8) \
	DEF_I8_STRIP(2) DEF_I8_STRIP(4) DEF_I8_STRIP(6) DEF_I8_STRIP(8)
#define QS_TABLE(K) \
	[1] = qs_tile_##K##_2, [2] = qs_tile_##K##_4, [3] = qs_tile_##K##_6, [4] = qs_tile_##K##_8

/* few rows; with four rows, formats with scales for halves have two sums each, so only one strip at
 * once */
#define Q_MAX_MR	4
#define Q_TILES_OF(MR, HALVES) \
	DEF_Q_TILE(MR, 2) DEF_I8_TILE(MR, 2) \
	Q_LIGHT_FORMATS(DEF_Q_FN, MR, 2) Q_HEAVY_FORMATS(DEF_Q_FN, MR, 2) \
	Q_HALVES_FORMATS(DEF_Q_FN, MR, HALVES)
#define Q_TILES \
	DEF_Q_TILE(4, 1) Q_TILES_OF(1, 2) Q_TILES_OF(2, 2) Q_TILES_OF(4, 1)
#define Q_TILE_TABLE(T) \
	[1] = q_tile_##T##_1, [2] = q_tile_##T##_2, [4] = q_tile_##T##_4

/* float, many rows; 32 registers: 8 x 48 needs 24 accumulators, 3 for weights, 1 for activations */
#define FS_MIN_ROWS	16
#define FS_MR		8
#define FS_NV		3
#define FS_TILES \
	FS_OF_TYPE(f32) FS_OF_TYPE(f16) FS_OF_TYPE(bf16) \
	FS_OF_WIDTH(1) FS_OF_WIDTH(2) FS_OF_WIDTH(3)
#define FS_OF_TYPE(T)	DEF_FS_TILE(T, 8, 1) DEF_FS_TILE(T, 8, 2) DEF_FS_TILE(T, 8, 3)
#define FS_OF_WIDTH(NV) \
	DEF_FS_TILE(kept, 1, NV) DEF_FS_TILE(kept, 2, NV) DEF_FS_TILE(kept, 3, NV) DEF_FS_TILE(kept, 4, NV) \
	DEF_FS_TILE(kept, 5, NV) DEF_FS_TILE(kept, 6, NV) DEF_FS_TILE(kept, 7, NV) DEF_FS_TILE(kept, 8, NV)
#define FS_FIRST(T)	{NULL, tile_strip_##T##_8x1, tile_strip_##T##_8x2, tile_strip_##T##_8x3}
#define FS_KEEP(MR)	[MR] = {NULL, tile_strip_kept_##MR##x1, tile_strip_kept_##MR##x2, \
							tile_strip_kept_##MR##x3}
#define FS_TABLE \
	FS_KEEP(1), FS_KEEP(2), FS_KEEP(3), FS_KEEP(4), FS_KEEP(5), FS_KEEP(6), FS_KEEP(7), FS_KEEP(8)

/* 32 registers: 8 x 32 needs 16 accumulators; two panels share a broadcast */
#define V_MAX_MR	8
#define V_TILES(T) \
	DEF_TILE(T, 1, 1) DEF_TILE(T, 2, 1) DEF_TILE(T, 3, 1) DEF_TILE(T, 4, 1) \
	DEF_TILE(T, 5, 1) DEF_TILE(T, 6, 1) DEF_TILE(T, 7, 1) DEF_TILE(T, 8, 1) \
	DEF_TILE(T, 1, 4) DEF_TILE(T, 2, 4) DEF_TILE(T, 3, 4) DEF_TILE(T, 4, 4) \
	DEF_TILE(T, 5, 2) DEF_TILE(T, 6, 2) DEF_TILE(T, 7, 2) DEF_TILE(T, 8, 2)
#define V_TILE_TABLE(T) \
	{NULL, NULL, 0}, \
	{TILE(T, 1, 1), TILE(T, 1, 4), 4}, \
	{TILE(T, 2, 1), TILE(T, 2, 4), 4}, \
	{TILE(T, 3, 1), TILE(T, 3, 4), 4}, \
	{TILE(T, 4, 1), TILE(T, 4, 4), 4}, \
	{TILE(T, 5, 1), TILE(T, 5, 2), 2}, \
	{TILE(T, 6, 1), TILE(T, 6, 2), 2}, \
	{TILE(T, 7, 1), TILE(T, 7, 2), 2}, \
	{TILE(T, 8, 1), TILE(T, 8, 2), 2}

#endif
