/*
 * tmpl_qspan.h
 *	  Convert blocks of a file to spans of a panel (tmpl_qpack.h), with one function for each format.
 *
 * A function packs one strip of columns: p_load() reads 16 bytes of each column's block and gives 32-bit
 * words, column by lane.  The rest is to move bits within words, for all columns at once: the words of a
 * plane of 4 bits are two words of nibbles (k = 4g.. and 4g + 4..) combined, planes of 2 bits and 1 bit
 * are small transpositions of fields.  The formats' bits are described in blocks.h;
 * tests/kernels/test_pack.c compares with kgroup_get().
 */
#define P_NIBBLES	0x0f0f0f0fu

typedef void (*QStripFn) (const uint8_t *const *src, uint8_t *span, int c0);

/* exchange the bits `mask << shift` of *x and `mask` of *y */
static inline void
p_swap(pv *x, pv *y, int shift, uint32_t mask)
{
	pv			t = (*x >> shift ^ *y) & mask;

	*y ^= t;
	*x ^= t << shift;
}

/* codes of 8 bits, 16 k */
static inline void
p_bytes(const uint8_t *const *src, size_t at, uint8_t *rows, int c0)
{
	pv			w[4];

	p_load(w, src, at);
	for (int i = 0; i < 4; i++)
		p_put(rows + i * Q_FOUR, c0, w[i] ^ (Q8_OFF * 0x01010101u));
}

/* nibbles of a 32-block: low ones are k 0..15, high ones 16..31 */
static inline void
p_nibbles32(const uint8_t *const *src, size_t at, uint8_t *rows, int c0)
{
	pv			w[4];

	p_load(w, src, at);
	for (int i = 0; i < 2; i++)
	{
		pv			a = w[2 * i],
					b = w[2 * i + 1];

		p_put(rows + i * Q_FOUR, c0, (a & P_NIBBLES) | (b & P_NIBBLES) << 4);
		p_put(rows + (i + 2) * Q_FOUR, c0, (a >> 4 & P_NIBBLES) | (b & ~P_NIBBLES));
	}
}

/* 32 bytes: the low nibbles are the codes of one group, the high ones of another */
static inline void
p_nibbles64(const uint8_t *const *src, size_t at, uint8_t *low, uint8_t *high, int c0)
{
	pv			w[8];

	p_load(w, src, at);
	p_load(w + 4, src, at + 16);
	for (int i = 0; i < 4; i++)
	{
		pv			a = w[2 * i],
					b = w[2 * i + 1];

		p_put(low + i * Q_FOUR, c0, (a & P_NIBBLES) | (b & P_NIBBLES) << 4);
		p_put(high + i * Q_FOUR, c0, (a >> 4 & P_NIBBLES) | (b & ~P_NIBBLES));
	}
}

/* 32 bytes with two bits of each of four groups; the groups are step bytes apart in the span */
static inline void
p_pairs128(const uint8_t *const *src, size_t at, uint8_t *rows, size_t step, int c0)
{
	for (int h = 0; h < 2; h++)
	{
		pv			w[4];

		p_load(w, src, at + (size_t) h * 16);
		p_swap(&w[0], &w[2], 4, 0x0f0f0f0fu);
		p_swap(&w[1], &w[3], 4, 0x0f0f0f0fu);
		p_swap(&w[0], &w[1], 2, 0x33333333u);
		p_swap(&w[2], &w[3], 2, 0x33333333u);
		for (int b = 0; b < 4; b++)
			p_put(rows + (size_t) b * step + h * Q_FOUR, c0, w[b]);
	}
}

/* 32 bytes with one bit of each of eight groups */
static inline void
p_bits256(const uint8_t *const *src, size_t at, uint8_t *rows, size_t step, int c0)
{
	pv			w[8];

	p_load(w, src, at);
	p_load(w + 4, src, at + 16);
	for (int i = 0; i < 4; i++)
		p_swap(&w[i], &w[i + 4], 4, 0x0f0f0f0fu);
	for (int i = 0; i < 4; i++)
		p_swap(&w[i / 2 * 4 + i % 2], &w[i / 2 * 4 + i % 2 + 2], 2, 0x33333333u);
	for (int i = 0; i < 8; i += 2)
		p_swap(&w[i], &w[i + 1], 1, 0x55555555u);
	for (int s = 0; s < 8; s++)
		p_put(rows + (size_t) s * step, c0, w[s]);
}

/* one 32-bit word of each column */
static inline pv
p_words(const uint8_t *const *src, size_t at)
{
	uint32_t	w[P_LANES];
	pv			x;

	for (int c = 0; c < P_LANES; c++)
		memcpy(&w[c], src[c] + at, 4);
	memcpy(&x, w, sizeof(x));
	return x;
}

/* exchange the bits `mask << shift` and `mask` of x */
static inline pv
p_swap_in(pv x, int shift, uint32_t mask)
{
	pv			t = (x >> shift ^ x) & mask;

	return x ^ t ^ t << shift;
}

/*
 * Convert the fifth bits of a 32-block, bit k of a word, to a plane of 1 bit: bit 4f + j becomes bit f
 * of byte j.  Each step exchanges two bits of the bit number.
 */
static inline void
p_bits32(const uint8_t *const *src, size_t at, uint8_t *row, int c0)
{
	pv			x = p_words(src, at);

	x = p_swap_in(x, 3, 0x0a0a0a0au);
	x = p_swap_in(x, 6, 0x00cc00ccu);
	x = p_swap_in(x, 8, 0x0000ff00u);
	x = p_swap_in(x, 4, 0x00f000f0u);
	p_put(row, c0, x);
}

/* the halves at byte `at` of the blocks */
static inline void
p_half(const uint8_t *const *src, size_t at, uint8_t *to, int c0)
{
	for (int c = 0; c < P_LANES; c++)
		memcpy(to + (c0 + c) * 2, src[c] + at, 2);
}

/* store d and m, which are adjacent; flip: the file has the negative of m */
static inline void
p_two_halves(pv d_m, uint32_t flip, uint8_t *header, int c0)
{
	p_put_halves(header, Q_COLS * 2, c0, d_m ^ (flip << 16));
}

/* ---- the formats ---- */

static void
p_q8_0(const uint8_t *const *src, uint8_t *span, int c0)
{
	uint8_t    *codes = span + q_header_bytes(KT_Q8_0);

	p_half(src, offsetof(KBlockQ8_0, d), span, c0);
	p_bytes(src, offsetof(KBlockQ8_0, qs), codes, c0);
	p_bytes(src, offsetof(KBlockQ8_0, qs) + 16, codes + 4 * Q_FOUR, c0);
}

/* also for IQ4_NL, NF4, FP4 */
static void
p_q4_0(const uint8_t *const *src, uint8_t *span, int c0)
{
	p_half(src, offsetof(KBlockQ4_0, d), span, c0);
	p_nibbles32(src, offsetof(KBlockQ4_0, qs), span + q_header_bytes(KT_Q4_0), c0);
}

/* also for NV4, whose scales of halves are stored in m's place */
static void
p_q4_1(const uint8_t *const *src, uint8_t *span, int c0)
{
	p_two_halves(p_words(src, offsetof(KBlockQ4_1, d)), 0, span, c0);
	p_nibbles32(src, offsetof(KBlockQ4_1, qs), span + q_header_bytes(KT_Q4_1), c0);
}

static void
p_q5_0(const uint8_t *const *src, uint8_t *span, int c0)
{
	uint8_t    *codes = span + q_header_bytes(KT_Q5_0);

	p_half(src, offsetof(KBlockQ5_0, d), span, c0);
	p_nibbles32(src, offsetof(KBlockQ5_0, qs), codes, c0);
	p_bits32(src, offsetof(KBlockQ5_0, qh), codes + 4 * Q_FOUR, c0);
}

static void
p_q5_1(const uint8_t *const *src, uint8_t *span, int c0)
{
	uint8_t    *codes = span + q_header_bytes(KT_Q5_1);

	p_two_halves(p_words(src, offsetof(KBlockQ5_1, d)), 0, span, c0);
	p_nibbles32(src, offsetof(KBlockQ5_1, qs), codes, c0);
	p_bits32(src, offsetof(KBlockQ5_1, qh), codes + 4 * Q_FOUR, c0);
}

/* the scale is an exponent: 2^(e - 128) as bfloat16, the two smallest subnormal */
static void
p_mxfp4(const uint8_t *const *src, uint8_t *span, int c0)
{
	pv			e = p_words(src, offsetof(KBlockMXFP4, e)) & 0xff;
	pv			small = (pv) (e < 2);

	p_put_low(span, c0, (small & (e + 1) << 5) | (~small & (e - 1) << 7));
	p_nibbles32(src, offsetof(KBlockMXFP4, qs), span + q_header_bytes(KT_MXFP4), c0);
}

/* store the scales of halves: two words contain those of two groups each, from 16 bytes */
static inline void
p_put_sc(const pv w[4], uint8_t *sub, int c0)
{
	for (int i = 0; i < 4; i++)
		p_put_halves(sub + i * 4 * Q_COLS, 2 * Q_COLS, c0, w[i]);
}

static void
p_q2_k(const uint8_t *const *src, uint8_t *span, int c0)
{
	size_t		group = q_group_bytes(KT_Q2_K);
	uint8_t    *codes = span + q_header_bytes(KT_Q2_K);
	pv			w[4];

	p_two_halves(p_words(src, offsetof(KBlockQ2_K, d)), 0x8000, span, c0);
	p_load(w, src, offsetof(KBlockQ2_K, scales));
	p_put_sc(w, span + q_fixed_bytes(KT_Q2_K), c0);
	for (int a = 0; a < 2; a++)
		p_pairs128(src, offsetof(KBlockQ2_K, qs) + 32 * (size_t) a, codes + 4 * (size_t) a * group, group,
				   c0);
}

static void
p_q3_k(const uint8_t *const *src, uint8_t *span, int c0)
{
	size_t		group = q_group_bytes(KT_Q3_K);
	uint8_t    *codes = span + q_header_bytes(KT_Q3_K);
	pv			w[4],
				s[3],
				sc[4];

	/* the last 14 bytes of a block: 12 of scales, d */
	p_load(w, src, offsetof(KBlockQ3_K, scales) - 2);
	for (int i = 0; i < 3; i++)
		s[i] = w[i] >> 16 | w[i + 1] << 16;
	p_half(src, offsetof(KBlockQ3_K, d), span, c0);
	for (int i = 0; i < 4; i++)
	{
		pv			x = (s[i % 2] >> (i / 2 * 4) & 0x0f0f0f0fu) | (s[2] >> (2 * i) & 0x03030303u) << 4;

		/* subtract 32 in each byte: invert the sixth bit and extend it as a sign */
		x ^= 0x20202020u;
		sc[i] = x | (x & 0x20202020u) << 1 | (x & 0x20202020u) << 2;
	}
	p_put_sc(sc, span + q_fixed_bytes(KT_Q3_K), c0);
	for (int a = 0; a < 2; a++)
		p_pairs128(src, offsetof(KBlockQ3_K, qs) + 32 * (size_t) a, codes + 4 * (size_t) a * group, group,
				   c0);
	p_bits256(src, offsetof(KBlockQ3_K, hmask), codes + 2 * Q_FOUR, group, c0);
}

/* d, dmin and the scales of Q4_K and Q5_K, which have the same header */
static inline void
p_k4_header(const uint8_t *const *src, uint8_t *span, int c0)
{
	uint8_t    *sub = span + q_fixed_bytes(KT_Q4_K);
	size_t		step = q_sub_bytes(KT_Q4_K);
	pv			w[4];

	p_load(w, src, 0);
	p_two_halves(w[0], 0x8000, span, c0);
	p_put_bytes(sub, step, c0, w[1] & 0x3f3f3f3fu);
	p_put_bytes(sub + Q_COLS, step, c0, w[2] & 0x3f3f3f3fu);
	p_put_bytes(sub + 4 * step, step, c0, (w[3] & P_NIBBLES) | (w[1] >> 2 & 0x30303030u));
	p_put_bytes(sub + 4 * step + Q_COLS, step, c0, (w[3] >> 4 & P_NIBBLES) | (w[2] >> 2 & 0x30303030u));
}

static void
p_q4_k(const uint8_t *const *src, uint8_t *span, int c0)
{
	size_t		group = q_group_bytes(KT_Q4_K);
	uint8_t    *codes = span + q_header_bytes(KT_Q4_K);

	p_k4_header(src, span, c0);
	for (int i = 0; i < 4; i++, codes += 2 * group)
		p_nibbles64(src, offsetof(KBlockQ4_K, qs) + 32 * (size_t) i, codes, codes + group, c0);
}

static void
p_q5_k(const uint8_t *const *src, uint8_t *span, int c0)
{
	size_t		group = q_group_bytes(KT_Q5_K);
	uint8_t    *codes = span + q_header_bytes(KT_Q5_K);

	p_k4_header(src, span, c0);
	p_bits256(src, offsetof(KBlockQ5_K, qh), codes + 4 * Q_FOUR, group, c0);
	for (int i = 0; i < 4; i++, codes += 2 * group)
		p_nibbles64(src, offsetof(KBlockQ5_K, qs) + 32 * (size_t) i, codes, codes + group, c0);
}

static void
p_q6_k(const uint8_t *const *src, uint8_t *span, int c0)
{
	size_t		group = q_group_bytes(KT_Q6_K);
	uint8_t    *codes = span + q_header_bytes(KT_Q6_K);
	pv			w[4];

	p_half(src, offsetof(KBlockQ6_K, d), span, c0);
	p_load(w, src, offsetof(KBlockQ6_K, scales));
	p_put_sc(w, span + q_fixed_bytes(KT_Q6_K), c0);
	for (size_t a = 0; a < 2; a++, codes += 4 * group)
	{
		for (size_t b = 0; b < 2; b++)
			p_nibbles64(src, offsetof(KBlockQ6_K, ql) + 64 * a + 32 * b,
						codes + b * group, codes + (b + 2) * group, c0);
		p_pairs128(src, offsetof(KBlockQ6_K, qh) + 32 * a, codes + 4 * Q_FOUR, group, c0);
	}
}

static void
p_iq4_xs(const uint8_t *const *src, uint8_t *span, int c0)
{
	uint8_t    *sub = span + q_fixed_bytes(KT_IQ4_XS);
	uint8_t    *codes = span + q_header_bytes(KT_IQ4_XS);
	pv			w[4];

	p_load(w, src, 0);
	p_half(src, offsetof(KBlockIQ4_XS, d), span, c0);
	for (int i = 0; i < 2; i++)
	{
		/* scales 4i .. 4i+3: a nibble of w[1] each, two bits of w[0]'s upper half */
		pv			low = w[1] >> (16 * i),
					high = w[0] >> (16 + 8 * i),
					x = (low & 15) | (low & 0xf0) << 4 | (low & 0xf00) << 8 | (low & 0xf000) << 12;

		x |= ((high & 3) | (high & 12) << 6 | (high & 48) << 12 | (high & 192) << 18) << 4;
		x ^= 0x20202020u;
		x |= (x & 0x20202020u) << 1 | (x & 0x20202020u) << 2;
		p_put_bytes(sub + 4 * (size_t) i * Q_COLS, Q_COLS, c0, x);
	}
	for (size_t s = 0; s < Q_GROUPS; s++)
		p_nibbles32(src, offsetof(KBlockIQ4_XS, qs) + 16 * s, codes + s * q_group_bytes(KT_IQ4_XS), c0);
}

static const QStripFn q_strip_fns[KT_COUNT] = {
	[KT_Q8_0] = p_q8_0, [KT_Q4_0] = p_q4_0, [KT_Q4_1] = p_q4_1, [KT_Q5_0] = p_q5_0, [KT_Q5_1] = p_q5_1,
	[KT_Q2_K] = p_q2_k, [KT_Q3_K] = p_q3_k, [KT_Q4_K] = p_q4_k, [KT_Q5_K] = p_q5_k, [KT_Q6_K] = p_q6_k,
	[KT_IQ4_NL] = p_q4_0, [KT_IQ4_XS] = p_iq4_xs, [KT_MXFP4] = p_mxfp4,
	[KT_NF4] = p_q4_0, [KT_FP4] = p_q4_0, [KT_NV4] = p_q4_1,
};

/*
 * Make a block whose weights are all zero, for columns after the matrix's last: codes that mean 0, small
 * scales of 0.
 */
static void
q_zero_codes(KType t, uint8_t *block)
{
	memset(block, 0, sizeof(KBlockQ6_K));
	if (t == KT_Q4_0)
		memset(block + offsetof(KBlockQ4_0, qs), 0x88, 16);
	else if (t == KT_NF4)
		memset(block + offsetof(KBlockQ4_0, qs), 0x77, 16);
	else if (t == KT_Q5_0)
		memset(block + offsetof(KBlockQ5_0, qh), 0xff, 4);
	else if (t == KT_Q3_K)
	{
		memset(block + offsetof(KBlockQ3_K, hmask), 0xff, 32);
		memset(block + offsetof(KBlockQ3_K, scales) + 8, 0xaa, 4);
	}
	else if (t == KT_Q6_K)
		memset(block + offsetof(KBlockQ6_K, qh), 0xaa, 64);
	else if (t == KT_IQ4_XS)
		memset(block + offsetof(KBlockIQ4_XS, scales_h), 0xaa, 2);
}
