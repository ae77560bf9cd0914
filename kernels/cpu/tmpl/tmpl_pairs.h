/*
 * tmpl_pairs.h
 *	  The register tile of BF16 products with vdpbf16ps: pairs of k per step.
 *
 * Activations are rounded to bfloat16 (to nearest even) first.  A lane is still an output column with
 * one accumulator over k in order, so rows are as invariant as elsewhere; but the instruction has its
 * own rounding and flushes subnormals, so bits differ from the other implementations.
 */
#define ELEM_pair		uint32_t

/*
 * With 5 rows and more, arithmetic and memory access take about the same time at 16 rows: so the next
 * two panels, which follow, are prefetched to L2 meanwhile.
 */
#define PAIR_AHEAD \
	__builtin_prefetch(ahead, 0, 2); \
	__builtin_prefetch(ahead + 16, 0, 2); \
	ahead += 32;

#define PAIR_BCAST(M, r)	__m512i b##r = _mm512_set1_epi32((int) x[r * ldx + i]);
#define PAIR_DOT(p, r)		a##r##_##p = pair_dot(a##r##_##p, b##r, wv);
#define PAIR_BCAST_DOT(p, r) { PAIR_BCAST(, r) PAIR_DOT(p, r) }
#define PAIR_PANEL(MR, p)	{ __m512i wv = pair_load(w + p * ps); R##MR(PAIR_DOT, p) }
#define PAIR_STEP1(MR)		{ __m512i wv = pair_load(w); R##MR(PAIR_BCAST_DOT, 0) }
#define PAIR_STEP2(MR)		{ PAIR_AHEAD R##MR(PAIR_BCAST, ) P2(PAIR_PANEL, MR) }
#define PAIR_STEP4(MR)		{ R##MR(PAIR_BCAST, ) P4(PAIR_PANEL, MR) }

static inline __m512i
pair_load(const uint32_t *w)
{
	return _mm512_loadu_si512((const void *) w);
}

/* acc + a.lo * b.lo + a.hi * b.hi, lane by lane */
static inline v16
pair_dot(v16 acc, __m512i a, __m512i b)
{
#ifdef VLLM_KERNELS_EMU
	return _mm512_dpbf16_ps(acc, (__m512bh) a, (__m512bh) b);
#else
	/* as asm, since gcc 12 copies the accumulator around the intrinsic */
	__asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
	return acc;
#endif
}

#define DEF_PAIR_TILE(MR, NP) \
static void \
TILE(pair, MR, NP) (const void *xv, size_t ldx, const void *wv, size_t ps, size_t ldw, \
					int k, float *c, size_t ldc, bool zero) \
{ \
	const uint32_t *x = xv; \
	const uint32_t *w = wv; \
	const uint32_t *ahead = w + 2 * ps; \
	R##MR(P##NP, ACC_INIT) \
	(void) ahead; \
	(void) ldx; \
	(void) ldc; \
	for (size_t i = 0; i < (size_t) k; i++, w += ldw) \
		PAIR_STEP##NP(MR) \
	R##MR(P##NP, ACC_STORE) \
}

/* the shapes of the float tiles */
#define DEF_TILE_PAIR_(T, MR, NP)	DEF_PAIR_TILE(MR, NP)
#undef DEF_TILE
#define DEF_TILE	DEF_TILE_PAIR_

V_TILES(pair)

static const TileRow pair_tiles[V_MAX_MR + 1] = {V_TILE_TABLE(pair)};
