/*
 * tmpl_qpack.h
 *	  Packed layouts of the quantized formats: one row of a table per format.
 *
 * A panel is 32 output columns.  Its k is divided into spans: a header with the scales of all columns,
 * then the codes of each group of 32 k, 128 bytes for each bit of a code.  A span is the range of k that
 * shares a half: 32 k, or the 256 of a super-block.
 *
 * Codes are divided into planes of 4, 2 or 1 bits (or whole bytes).  In a plane, 4 consecutive k of one
 * column are 4 bytes (one 32-bit lane, as integer dot products require; Q_LANE), 32 columns make 128
 * bytes, and the fields of a byte, lowest first, belong to consecutive fours of k.  So every four of k
 * takes a load, a shift and a mask, and one load serves 2, 4 or 8 of them.
 *
 * KT_INT8: tmpl_i8pack.h.
 *
 * The includer defines Q_LANE(j, c), the index of (k % 4, column) in 128 bytes, and Q8_OFF, which is
 * added to codes of 8 bits: 128 if dot products need them unsigned, else 0.
 */
#define Q_COLS		32
#define Q_FOUR		(4 * Q_COLS)	/* bytes of four k of a panel, one byte per code */
#define Q_GROUPS	(QK_BLOCK / KGROUP)

typedef enum QCoding
{
	QC_NONE,
	QC_8,
	QC_6,						/* 4 bits and 2 */
	QC_5,						/* 4 bits and 1 */
	QC_4,
	QC_3,						/* 2 bits and 1 */
	QC_2
} QCoding;

/* contents of a header: d, m of 32 columns, then s of each group */
typedef enum QScale
{
	QS_NONE,
	QS_HALF,					/* half d */
	QS_BF16,					/* bfloat16 d (a power of two) */
	QS_HALF_MIN,				/* half d, half m */
	QS_SUB,						/* half d; signed byte s: d is d * s */
	QS_SUB_MIN,					/* half d, m; bytes s, then t: d * s, m * t */
	QS_HALVES,					/* half d; for each column two signed bytes: sc */
	QS_HALVES_SMALL,			/* the same for one group, with d times NV4_D */
	QS_HALVES_MIN				/* half d, m; for each column two times sc | mn << 4 */
} QScale;

/* codes that are indices of a table */
typedef enum QTable
{
	QT_NONE,
	QT_IQ4,
	QT_NF4,
	QT_FP4,
	QT_MXFP4
} QTable;

typedef struct QFormat
{
	QCoding		coding;
	QScale		scale;
	QTable		table;
	int			off;			/* a dot product's operand is the code's value + off */
} QFormat;

static const QFormat q_formats[KT_COUNT] = {
	[KT_Q8_0] = {QC_8, QS_HALF, QT_NONE, Q8_OFF},
	[KT_Q4_0] = {QC_4, QS_HALF, QT_NONE, 8},
	[KT_Q4_1] = {QC_4, QS_HALF_MIN, QT_NONE, 0},
	[KT_Q5_0] = {QC_5, QS_HALF, QT_NONE, 16},
	[KT_Q5_1] = {QC_5, QS_HALF_MIN, QT_NONE, 0},
	[KT_Q2_K] = {QC_2, QS_HALVES_MIN, QT_NONE, 0},
	[KT_Q3_K] = {QC_3, QS_HALVES, QT_NONE, 4},
	[KT_Q4_K] = {QC_4, QS_SUB_MIN, QT_NONE, 0},
	[KT_Q5_K] = {QC_5, QS_SUB_MIN, QT_NONE, 0},
	[KT_Q6_K] = {QC_6, QS_HALVES, QT_NONE, 32},
	[KT_IQ4_NL] = {QC_4, QS_HALF, QT_IQ4, Q8_OFF},
	[KT_IQ4_XS] = {QC_4, QS_SUB, QT_IQ4, Q8_OFF},
	[KT_MXFP4] = {QC_4, QS_BF16, QT_MXFP4, 12},
	[KT_NF4] = {QC_4, QS_HALF, QT_NF4, Q8_OFF},
	[KT_FP4] = {QC_4, QS_HALF, QT_FP4, Q8_OFF},
	[KT_NV4] = {QC_4, QS_HALVES_SMALL, QT_MXFP4, 12},
};

typedef struct QPlane
{
	int			bits;			/* of each code in this plane, 0: no plane */
	int			shift;			/* the lowest of them */
} QPlane;

static const QPlane q_planes[][2] = {
	[QC_NONE] = {{0, 0}, {0, 0}},
	[QC_8] = {{8, 0}, {0, 0}},
	[QC_6] = {{4, 0}, {2, 4}},
	[QC_5] = {{4, 0}, {1, 4}},
	[QC_4] = {{4, 0}, {0, 0}},
	[QC_3] = {{2, 0}, {1, 2}},
	[QC_2] = {{2, 0}, {0, 0}},
};

static inline bool
q_has_min(KType t)
{
	QScale		s = q_formats[t].scale;

	return s == QS_HALF_MIN || s == QS_SUB_MIN || s == QS_HALVES_MIN;
}

/* scales of halves without a minimum */
static inline bool
q_plain_halves(KType t)
{
	return q_formats[t].scale == QS_HALVES || q_formats[t].scale == QS_HALVES_SMALL;
}

static inline bool
q_has_halves(KType t)
{
	return q_plain_halves(t) || q_formats[t].scale == QS_HALVES_MIN;
}

/* groups of a span */
static inline int
q_span_groups(KType t)
{
	QScale		s = q_formats[t].scale;

	return s == QS_HALF || s == QS_BF16 || s == QS_HALF_MIN || s == QS_HALVES_SMALL ? 1 : Q_GROUPS;
}

/* bytes of the halves in a header, and of its fields for each group */
static inline size_t
q_fixed_bytes(KType t)
{
	return Q_COLS * (q_has_min(t) ? 4 : 2);
}

static inline size_t
q_sub_bytes(KType t)
{
	QScale		s = q_formats[t].scale;

	if (s == QS_HALVES_SMALL)
		return 2 * Q_COLS;
	return q_span_groups(t) == 1 ? 0 : s == QS_SUB ? Q_COLS : 2 * Q_COLS;
}

static inline size_t
q_header_bytes(KType t)
{
	return q_fixed_bytes(t) + q_sub_bytes(t) * (size_t) q_span_groups(t);
}

static inline size_t
q_group_bytes(KType t)
{
	const QPlane *p = q_planes[q_formats[t].coding];

	return (size_t) (p[0].bits + p[1].bits) * Q_FOUR;
}

static inline size_t
q_span_bytes(KType t)
{
	return q_header_bytes(t) + q_group_bytes(t) * (size_t) q_span_groups(t);
}

static bool
q_shape_ok(KType t, int k)
{
	return t == KT_INT8 ? k <= INT8_MAX_K : k % ktype_block(t) == 0;
}

/* the work of a register tile: some rows of activations times some panels */
/* panels that may advance together */
#define Q_MAX_NP	4

typedef struct QTile
{
	const int8_t *x;			/* quantized activations; INT8: records (tmpl_i8tile.h) */
	size_t		ldx;
	const float *xd;			/* their scales, by group */
	const int32_t *xi;			/* results of q_xi() for their sums, by group */
	size_t		ldb;			/* groups from row to row */
	int			spans;			/* INT8: steps of 16 k (tmpl_i8pack.h) */
	const uint8_t *w;
	size_t		ps;				/* bytes from panel to panel */
	int			np;
	float	   *c;				/* [np][rows][32], zeros */
} QTile;

/* ---- packing ---- */

/* the values of a table's codes; NULL: a code is its value + off */
static const int8_t *
q_table(KType t)
{
	static const int8_t *const tables[] = {
		[QT_NONE] = NULL, [QT_IQ4] = kcode_iq4, [QT_NF4] = kcode_nf4, [QT_FP4] = kcode_fp4,
		[QT_MXFP4] = kcode_mxfp4,
	};

	return tables[q_formats[t].table];
}

/* one code back from its planes */
static int
q_get_code(QCoding coding, const uint8_t *from, int k, int c)
{
	int			code = 0;

	for (const QPlane *p = q_planes[coding]; p < q_planes[coding] + 2 && p->bits > 0; p++)
	{
		int			fields = 8 / p->bits;
		uint8_t		b = from[k / 4 / fields * Q_FOUR + Q_LANE(k % 4, c)];

		code |= (b >> (k / 4 % fields * p->bits) & ((1 << p->bits) - 1)) << p->shift;
		from += p->bits * Q_FOUR;
	}
	return code;
}

#include "cpu/tmpl/tmpl_qspan.h"
#include "cpu/tmpl/tmpl_i8pack.h"

static size_t
q_panel_bytes(KType t, int k)
{
	if (t == KT_INT8)
		return i8_panel_bytes(k);
	return (size_t) (k / (KGROUP * q_span_groups(t))) * q_span_bytes(t);
}

/* Make a panel from rows of blocks; NULL: zeros. */
static void
q_pack_panel(KType t, uint8_t *panel, const uint8_t *const *rows, int nblocks)
{
	QStripFn	strip = q_strip_fns[t];
	size_t		step = ktype_row_bytes(t, ktype_block(t)),
				span = q_span_bytes(t);
	uint8_t		zeros[sizeof(KBlockQ6_K)];
	const uint8_t *src[Q_COLS];

	q_zero_codes(t, zeros);
	for (int c = 0; c < Q_COLS; c++)
		src[c] = rows[c] != NULL ? rows[c] : zeros;
	for (int i = 0; i < nblocks; i++, panel += span)
	{
		for (int c0 = 0; c0 < Q_COLS; c0 += P_LANES)
			strip(src + c0, panel, c0);
		for (int c = 0; c < Q_COLS; c++)
			if (rows[c] != NULL)
				src[c] += step;
			else if (t == KT_MXFP4)
				memset(panel + c * 2, 0, 2);	/* no exponent means 0 */
	}
}

/* pack whole panels p0 .. p1-1 */
static void
q_mat_pack(KMat *m, const KTensor *src, int p0, int p1)
{
	size_t		pb = q_panel_bytes(m->type, m->k);

	for (int p = p0; p < p1; p++)
	{
		uint8_t    *panel = (uint8_t *) m->data + (size_t) p * pb;
		const uint8_t *rows[Q_COLS];

		for (int c = 0; c < Q_COLS; c++)
			rows[c] = p * Q_COLS + c < m->n ? ktensor_row(src, p * Q_COLS + c) : NULL;
		if (m->type == KT_INT8)
			i8_pack_panel(panel, rows, m->k);
		else
			q_pack_panel(m->type, panel, rows, m->k / ktype_block(m->type));
	}
}

/* ---- row look-up ---- */

/* d, m, sc, mn of one group and column, as from kgroup_get() */
static void
q_get_scales(KType t, const uint8_t *header, int group, int c, KGroup *g)
{
	const uint8_t *sub = header + q_fixed_bytes(t) + (size_t) group * q_sub_bytes(t);
	uint16_t	d,
				m = 0x8000;

	memcpy(&d, header + c * 2, 2);
	if (q_has_min(t))
		memcpy(&m, header + Q_COLS * 2 + c * 2, 2);
	g->d = q_formats[t].scale == QS_BF16 ? kbf16_to_f32(d) : kf16_to_f32(d);
	g->m = kf16_to_f32(m);
	g->sc[0] = g->sc[1] = g->mn[0] = g->mn[1] = 1;
	switch (q_formats[t].scale)
	{
		case QS_SUB_MIN:
			g->m *= (float) sub[Q_COLS + c];
			/* FALLTHROUGH */
		case QS_SUB:
			g->d *= (float) (int8_t) sub[c];
			break;
		case QS_HALVES_SMALL:
			g->d *= NV4_D;
			/* FALLTHROUGH */
		case QS_HALVES:
			g->sc[0] = (int8_t) sub[c * 2];
			g->sc[1] = (int8_t) sub[c * 2 + 1];
			break;
		case QS_HALVES_MIN:
			g->sc[0] = sub[c * 2] & 15;
			g->sc[1] = sub[c * 2 + 1] & 15;
			g->mn[0] = (int8_t) (sub[c * 2] >> 4);
			g->mn[1] = (int8_t) (sub[c * 2 + 1] >> 4);
			break;
		default:
			break;
	}
}

static void
q_mat_row(const KMat *m, int j, float *out)
{
	KType		t = m->type;
	const QFormat *f = &q_formats[t];
	const int8_t *table = q_table(t);
	int			c = j % Q_COLS,
				ng = q_span_groups(t);
	const uint8_t *span = (const uint8_t *) m->data + (size_t) (j / Q_COLS) * q_panel_bytes(t, m->k);

	for (int b = 0; b < m->k / KGROUP; b++)
	{
		const uint8_t *codes = span + q_header_bytes(t) + (size_t) (b % ng) * q_group_bytes(t);
		KGroup		g;

		q_get_scales(t, span, b % ng, c, &g);
		for (int k = 0; k < KGROUP; k++)
		{
			int			code = q_get_code(f->coding, codes, k, c);
			int			q = table != NULL ? table[code] : (int8_t) (uint8_t) (code - f->off);

			*out++ = g.d * (float) g.sc[k / 16] * (float) q + g.m * (float) g.mn[k / 16];
		}
		if (b % ng == ng - 1)
			span += q_span_bytes(t);
	}
}
