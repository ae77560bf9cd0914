/*
 * tmpl_i8tile.h
 *	  The register tiles of INT8: unsigned activations times signed weights.
 *
 * Activations are records of a group: 128 codes of 0..127, their float scale s and the negative of their
 * zero point z.  An output's sum over a group is one exact integer, the codes' products minus z times
 * the sum of the column's codes, with which the sum begins; multiplied by s it is added to the float
 * result (docs/internals/kernels.md).  Two products of a pair are at most 2 * 127 * 128 = 32,512, so
 * i8_dot() may add them in 16 bits.
 *
 * Weights are used as they are packed, with few rows and with many: nothing has to be unpacked.
 */
#define I8_RECORD		(I8_GROUP + 16)

Q_INLINE float
i8_scale_of(const uint8_t *record)
{
	float		s;

	memcpy(&s, record + I8_GROUP, 4);
	return s;
}

/* initial values of a group's sums: -z times the columns' sums of 16 bits */
Q_INLINE qi
i8_begin(const uint8_t *sums, const uint8_t *record)
{
	int32_t		neg_zero;

	memcpy(&neg_zero, record + I8_GROUP + 4, 4);
	return q_madd(q_load_u16(sums), q_set1(neg_zero));
}

Q_INLINE void
i8_finish(float *c, const float *so_far, qi sum, const uint8_t *record)
{
	qf_store(c, qf_fma(qf_set1(i8_scale_of(record)), qf_cvt(sum), qf_load(so_far)));
}

/* ---- few rows ---- */

/* variables of row r, strip p, as in tmpl_qtile.h; at: the group, q: its codes of this step */
#define I8_BEGIN(r, p) \
	qi a##r##_##p = first ? i8_begin(at + (col + p * Q_STRIP) * 2, x + r * ldx) : \
		q_load(sums + (r * Q_COLS + col + p * Q_STRIP) * 4);
#define I8_KEEP(r, p) \
	if (last) \
		i8_finish(c + r * Q_COLS + col + p * Q_STRIP, c + r * Q_COLS + col + p * Q_STRIP, a##r##_##p, \
				  x + r * ldx); \
	else \
		q_store(sums + (r * Q_COLS + col + p * Q_STRIP) * 4, a##r##_##p);
#define I8_WEIGHTS(f, p)	qi w##p = q_load(q + f * Q_FOUR + (col + p * Q_STRIP) * 4);
#define I8_DOT(r, p)		a##r##_##p = q_pin(i8_dot(a##r##_##p, w##p, b));
#define I8_ROW(P, r) \
	{ \
		qi b = q_bcast((const int8_t *) u + r * ldx); \
		P(I8_DOT, r) \
	}
#define I8_ROW1(M, r)	I8_ROW(P1, r)
#define I8_ROW2(M, r)	I8_ROW(P2, r)
#define I8_ROW4(M, r)	I8_ROW(P4, r)
#define I8_FOUR(f, MR, NS) \
	{ \
		const uint8_t *u = codes + f * 4; \
		P##NS(I8_WEIGHTS, f) \
		R##MR(I8_ROW##NS, ) \
	}

/*
 * c += MR rows times np panels, NS strips at once.  With one or two rows all panels advance by one step
 * of 16 k before the next step: several memory streams; with more rows a panel advances by a whole
 * group.
 */
#define I8_TURN(MR)		((MR) <= 2 ? 1 : I8_STEPS)

#define DEF_I8_TILE(MR, NS) \
static void \
q_tile_INT8_##MR(const QTile *j) \
{ \
	const size_t ldx = j->ldx; \
	_Alignas(64) uint8_t kept[(I8_TURN(MR) == I8_STEPS ? 1 : Q_MAX_NP) * MR * Q_FOUR]; \
\
	(void) ldx; \
	for (int i = 0; i < j->spans; i += I8_TURN(MR)) \
	{ \
		const uint8_t *x = (const uint8_t *) j->x + (size_t) (i / I8_STEPS) * I8_RECORD; \
		const int	steps = k_min(I8_TURN(MR), j->spans - i); \
		const bool	first = i % I8_STEPS == 0, \
					last = (i + steps) % I8_STEPS == 0 || i + steps == j->spans; \
\
		for (int p = 0; p < j->np; p++) \
		{ \
			const uint8_t *at = j->w + (size_t) p * j->ps + I8_HEADER + \
			(size_t) (i / I8_STEPS) * I8_GROUP_BYTES; \
			uint8_t    *sums = kept + (I8_TURN(MR) == I8_STEPS ? 0 : p * (MR * Q_FOUR)); \
			float	   *c = j->c + p * (MR * Q_COLS); \
\
			Q_NO_UNROLL \
			for (int col = 0; col < Q_COLS; col += Q_STRIP * NS) \
			{ \
				const uint8_t *codes = x + i % I8_STEPS * I8_STEP; \
				const uint8_t *q = at + I8_SUMS + (size_t) (i % I8_STEPS) * I8_STEP_BYTES; \
\
				R##MR(P##NS, I8_BEGIN) \
				Q_NO_UNROLL \
				for (int s = 0; s < steps; s++, q += I8_STEP_BYTES, codes += I8_STEP) \
				{ \
					I8_FOUR(0, MR, NS) \
					I8_FOUR(1, MR, NS) \
					I8_FOUR(2, MR, NS) \
					I8_FOUR(3, MR, NS) \
				} \
				R##MR(P##NS, I8_KEEP) \
			} \
		} \
	} \
	for (int p = 0; p < j->np; p++) \
		for (int r = 0; r < MR; r++) \
			for (int col = 0; col < Q_COLS; col += Q_STRIP) \
			{ \
				float	   *c = j->c + (p * MR + r) * Q_COLS + col; \
				const float *d = (const float *) (const void *) (j->w + (size_t) p * j->ps) + col; \
\
				qf_store(c, qf_mul(qf_load(c), qf_load(d))); \
			} \
}

/* ---- many rows: two strips of a panel (tmpl_qstrip.h) ---- */

#define I8S_SUMS(r)		qi a##r##_0, a##r##_1;
#define I8S_BEGIN(r) \
	a##r##_0 = i8_begin(w + j->col * 2, x + r * ldx); \
	a##r##_1 = i8_begin(w + (j->col + Q_STRIP) * 2, x + r * ldx);
#define I8S_DOT(r) \
	{ \
		qi b = q_bcast((const int8_t *) u + r * ldx); \
		a##r##_0 = q_pin(i8_dot(a##r##_0, w0, b)); \
		a##r##_1 = q_pin(i8_dot(a##r##_1, w1, b)); \
	}
#define I8S_FOUR(f, MR) \
	{ \
		const uint8_t *u = codes + f * 4; \
		qi w0 = q_load(q + f * Q_FOUR), w1 = q_load(q + f * Q_FOUR + QS_VEC); \
		QS_ROWS_##MR(I8S_DOT) \
	}
/* prefetch the next tile's activations: rows are too far apart for the CPU's prefetcher */
#define I8S_NEXT(r) \
	__builtin_prefetch(next + r * ldx); \
	__builtin_prefetch(next + r * ldx + 64);
#define I8S_FINISH(r) \
	i8_finish(c + r * QS_COLS, from + r * QS_COLS, a##r##_0, x + r * ldx); \
	i8_finish(c + r * QS_COLS + Q_STRIP, from + r * QS_COLS + Q_STRIP, a##r##_1, x + r * ldx);

/* eight k, small codes */
#define I8S_DOT_SMALL(r) \
	{ \
		qi b0 = q_bcast((const int8_t *) u + r * ldx), b1 = q_bcast((const int8_t *) u + r * ldx + 4); \
		a##r##_0 = q_pin(i8_dot_small(a##r##_0, w00, b0, w10, b1)); \
		a##r##_1 = q_pin(i8_dot_small(a##r##_1, w01, b0, w11, b1)); \
	}
#define I8S_EIGHT(f, MR) \
	{ \
		const uint8_t *u = codes + f * 4; \
		qi w00 = q_load(q + f * Q_FOUR), w01 = q_load(q + f * Q_FOUR + QS_VEC); \
		qi w10 = q_load(q + (f + 1) * Q_FOUR), w11 = q_load(q + (f + 1) * Q_FOUR + QS_VEC); \
		QS_ROWS_##MR(I8S_DOT_SMALL) \
	}

#define I8S_STEP(MR)		I8S_FOUR(0, MR) I8S_FOUR(1, MR) I8S_FOUR(2, MR) I8S_FOUR(3, MR)
#define I8S_STEP_SMALL(MR)	I8S_EIGHT(0, MR) I8S_EIGHT(2, MR)

#define DEF_I8_STRIP(MR)	DEF_I8_ROWS(qs_tile_INT8_##MR, MR, I8S_STEP)
#define DEF_I8_SMALL(MR)	DEF_I8_ROWS(qs_tile_SMALL_##MR, MR, I8S_STEP_SMALL)

#define DEF_I8_ROWS(name, MR, STEP) \
static void \
name(const QsTile *j) \
{ \
	const size_t ldx = j->ldx; \
	const uint8_t *x = j->x, \
			   *next = x + MR * j->ldx, \
			   *w = j->w, \
			   *ahead = j->ahead; \
	const float *from = j->from; \
	float	   *c = j->c; \
\
	for (int left = j->steps; left > 0; left -= I8_STEPS) \
	{ \
		const uint8_t *codes = x, \
				   *q = w + I8_SUMS + j->col * 4; \
		QS_ROWS_##MR(I8S_SUMS) \
\
		/* otherwise the compiler would move c to registers for all groups, where it doesn't fit */ \
		__asm__ volatile("" : "+r"(c)); \
		for (int i = 0; i < j->lines; i++, ahead += 64) \
			__builtin_prefetch(ahead, 0, 2); \
		QS_ROWS_##MR(I8S_NEXT) \
		QS_ROWS_##MR(I8S_BEGIN) \
		Q_NO_UNROLL \
		for (int s = k_min(left, I8_STEPS); s > 0; s--, codes += I8_STEP, q += I8_STEP_BYTES) \
		{ \
			STEP(MR) \
		} \
		QS_ROWS_##MR(I8S_FINISH) \
		from = c; \
		x += I8_RECORD; \
		next += I8_RECORD; \
		w += I8_GROUP_BYTES; \
	} \
}
