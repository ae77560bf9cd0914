/*
 * portable_q.h
 *	  The tile of quantized products in plain C: a group's codes are unpacked to signed bytes in L1
 *	  once, then each row computes its sums.
 *
 * The compiler should vectorize the loops over columns.  Sums and their order are those of tmpl_qtile.h.
 */
#define Q_MAX_MR	4

static inline int
q_tile_rows(int mr)
{
	return mr;
}

/* the sums of a group's halves, in a form that fits all formats' scales */
static inline int32_t
q_xi(KType t, int32_t s0, int32_t s1)
{
	(void) t;
	return (int32_t) ((uint32_t) s1 << 16 | ((uint32_t) s0 & 0xffff));
}

/* values of a group's codes, [32 k][32 columns] */
static void
q_unpack(KType t, const uint8_t *from, int8_t *q)
{
	const QFormat *f = &q_formats[t];
	const int8_t *table = q_table(t);
	uint8_t    *codes = (uint8_t *) q;

	memset(codes, 0, KGROUP * Q_COLS);
	for (const QPlane *p = q_planes[f->coding]; p < q_planes[f->coding] + 2 && p->bits > 0; p++)
		for (int at = 0; at < 8; from += Q_FOUR)
			for (int s = 0; s < 8; s += p->bits, at++)
				for (int i = 0; i < Q_FOUR; i++)
					codes[at * Q_FOUR + i] |= (uint8_t) ((from[i] >> s & ((1 << p->bits) - 1)) << p->shift);
	for (int i = 0; i < KGROUP * Q_COLS; i++)
		q[i] = table != NULL ? table[codes[i]] : (int8_t) (q[i] - f->off);
}

/* sum[c] += products of 16 k, for all columns */
static inline void
q_dot_half(const int8_t *q, const int8_t *x, int32_t *sum)
{
	for (int k = 0; k < 16; k++)
		for (int c = 0; c < Q_COLS; c++)
			sum[c] += (int16_t) (q[k * Q_COLS + c] * x[k]);
}

static void
q_group_row(KType t, const int8_t *q, const KGroup *g, const int8_t *x, float xd, int32_t xi, float *out)
{
	int32_t		sum[2][Q_COLS] = {{0}, {0}};
	int			s0 = (int16_t) xi,
				s1 = (int16_t) ((uint32_t) xi >> 16);

	q_dot_half(q, x, sum[0]);
	q_dot_half(q + 16 * Q_COLS, x + 16, sum[1]);
	for (int c = 0; c < Q_COLS; c++)
	{
		int32_t		dot = g[c].sc[0] * sum[0][c] + g[c].sc[1] * sum[1][c];

		out[c] = fmaf(g[c].d * xd, (float) dot, out[c]);
		if (q_has_min(t))
			out[c] = fmaf(g[c].m * xd, (float) (g[c].mn[0] * s0 + g[c].mn[1] * s1), out[c]);
	}
}

/* a record of activations: 128 codes, a scale, the negative of the zero point (i8_record()) */
#define I8_RECORD		(I8_GROUP + 16)

/* INT8: multiply a group of a panel, or `steps` times 16 k of it, by a record */
static void
q_int8_group(const uint8_t *group, int steps, const uint8_t *record, float *out)
{
	int32_t		sum[Q_COLS],
				neg_zero;
	float		s;

	memcpy(&s, record + I8_GROUP, 4);
	memcpy(&neg_zero, record + I8_GROUP + 4, 4);
	for (int c = 0; c < Q_COLS; c++)
	{
		int16_t		codes;

		memcpy(&codes, group + c * 2, 2);
		sum[c] = neg_zero * codes;
	}
	for (int i = 0; i < steps; i++)
		q_dot_half((const int8_t *) group + I8_SUMS + i * I8_STEP_BYTES,
				   (const int8_t *) record + i * I8_STEP, sum);
	for (int c = 0; c < Q_COLS; c++)
		out[c] = fmaf(s, (float) sum[c], out[c]);
}

static void
q_tile_int8(int mr, const QTile *j)
{
	for (int p = 0; p < j->np; p++)
		for (int r = 0; r < mr; r++)
		{
			const uint8_t *panel = j->w + (size_t) p * j->ps,
					   *group = panel + I8_HEADER,
					   *record = (const uint8_t *) j->x + (size_t) r * j->ldx;
			float	   *out = j->c + (p * mr + r) * Q_COLS;

			for (int left = j->spans; left > 0;
				 left -= I8_STEPS, group += I8_GROUP_BYTES, record += I8_RECORD)
				q_int8_group(group, k_min(left, I8_STEPS), record, out);
			for (int c = 0; c < Q_COLS; c++)
			{
				float		d;

				memcpy(&d, panel + c * 4, 4);
				out[c] *= d;
			}
		}
}

/* c += mr rows of activations times np panels */
static void
q_tile(KType t, int mr, const QTile *j)
{
	int			ng = q_span_groups(t);
	int8_t		q[KGROUP * Q_COLS];
	KGroup		g[Q_COLS];

	if (t == KT_INT8)
	{
		q_tile_int8(mr, j);
		return;
	}
	for (int p = 0; p < j->np; p++)
		for (int b = 0; b < j->spans * ng; b++)
		{
			const uint8_t *span = j->w + (size_t) p * j->ps + (size_t) (b / ng) * q_span_bytes(t);

			q_unpack(t, span + q_header_bytes(t) + (size_t) (b % ng) * q_group_bytes(t), q);
			for (int c = 0; c < Q_COLS; c++)
				q_get_scales(t, span, b % ng, c, &g[c]);
			for (int r = 0; r < mr; r++)
				q_group_row(t, q, g, j->x + (size_t) r * j->ldx + (size_t) b * KGROUP,
							j->xd[(size_t) r * j->ldb + b], j->xi[(size_t) r * j->ldb + b],
							j->c + (p * mr + r) * Q_COLS);
		}
}
