/*
 * tmpl_qstrip.h
 *	  Quantized products of several rows: weights are unpacked once for all rows.
 *
 * A block (two strips, QS_COLS columns, by qs_groups() groups of 32 k) is unpacked to a buffer that
 * stays in L1: for each group a record with float scales and operands as the products need them, the
 * strips side by side.  Then the rows are processed in tiles of up to QS_MAX_MR, whose sums are in
 * registers.  All rows share the cost of unpacking, so formats differ only in their kind of record, and
 * there is one set of tiles for each kind:
 *
 *	 QK_PAIRS	signed codes of 8 bits become 16 bits; products of pairs are added in
 *				32 bits (without VNNI: bytes' products don't fit 16 bits)
 *	 QK_START	unsigned bytes; the sums start at a value that compensates the offset
 *	 QK_MIN		unsigned bytes of at most 4 bits, with a minimum
 *	 QK_TWO_MIN	the same with 5 bits: half a group's sums fit 16 bits
 *	 QK_HALVES_START, QK_HALVES_MIN		the halves' sums are multiplied by their scales
 *	 QK_INT8	used as packed, with its own tiles (tmpl_i8tile.h)
 *
 * "Sums" of bytes have 16 bits in instruction sets without VNNI (two for each column: products are added
 * in pairs) and 32 bits with it.  16 bits may wrap around in between; the final sums of one half of a
 * group's pairs fit again after the offset has been subtracted: |code| <= 16, 16 * 16 * 127 = 32,512,
 * and for halves of 16 k |code| <= 32.
 *
 * The order of the float sums is that of tmpl_qtile.h: groups in ascending order.
 */
typedef enum QKind
{
	QK_PAIRS,
	QK_START,
	QK_MIN,
	QK_TWO_MIN,
	QK_HALVES_START,
	QK_HALVES_MIN,
	QK_INT8,
	QK_COUNT
} QKind;

#define QS_COLS		(2 * Q_STRIP)
#define QS_VEC		(4 * Q_STRIP)	/* bytes of a vector */

/* the work of a tile: rows of activations times a block */
typedef struct QsTile
{
	const uint8_t *x;			/* records of the first row, see q_x_bytes() */
	size_t		ldx;			/* bytes from row to row */
	const uint8_t *w;			/* unpacked records; INT8: a panel's group */
	int			groups;
	float	   *c;				/* [rows][QS_COLS] */
	const float *from;			/* INT8: the sums so far, like c; may be c, */
	int			col;			/* first column in the panel */
	int			steps;			/* INT8: steps of 16 k, instead of groups */
	bool		small;			/* INT8: the codes are small */
	const uint8_t *ahead;		/* later packed weights, to be prefetched meanwhile: */
	int			lines;			/* cache lines per group */
} QsTile;

Q_INLINE QKind
q_kind(KType t)
{
	if (t == KT_INT8)
		return QK_INT8;
	if (q_has_halves(t))
		return q_has_min(t) ? QK_HALVES_MIN : QK_HALVES_START;
	if (q_has_min(t))
		return QS_PAIRS && q_formats[t].coding == QC_5 ? QK_TWO_MIN : QK_MIN;
	return q_signed(t) ? QK_PAIRS : QK_START;
}

Q_INLINE bool
qs_pairs(QKind k)
{
	return QS_PAIRS && k == QK_PAIRS;
}

Q_INLINE bool
qs_halves(QKind k)
{
	return k == QK_HALVES_START || k == QK_HALVES_MIN;
}

Q_INLINE bool
qs_min(QKind k)
{
	return k == QK_MIN || k == QK_TWO_MIN || k == QK_HALVES_MIN;
}

/* vectors of scales before the operands of a record */
Q_INLINE int
qs_scales(QKind k)
{
	return k == QK_HALVES_MIN ? 10 : k == QK_HALVES_START ? 6 : qs_min(k) ? 4 : 2;
}

Q_INLINE size_t
qs_record_bytes(QKind k)
{
	return (size_t) (qs_scales(k) + (qs_pairs(k) ? 32 : 16)) * QS_VEC;
}

/* groups of a block: about what half of L1 holds; INT8: of 128 k, as cache lines may not be adjacent */
Q_INLINE int
qs_groups(QKind k)
{
	return k == QK_INT8 ? 4 : qs_pairs(k) ? 16 : 32;
}

#define QS_BLOCK_BYTES	(32 * (10 + 16) * QS_VEC)	/* the largest records */

/*
 * A row's activations of one group: 32 bytes, or 16 bits in the order of q_widen(); then the float scale
 * and two numbers: initial values of the halves' sums (q_start()), or the sum that multiplies the
 * minimum.
 */
static inline size_t
q_x_bytes(KType t)
{
	return (qs_pairs(q_kind(t)) ? 2 * KGROUP : KGROUP) + 16;
}

static void
q_x_finish(KType t, uint8_t *record, float xd, int32_t s0, int32_t s1)
{
	QKind		k = q_kind(t);
	int8_t		q[KGROUP];
	int32_t		xi[2] = {0, 0};

	memcpy(q, record, KGROUP);
	if (k == QK_START || k == QK_HALVES_START)
		q_start(q, q_formats[t].off, qs_halves(k), xi);
	else
		xi[0] = q_xi(t, s0, s1);
	if (qs_pairs(k))
	{
		q_widen((int16_t *) (void *) record, q);
		record += KGROUP;
	}
	memcpy(record + KGROUP, &xd, 4);
	memcpy(record + KGROUP + 4, xi, 8);
}

/* ---- unpacking ---- */

/* store scales of one strip; at: its vector in the record, each followed by the other strip's */
Q_INLINE void
qs_put_scales(KType t, uint8_t *at, const uint8_t *span, const uint8_t *sub, int col)
{
	QKind		k = q_kind(t);
	qi			pairs = q_pairs(t, sub + col * 2);

	qf_store((float *) (void *) at, q_scale(t, span, sub, col));
	if (qs_min(k))
	{
		at += 2 * QS_VEC;
		qf_store((float *) (void *) at, q_min(t, span, sub, col));
	}
	if (k == QK_HALVES_MIN)
	{
		at += 2 * QS_VEC;
		q_store(at, q_and(q_shr(q_load_u8_16(sub + col * 2), 4), q_set1_16(15)));
	}
	if (qs_halves(k))
	{
		q_store(at + 2 * QS_VEC, q_multiplier(pairs, 0));
		q_store(at + 4 * QS_VEC, q_multiplier(pairs, 1));
	}
}

/* store QS_COLS columns from col of a group's codes at q */
Q_INLINE void
qs_put_codes(KType t, uint8_t *at, const uint8_t *q, int col)
{
	for (int g = 0; g < 8; g++)
		for (int p = 0; p < 2; p++, at += QS_VEC)
		{
			qi			v = q_operand(t, q, g, col + p * Q_STRIP);

			if (!qs_pairs(q_kind(t)))
				q_store(at, v);
			else
			{
				q_store(at + g * 2 * QS_VEC, q_even(v));
				q_store(at + (g + 1) * 2 * QS_VEC, q_odd(v));
			}
		}
}

/* unpack groups g0 .. g0+n-1 of a panel, QS_COLS columns from col */
Q_INLINE void
qs_unpack(KType t, const uint8_t *panel, int col, int g0, int n, uint8_t *to)
{
	QKind		k = q_kind(t);
	int			ng = q_span_groups(t);

	for (int g = g0; g < g0 + n; g++, to += qs_record_bytes(k))
	{
		const uint8_t *span = panel + (size_t) (g / ng) * q_span_bytes(t);
		const uint8_t *sub = span + q_fixed_bytes(t) + (size_t) (g % ng) * q_sub_bytes(t);

		qs_put_scales(t, to, span, sub, col);
		qs_put_scales(t, to + QS_VEC, span, sub, col + Q_STRIP);
		qs_put_codes(t, to + qs_scales(k) * QS_VEC,
					 span + q_header_bytes(t) + (size_t) (g % ng) * q_group_bytes(t), col);
	}
}

/* ---- tiles ---- */

/* c += sum, scaled; as in q_finish() */
Q_INLINE void
qs_finish(QKind k, float *c, qi sum, const uint8_t *scales, float xd, int32_t xi)
{
	const float *d = (const float *) (const void *) scales;
	qf			xs = qf_set1(xd);
	qf			acc = qf_fma(qf_mul(qf_load(d), xs), qf_cvt(sum), qf_load(c));

	if (qs_min(k))
	{
		qf			m = qf_mul(qf_load(d + QS_COLS), xs);

		if (k == QK_HALVES_MIN)
			acc = qf_fma(m, qf_cvt(q_madd(q_load(scales + 4 * QS_VEC), q_set1(xi))), acc);
		else
			acc = qf_fma(m, qf_set1(k_float((uint32_t) xi)), acc);
	}
	qf_store(c, acc);
}

Q_INLINE int32_t
qs_int(const uint8_t *p)
{
	int32_t		i;

	memcpy(&i, p, 4);
	return i;
}

/* QS_ROWS_n(M): M(0) .. M(n-1), the statements of each row */
#define QS_ROWS_2(M)	M(0) M(1)
#define QS_ROWS_4(M)	QS_ROWS_2(M) M(2) M(3)
#define QS_ROWS_6(M)	QS_ROWS_4(M) M(4) M(5)
#define QS_ROWS_8(M)	QS_ROWS_6(M) M(6) M(7)

#define QS_SUMS(r)		qi a##r##_0 = q_zero(), a##r##_1 = q_zero();
#define QS_BEGIN(r)		a##r##_0 = a##r##_1 = q_set1(qs_int(x + r * ldx + KGROUP + 4 + h * 4));
#define QS_FIRST(r) \
	{ \
		qi b = q_bcast((const int8_t *) x + r * ldx + h * 16); \
		a##r##_0 = q_pin(q_mul8(w0, b)); \
		a##r##_1 = q_pin(q_mul8(w1, b)); \
	}
#define QS_SUM8(r) \
	{ \
		qi b = q_bcast((const int8_t *) x + r * ldx + f * 4); \
		a##r##_0 = q_pin(q_sum8(a##r##_0, w0, b)); \
		a##r##_1 = q_pin(q_sum8(a##r##_1, w1, b)); \
	}
#define QS_SUM16(r) \
	{ \
		qi b = q_bcast((const int8_t *) x + r * ldx + f * 4); \
		a##r##_0 = q_pin(q_sum16(a##r##_0, w0, b)); \
		a##r##_1 = q_pin(q_sum16(a##r##_1, w1, b)); \
	}
#define QS_FIRST16(r) \
	{ \
		qi b = q_bcast((const int8_t *) x + r * ldx); \
		a##r##_0 = q_pin(q_madd(w0, b)); \
		a##r##_1 = q_pin(q_madd(w1, b)); \
	}
#define QS_END(r) \
	a##r##_0 = q_end8(a##r##_0); \
	a##r##_1 = q_end8(a##r##_1);
#define QS_END_SCALED(r) \
	a##r##_0 = q_end8_scaled(a##r##_0, w0); \
	a##r##_1 = q_end8_scaled(a##r##_1, w1);
/* prefetch the next tile's activations: rows are too far apart for the CPU's prefetcher */
#define QS_NEXT(r)		__builtin_prefetch(next + r * ldx);
#define QS_KEEP(r) \
	half[r * 2] = a##r##_0; \
	half[r * 2 + 1] = a##r##_1;
#define QS_JOIN(r) \
	a##r##_0 = q_add(a##r##_0, half[r * 2]); \
	a##r##_1 = q_add(a##r##_1, half[r * 2 + 1]);
#define QS_FINISH(r) \
	qs_finish(k, c + r * QS_COLS, a##r##_0, w, k_float((uint32_t) qs_int(x + r * ldx + tail)), \
			  qs_int(x + r * ldx + tail + 4)); \
	qs_finish(k, c + r * QS_COLS + Q_STRIP, a##r##_1, w + QS_VEC, \
			  k_float((uint32_t) qs_int(x + r * ldx + tail)), qs_int(x + r * ldx + tail + 4));
/* unroll whole groups: the end of a loop costs more than its code */
#define QS_PRAGMA(x)	_Pragma(#x)
#if defined(VLLM_KERNELS_EMU)
#define QS_UNROLL(n)
#elif defined(__clang__)
#define QS_UNROLL(n)	QS_PRAGMA(unroll n)
#else
#define QS_UNROLL(n)	QS_PRAGMA(GCC unroll n)
#endif
#define QS_OPERANDS(at) \
	qi w0 = q_load(at), w1 = q_load((at) + QS_VEC);

/* products of four k number f0 .. f1-1 of a group, which begin chain h */
#define QS_CHAIN(MR, f0, f1) \
	{ \
		enum {h = f0 / 4}; \
		if (start) \
		{ \
			QS_ROWS_##MR(QS_BEGIN) \
		} \
		else \
		{ \
			QS_OPERANDS(codes + f0 * 2 * QS_VEC) \
			QS_ROWS_##MR(QS_FIRST) \
		} \
		QS_UNROLL(8) \
		for (int f = start ? f0 : f0 + 1; f < f1; f++) \
		{ \
			QS_OPERANDS(codes + f * 2 * QS_VEC) \
			QS_ROWS_##MR(QS_SUM8) \
		} \
		if (qs_halves(k)) \
		{ \
			QS_OPERANDS(codes - (4 - 2 * h) * QS_VEC) \
			QS_ROWS_##MR(QS_END_SCALED) \
		} \
		else \
		{ \
			QS_ROWS_##MR(QS_END) \
		} \
	}

#define DEF_QS_TILE(MR) \
Q_TILE_KIND void \
qs_tile_##MR(QKind k, const QsTile *j) \
{ \
	const bool	start = k == QK_START || k == QK_HALVES_START; \
	const size_t ldx = j->ldx, \
				tail = qs_pairs(k) ? 2 * KGROUP : KGROUP; \
	const uint8_t *x = j->x, \
			   *next = x + MR * j->ldx, \
			   *w = j->w, \
			   *ahead = j->ahead; \
	float	   *c = j->c; \
	QS_ROWS_##MR(QS_SUMS) \
\
	for (int g = 0; g < j->groups; g++) \
	{ \
		const uint8_t *codes = w + qs_scales(k) * QS_VEC; \
		qi			half[MR * 2]; \
\
		/* otherwise the compiler would move c to registers for all groups, where it doesn't fit */ \
		__asm__ volatile("" : "+r"(c)); \
		for (int i = 0; i < j->lines; i++, ahead += 64) \
			__builtin_prefetch(ahead, 0, 2); \
		QS_ROWS_##MR(QS_NEXT) \
		if (k == QK_PAIRS) \
		{ \
			QS_OPERANDS(codes) \
			QS_ROWS_##MR(QS_FIRST16) \
		} \
		if (qs_pairs(k)) \
			QS_UNROLL(16) \
			for (int f = k == QK_PAIRS; f < 16; f++) \
			{ \
				QS_OPERANDS(codes + f * 2 * QS_VEC) \
				QS_ROWS_##MR(QS_SUM16) \
			} \
		else if (k == QK_TWO_MIN || qs_halves(k)) \
		{ \
			QS_CHAIN(MR, 0, 4) \
			QS_ROWS_##MR(QS_KEEP) \
			QS_CHAIN(MR, 4, 8) \
			QS_ROWS_##MR(QS_JOIN) \
		} \
		else \
			QS_CHAIN(MR, 0, 8) \
		QS_ROWS_##MR(QS_FINISH) \
		x += tail + 16; \
		next += tail + 16; \
		w += qs_record_bytes(k); \
	} \
}

#define DEF_QS_FN(K, MR) \
static void \
qs_tile_##K##_##MR(const QsTile *j) \
{ \
	qs_tile_##MR(QK_##K, j); \
}

#ifdef Q_TILES_OF_OTHER
#define QS_LINKAGE	extern
#elif defined(Q_TILES_FOR_OTHERS)
#define QS_LINKAGE
#else
#define QS_LINKAGE	static
#endif

/* unpack groups g0 .. g0+n-1 of a panel, QS_COLS columns from col */
QS_LINKAGE void qs_unpack_block(KType t, const uint8_t *panel, int col, int g0, int n, uint8_t *to);
/* mr: even */
QS_LINKAGE void qs_tile(KType t, int mr, const QsTile *j);

#ifndef Q_TILES_OF_OTHER
QS_TILES
#ifdef I8_SMALL_MR
I8_SMALL_TILES
#endif

#define DEF_QS_UNPACK(T, MR, NS) \
static void \
qs_unpack_##T(const uint8_t *panel, int col, int g0, int n, uint8_t *to) \
{ \
	qs_unpack(KT_##T, panel, col, g0, n, to); \
}

Q_LIGHT_FORMATS(DEF_QS_UNPACK, ,)
Q_HEAVY_FORMATS(DEF_QS_UNPACK, ,)
Q_HALVES_FORMATS(DEF_QS_UNPACK, ,)

typedef void (*QsTileFn) (const QsTile *j);
typedef void (*QsUnpackFn) (const uint8_t *panel, int col, int g0, int n, uint8_t *to);

QS_LINKAGE void
qs_unpack_block(KType t, const uint8_t *panel, int col, int g0, int n, uint8_t *to)
{
#define QS_UNPACK(T, MR, NS)	[KT_##T] = qs_unpack_##T,
	static const QsUnpackFn fns[KT_COUNT] = {
		Q_LIGHT_FORMATS(QS_UNPACK, ,) Q_HEAVY_FORMATS(QS_UNPACK, ,) Q_HALVES_FORMATS(QS_UNPACK, ,)
	};

	fns[t] (panel, col, g0, n, to);
}

QS_LINKAGE void
qs_tile(KType t, int mr, const QsTile *j)
{
#define QS_TABLE_ROW(K, MR)	[QK_##K] = {QS_TABLE(K)},
	static const QsTileFn fns[QK_COUNT][QS_MAX_MR / 2 + 1] = {
		QS_KINDS(QS_TABLE_ROW, ) QS_TABLE_ROW(INT8, )
	};
#ifdef I8_SMALL_MR
	static const QsTileFn small[] = {I8_SMALL_TABLE};

	if (j->small)
	{
		small[mr / 2] (j);
		return;
	}
#endif
	fns[q_kind(t)][mr / 2] (j);
}
#endif							/* Q_TILES_OF_OTHER */
