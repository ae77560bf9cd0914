/*
 * tmpl_w8.h
 *	  Weights of 8 bits for float activations (KT_FP8, KT_INT8F, KT_INT8D, KT_INT8S): layout, packing,
 *	  register tile.
 *
 * Panels of 16 output columns, as for the other floats, but for each 128 k (FP8_GROUP; the last group
 * may be shorter) there is a float scale for each column, followed by codes [k][16]: of E4M3, or signed
 * integers, whose scale is the same in all groups.  A weight is widened to code * scale, rounded to float
 * once, and treated as a float from there on: the bits are those of an F32 matrix of these numbers.
 *
 * KT_INT8D and KT_INT8S differ from KT_INT8F by their activations, which mm() rounds to 8 bits first
 * (mm_round_row()).  KT_INT8S has their scale after the codes of each panel; mm() reads the first one.
 *
 * Scales of E4M3 are stored multiplied by F8_UP, by which v_load_fp8()'s results are too small, so that scale
 * and widening are one multiplication.  v_load_fp8() treats the code of NaN as a number: if there is
 * one, packing sets the scale of its column's group to NaN, so that the products are NaN as well.
 */
#define W8_HEAD	(PANEL * sizeof(float)) /* bytes of a group's scales */
#define FP8_NAN		0x7f

static inline bool
is_w8(KType t)
{
	return t == KT_FP8 || t == KT_INT8F || t == KT_INT8D || t == KT_INT8S;
}

/* offset of step k of a panel; for a group's first k after its scales */
static inline size_t
w8_at(size_t k)
{
	return (k / FP8_GROUP + 1) * W8_HEAD + k * PANEL;
}

/* offset of KT_INT8S's scale of the activations */
static inline size_t
w8_x_at(int k)
{
	return (size_t) (k + FP8_GROUP - 1) / FP8_GROUP * W8_HEAD + (size_t) k * PANEL;
}

static inline size_t
w8_panel_bytes(KType t, int k)
{
	/* a line of cache, so that panels stay aligned */
	return w8_x_at(k) + (t == KT_INT8S ? 64 : 0);
}

/* ---- packing ---- */

static inline bool
fp8_has_nan(const uint8_t *codes, int n)
{
	unsigned	any = 0;

	for (int i = 0; i < n; i++)
		any |= (codes[i] & 0x7f) == FP8_NAN;
	return any != 0;
}

/* store n codes of 16 columns side by side */
static void
w8_pack_codes(uint8_t *to, const uint8_t *const *src, int n)
{
	int			i = 0;

	for (; i + 16 <= n; i += 16, to += 16 * PANEL)
		for (int c0 = 0; c0 < PANEL; c0 += P_LANES)
		{
			pv			w[4];

			p_load(w, src + c0, (size_t) i);
			for (int s = 0; s < 4; s++)
				p_put_bytes(to + s * 4 * PANEL, PANEL, c0, w[s]);
		}
	for (; i < n; i++)
		for (int c = 0; c < PANEL; c++)
			*to++ = src[c][i];
}

/* Make a panel from rows in the format of blocks.h; NULL: zeros. */
static void
w8_pack_panel(KType t, uint8_t *panel, const uint8_t *const *rows, int k)
{
	static const uint8_t zeros[FP8_GROUP];
	size_t		codes = ktype_row_bytes(t, k) - (size_t) k;

	for (int k0 = 0; k0 < k; k0 += FP8_GROUP)
	{
		int			n = k_min(FP8_GROUP, k - k0);
		uint8_t    *to = panel + w8_at((size_t) k0);
		const uint8_t *src[PANEL];
		float		scale[PANEL] = {0};

		for (int c = 0; c < PANEL; c++)
		{
			src[c] = zeros;
			if (rows[c] == NULL)
				continue;
			src[c] = rows[c] + codes + k0;
			if (t != KT_FP8)
			{
				memcpy(&scale[c], rows[c] + codes - sizeof(float), sizeof(float));
				continue;
			}
			memcpy(&scale[c], rows[c] + (size_t) (k0 / FP8_GROUP) * sizeof(float), sizeof(float));
			scale[c] = fp8_has_nan(src[c], n) ? NAN : scale[c] * F8_UP;
		}
		memcpy(to - W8_HEAD, scale, W8_HEAD);
		w8_pack_codes(to, src, n);
	}
	if (t == KT_INT8S)
	{
		memset(panel + w8_x_at(k), 0, 64);
		memcpy(panel + w8_x_at(k), rows[0], sizeof(KInt8X));
	}
}

/* column c of a panel, as floats */
static void
w8_panel_row(KType t, const uint8_t *panel, int c, int k, float *out)
{
	for (int i = 0; i < k; i++)
	{
		const uint8_t *group = panel + w8_at((size_t) i / FP8_GROUP * FP8_GROUP);
		float		d;

		memcpy(&d, group - W8_HEAD + (size_t) c * sizeof(float), sizeof(d));
		if (t == KT_FP8)
			out[i] = d / F8_UP * kf8_to_f32(KT_F8_E4M3, group[i % FP8_GROUP * PANEL + c]);
		else
			out[i] = d * (float) (int8_t) group[i % FP8_GROUP * PANEL + c];
	}
}

/* ---- the register tile ---- */

/*
 * Like the tile for floats (tmpl_tile.h).  Scales are loaded from L1 each time: the asm keeps the
 * compiler from holding them in registers, which the sums need.
 */
#define W8_LOAD_fp8(p)	v_load_fp8(p)
#define W8_LOAD_int(p)	v_load_i8((const int8_t *) (p))
#define W8_SCALE(p)		v_load((const float *) (const void *) (sc + p * ps))
#define W8_WIDE(T, p)	v16 wv = v_mul(W8_LOAD_##T(w + p * ps), W8_SCALE(p));
#define W8_PANEL_fp8(MR, p)	{ W8_WIDE(fp8, p) R##MR(FMA, p) }
#define W8_PANEL_int(MR, p)	{ W8_WIDE(int, p) R##MR(FMA, p) }
#define W8_STEP1(T, MR)	{ __builtin_prefetch(w + ps, 0, 2); W8_WIDE(T, 0) R##MR(BCAST_FMA, 0) }
#define W8_STEP2(T, MR)	{ R##MR(BCAST, ) P2(W8_PANEL_##T, MR) }
#define W8_STEP4(T, MR)	{ R##MR(BCAST, ) P4(W8_PANEL_##T, MR) }

#define DEF_W8_TILE(T, MR, NP) \
static void \
TILE(T, MR, NP) (const void *xv, size_t ldx, const void *wv, size_t ps, size_t ldw, \
				 int k, float *c, size_t ldc, bool zero) \
{ \
	const float *x = xv; \
	const uint8_t *w = wv; \
	R##MR(P##NP, ACC_INIT) \
	(void) ldw; \
	(void) ps; \
	(void) ldx; \
	(void) ldc; \
	for (size_t i = 0; i < (size_t) k;) \
	{ \
		size_t		end = i + FP8_GROUP < (size_t) k ? i + FP8_GROUP : (size_t) k; \
		const uint8_t *sc = w; \
\
		w += W8_HEAD; \
		for (; i < end; i++, w += PANEL) \
		{ \
			__asm__("" : "+r"(sc)); \
			W8_STEP##NP(T, MR) \
		} \
	} \
	R##MR(P##NP, ACC_STORE) \
}

/* the shapes of the float tiles */
#undef DEF_TILE
#define DEF_TILE	DEF_W8_TILE

V_TILES(fp8)
V_TILES(int)

static const TileRow w8_tiles[2][V_MAX_MR + 1] = {{V_TILE_TABLE(fp8)}, {V_TILE_TABLE(int)}};
