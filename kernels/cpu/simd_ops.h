/*
 * simd_ops.h
 *	  Ops of quantized products that differ between AVX2 and AVX-512 only in the width.
 *
 * The includer (simd_avx2.h, simd_avx512.h) has defined the vectors qi and qf, the names of the instructions
 * for them, QV(op) and QV_SI(op) (_mm512_OP, _mm512_OP_si512), and q_pin().
 */

static inline qi
q_zero(void)
{
	return QV_SI(setzero)();
}

static inline qi
q_set1(int32_t x)
{
	return QV(set1_epi32)(x);
}

static inline qi
q_set1_16(int x)
{
	return QV(set1_epi16)((int16_t) x);
}

static inline qi
q_set1_8(int x)
{
	return QV(set1_epi8)((char) x);
}

static inline qi
q_load(const uint8_t *p)
{
	return QV_SI(loadu)((const void *) p);
}

static inline void
q_store(uint8_t *p, qi x)
{
	QV_SI(storeu)((void *) p, x);
}

static inline qi
q_and(qi x, qi y)
{
	return QV_SI(and)(x, y);
}

static inline qi
q_or(qi x, qi y)
{
	return QV_SI(or)(x, y);
}

static inline qi
q_add(qi x, qi y)
{
	return QV(add_epi32)(x, y);
}

/* 16-bit lanes shifted; callers that need bytes mask them */
static inline qi
q_shr(qi x, int n)
{
	return QV(srli_epi16)(x, n);
}

static inline qi
q_shl(qi x, int n)
{
	return QV(slli_epi16)(x, n);
}

/* pairs of 16 bits: x.lo * y.lo + x.hi * y.hi */
static inline qi
q_madd(qi x, qi y)
{
	return QV(madd_epi16)(x, y);
}

/* four activations, broadcast to all columns */
static inline qi
q_bcast(const int8_t *x)
{
	int32_t		x4;

	memcpy(&x4, x, 4);
	return QV(set1_epi32)(x4);
}

static inline qf
qf_set1(float f)
{
	return QV(set1_ps)(f);
}

static inline qf
qf_load(const float *p)
{
	return QV(loadu_ps)(p);
}

static inline void
qf_store(float *p, qf x)
{
	QV(storeu_ps)(p, x);
}

static inline qf
qf_cvt(qi x)
{
	return QV(cvtepi32_ps)(x);
}

static inline qf
qf_mul(qf x, qf y)
{
	return QV(mul_ps)(x, y);
}

static inline qf
qf_fma(qf x, qf y, qf z)
{
	return QV(fmadd_ps)(x, y, z);
}

/* bytes 0 and 2 of every four, as 16 bits; bytes 1 and 3 */
static inline qi
q_even(qi v)
{
	return QV(srai_epi16)(QV(slli_epi16)(v, 8), 8);
}

static inline qi
q_odd(qi v)
{
	return QV(srai_epi16)(v, 8);
}

/* add pairs of products of 16 bits to sums of 32 */
static inline qi
q_sum16(qi acc, qi w, qi x)
{
	return q_add(acc, q_madd(w, x));
}

static inline qi
q_mul32(qi x, qi y)
{
	return QV(mullo_epi32)(x, y);
}

/* the low and the high 16 bits of each lane, sign-extended */
static inline qi
q_low16(qi x)
{
	return QV(srai_epi32)(QV(slli_epi32)(x, 16), 16);
}

static inline qi
q_high16(qi x)
{
	return QV(srai_epi32)(x, 16);
}

#ifndef ISA_VNNI
/*
 * vpmaddubsw multiplies unsigned codes by activations and adds pairs; four codes
 * of at most 31, or two of at most 63, fit 16 bits: 4 * 2 * 31 * 127 < 2^15.
 */
#define Q8_OFF		0

static inline qi
q_dot16(qi w, const int8_t *x)
{
	return QV(maddubs_epi16)(w, q_bcast(x));
}

static inline qi
q_quad_sum(qi acc, qi w0, qi w1, qi w2, qi w3, const int8_t *x)
{
	qi			a = QV(add_epi16)(q_dot16(w0, x), q_dot16(w1, x + 4));
	qi			b = QV(add_epi16)(q_dot16(w2, x + 8), q_dot16(w3, x + 12));

	return q_pin(q_add(acc, q_madd(QV(add_epi16)(a, b), q_set1_16(1))));
}

/* INT8, tmpl_i8tile.h: codes w are signed, activations unsigned and at most 127 */
static inline qi
i8_dot(qi acc, qi w, qi u)
{
	return q_add(acc, q_madd(QV(maddubs_epi16)(u, w), q_set1_16(1)));
}

/* i8_dot() of two quads of small codes (INT8_QUAD) */
static inline qi
i8_dot_small(qi acc, qi w0, qi u0, qi w1, qi u1)
{
	qi			sum = QV(add_epi16)(QV(maddubs_epi16)(u0, w0), QV(maddubs_epi16)(u1, w1));

	return q_add(acc, q_madd(sum, q_set1_16(1)));
}

/* q_quad_sum() times mul; wide: codes have more than 5 bits */
static inline qi
q_quad_scaled(qi acc, qi w0, qi w1, qi w2, qi w3, const int8_t *x, qi mul, bool wide)
{
	qi			a = QV(add_epi16)(q_dot16(w0, x), q_dot16(w1, x + 4));
	qi			b = QV(add_epi16)(q_dot16(w2, x + 8), q_dot16(w3, x + 12));

	if (!wide)
		return q_pin(q_add(acc, q_madd(QV(add_epi16)(a, b), mul)));
	return q_pin(q_add(q_add(acc, q_madd(a, mul)), q_madd(b, mul)));
}

/* ---- products of several rows (tmpl_qstrip.h) ---- */

/* codes of 8 bits are widened to 16 */
#define QS_PAIRS	1

#define QS_KINDS(X, MR) \
	X(PAIRS, MR) X(START, MR) X(MIN, MR) X(TWO_MIN, MR) X(HALVES_START, MR) X(HALVES_MIN, MR)

/*
 * Initial values of sums of bytes that compensate the codes' offset: a pair of 16 bits, for k at
 * position 0 or 1 of each four, and for 2 or 3; of the whole group, or of its halves.
 */
static inline void
q_start(const int8_t *q, int off, bool halves, int32_t *start)
{
	__m256i		v = _mm256_loadu_si256((const __m256i *) q);
	__m256i		s = _mm256_maddubs_epi16(_mm256_set1_epi8(1), v);
	__m128i		a,
				b;

	s = _mm256_mullo_epi16(s, _mm256_set1_epi16((int16_t) -off));
	s = _mm256_add_epi16(s, _mm256_shuffle_epi32(s, 0x4e));
	s = _mm256_add_epi16(s, _mm256_shuffle_epi32(s, 0xb1));
	a = _mm256_castsi256_si128(s);
	b = _mm256_extracti128_si256(s, 1);
	start[0] = _mm_cvtsi128_si32(halves ? a : _mm_add_epi16(a, b));
	start[1] = halves ? _mm_cvtsi128_si32(b) : 0;
}

/* add pairs of products of bytes to sums of 16 bits */
static inline qi
q_mul8(qi w, qi x)
{
	return QV(maddubs_epi16)(w, x);
}

static inline qi
q_sum8(qi acc, qi w, qi x)
{
	return QV(add_epi16)(acc, QV(maddubs_epi16)(w, x));
}

/* a column's sum of these; multiplied by q_multiplier()'s scales */
static inline qi
q_end8(qi acc)
{
	return q_madd(acc, q_set1_16(1));
}

static inline qi
q_end8_scaled(qi acc, qi mul)
{
	return q_madd(acc, mul);
}
#endif
