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

#define Q8_TILE(MR)		q8_tile_##MR
#define Q8_INIT(M, r)	q8i i##r = q8_init(xs[r * ldb + b]);
#define Q8_DOT(M, r)	i##r = q8_dot(i##r, wv, xb + r * ldx + g * 4);
#define Q8_FINISH(M, r) q8_finish(c + r * 32 + s, i##r, ws + 1024 + s * 2, xd[r * ldb + b]);

/* c[MR][32] += MR rows of activations times a panel of nb blocks */
#define DEF_Q8_TILE(MR) \
static void \
Q8_TILE(MR) (const int8_t *x, size_t ldx, const float *xd, const int32_t *xs, size_t ldb, \
			 int nb, const uint8_t *w, float *c) \
{ \
	(void) ldx; \
	(void) xs; \
	(void) ldb; \
	for (size_t b = 0; b < (size_t) nb; b++) \
	{ \
		const int8_t *xb = x + b * Q8_0_BLOCK; \
		const uint8_t *ws = w + b * Q8_PANEL_BLOCK; \
\
		for (int s = 0; s < 32; s += Q8_STRIP) \
		{ \
			R##MR(Q8_INIT, ) \
			for (size_t g = 0; g < 8; g++) \
			{ \
				q8w			wv = q8_load(ws + g * 128 + s * 4); \
\
				R##MR(Q8_DOT, ) \
			} \
			R##MR(Q8_FINISH, ) \
		} \
	} \
}

Q8_TILES
