/*
 * tmpl_q8.h
 *	  The Q8_0 register tile for instruction sets with byte dot products.
 *
 * In a block of 32 columns, 4 consecutive k of one column are 4 consecutive
 * bytes (one 32-bit lane), the columns follow each other: an integer dot product
 * instruction leaves a sum per column in each lane, and 8 steps make a block.
 * The integer sums are exact.  Then c = fma(d_w * d_x, (float) sum, c), block
 * after block: one chain per output, the same in every implementation.
 *
 * The integer accumulators of a strip of Q8_STRIP columns live in registers; the
 * float ones are touched once a block and live in c, which is in L1.
 *
 * The includer defines q8w (weights of a strip), q8i (sums of a strip), q8_load,
 * q8_init (start value; xs = -128 * sum of the activations of the block),
 * q8_dot, q8_finish, Q8_STRIP and the list of tiles.
 */
#define Q8_POS(k, c)	((k) / 4 * 128 + (c) * 4 + (k) % 4)

/* unrolled, the compilers keep all partial sums at once and run out of registers */
#ifdef __clang__
#define Q8_NO_UNROLL	_Pragma("nounroll")
#else
#define Q8_NO_UNROLL	_Pragma("GCC unroll 1")
#endif

#define Q8_TILE(MR)			q8_tile_##MR
#define Q8_INIT(r, p)		q8i i##r##_##p = q8_init(xs[r * ldb + b]);
#define Q8_DOT(r, p)		i##r##_##p = q8_dot(i##r##_##p, w##p, xb + r * ldx + g * 4);
#define Q8_FINISH(r, p) \
	q8_finish(c + r * 32 + s + p * Q8_STRIP, i##r##_##p, ws + 1024 + (s + p * Q8_STRIP) * 2, \
			  xd[r * ldb + b]);
#define Q8_LOAD(M, p)		q8w w##p = q8_load(ws + g * 128 + (s + p * Q8_STRIP) * 4);
#define Q8_W1				Q8_LOAD(, 0)
#define Q8_W2				Q8_W1 Q8_LOAD(, 1)
#define Q8_W4				Q8_W2 Q8_LOAD(, 2) Q8_LOAD(, 3)

/*
 * c[np][MR][32] += MR rows of activations times np panels of nb blocks, ps bytes
 * apart; NS strips at once.  The panels advance together: several streams of
 * memory are faster than one.
 */
#define DEF_Q8_TILE(MR, NS) \
static void \
Q8_TILE(MR) (const int8_t *x, size_t ldx, const float *xd, const int32_t *xs, size_t ldb, \
			 int nb, const uint8_t *w, size_t ps, int np, float *cp) \
{ \
	(void) ldx; \
	(void) xs; \
	(void) ldb; \
	for (size_t b = 0; b < (size_t) nb; b++) \
		for (int p = 0; p < np; p++) \
		{ \
			const int8_t *xb = x + b * Q8_0_BLOCK; \
			const uint8_t *ws = w + p * ps + b * Q8_PANEL_BLOCK; \
			float	   *c = cp + p * (MR * 32); \
\
			for (int i = 0; Q8_STRIP * NS < 32 && i < Q8_PANEL_BLOCK; i += 64) \
				__builtin_prefetch(ws + Q8_PANEL_BLOCK + i); \
			for (int s = 0; s < 32; s += Q8_STRIP * NS) \
			{ \
				R##MR(P##NS, Q8_INIT) \
				Q8_NO_UNROLL \
				for (size_t g = 0; g < 8; g++) \
				{ \
					Q8_W##NS \
					R##MR(P##NS, Q8_DOT) \
				} \
				R##MR(P##NS, Q8_FINISH) \
			} \
		} \
}

Q8_TILES
