/*
 * simd_vnni.h
 *	  Quantized products with vpdpbusd, which multiplies unsigned codes by signed activations and adds
 *	  four products to a 32-bit lane.
 *
 * For vectors of any width: the includer (simd_avx2.h, simd_avx512.h with
 * ISA_VNNI) has defined qi and its functions, q_dpbusd(), q_mul32() and q_low16().
 *
 * Codes of 8 bits (except INT8's) are stored + 128, and sums start at -128 * sum of the activations
 * (q_xi).  No overflow: a group's sum is at most 32 * 255 * 127 + 128 * 32 * 127 < 2^21.
 */
#define Q8_OFF		128

static inline qi
q_dot(qi acc, qi w, const int8_t *x)
{
	return q_dpbusd(acc, w, q_bcast(x));
}

static inline qi
q_quad_sum(qi acc, qi w0, qi w1, qi w2, qi w3, const int8_t *x)
{
	return q_dot(q_dot(q_dot(q_dot(acc, w0, x), w1, x + 4), w2, x + 8), w3, x + 12);
}

/* INT8, tmpl_i8tile.h: here the activations are the unsigned operands */
static inline qi
i8_dot(qi acc, qi w, qi u)
{
	return q_dpbusd(acc, u, w);
}

/* the half's scale, 32 bits */
static inline qi
q_multiplier(qi pairs, int half)
{
	return half ? q_high16(pairs) : q_low16(pairs);
}

static inline qi
q_quad_scaled(qi acc, qi w0, qi w1, qi w2, qi w3, const int8_t *x, qi mul, bool wide)
{
	(void) wide;
	return q_pin(q_add(acc, q_mul32(q_quad_sum(q_zero(), w0, w1, w2, w3, x), mul)));
}

/* no codes are signed here */
typedef qi qw;

static inline qw
qw_make(qi w)
{
	return w;
}

static inline qi
q_signed_sum(qi acc, qw w0, qw w1, const int8_t *x)
{
	return q_dot(q_dot(acc, w0, x), w1, x + 4);
}

/* ---- products of several rows (tmpl_qstrip.h) ---- */

/* all codes are unsigned bytes, and sums have 32 bits */
#define QS_PAIRS	0

/* initial values of sums that compensate the codes' offset: of the whole group, or of its halves */
static inline void
q_start(const int8_t *q, int off, bool halves, int32_t *start)
{
	__m256i		v = _mm256_loadu_si256((const __m256i *) q);
	__m256i		s = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), v), _mm256_set1_epi16(1));
	__m128i		a,
				b;

	s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0x4e));
	s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0xb1));
	a = _mm256_castsi256_si128(s);
	b = _mm256_extracti128_si256(s, 1);
	start[0] = -off * _mm_cvtsi128_si32(halves ? a : _mm_add_epi32(a, b));
	start[1] = halves ? -off * _mm_cvtsi128_si32(b) : 0;
}

static inline qi
q_sum8(qi acc, qi w, qi x)
{
	return q_dpbusd(acc, w, x);
}

static inline qi
q_mul8(qi w, qi x)
{
	return q_dpbusd(q_zero(), w, x);
}

static inline qi
q_end8(qi acc)
{
	return acc;
}

static inline qi
q_end8_scaled(qi acc, qi mul)
{
	return q_mul32(acc, mul);
}

#define QS_KINDS(X, MR) \
	X(START, MR) X(MIN, MR) X(HALVES_START, MR) X(HALVES_MIN, MR)
