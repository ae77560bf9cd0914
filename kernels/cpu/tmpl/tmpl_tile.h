/*
 * tmpl_tile.h
 *	  The register tile: the inner loop of matrix products and of attention.
 *
 * TILE(T, MR, NP) computes c[MR][NP*16] += x[MR][k] * w[NP][k][16], with the weights widened to float.
 * A lane is an output column and each output has one accumulator, a chain of fused multiply-adds in k
 * order: the bits don't depend on MR, NP or the tile's position, which gives row invariance.  There are
 * no horizontal sums.
 *
 * Macros write out MR and NP, because only then do the accumulators stay in registers with every
 * compiler (arrays indexed in loops end up on the stack with clang 14).  V_TILES(T) lists the shapes for
 * an instruction set: enough accumulators to hide the latency of fma, few enough to fit.
 */
#define F8_UP		256.0f		/* v_load_e4m3()'s values are too small by this factor: they are halves
								 * with E4M3's exponent */

typedef void (*TileFn) (const void *x, size_t ldx, const void *w, size_t ps, size_t ldw,
						int k, float *c, size_t ldc, bool zero);

typedef struct TileRow
{
	TileFn		one;			/* one panel of 16 columns */
	TileFn		wide;			/* np panels at once */
	int			np;
} TileRow;

/* P##n(M, r): M(r, 0) .. M(r, n-1);  R##n(P, M): P(M, 0) .. P(M, n-1) */
#define P1(M, r)	M(r, 0)
#define P2(M, r)	P1(M, r) M(r, 1)
#define P4(M, r)	P2(M, r) M(r, 2) M(r, 3)
#define R1(P, M)	P(M, 0)
#define R2(P, M)	R1(P, M) P(M, 1)
#define R3(P, M)	R2(P, M) P(M, 2)
#define R4(P, M)	R3(P, M) P(M, 3)
#define R5(P, M)	R4(P, M) P(M, 4)
#define R6(P, M)	R5(P, M) P(M, 5)
#define R7(P, M)	R6(P, M) P(M, 6)
#define R8(P, M)	R7(P, M) P(M, 7)

#define TILE(T, MR, NP)		tile_##T##_##MR##x##NP

#define ACC_INIT(r, p)	v16 a##r##_##p = zero ? v_zero() : v_load(c + r * ldc + p * 16);
#define ACC_STORE(r, p)	v_store(c + r * ldc + p * 16, a##r##_##p);
#define BCAST(M, r)		v16 b##r = v_set1(x[r * ldx + i]);
#define FMA(p, r)		a##r##_##p = v_fma(b##r, wv, a##r##_##p);
#define BCAST_FMA(p, r)	{ BCAST(, r) FMA(p, r) }

/*
 * One step of k.  Few values may be live at a time: with one panel its weights and one activation, with
 * several panels all activations and one panel's weights.  One panel is one memory stream, which doesn't
 * reach the full memory bandwidth: so the next panel, ps elements further, is prefetched to L2 meanwhile
 * (a prefetch may go beyond the end).
 */
#define PANEL_f32(MR, p)	{ v16 wv = v_load(w + p * ps); R##MR(FMA, p) }
#define PANEL_f16(MR, p)	{ v16 wv = v_load_f16(w + p * ps); R##MR(FMA, p) }
#define PANEL_bf16(MR, p)	{ v16 wv = v_load_bf16(w + p * ps); R##MR(FMA, p) }
#define PANEL_i8(MR, p)		{ v16 wv = v_load_i8(w + p * ps); R##MR(FMA, p) }
#define PANEL_e4m3(MR, p)	{ v16 wv = v_load_e4m3(w + p * ps); R##MR(FMA, p) }
#define PANEL_e5m2(MR, p)	{ v16 wv = v_load_e5m2(w + p * ps); R##MR(FMA, p) }
#define STEP1_f32(MR)		{ v16 wv = v_load(w); R##MR(BCAST_FMA, 0) }
#define STEP1_f16(MR)		{ v16 wv = v_load_f16(w); R##MR(BCAST_FMA, 0) }
#define STEP1_bf16(MR)		{ v16 wv = v_load_bf16(w); R##MR(BCAST_FMA, 0) }
#define STEP1_i8(MR)		{ v16 wv = v_load_i8(w); R##MR(BCAST_FMA, 0) }
#define STEP1_e4m3(MR)		{ v16 wv = v_load_e4m3(w); R##MR(BCAST_FMA, 0) }
#define STEP1_e5m2(MR)		{ v16 wv = v_load_e5m2(w); R##MR(BCAST_FMA, 0) }
#define STEP1(T, MR)		{ __builtin_prefetch(w + ps, 0, 2); STEP1_##T(MR) }
#define STEP2(T, MR)		{ R##MR(BCAST, ) P2(PANEL_##T, MR) }
#define STEP4(T, MR)		{ R##MR(BCAST, ) P4(PANEL_##T, MR) }

#define ELEM_f32		float
#define ELEM_f16		uint16_t
#define ELEM_bf16		uint16_t
#define ELEM_i8			int8_t
#define ELEM_e4m3		uint8_t
#define ELEM_e5m2		uint8_t

/*
 * x: rows ldx apart; w: panels ps elements apart, ldw elements from k to k+1; c: rows ldc apart.  zero:
 * write c instead of adding to it.
 */
#define DEF_TILE(T, MR, NP) \
static void \
TILE(T, MR, NP) (const void *xv, size_t ldx, const void *wv, size_t ps, size_t ldw, \
				 int k, float *c, size_t ldc, bool zero) \
{ \
	const float *x = xv; \
	const ELEM_##T *w = wv; \
	R##MR(P##NP, ACC_INIT) \
	(void) ps; \
	(void) ldx; \
	(void) ldc; \
	for (size_t i = 0; i < (size_t) k; i++, w += ldw) \
		STEP##NP(T, MR) \
	R##MR(P##NP, ACC_STORE) \
}

V_TILES(f32)
V_TILES(f16)
V_TILES(bf16)
V_TILES(i8)						/* codes of an INT8 or FP8 KV */
V_TILES(e4m3)
V_TILES(e5m2)

/* by type of the weights (KT_F32, KT_F16, KT_BF16) and rows */
static const TileRow tiles[3][V_MAX_MR + 1] = {
	{V_TILE_TABLE(f32)},
	{V_TILE_TABLE(f16)},
	{V_TILE_TABLE(bf16)},
};
static const TileRow tiles_i8[V_MAX_MR + 1] = {V_TILE_TABLE(i8)};
static const TileRow tiles_e4m3[V_MAX_MR + 1] = {V_TILE_TABLE(e4m3)};
static const TileRow tiles_e5m2[V_MAX_MR + 1] = {V_TILE_TABLE(e5m2)};

/* rows of the next tile when n are left: even tiles instead of a small last one */
static inline int
tile_rows(int n)
{
	int			ntiles = (n + V_MAX_MR - 1) / V_MAX_MR;

	return (n + ntiles - 1) / ntiles;
}
