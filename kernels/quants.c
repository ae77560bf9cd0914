/*
 * quants.c
 *	  The weight formats: names, sizes, and the decoding of a block's bits.
 *
 * One function for each format converts a block to groups of 32 codes with scales (groups.h); everything
 * else about a format follows from that.  The bit layouts are described with the structs in blocks.h.
 * Products of scales in half precision and scales of at most 8 bits are exact in float, so rounding of d
 * and m needs no attention.
 *
 * Tested by tests/golden/quants_golden.c against the `gguf` package.
 */
#include "groups.h"

const int8_t kcode_iq4[16] = {
	-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
};

/* twice 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives; the second zero is +0 */
const int8_t kcode_mxfp4[16] = {
	0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12
};

/*
 * The 16 numbers of NF4 in steps of NF4_STEP, rounded.  Of all steps for which the largest number is a
 * signed byte, this one minimizes the root mean square of the rounding errors (0.0017; 0.0022 in steps
 * of 1/127).
 */
const int8_t kcode_nf4[16] = {
	-112, -78, -59, -44, -32, -21, -10, 0, 9, 18, 28, 38, 49, 63, 81, 112
};

/* 120 times 0, 1/192, 2/3, 1, 1/3, 1/2, 1/6, 1/4 and their negatives: exact except for 1/192, which is
 * 0.625. */
const int8_t kcode_fp4[16] = {
	0, 1, 80, 120, 40, 60, 20, 30, 0, -1, -80, -120, -40, -60, -20, -30
};

static inline int
nibble(const uint8_t *qs, int i)
{
	return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
}

/* Return the 2 bits of weight i of a super-block, as in Q2_K and Q3_K. */
static inline int
two_bits(const uint8_t *qs, int i)
{
	return qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
}

static void
group_init(KGroup *g, float d, float m)
{
	g->d = d;
	g->m = m;
	g->sc[0] = g->sc[1] = 1;
	g->mn[0] = g->mn[1] = 1;
	g->ds = g->ms = 1;
}

static void
get_q8_0(const uint8_t *src, KGroup *g)
{
	KBlockQ8_0	b;

	memcpy(&b, src, sizeof(b));
	group_init(g, kf16_to_f32(b.d), -0.0f);
	memcpy(g->q, b.qs, KGROUP);
}

static void
get_q4_0(const uint8_t *src, KGroup *g)
{
	KBlockQ4_0	b;

	memcpy(&b, src, sizeof(b));
	group_init(g, kf16_to_f32(b.d), -0.0f);
	for (int i = 0; i < KGROUP; i++)
		g->q[i] = (int8_t) (nibble(b.qs, i) - 8);
}

static void
get_q4_1(const uint8_t *src, KGroup *g)
{
	KBlockQ4_1	b;

	memcpy(&b, src, sizeof(b));
	group_init(g, kf16_to_f32(b.d), kf16_to_f32(b.m));
	for (int i = 0; i < KGROUP; i++)
		g->q[i] = (int8_t) nibble(b.qs, i);
}

static void
get_q5_0(const uint8_t *src, KGroup *g)
{
	KBlockQ5_0	b;

	memcpy(&b, src, sizeof(b));
	group_init(g, kf16_to_f32(b.d), -0.0f);
	for (int i = 0; i < KGROUP; i++)
		g->q[i] = (int8_t) ((nibble(b.qs, i) | (b.qh[i / 8] >> i % 8 & 1) << 4) - 16);
}

static void
get_q5_1(const uint8_t *src, KGroup *g)
{
	KBlockQ5_1	b;

	memcpy(&b, src, sizeof(b));
	group_init(g, kf16_to_f32(b.d), kf16_to_f32(b.m));
	for (int i = 0; i < KGROUP; i++)
		g->q[i] = (int8_t) (nibble(b.qs, i) | (b.qh[i / 8] >> i % 8 & 1) << 4);
}

static void
get_q2_k(const uint8_t *src, KGroup *g)
{
	KBlockQ2_K	b;

	memcpy(&b, src, sizeof(b));
	for (int s = 0; s < QK_BLOCK / KGROUP; s++, g++)
	{
		group_init(g, kf16_to_f32(b.d), -kf16_to_f32(b.dmin));
		for (int h = 0; h < 2; h++)
		{
			g->sc[h] = (int8_t) (b.scales[2 * s + h] & 15);
			g->mn[h] = (int8_t) (b.scales[2 * s + h] >> 4);
		}
		for (int i = 0; i < KGROUP; i++)
			g->q[i] = (int8_t) two_bits(b.qs, s * KGROUP + i);
	}
}

static void
get_q3_k(const uint8_t *src, KGroup *g)
{
	KBlockQ3_K	b;

	memcpy(&b, src, sizeof(b));
	for (int s = 0; s < QK_BLOCK / KGROUP; s++, g++)
	{
		group_init(g, kf16_to_f32(b.d), -0.0f);
		for (int h = 0; h < 2; h++)
		{
			int			j = 2 * s + h;
			int			low = b.scales[j % 8] >> (j / 8 * 4) & 15;
			int			high = b.scales[8 + j % 4] >> (j / 4 * 2) & 3;

			g->sc[h] = (int8_t) ((low | high << 4) - 32);
		}
		for (int i = 0; i < KGROUP; i++)
			g->q[i] = (int8_t) ((two_bits(b.qs, s * KGROUP + i) | (b.hmask[i] >> s & 1) << 2) - 4);
	}
}

/* Get the 6-bit scale and minimum of sub-block s of Q4_K and Q5_K. */
static void
k4_scales(const uint8_t *scales, int s, int *sc, int *mn)
{
	if (s < 4)
	{
		*sc = scales[s] & 63;
		*mn = scales[s + 4] & 63;
		return;
	}
	*sc = (scales[s + 4] & 15) | scales[s - 4] >> 6 << 4;
	*mn = scales[s + 4] >> 4 | scales[s] >> 6 << 4;
}

static void
get_q4_k(const uint8_t *src, KGroup *g)
{
	KBlockQ4_K	b;

	memcpy(&b, src, sizeof(b));
	for (int s = 0; s < QK_BLOCK / KGROUP; s++, g++)
	{
		int			sc,
					mn;

		k4_scales(b.scales, s, &sc, &mn);
		group_init(g, kf16_to_f32(b.d) * (float) sc, -(kf16_to_f32(b.dmin) * (float) mn));
		g->ds = (int8_t) sc;
		g->ms = (int8_t) mn;
		for (int i = 0; i < KGROUP; i++)
			g->q[i] = (int8_t) (b.qs[s / 2 * 32 + i] >> (s % 2 * 4) & 15);
	}
}

static void
get_q5_k(const uint8_t *src, KGroup *g)
{
	KBlockQ5_K	b;

	memcpy(&b, src, sizeof(b));
	for (int s = 0; s < QK_BLOCK / KGROUP; s++, g++)
	{
		int			sc,
					mn;

		k4_scales(b.scales, s, &sc, &mn);
		group_init(g, kf16_to_f32(b.d) * (float) sc, -(kf16_to_f32(b.dmin) * (float) mn));
		g->ds = (int8_t) sc;
		g->ms = (int8_t) mn;
		for (int i = 0; i < KGROUP; i++)
			g->q[i] = (int8_t) ((b.qs[s / 2 * 32 + i] >> (s % 2 * 4) & 15) | (b.qh[i] >> s & 1) << 4);
	}
}

static void
get_q6_k(const uint8_t *src, KGroup *g)
{
	KBlockQ6_K	b;

	memcpy(&b, src, sizeof(b));
	for (int s = 0; s < QK_BLOCK / KGROUP; s++, g++)
	{
		const uint8_t *ql = b.ql + s / 4 * 64 + s % 2 * 32;
		const uint8_t *qh = b.qh + s / 4 * 32;

		group_init(g, kf16_to_f32(b.d), -0.0f);
		g->sc[0] = b.scales[2 * s];
		g->sc[1] = b.scales[2 * s + 1];
		for (int i = 0; i < KGROUP; i++)
			g->q[i] = (int8_t) (((ql[i] >> (s % 4 / 2 * 4) & 15) | (qh[i] >> (s % 4 * 2) & 3) << 4) - 32);
	}
}

/* Decode a half and indices of a table. */
static void
get_table(const uint8_t *src, const int8_t *table, KGroup *g)
{
	KBlockQ4_0	b;

	memcpy(&b, src, sizeof(b));
	group_init(g, kf16_to_f32(b.d), -0.0f);
	for (int i = 0; i < KGROUP; i++)
		g->q[i] = table[nibble(b.qs, i)];
}

static void
get_iq4_nl(const uint8_t *src, KGroup *g)
{
	get_table(src, kcode_iq4, g);
}

static void
get_nf4(const uint8_t *src, KGroup *g)
{
	get_table(src, kcode_nf4, g);
}

static void
get_fp4(const uint8_t *src, KGroup *g)
{
	get_table(src, kcode_fp4, g);
}

static void
get_nv4(const uint8_t *src, KGroup *g)
{
	KBlockNV4	b;

	memcpy(&b, src, sizeof(b));
	group_init(g, kf16_to_f32(b.d) * NV4_D, -0.0f);
	g->sc[0] = b.sc[0];
	g->sc[1] = b.sc[1];
	for (int i = 0; i < KGROUP; i++)
		g->q[i] = kcode_mxfp4[nibble(b.qs, i)];
}

static void
get_iq4_xs(const uint8_t *src, KGroup *g)
{
	KBlockIQ4_XS b;

	memcpy(&b, src, sizeof(b));
	for (int s = 0; s < QK_BLOCK / KGROUP; s++, g++)
	{
		int			sc = (b.scales_l[s / 2] >> (s % 2 * 4) & 15) | (b.scales_h >> 2 * s & 3) << 4;

		group_init(g, kf16_to_f32(b.d) * (float) (sc - 32), -0.0f);
		g->ds = (int8_t) (sc - 32);
		for (int i = 0; i < KGROUP; i++)
			g->q[i] = kcode_iq4[nibble(b.qs + 16 * s, i)];
	}
}

static void
get_mxfp4(const uint8_t *src, KGroup *g)
{
	KBlockMXFP4 b;

	memcpy(&b, src, sizeof(b));
	/* 2^(e-128); the two smallest are subnormal */
	group_init(g, k_float(b.e < 2 ? 0x00200000u << b.e : (uint32_t) (b.e - 1) << 23), -0.0f);
	for (int i = 0; i < KGROUP; i++)
		g->q[i] = kcode_mxfp4[nibble(b.qs, i)];
}

/* get: NULL for types that don't consist of groups */
static const struct
{
	const char *name;
	int			block;
	int			bytes;
	bool		min;
	bool		halves;
	void		(*get) (const uint8_t *src, KGroup *g);
}			formats[KT_COUNT] = {
	[KT_F32] = {"F32", 1, 4, false, false, NULL},
	[KT_F16] = {"F16", 1, 2, false, false, NULL},
	[KT_BF16] = {"BF16", 1, 2, false, false, NULL},
	[KT_Q8_0] = {"Q8_0", 32, sizeof(KBlockQ8_0), false, false, get_q8_0},
	[KT_Q4_0] = {"Q4_0", 32, sizeof(KBlockQ4_0), false, false, get_q4_0},
	[KT_Q4_1] = {"Q4_1", 32, sizeof(KBlockQ4_1), true, false, get_q4_1},
	[KT_Q5_0] = {"Q5_0", 32, sizeof(KBlockQ5_0), false, false, get_q5_0},
	[KT_Q5_1] = {"Q5_1", 32, sizeof(KBlockQ5_1), true, false, get_q5_1},
	[KT_Q2_K] = {"Q2_K", 256, sizeof(KBlockQ2_K), true, true, get_q2_k},
	[KT_Q3_K] = {"Q3_K", 256, sizeof(KBlockQ3_K), false, true, get_q3_k},
	[KT_Q4_K] = {"Q4_K", 256, sizeof(KBlockQ4_K), true, false, get_q4_k},
	[KT_Q5_K] = {"Q5_K", 256, sizeof(KBlockQ5_K), true, false, get_q5_k},
	[KT_Q6_K] = {"Q6_K", 256, sizeof(KBlockQ6_K), false, true, get_q6_k},
	[KT_IQ4_NL] = {"IQ4_NL", 32, sizeof(KBlockQ4_0), false, false, get_iq4_nl},
	[KT_IQ4_XS] = {"IQ4_XS", 256, sizeof(KBlockIQ4_XS), false, false, get_iq4_xs},
	[KT_MXFP4] = {"MXFP4", 32, sizeof(KBlockMXFP4), false, false, get_mxfp4},
	[KT_NF4] = {"NF4", 32, sizeof(KBlockQ4_0), false, false, get_nf4},
	[KT_FP4] = {"FP4", 32, sizeof(KBlockQ4_0), false, false, get_fp4},
	[KT_NV4] = {"NVFP4", 32, sizeof(KBlockNV4), false, true, get_nv4},
	[KT_INT8] = {"INT8", 1, 1, false, false, NULL},
	[KT_FP8] = {"FP8", 1, 1, false, false, NULL},
	[KT_Q4_0F] = {"Q4_0 x float", 32, sizeof(KBlockQ4_0), false, false, get_q4_0},
	[KT_Q4_1F] = {"Q4_1 x float", 32, sizeof(KBlockQ4_1), true, false, get_q4_1},
	[KT_INT8F] = {"INT8 x float", 1, 1, false, false, NULL},
	[KT_INT8D] = {"INT8 x dynamic INT8", 1, 1, false, false, NULL},
	[KT_INT8S] = {"INT8 x static INT8", 1, 1, false, false, NULL},
};

const char *
ktype_name(KType t)
{
	static const char *const file_only[KT_END - KT_COUNT] = {
		"?", "U8", "I8", "I16", "I32", "I64", "F8_E4M3", "F8_E5M2", "F8_E8M0", "NVFP4"
	};

	if ((unsigned) t >= KT_END)
		return "?";
	return t < KT_COUNT ? formats[t].name : file_only[t - KT_COUNT];
}

int
ktype_block(KType t)
{
	return formats[t].block;
}

bool
ktype_grouped(KType t)
{
	return formats[t].get != NULL;
}

bool
ktype_has_min(KType t)
{
	return formats[t].min;
}

bool
ktype_has_halves(KType t)
{
	return formats[t].halves;
}

bool
ktype_is_int8(KType t)
{
	return t == KT_INT8 || t == KT_INT8F || t == KT_INT8D || t == KT_INT8S;
}

size_t
ktype_row_bytes(KType t, int64_t n)
{
	if ((unsigned) t >= KT_COUNT || n < 0 || n % formats[t].block != 0)
		return 0;
	return (size_t) n / (size_t) formats[t].block * (size_t) formats[t].bytes +
		(ktype_is_int8(t) ? 1 : t == KT_FP8 ? (size_t) (n + FP8_GROUP - 1) / FP8_GROUP : 0) * sizeof(float) +
		(t == KT_INT8S ? sizeof(KInt8X) : 0);
}

/* bytes before a row's codes */
static size_t
head_bytes(KType t, int64_t n)
{
	return ktype_is_int8(t) || t == KT_FP8 ? ktype_row_bytes(t, n) - (size_t) n : 0;
}

void
ktype_cut(KType t, const void *row, int64_t k, int64_t from, int64_t n, void *to)
{
	const uint8_t *src = row;
	size_t		head = head_bytes(t, n);
	size_t		first = t == KT_FP8 ? (size_t) (from / FP8_GROUP) * sizeof(float) : 0;
	size_t		at = head_bytes(t, k) + (size_t) (from / formats[t].block) * (size_t) formats[t].bytes;

	memcpy(to, src + first, head);
	memcpy((uint8_t *) to + head, src + at, (size_t) (n / formats[t].block) * (size_t) formats[t].bytes);
}

void
kgroup_get(KType t, const void *src, KGroup *g)
{
	formats[t].get(src, g);
}

static void
int8_to_float(const uint8_t *src, int64_t n, float *out)
{
	float		d;

	memcpy(&d, src, sizeof(d));
	for (int64_t i = 0; i < n; i++)
		out[i] = d * (float) (int8_t) src[sizeof(d) + (size_t) i];
}

static void
fp8_to_float(const uint8_t *src, int64_t n, float *out)
{
	const uint8_t *codes = src + (ktype_row_bytes(KT_FP8, n) - (size_t) n);
	float		d = 0;

	for (int64_t i = 0; i < n; i++)
	{
		if (i % FP8_GROUP == 0)
			memcpy(&d, src + i / FP8_GROUP * (int64_t) sizeof(d), sizeof(d));
		out[i] = d * kf8_to_f32(KT_F8_E4M3, codes[i]);
	}
}

/* like kbf16_to_f32(), in a loop that the compiler can vectorize */
static void
bf16_to_float(const uint8_t *p, int64_t n, float *out)
{
	for (int64_t i = 0; i < n; i++)
	{
		uint16_t	h;
		uint32_t	u;

		memcpy(&h, p + 2 * i, sizeof(h));
		u = (uint32_t) h << 16;
		memcpy(out + i, &u, sizeof(u));
	}
}

/* the same for kf16_to_f32() */
static void
f16_to_float(const uint8_t *p, int64_t n, float *out)
{
	for (int64_t i = 0; i < n; i++)
	{
		uint16_t	h;
		uint32_t	mag,
					u;

		memcpy(&h, p + 2 * i, sizeof(h));
		mag = h & 0x7fff;
		u = k_bits(k_float(mag << 13) * 0x1p112f);
		u = mag < 0x7c00 ? u : 0x7f800000u | (mag & 0x3ff) << 13 | (uint32_t) (mag > 0x7c00) << 22;
		u |= (uint32_t) (h & 0x8000) << 16;
		memcpy(out + i, &u, sizeof(u));
	}
}

void
kblock_to_float(KType t, const void *src, int64_t n, float *out)
{
	const uint8_t *p = src;
	KGroup		groups[QK_BLOCK / KGROUP];
	int			block = formats[t].block;

	if (ktype_is_int8(t))
		int8_to_float(p + (t == KT_INT8S ? sizeof(KInt8X) : 0), n, out);
	else if (t == KT_FP8)
		fp8_to_float(p, n, out);
	else if (t == KT_BF16)
		bf16_to_float(p, n, out);
	else if (t == KT_F16)
		f16_to_float(p, n, out);
	else if (!ktype_grouped(t))
		for (int64_t i = 0; i < n; i++)
			out[i] = kelem_get(t, p, (size_t) i);
	else
		for (int64_t at = 0; at < n; at += block, p += formats[t].bytes)
		{
			kgroup_get(t, p, groups);
			for (int i = 0; i < block; i++)
			{
				const KGroup *g = &groups[i / KGROUP];
				int			h = i % KGROUP / 16;

				*out++ = g->d * (float) g->sc[h] * (float) g->q[i % KGROUP] + g->m * (float) g->mn[h];
			}
		}
}
