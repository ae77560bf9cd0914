/*
 * tmpl_pairs.h
 *	  The register tile of BF16 products by vdpbf16ps: pairs of k per step.
 *
 * Activations are rounded to bfloat16 (to nearest even) first.  A lane is still
 * an output column with one accumulator over k in order, so rows are as invariant
 * as elsewhere; but the instruction rounds its own way and flushes subnormals, so
 * bits differ from the other implementations.
 */
#define ELEM_pair		uint32_t

#define PAIR_FMA(r, p) \
	a##r##_##p = _mm512_dpbf16_ps(a##r##_##p, (__m512bh) b, (__m512bh) w##p);
#define PAIR_LOAD(p)	__m512i w##p = _mm512_loadu_si512((const void *) (w + p * ps));
#define PW1				PAIR_LOAD(0)
#define PW2				PW1 PAIR_LOAD(1)
#define PW4				PW2 PAIR_LOAD(2) PAIR_LOAD(3)
#define PROW1(M, r)		{ __m512i b = _mm512_set1_epi32((int) x[r * ldx + i]); P1(PAIR_FMA, r) }
#define PROW2(M, r)		{ __m512i b = _mm512_set1_epi32((int) x[r * ldx + i]); P2(PAIR_FMA, r) }
#define PROW4(M, r)		{ __m512i b = _mm512_set1_epi32((int) x[r * ldx + i]); P4(PAIR_FMA, r) }

#define DEF_PAIR_TILE(MR, NP) \
static void \
TILE(pair, MR, NP) (const void *xv, size_t ldx, const void *wv, size_t ps, size_t ldw, \
					int k, float *c, size_t ldc, bool zero) \
{ \
	const uint32_t *x = xv; \
	const uint32_t *w = wv; \
	R##MR(P##NP, ACC_INIT) \
	(void) ps; \
	(void) ldx; \
	(void) ldc; \
	for (size_t i = 0; i < (size_t) k; i++, w += ldw) \
	{ \
		PW##NP \
		R##MR(PROW##NP, ) \
	} \
	R##MR(P##NP, ACC_STORE) \
}

/* the shapes of the float tiles */
#define DEF_TILE_PAIR_(T, MR, NP)	DEF_PAIR_TILE(MR, NP)
#undef DEF_TILE
#define DEF_TILE	DEF_TILE_PAIR_

V_TILES(pair)

static const TileRow pair_tiles[V_MAX_MR + 1] = {V_TILE_TABLE(pair)};
