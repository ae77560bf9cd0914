/*
 * tmpl_qtile.h
 *	  The register tile of quantized products, for all formats except INT8.
 *
 * Work proceeds strip by strip (Q_STRIP columns, a vector of 32-bit lanes) through the groups of 32 k.
 * 16 k are a step: q_operand() makes four vectors of bytes from the codes, each 4 k of every column, and
 * for each row q_quad() adds their products with 4 x 4 activations to the row's sums, a sum per column
 * in its lane.  Integer sums are exact, so their order doesn't matter.  At the end of a group q_finish()
 * adds them, scaled, to the float results, group after group: one chain per output, the same in every
 * implementation (docs/internals/kernels.md).
 *
 * The integer sums of a strip are in registers; the float ones are accessed once per group and are in c,
 * which is in L1.
 *
 * Everything here is inlined into one function per format and number of rows (Q_TILES), where the format
 * is a constant and all conditions on it are resolved.  The includer defines qi (a vector of integers),
 * qf (of floats) and the functions on them.
 */
#ifdef EMU_ONE_FOR_ALL
/* emulated instructions are so much code that one function must serve all formats */
#define Q_INLINE	static inline
#define Q_TILE_KIND	static __attribute__((noinline, noclone))
#else
#define Q_INLINE	static inline __attribute__((always_inline))
#define Q_TILE_KIND	Q_INLINE
#endif

/* with unrolling, compilers keep all partial sums at once and run out of registers */
#ifdef __clang__
#define Q_NO_UNROLL	_Pragma("nounroll")
#else
#define Q_NO_UNROLL	_Pragma("GCC unroll 1")
#endif

/* the operands are signed bytes, else unsigned */
Q_INLINE bool
q_signed(KType t)
{
	QTable		table = q_formats[t].table;

	return Q8_OFF == 0 && (q_formats[t].coding == QC_8 || (table != QT_NONE && table != QT_MXFP4));
}

/* field f of a plane's bytes, shifted to bit `to`; other bits are 0 */
Q_INLINE qi
q_field(const uint8_t *p, int bits, int f, int to)
{
	qi			v = q_load(p);
	int			down = f * bits - to;

	if (down > 0)
		v = q_shr(v, down);
	else if (down < 0)
		v = q_shl(v, -down);
	return q_and(v, q_set1_8(((1 << bits) - 1) << to));
}

/* the codes of the fours of k number g (0..7) in a group at p, Q_STRIP columns from col */
Q_INLINE qi
q_code(KType t, const uint8_t *p, int g, int col)
{
	p += col * 4;
	switch (q_formats[t].coding)
	{
		case QC_8:
			return q_load(p + g * Q_FOUR);
		case QC_6:
			return q_or(q_field(p + g / 2 * Q_FOUR, 4, g % 2, 0),
						q_field(p + (4 + g / 4) * Q_FOUR, 2, g % 4, 4));
		case QC_5:
			return q_or(q_field(p + g / 2 * Q_FOUR, 4, g % 2, 0),
						q_field(p + 4 * Q_FOUR, 1, g, 4));
		case QC_3:
			return q_or(q_field(p + g / 4 * Q_FOUR, 2, g % 4, 0),
						q_field(p + 2 * Q_FOUR, 1, g, 2));
		case QC_2:
			return q_field(p + g / 4 * Q_FOUR, 2, g % 4, 0);
		default:
			return q_field(p + g / 2 * Q_FOUR, 4, g % 2, 0);
	}
}

/* q_code() in the order of a dot product */
Q_INLINE qi
q_operand(KType t, const uint8_t *p, int g, int col)
{
	qi			v = q_code(t, p, g, col);

	if (q_formats[t].table == QT_IQ4)
		v = q_look_up(kcode_iq4, q_formats[t].off, v);
	else if (q_formats[t].table == QT_NF4)
		v = q_look_up(kcode_nf4, q_formats[t].off, v);
	else if (q_formats[t].table == QT_FP4)
		v = q_look_up(kcode_fp4, q_formats[t].off, v);
	else if (q_formats[t].table == QT_MXFP4)
		v = q_look_up(kcode_mxfp4, q_formats[t].off, v);
	return v;
}

/*
 * The contribution of a row's activations of one group to every column, from the sums of its halves.  To
 * compensate the operands' offset: -off * sum, or, with scales for halves, a pair of 16 bits for a pair
 * of scales, half of it so that it fits (32 * 2,032 doesn't).  For minima the sum itself, as a float or
 * a pair.
 */
Q_INLINE int32_t
q_xi(KType t, int32_t s0, int32_t s1)
{
	const QFormat *f = &q_formats[t];
	int			mul = f->scale == QS_HALVES_MIN ? 1 : -f->off / 2;

	if (q_has_halves(t))
		return (int32_t) ((uint32_t) (s1 * mul) << 16 | ((uint32_t) (s0 * mul) & 0xffff));
	if (q_has_min(t))
		return (int32_t) k_bits((float) (s0 + s1));
	return -f->off * (s0 + s1);
}

/* pairs of the halves' scales (sc0, sc1) of a strip; sub: at the strip */
Q_INLINE qi
q_pairs(KType t, const uint8_t *sub)
{
	if (q_plain_halves(t))
		return q_load_i8_16(sub);
	if (q_formats[t].scale == QS_HALVES_MIN)
		return q_and(q_load_u8_16(sub), q_set1_16(15));
	return q_zero();
}

Q_INLINE qi
q_init(KType t, qi pairs, int32_t xi)
{
	qi			s;

	if (q_plain_halves(t))
	{
		s = q_madd(pairs, q_set1(xi));
		return q_add(s, s);
	}
	if (q_has_min(t) || q_signed(t) || q_formats[t].off == 0)
		return q_zero();
	return q_set1(xi);
}

/* scales of a strip; h: the header, at the strip's columns; sub: at the group */
Q_INLINE qf
q_scale(KType t, const uint8_t *h, const uint8_t *sub, int col)
{
	qf			d;

	h += col * 2;
	if (q_formats[t].scale == QS_BF16)
		return qf_load_bf16(h);
	d = qf_load_f16(h);
	if (q_formats[t].scale == QS_SUB || q_formats[t].scale == QS_SUB_MIN)
		d = qf_mul(d, qf_load_i8(sub + col));
	if (q_formats[t].scale == QS_HALVES_SMALL)
		d = qf_mul(d, qf_set1(NV4_D));
	return d;
}

Q_INLINE qf
q_min(KType t, const uint8_t *h, const uint8_t *sub, int col)
{
	qf			m;

	if (!q_has_min(t))
		return qf_set1(0.0f);
	m = qf_load_f16(h + Q_COLS * 2 + col * 2);
	if (q_formats[t].scale == QS_SUB_MIN)
		m = qf_mul(m, qf_load_i8(sub + Q_COLS + col));
	return m;
}

/* c += the group's sums, scaled; mins: pairs of the halves' minima */
Q_INLINE void
q_finish(KType t, float *c, qi sum, qf d, qf m, qi mins, float xd, int32_t xi)
{
	qf			xs = qf_set1(xd);
	qf			acc = qf_fma(qf_mul(d, xs), qf_cvt(sum), qf_load(c));

	if (q_formats[t].scale == QS_HALVES_MIN)
		acc = qf_fma(qf_mul(m, xs), qf_cvt(q_madd(mins, q_set1(xi))), acc);
	else if (q_has_min(t))
		acc = qf_fma(qf_mul(m, xs), qf_set1(k_float((uint32_t) xi)), acc);
	qf_store(c, acc);
}

/* acc += 16 k of a strip and a row; for unsigned operands */
Q_INLINE qi
q_quad(KType t, qi acc, qi w0, qi w1, qi w2, qi w3, const int8_t *x, qi mul)
{
	if (q_has_halves(t))
		return q_quad_scaled(acc, w0, w1, w2, w3, x, mul, q_formats[t].coding == QC_6);
	return q_quad_sum(acc, w0, w1, w2, w3, x);
}

/*
 * A group of a panel has so many lines that the CPU would prefetch only one memory stream at a time: so
 * the first halves of all panels come before their second halves.
 */
Q_INLINE bool
q_split(KType t, int mr)
{
	return mr == 1 && q_formats[t].coding == QC_8;
}

/* names of a tile's variables: row r, strip p */
#define Q_INIT(r, p) \
	qi a##r##_##p = q_init(t, pairs##p, xi[r * ldb + b]);
#define Q_BEGIN(r, p) \
	qi a##r##_##p = split ? q_load(sums + (col + p * Q_STRIP) * 4) : q_init(t, pairs##p, xi[r * ldb + b]);
#define Q_KEEP(r, p) \
	q_store(sums + (col + p * Q_STRIP) * 4, a##r##_##p);
#define Q_OPERANDS(s, p) \
	qi w0_##p = q_operand(t, q, s * 4, col + p * Q_STRIP); \
	qi w1_##p = q_operand(t, q, s * 4 + 1, col + p * Q_STRIP); \
	qi w2_##p = q_operand(t, q, s * 4 + 2, col + p * Q_STRIP); \
	qi w3_##p = q_operand(t, q, s * 4 + 3, col + p * Q_STRIP); \
	qi mul##p = q_multiplier(pairs##p, s);
#define Q_QUAD(r, p) \
	a##r##_##p = q_quad(t, a##r##_##p, w0_##p, w1_##p, w2_##p, w3_##p, xb + r * ldx, mul##p);
#define Q_SIGNED_OPERANDS(g, p) \
	qw w0_##p = qw_make(q_operand(t, q, g, col + p * Q_STRIP)); \
	qw w1_##p = qw_make(q_operand(t, q, g + 1, col + p * Q_STRIP));
#define Q_SIGNED_PAIR(r, p) \
	a##r##_##p = q_signed_sum(a##r##_##p, w0_##p, w1_##p, xb + r * ldx);
#define Q_PAIRS(s, p) \
	qi pairs##p = q_pairs(t, sub + (col + p * Q_STRIP) * 2);
#define Q_SCALES(s, p) \
	qf d##p = q_scale(t, span, sub, col + p * Q_STRIP); \
	qf m##p = q_min(t, span, sub, col + p * Q_STRIP); \
	qi mins##p = q_formats[t].scale == QS_HALVES_MIN ? \
		q_shr(q_load_u8_16(sub + (col + p * Q_STRIP) * 2), 4) : q_zero();
#define Q_FINISH(r, p) \
	q_finish(t, c + r * Q_COLS + col + p * Q_STRIP, a##r##_##p, d##p, m##p, mins##p, \
			 xd[r * ldb + b], xi[r * ldb + b]);
/* 16 k of one row and a strip */
#define Q_ALONE(s, p) \
	{ \
		Q_OPERANDS(s, p) \
		Q_QUAD(0, p) \
	}
#define Q_SIGNED_ALONE(g, p) \
	{ \
		Q_SIGNED_OPERANDS(g, p) \
		Q_SIGNED_PAIR(0, p) \
	}

/* 16 k of MR rows and NS strips: step s (0 or 1) of the group at q */
#define Q_STEP(s, MR, NS) \
	if (q_signed(t)) \
	{ \
		{ \
			const int8_t *xb = x + (s) * 16; \
			Q_SIGNED_##NS(s * 4, MR) \
		} \
		{ \
			const int8_t *xb = x + (s) * 16 + 8; \
			Q_SIGNED_##NS(s * 4 + 2, MR) \
		} \
	} \
	else \
	{ \
		const int8_t *xb = x + (s) * 16; \
		Q_STRIPS_##NS(s, MR) \
	}

/*
 * One or two strips at once: all their operands stay in registers for all rows.  Four strips, with one
 * row: all memory lines in their order, each operand used at once.
 */
#define Q_STRIPS_1(s, MR)	P1(Q_OPERANDS, s) R##MR(P1, Q_QUAD)
#define Q_STRIPS_2(s, MR)	P2(Q_OPERANDS, s) R##MR(P2, Q_QUAD)
#define Q_STRIPS_4(s, MR)	P4(Q_ALONE, s)
#define Q_SIGNED_1(g, MR)	P1(Q_SIGNED_OPERANDS, g) R##MR(P1, Q_SIGNED_PAIR)
#define Q_SIGNED_2(g, MR)	P2(Q_SIGNED_OPERANDS, g) R##MR(P2, Q_SIGNED_PAIR)
#define Q_SIGNED_4(g, MR)	P4(Q_SIGNED_ALONE, g)

/*
 * c += MR rows of activations times np panels, NS strips at once.  The panels advance together, a group
 * at a time: several memory streams are faster than one.  Where memory isn't read line by line, the data
 * Q_AHEAD bytes later is prefetched meanwhile.
 */
#define Q_AHEAD		1024

/* The first half of a group of each panel; the sums are kept until the second half. */
#define Q_FIRST_HALVES(MR, NS) \
	Q_NO_UNROLL \
	for (int p = 0; p < j->np; p++) \
	{ \
		const uint8_t *q = j->w + (size_t) p * j->ps + i * q_span_bytes(t) + q_header_bytes(t); \
		const uint8_t *sub = q; \
		uint8_t    *sums = half + p * Q_FOUR; \
\
		(void) sub; \
		Q_NO_UNROLL \
		for (int col = 0; col < Q_COLS; col += Q_STRIP * NS) \
		{ \
			P##NS(Q_PAIRS, 0) \
			R##MR(P##NS, Q_INIT) \
			Q_STEP(0, MR, NS) \
			R##MR(P##NS, Q_KEEP) \
		} \
	}

#define DEF_Q_TILE(MR, NS) \
Q_TILE_KIND void \
q_tile_##MR##x##NS(KType t, const QTile *j) \
{ \
	const size_t ldx = j->ldx, \
				ldb = j->ldb; \
	const float *xd = j->xd; \
	const int32_t *xi = j->xi; \
	const size_t ng = (size_t) q_span_groups(t); \
	const bool	split = q_split(t, MR); \
\
	(void) ldx; \
	(void) ldb; \
	for (size_t i = 0; i < (size_t) j->spans; i++) \
		for (size_t g = 0; g < ng; g++) \
		{ \
			const size_t b = i * ng + g; \
			const int8_t *x = j->x + b * KGROUP; \
			_Alignas(64) uint8_t half[Q_MAX_NP * Q_FOUR]; \
\
			if (split) \
			{ \
				Q_FIRST_HALVES(MR, NS) \
			} \
			Q_NO_UNROLL \
			for (int p = 0; p < j->np; p++) \
			{ \
				const uint8_t *span = j->w + (size_t) p * j->ps + i * q_span_bytes(t); \
				const uint8_t *sub = span + q_fixed_bytes(t) + g * q_sub_bytes(t); \
				const uint8_t *q = span + q_header_bytes(t) + g * q_group_bytes(t); \
				uint8_t    *sums = half + p * Q_FOUR; \
				float	   *c = j->c + p * (MR * Q_COLS); \
\
				(void) sums; \
				/* otherwise the compiler would move c to registers for all groups, where it doesn't
				 * fit */ \
				__asm__ volatile("" : "+r"(c)); \
				for (size_t at = 0; Q_STRIP * NS < Q_COLS && at < q_group_bytes(t); at += 64) \
					__builtin_prefetch(q + Q_AHEAD + at); \
				Q_NO_UNROLL \
				for (int col = 0; col < Q_COLS; col += Q_STRIP * NS) \
				{ \
					P##NS(Q_PAIRS, 0) \
					R##MR(P##NS, Q_BEGIN) \
					if (!split) \
					{ \
						Q_STEP(0, MR, NS) \
					} \
					Q_STEP(1, MR, NS) \
					P##NS(Q_SCALES, 0) \
					R##MR(P##NS, Q_FINISH) \
				} \
			} \
		} \
}

#include "cpu/tmpl/tmpl_i8tile.h"

/* the formats, by the registers they need */
#define Q_LIGHT_FORMATS(X, MR, NS) \
	X(Q8_0, MR, NS) X(Q4_0, MR, NS) X(Q4_1, MR, NS) X(IQ4_NL, MR, NS) X(IQ4_XS, MR, NS) \
	X(MXFP4, MR, NS) X(NF4, MR, NS) X(FP4, MR, NS)
#define Q_HEAVY_FORMATS(X, MR, NS) \
	X(Q5_0, MR, NS) X(Q5_1, MR, NS) X(Q4_K, MR, NS) X(Q5_K, MR, NS)
#define Q_HALVES_FORMATS(X, MR, NS) \
	X(Q2_K, MR, NS) X(Q3_K, MR, NS) X(Q6_K, MR, NS) X(NV4, MR, NS)

#define DEF_Q_FN(T, MR, NS) \
static void \
q_tile_##T##_##MR(const QTile *j) \
{ \
	q_tile_##MR##x##NS(KT_##T, j); \
}

/* There are tiles for 1 and for even numbers of rows, to limit compile time. */
static inline int
q_tile_rows(int mr)
{
	return mr == 1 ? 1 : (mr + 1) & ~1;
}

#ifdef Q_TILES_OF_OTHER
/* use another implementation's tiles */
void		Q_TILES_OF_OTHER(KType t, int mr, const QTile *j);
#define q_tile	Q_TILES_OF_OTHER
#else
Q_TILES

typedef void (*QTileFn) (const QTile *j);

#define Q_FN(T)		[KT_##T] = {Q_TILE_TABLE(T)},
static const QTileFn q_tiles[KT_COUNT][Q_MAX_MR + 1] = {
	Q_FN(Q8_0) Q_FN(Q4_0) Q_FN(Q4_1) Q_FN(Q5_0) Q_FN(Q5_1) Q_FN(Q2_K) Q_FN(Q3_K) Q_FN(Q4_K)
	Q_FN(Q5_K) Q_FN(Q6_K) Q_FN(IQ4_NL) Q_FN(IQ4_XS) Q_FN(MXFP4) Q_FN(NF4) Q_FN(FP4)
	Q_FN(NV4) Q_FN(INT8)
};

#ifdef Q_TILES_FOR_OTHERS
void		Q_TILES_FOR_OTHERS(KType t, int mr, const QTile *j);
#define q_tile	Q_TILES_FOR_OTHERS
#else
static inline
#endif
void
q_tile(KType t, int mr, const QTile *j)
{
	q_tiles[t][mr] (j);
}
#endif							/* Q_TILES_OF_OTHER */
