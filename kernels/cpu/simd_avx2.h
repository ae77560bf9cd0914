/*
 * simd_avx2.h
 *	  The vector functions of the templates for AVX2, FMA and F16C: 16 lanes are two ymm registers.
 *
 * With ISA_VNNI, quantized products use vpdpbusd in its VEX encoding (AVX-VNNI).
 */
#ifndef VLLM_KERNELS_SIMD_AVX2_H
#define VLLM_KERNELS_SIMD_AVX2_H

#include "cpu/pack_avx2.h"

typedef struct v16
{
	__m256		a,
				b;
} v16;

static inline v16
v_zero(void)
{
	return (v16) {_mm256_setzero_ps(), _mm256_setzero_ps()};
}

static inline v16
v_set1(float f)
{
	__m256		t = _mm256_set1_ps(f);

	return (v16) {t, t};
}

static inline v16
v_load(const float *p)
{
	return (v16) {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

static inline void
v_store(float *p, v16 x)
{
	_mm256_storeu_ps(p, x.a);
	_mm256_storeu_ps(p + 8, x.b);
}

/* the first n lanes; the others 0 */
static inline v16
v_load_n(const float *p, int n)
{
	float		t[16] = {0};

	memcpy(t, p, (size_t) n * sizeof(float));
	return v_load(t);
}

static inline void
v_store_n(float *p, v16 x, int n)
{
	float		t[16];

	v_store(t, x);
	memcpy(p, t, (size_t) n * sizeof(float));
}

static inline v16
v_add(v16 x, v16 y)
{
	return (v16) {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}

static inline v16
v_sub(v16 x, v16 y)
{
	return (v16) {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}

static inline v16
v_mul(v16 x, v16 y)
{
	return (v16) {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}

static inline v16
v_div(v16 x, v16 y)
{
	return (v16) {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}

static inline v16
v_fma(v16 x, v16 y, v16 z)
{
	return (v16) {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}

/* x > y ? x : y, so a NaN in either gives y */
static inline v16
v_max(v16 x, v16 y)
{
	return (v16) {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}

static inline v16
v_min(v16 x, v16 y)
{
	return (v16) {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}

/* sum of the lanes in the order all implementations share: halves, quarters, ... */
static inline float
v_sum(v16 x)
{
	__m256		t8 = _mm256_add_ps(x.a, x.b);
	__m128		t4 = _mm_add_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
	__m128		t2 = _mm_add_ps(t4, _mm_movehl_ps(t4, t4));

	return _mm_cvtss_f32(_mm_add_ss(t2, _mm_movehdup_ps(t2)));
}

static inline float
v_hmax(v16 x)
{
	__m256		t8 = _mm256_max_ps(x.a, x.b);
	__m128		t4 = _mm_max_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
	__m128		t2 = _mm_max_ps(t4, _mm_movehl_ps(t4, t4));

	return _mm_cvtss_f32(_mm_max_ss(t2, _mm_movehdup_ps(t2)));
}

static inline __m256
select_range8(__m256 x, int lo, int hi, __m256 other)
{
	__m256i		iota = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
	__m256i		in = _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(lo), iota),
										 _mm256_cmpgt_epi32(_mm256_set1_epi32(hi), iota));

	return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(in));
}

/* lanes lo..hi-1 of x, `other` elsewhere */
static inline v16
v_select_range(v16 x, int lo, int hi, float other)
{
	__m256		o = _mm256_set1_ps(other);

	return (v16) {select_range8(x.a, lo, hi, o), select_range8(x.b, lo - 8, hi - 8, o)};
}

/* nearest integer, ties to even */
static inline v16
v_rint(v16 x)
{
	return (v16) {_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
		_mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}

static inline __m256
exp2i8(__m256i n)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

static inline __m256
ldexp8(__m256 p, __m256 n)
{
	__m256i		i = _mm256_cvtps_epi32(n);
	__m256i		h = _mm256_srai_epi32(i, 1);

	return _mm256_mul_ps(_mm256_mul_ps(p, exp2i8(h)), exp2i8(_mm256_sub_epi32(i, h)));
}

/* p * 2^n for integral n, |n| <= 200 */
static inline v16
v_ldexp(v16 p, v16 n)
{
	return (v16) {ldexp8(p.a, n.a), ldexp8(p.b, n.b)};
}

/* the low 8 bits of each lane as exponent: 2^(bits - 127) */
static inline v16
v_low_exponent(v16 x)
{
	return (v16) {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x.a), 23)),
		_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x.b), 23))};
}

static inline __m256
load_bf16x8(const uint16_t *p)
{
	__m256i		u = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *) p));

	return _mm256_castsi256_ps(_mm256_slli_epi32(u, 16));
}

static inline v16
v_load_bf16(const uint16_t *p)
{
	return (v16) {load_bf16x8(p), load_bf16x8(p + 8)};
}

static inline v16
v_load_f16(const uint16_t *p)
{
	return (v16) {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p)),
		_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) (p + 8)))};
}

static inline __m256
load_i8x8(const int8_t *p)
{
	return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *) p)));
}

static inline v16
v_load_i8(const int8_t *p)
{
	return (v16) {load_i8x8(p), load_i8x8(p + 8)};
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

static inline __m256i
halves_e4m3(const uint8_t *p)
{
	__m256i		u = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *) p));
	__m256i		mag = _mm256_slli_epi16(u, 9);
	__m256i		nan = _mm256_cmpeq_epi16(mag, _mm256_set1_epi16((short) 0xfe00));
	__m256i		sign = _mm256_slli_epi16(_mm256_srli_epi16(u, 7), 15);

	return _mm256_or_si256(_mm256_or_si256(_mm256_srli_epi16(mag, 2), sign), nan);
}

static inline v16
v_load_e5m2(const uint8_t *p)
{
	__m256i		h = halves_e5m2(p);

	return (v16) {_mm256_cvtph_ps(_mm256_castsi256_si128(h)),
				  _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1))};
}

/* the values divided by F8_UP */
static inline v16
v_load_e4m3(const uint8_t *p)
{
	__m256i		h = halves_e4m3(p);

	return (v16) {_mm256_cvtph_ps(_mm256_castsi256_si128(h)),
				  _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1))};
}

/* codes of E4M3, none NaN: the values divided by F8_UP */
static inline __m256
load_fp8x8(const uint8_t *p)
{
	__m128i		u = _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *) (const void *) p));

	return _mm256_cvtph_ps(_mm_and_si128(_mm_slli_epi16(u, 7), _mm_set1_epi16((short) 0xbf80)));
}

static inline v16
v_load_fp8(const uint8_t *p)
{
	__m256i		u = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *) (const void *) p));
	__m256i		h = _mm256_and_si256(_mm256_slli_epi16(u, 7), _mm256_set1_epi16((short) 0xbf80));

	return (v16) {_mm256_cvtph_ps(_mm256_castsi256_si128(h)),
				  _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1))};
}

/*
 * The 4 high bits of 8 bytes as floats.  They are shifted down when they are integers, which needs no
 * constants: these need registers, too.
 */
static inline __m256
high_4bit(__m128i u, bool is_signed)
{
	if (is_signed)
		return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_cvtepi8_epi32(u), 4));
	return _mm256_cvtepi32_ps(_mm256_srli_epi32(_mm256_cvtepu8_epi32(u), 4));
}

/* the low 4 bits of each of 16 bytes (shift 4) or the high ones (shift 0), signed or not */
static inline v16
v_load_4bit(const uint8_t *p, int shift, bool is_signed)
{
	__m128i		u = _mm_slli_epi16(_mm_loadu_si128((const __m128i *) (const void *) p), shift);

	return (v16) {high_4bit(u, is_signed), high_4bit(_mm_srli_si128(u, 8), is_signed)};
}

static inline void
v_store_f16(uint16_t *p, v16 x)
{
	_mm_storeu_si128((__m128i *) p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
	_mm_storeu_si128((__m128i *) (p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}

/* rounded bfloat16 in the low half of each lane; see kf32_to_bf16 */
static inline __m256i
round_bf16(__m256 x)
{
	__m256i		u = _mm256_castps_si256(x);
	__m256i		odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
	__m256i		r = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
	__m256i		quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
	__m256		nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);

	r = _mm256_blendv_epi8(r, quiet, _mm256_castps_si256(nan));
	return _mm256_srli_epi32(r, 16);
}

static inline void
v_store_bf16(uint16_t *p, v16 x)
{
	__m256i		t = _mm256_packus_epi32(round_bf16(x.a), round_bf16(x.b));

	_mm256_storeu_si256((__m256i *) p, _mm256_permute4x64_epi64(t, 0xd8));
}

/* the largest bit pattern of |x[i]| in a block of 32: ordered like the floats, NaN on top */
static inline uint32_t
q8_absmax(const float *x)
{
	__m256i		m = _mm256_setzero_si256();
	__m128i		t;

	for (int i = 0; i < Q8_0_BLOCK; i += 8)
	{
		__m256i		u = _mm256_castps_si256(_mm256_loadu_ps(x + i));

		m = _mm256_max_epi32(m, _mm256_and_si256(u, _mm256_set1_epi32(0x7fffffff)));
	}
	t = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
	t = _mm_max_epi32(t, _mm_shuffle_epi32(t, 0x4e));
	t = _mm_max_epi32(t, _mm_shuffle_epi32(t, 0xb1));
	return (uint32_t) _mm_cvtsi128_si32(t);
}

/* q[i] = rint(x[i] * inv), finite; the sums of both halves */
static inline void
q8_quantize(int8_t *q, const float *x, float inv, int32_t *s0, int32_t *s1)
{
	__m256		f = _mm256_set1_ps(inv);
	__m256i		a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), f));
	__m256i		b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8), f));
	__m256i		c = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 16), f));
	__m256i		d = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 24), f));
	__m256i		s = _mm256_hadd_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
	__m256i		p = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
	__m128i		t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));

	/* the packs work on halves: restore the order of the groups of four */
	p = _mm256_permutevar8x32_epi32(p, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
	_mm256_storeu_si256((__m256i *) q, p);
	t = _mm_hadd_epi32(t, t);
	*s0 = _mm_cvtsi128_si32(t);
	*s1 = _mm_extract_epi32(t, 1);
}

/* INT8's codes of 32 activations: u[i] = min(rint(x[i] * inv) + zero, 127), never below 0 */
static inline void
i8_quantize(uint8_t *u, const float *x, float inv, int32_t zero)
{
	__m256		f = _mm256_set1_ps(inv);
	__m256i		z = _mm256_set1_epi32(zero);
	__m256i		a = _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), f)), z);
	__m256i		b = _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8), f)), z);
	__m256i		c = _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 16), f)), z);
	__m256i		d = _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 24), f)), z);
	__m256i		p = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));

	/* the packs saturate at 127 and work on halves: restore the order of the groups of four */
	p = _mm256_permutevar8x32_epi32(p, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
	_mm256_storeu_si256((__m256i *) u, p);
}

/* ---- quantized products: 8 columns are a strip ---- */

#define Q_STRIP		8
#define Q_LANE(j, c)	((c) * 4 + (j))

typedef __m256i qi;
typedef __m256 qf;

#define QV(op)		_mm256_##op
#define QV_SI(op)	_mm256_##op##_si256

/*
 * Return x, computed here: compilers would otherwise postpone adding the products of many rows, and keep
 * them on the stack until then.
 */
static inline qi
q_pin(qi x)
{
	__asm__("" : "+x"(x));
	return x;
}

#include "cpu/simd_ops.h"

/* widen 16 bytes to 16 bits */
static inline qi
q_load_i8_16(const uint8_t *p)
{
	return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *) p));
}

static inline qi
q_load_u8_16(const uint8_t *p)
{
	return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *) p));
}

/* widen 16 bits to 32 */
static inline qi
q_load_u16(const uint8_t *p)
{
	return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *) p));
}

/* bytes table[x] + off */
static inline qi
q_look_up(const int8_t *table, int off, qi x)
{
	__m256i		t = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) table));

	return _mm256_shuffle_epi8(_mm256_add_epi8(t, q_set1_8(off)), x);
}

static inline qf
qf_load_f16(const uint8_t *p)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p));
}

static inline qf
qf_load_bf16(const uint8_t *p)
{
	return load_bf16x8((const uint16_t *) (const void *) p);
}

static inline qf
qf_load_fp8(const uint8_t *p)
{
	return load_fp8x8(p);
}

static inline qf
qf_load_4bit(const uint8_t *p, int shift, bool is_signed)
{
	return high_4bit(_mm_slli_epi16(_mm_loadl_epi64((const __m128i *) (const void *) p), shift), is_signed);
}

static inline qf
qf_load_i8(const uint8_t *p)
{
	return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *) p)));
}

#ifdef ISA_VNNI
static inline qi
q_dpbusd(qi acc, qi w, qi x)
{
#ifdef VLLM_KERNELS_EMU
	return emu_dpbusd(acc, w, x);
#else
	/* as asm, since gcc 12 copies the accumulator around the intrinsic */
	__asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(w), "x"(x));
	return acc;
#endif
}

#include "cpu/simd_vnni.h"
#else
/* the half's scale in both 16 bits of a lane */
static inline qi
q_multiplier(qi pairs, int half)
{
	__m256i		at = half ? _mm256_set1_epi32(0x03020302) : _mm256_set1_epi32(0x01000100);

	at = _mm256_add_epi8(at, _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c,
											   0, 0x04040404, 0x08080808, 0x0c0c0c0c));
	return _mm256_shuffle_epi8(pairs, at);
}

/*
 * Codes of 8 bits: |w| (up to 128) and x with w's sign.  The sum of a pair is at most 2 * 128 * 127 =
 * 32,512, so it can't saturate.  The other way round, w = -128 would have no negative.
 */
typedef struct qw
{
	__m256i		w,
				abs;
} qw;

static inline qw
qw_make(qi w)
{
	return (qw) {w, _mm256_abs_epi8(w)};
}

static inline qi
q_signed_dot(qw w, const int8_t *x)
{
	__m256i		t = _mm256_maddubs_epi16(w.abs, _mm256_sign_epi8(q_bcast(x), w.w));

	return q_madd(t, q_set1_16(1));
}

static inline qi
q_signed_sum(qi acc, qw w0, qw w1, const int8_t *x)
{
	acc = q_pin(q_add(acc, q_signed_dot(w0, x)));
	return q_pin(q_add(acc, q_signed_dot(w1, x + 4)));
}

/* ---- products of several rows (tmpl_qstrip.h) ---- */

/* 16 registers: 4 x 16 needs 8 for sums, 4 for operands, 2 for activations, and for ones and a
 * product */
#define I8_SMALL_MR	4
#define I8_SMALL_TILES	DEF_I8_SMALL(2) DEF_I8_SMALL(4)
#define I8_SMALL_TABLE	[1] = qs_tile_SMALL_2, [2] = qs_tile_SMALL_4
#endif

/* widen 32 activations to 16 bits, in this order */
static inline void
q_widen(int16_t *to, const int8_t *q)
{
	__m128i		order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
	__m128i		a = _mm_loadu_si128((const __m128i *) q);
	__m128i		b = _mm_loadu_si128((const __m128i *) (q + 16));

	_mm256_storeu_si256((__m256i *) to, _mm256_cvtepi8_epi16(_mm_shuffle_epi8(a, order)));
	_mm256_storeu_si256((__m256i *) (to + 16), _mm256_cvtepi8_epi16(_mm_shuffle_epi8(b, order)));
}

/* 16 registers: 6 x 16 needs 12 for sums, 2 for operands, and for an activation and a product */
#define QS_MAX_MR	6
#define QS_TILES \
	DEF_QS_TILE(2) DEF_QS_TILE(4) DEF_QS_TILE(6) \
	QS_KINDS(DEF_QS_FN, 2) QS_KINDS(DEF_QS_FN, 4) QS_KINDS(DEF_QS_FN, 6) \
	DEF_I8_STRIP(2) DEF_I8_STRIP(4) DEF_I8_STRIP(6)
#define QS_TABLE(K)	[1] = qs_tile_##K##_2, [2] = qs_tile_##K##_4, [3] = qs_tile_##K##_6

/* few rows */
#define Q_MAX_MR	4
#define Q_TILES \
	DEF_Q_TILE(1, 1) DEF_Q_TILE(1, 4) DEF_Q_TILE(2, 1) DEF_Q_TILE(4, 1) \
	DEF_I8_TILE(1, 4) DEF_I8_TILE(2, 4) DEF_I8_TILE(4, 2) \
	Q_ROWS(1, 4) Q_ROWS(2, 1) Q_ROWS(4, 1)
#define Q_ROWS(MR, NS) \
	Q_LIGHT_FORMATS(DEF_Q_FN, MR, NS) Q_HEAVY_FORMATS(DEF_Q_FN, MR, 1) \
	Q_HALVES_FORMATS(DEF_Q_FN, MR, 1)
#define Q_TILE_TABLE(T) \
	[1] = q_tile_##T##_1, [2] = q_tile_##T##_2, [4] = q_tile_##T##_4

/* float, many rows; 16 registers: 4 x 24 needs 12 accumulators, 3 for weights, 1 for activations */
#define FS_MIN_ROWS	16
#define FS_MR		4
#define FS_NV		3
#define FS_TILES \
	DEF_FS_TILE(f32, 4, 2) DEF_FS_TILE(f16, 4, 2) DEF_FS_TILE(bf16, 4, 2) \
	DEF_FS_TILE(f32, 4, 3) DEF_FS_TILE(f16, 4, 3) DEF_FS_TILE(bf16, 4, 3) \
	DEF_FS_TILE(kept, 1, 2) DEF_FS_TILE(kept, 2, 2) DEF_FS_TILE(kept, 3, 2) DEF_FS_TILE(kept, 4, 2) \
	DEF_FS_TILE(kept, 1, 3) DEF_FS_TILE(kept, 2, 3) DEF_FS_TILE(kept, 3, 3) DEF_FS_TILE(kept, 4, 3)
#define FS_FIRST(T)	{NULL, NULL, tile_strip_##T##_4x2, tile_strip_##T##_4x3}
#define FS_KEEP(MR)	[MR] = {NULL, NULL, tile_strip_kept_##MR##x2, tile_strip_kept_##MR##x3}
#define FS_TABLE	FS_KEEP(1), FS_KEEP(2), FS_KEEP(3), FS_KEEP(4)

/* 16 registers: 6 x 16 needs 12 accumulators, 2 for weights, 1 for activations */
#define V_MAX_MR	6
#define V_TILES(T) \
	DEF_TILE(T, 1, 1) DEF_TILE(T, 2, 1) DEF_TILE(T, 3, 1) DEF_TILE(T, 4, 1) \
	DEF_TILE(T, 5, 1) DEF_TILE(T, 6, 1) \
	DEF_TILE(T, 1, 4) DEF_TILE(T, 2, 2)
#define V_TILE_TABLE(T) \
	{NULL, NULL, 0}, \
	{TILE(T, 1, 1), TILE(T, 1, 4), 4}, \
	{TILE(T, 2, 1), TILE(T, 2, 2), 2}, \
	{TILE(T, 3, 1), TILE(T, 3, 1), 1}, \
	{TILE(T, 4, 1), TILE(T, 4, 1), 1}, \
	{TILE(T, 5, 1), TILE(T, 5, 1), 1}, \
	{TILE(T, 6, 1), TILE(T, 6, 1), 1}

#endif
