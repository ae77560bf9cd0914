/*
 * tmpl_w4.h
 *	  Weights of 4 bits for float activations (KT_Q4_0F, KT_Q4_1F): layout, packing, register tile.
 *
 * Panels of 16 output columns, as for the other floats.  For each 32 k a panel has 16 halves d, for
 * KT_Q4_1F also 16 halves m, then 16 rows of 16 bytes: byte c of row i has the code of (k = i, column c)
 * in its low bits and that of (k = i + 16, column c) in its high bits, which is the order of the file's
 * blocks; for KT_Q4_0F it is code - 8, signed.  A weight is widened to d * (code - 8) or d * code + m,
 * rounded to float once, and is a float from there on: the bits are those of an F32 matrix of these.
 */
#define W4_GROUP	32			/* k of a group */
#define W4_HALF		16			/* k of the low bits, and of the high ones */
#define W4_SCALES	(PANEL * sizeof(uint16_t))	/* bytes of a group's d, or m */
#define W4_CODES	(W4_HALF * PANEL)	/* bytes of a group's codes */
#define W4_HEAD(t)	((t) == KT_Q4_1F ? 2 * W4_SCALES : W4_SCALES)
#define W4_BYTES(t)	(W4_HEAD(t) + W4_CODES)

static inline bool
is_w4(KType t)
{
	return t == KT_Q4_0F || t == KT_Q4_1F;
}

/* offset of the group with step k of a panel */
static inline size_t
w4_at(KType t, size_t k)
{
	return k / W4_GROUP * W4_BYTES(t);
}

/* ---- packing ---- */

/* Make a panel from rows in the format of blocks.h; NULL: zeros. */
static void
w4_pack_panel(KType t, uint8_t *panel, const uint8_t *const *rows, int k)
{
	static const uint8_t zeros[sizeof(KBlockQ4_1)];
	size_t		block = ktype_row_bytes(t, W4_GROUP),
				codes = block - W4_HALF;

	for (int g = 0; g < k / W4_GROUP; g++, panel += W4_BYTES(t))
	{
		const uint8_t *src[PANEL];

		for (size_t c = 0; c < PANEL; c++)
		{
			const uint8_t *from = rows[c] != NULL ? rows[c] + (size_t) g * block : zeros;

			memcpy(panel + c * sizeof(uint16_t), from, sizeof(uint16_t));
			if (t == KT_Q4_1F)
				memcpy(panel + W4_SCALES + c * sizeof(uint16_t), from + sizeof(uint16_t), sizeof(uint16_t));
			src[c] = from + codes;
		}
		w8_pack_codes(panel + W4_HEAD(t), src, W4_HALF);
		/* minus 8, in two's complement */
		for (size_t i = 0; t == KT_Q4_0F && i < W4_CODES; i++)
			panel[W4_HEAD(t) + i] ^= 0x88;
	}
}

static inline float
w4_half(const uint8_t *p, int c)
{
	uint16_t	h;

	memcpy(&h, p + (size_t) c * sizeof(h), sizeof(h));
	return kf16_to_f32(h);
}

/* column c of a panel, as floats */
static void
w4_panel_row(KType t, const uint8_t *panel, int c, int k, float *out)
{
	for (int i = 0; i < k; i++)
	{
		const uint8_t *group = panel + w4_at(t, (size_t) i);
		int			code = group[W4_HEAD(t) + (size_t) (i % W4_HALF * PANEL + c)];

		code = i % W4_GROUP < W4_HALF ? code & 15 : code >> 4;
		if (t == KT_Q4_0F)
			out[i] = w4_half(group, c) * (float) ((code ^ 8) - 8);
		else
			out[i] = w4_half(group, c) * (float) code + w4_half(group + W4_SCALES, c);
	}
}

/* ---- the register tile ---- */

/*
 * Like the tile for floats (tmpl_tile.h).  A group's scales are widened to a buffer in L1 and loaded
 * from there each time: the asm keeps the compiler from holding them in registers, which the sums need.
 * The product of a code and a scale is exact, so the addition of m is the only rounding, fused or not.
 */
#define W4_NUM_q40		1		/* numbers of a column in a group's head */
#define W4_NUM_q41		2
#define W4_TYPE_q40		KT_Q4_0F
#define W4_TYPE_q41		KT_Q4_1F
#define W4_WIDE_q40(sh, p)	v16 wv = v_mul(v_load_4bit(w + p * ps, sh, true), v_load(sc + p * PANEL));
#define W4_WIDE_q41(sh, p) \
	v16 wv = v_fma(v_load_4bit(w + p * ps, sh, false), v_load(sc + p * 2 * PANEL), \
				   v_load(sc + (p * 2 + 1) * PANEL));
#define W4_PANEL_q40_0(MR, p)	{ W4_WIDE_q40(0, p) R##MR(FMA, p) }
#define W4_PANEL_q40_4(MR, p)	{ W4_WIDE_q40(4, p) R##MR(FMA, p) }
#define W4_PANEL_q41_0(MR, p)	{ W4_WIDE_q41(0, p) R##MR(FMA, p) }
#define W4_PANEL_q41_4(MR, p)	{ W4_WIDE_q41(4, p) R##MR(FMA, p) }
#define W4_STEP1(T, sh, MR)	{ W4_WIDE_##T(sh, 0) R##MR(BCAST_FMA, 0) }
#define W4_STEP2(T, sh, MR)	{ R##MR(BCAST, ) P2(W4_PANEL_##T##_##sh, MR) }
#define W4_STEP4(T, sh, MR)	{ R##MR(BCAST, ) P4(W4_PANEL_##T##_##sh, MR) }

/* 16 k: the codes in the low bits (sh 4) or in the high ones (0) */
#define W4_HALF_GROUP(T, sh, MR, NP) \
	for (size_t end = i + W4_HALF; i < end; i++, w += PANEL) \
	{ \
		__asm__("" : "+r"(sc)); \
		W4_STEP##NP(T, sh, MR) \
	}

#define DEF_W4_TILE(T, MR, NP) \
static void \
TILE(T, MR, NP) (const void *xv, size_t ldx, const void *wv, size_t ps, size_t ldw, \
				 int k, float *c, size_t ldc, bool zero) \
{ \
	const float *x = xv; \
	const uint8_t *w = wv; \
	R##MR(P##NP, ACC_INIT) \
	(void) ldw; \
	(void) ldx; \
	for (size_t i = 0; i < (size_t) k; w += W4_CODES) \
	{ \
		_Alignas(64) float scales[NP * W4_NUM_##T * PANEL]; \
		const float *sc; \
		float	   *to = scales; \
\
		__asm__("" : "+r"(to)); \
		for (size_t s = 0; s < NP * W4_NUM_##T; s++) \
			v_store(to + s * PANEL, v_load_f16((const uint16_t *) (const void *) \
												   (w + s / W4_NUM_##T * ps + s % W4_NUM_##T * W4_SCALES))); \
		for (size_t at = 0; NP == 1 && at < W4_BYTES(W4_TYPE_##T); at += 64) \
			__builtin_prefetch(w + ps + at, 0, 2); \
		sc = to; \
		w += W4_HEAD(W4_TYPE_##T); \
		W4_HALF_GROUP(T, 4, MR, NP) \
		w -= W4_CODES; \
		W4_HALF_GROUP(T, 0, MR, NP) \
		w -= W4_CODES; \
	} \
	/* the addresses of the results are computed again: kept, they would take vectors' registers */ \
	__asm__("" : "+r"(c), "+r"(ldc)); \
	R##MR(P##NP, ACC_STORE) \
}

/* the shapes of the float tiles */
#undef DEF_TILE
#define DEF_TILE	DEF_W4_TILE

V_TILES(q40)
V_TILES(q41)

static const TileRow w4_tiles[2][V_MAX_MR + 1] = {{V_TILE_TABLE(q40)}, {V_TILE_TABLE(q41)}};
