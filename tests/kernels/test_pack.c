/*
 * test_pack.c
 *	  The bytes of packed matrices, for conform.
 *
 * Packing moves bits in vectors; here the same layouts (docs/internals/kernels.md) are made
 * weight by weight from kgroup_get(), and the bytes must be the same.  Any bits may
 * lie in a block but NaN scales; MXFP4's second code of 0 is one of them.  INT8 has a
 * layout of its own.
 */
#include "groups.h"
#include "tests/kernels/conform.h"

#define COLS	32
#define MAX_K	(3 * QK_BLOCK)
#define MAX_N	70

/* what tmpl_qpack.h's tables say, once more */
typedef struct Layout
{
	KType		type;
	int			planes[2];		/* bits, low ones first */
	int			off;			/* added to a code's value */
	char		header;			/* d: half d; m: d and m; b: bfloat16 d */
	char		sub;			/* 1: d's factor, 2: d's and m's, h: of halves, H: both in a byte; 0: none */
} Layout;

static const Layout layouts[] = {
	{KT_Q8_0, {8, 0}, 0, 'd', 0},
	{KT_Q4_0, {4, 0}, 8, 'd', 0},
	{KT_Q4_1, {4, 0}, 0, 'm', 0},
	{KT_Q5_0, {4, 1}, 16, 'd', 0},
	{KT_Q5_1, {4, 1}, 0, 'm', 0},
	{KT_Q2_K, {2, 0}, 0, 'm', 'H'},
	{KT_Q3_K, {2, 1}, 4, 'd', 'h'},
	{KT_Q4_K, {4, 0}, 0, 'm', '2'},
	{KT_Q5_K, {4, 1}, 0, 'm', '2'},
	{KT_Q6_K, {4, 2}, 32, 'd', 'h'},
	{KT_IQ4_NL, {4, 0}, 0, 'd', 0},
	{KT_IQ4_XS, {4, 0}, 0, 'd', '1'},
	{KT_MXFP4, {4, 0}, 0, 'b', 0},
	{KT_NF4, {4, 0}, 0, 'd', 0},
	{KT_FP4, {4, 0}, 0, 'd', 0},
	{KT_NV4, {4, 0}, 0, 'd', 'h'},
};

typedef struct Case
{
	const Layout *l;
	bool		by_column;		/* a 32-bit lane is 4 k of one column */
	int			off8;			/* added to codes of 8 bits */
	int			n;
	int			k;
	const uint8_t *src;
} Case;

/* d and m as the headers have them */
static void
put_halves(const Case *t, uint8_t *header, const KGroup *g, const uint8_t *src, int c)
{
	uint16_t	h[2] = {0, 0};
	int			d_at = t->l->type == KT_Q2_K ? offsetof(KBlockQ2_K, d) :
		t->l->type == KT_Q3_K ? offsetof(KBlockQ3_K, d) :
		t->l->type == KT_Q6_K ? offsetof(KBlockQ6_K, d) : 0;

	if (src != NULL)
		memcpy(h, src + d_at, t->l->header == 'm' ? 4 : 2);
	if (src != NULL && t->l->header == 'b')
		h[0] = kf32_to_bf16(g->d);
	/* K formats take the minimum away */
	if (t->l->sub == '2' || t->l->sub == 'H')
		h[1] ^= 0x8000;
	memcpy(header + c * 2, &h[0], 2);
	if (t->l->header == 'm')
		memcpy(header + COLS * 2 + c * 2, &h[1], 2);
}

static void
put_sub(const Case *t, uint8_t *sub, const KGroup *g, int c)
{
	if (t->l->sub == '1' || t->l->sub == '2')
		sub[c] = (uint8_t) g->ds;
	if (t->l->sub == '2')
		sub[COLS + c] = (uint8_t) g->ms;
	if (t->l->sub != 'h' && t->l->sub != 'H')
		return;
	for (int h = 0; h < 2; h++)
		sub[c * 2 + h] = (uint8_t) (t->l->sub == 'H' ? g->sc[h] | g->mn[h] << 4 : g->sc[h]);
}

/* the code of a value; of a table's, the place */
static int
code_of(const Case *t, int q)
{
	KType		type = t->l->type;
	const int8_t *table = type == KT_MXFP4 || type == KT_NV4 ? kcode_mxfp4 : type == KT_NF4 ? kcode_nf4 :
		type == KT_FP4 ? kcode_fp4 : type == KT_IQ4_NL || type == KT_IQ4_XS ? kcode_iq4 : NULL;

	if (table == NULL)
		return q + (t->l->planes[0] == 8 ? t->off8 : t->l->off);
	for (int i = 0; i < 16; i++)
		if (table[i] == q)
			return i;
	return 0;
}

/* a code's bits into the planes of its group */
static void
put_code(const Case *t, uint8_t *planes, int code, int k, int c)
{
	int			lane = t->by_column ? c * 4 + k % 4 : k % 4 * COLS + c;

	for (int p = 0, shift = 0; p < 2 && t->l->planes[p] > 0; p++)
	{
		int			bits = t->l->planes[p];
		int			fields = 8 / bits;

		planes[k / 4 / fields * 4 * COLS + lane] |=
			(uint8_t) ((code >> shift & ((1 << bits) - 1)) << (k / 4 % fields * bits));
		planes += bits * 4 * COLS;
		shift += bits;
	}
}

/* Weight by weight; returns the number of bytes. */
static size_t
slow_pack(const Case *t, uint8_t *to)
{
	int			block = ktype_block(t->l->type),
				groups = block / KGROUP;
	size_t		sub = t->l->sub == 0 ? 0 : t->l->sub == '1' ? COLS : 2 * COLS,
				fixed = t->l->header == 'm' ? 4 * COLS : 2 * COLS,
				group = (size_t) (t->l->planes[0] + t->l->planes[1]) * 4 * COLS,
				row = ktype_row_bytes(t->l->type, t->k);
	uint8_t    *span = to;

	for (int p = 0; p < (t->n + COLS - 1) / COLS; p++)
		for (int b = 0; b < t->k / block; b++)
		{
			uint8_t    *codes = span + fixed + sub * (size_t) groups;

			for (int c = 0; c < COLS; c++)
			{
				int			j = p * COLS + c;
				const uint8_t *src = j < t->n ? t->src + row * (size_t) j + ktype_row_bytes(t->l->type,
						block) * (size_t) b : NULL;
				KGroup		g[QK_BLOCK / KGROUP];

				memset(g, 0, sizeof(g));
				if (src != NULL)
					kgroup_get(t->l->type, src, g);
				put_halves(t, span, g, src, c);
				for (int i = 0; i < groups; i++)
				{
					put_sub(t, span + fixed + sub * (size_t) i, &g[i], c);
					for (int k = 0; k < KGROUP; k++)
						put_code(t, codes + group * (size_t) i, code_of(t, g[i].q[k]), k, c);
				}
			}
			span = codes + group * (size_t) groups;
		}
	return (size_t) (span - to);
}

/* no second zero of MXFP4's and FP4's tables among n bytes of two codes */
static void
first_zeros(uint8_t *qs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		qs[i] = (uint8_t) (((qs[i] & 0x0f) == 0x08 ? qs[i] ^ 1 : qs[i]) ^
						   ((qs[i] & 0xf0) == 0x80 ? 0x10 : 0));
}

/* any bits, but for exponents of NaN in scales */
static void
fill(const Case *t, uint8_t *src, size_t len)
{
	size_t		step = ktype_row_bytes(t->l->type, ktype_block(t->l->type));

	for (size_t i = 0; i < len; i++)
		src[i] = (uint8_t) rnd();
	for (size_t at = 0; at < len; at += step)
	{
		if (t->l->type == KT_MXFP4)
			src[at] = (uint8_t) rnd_int(255);
		if (t->l->type == KT_MXFP4 || t->l->type == KT_FP4 || t->l->type == KT_NV4)
			first_zeros(src + at + step - 16, 16);
	}
}

static void
one_format(const Impl *im, const Layout *l, int n, int k)
{
	size_t		len = ktype_row_bytes(l->type, k) * (size_t) n;
	uint8_t    *src = xalloc(len + 1);
	bool		vnni = strstr(im->k->name, "vnni") != NULL || strstr(im->k->name, "bf16") != NULL;
	Case		t = {.l = l, .by_column = strcmp(im->k->name, "portable") != 0, .off8 = vnni ? 128 : 0,
		.n = n, .k = k, .src = src + 1};
	KMat		m = {.type = l->type, .n = n, .k = k, .nbytes = im->k->mat_bytes(l->type, n, k)};
	KTensor		tensor = {.name = "w", .type = l->type, .ndim = 2, .shape = {n, k}, .data = src + 1,
						  .nbytes = len};
	uint8_t    *want = xalloc(m.nbytes);
	size_t		bytes,
				same = 0;

	fill(&t, src + 1, len);
	m.data = xalloc(m.nbytes);
	memset(m.data, 0x5a, m.nbytes);
	im->k->mat_pack(&m, &tensor, 0, n);
	bytes = slow_pack(&t, want);
	EXPECT(bytes == m.nbytes, "%s %s %dx%d: %zu bytes, should be %zu", im->k->name, ktype_name(l->type), n, k,
		   m.nbytes, bytes);
	while (same < bytes && ((uint8_t *) m.data)[same] == want[same])
		same++;
	EXPECT(same == bytes, "%s %s %dx%d: byte %zu of the packed matrix is %02x, should be %02x", im->k->name,
		   ktype_name(l->type), n, k, same, ((uint8_t *) m.data)[same], want[same]);
	free(src);
	free(want);
	free(m.data);
}

/* codes of a row whose sums of four magnitudes are at most INT8_QUAD */
static bool
small_codes(const int8_t *code, int k)
{
	bool		small = true;

	for (int i = 0; i < k; i += 8)
		for (int j = 0; j < 4; j += 2)
		{
			int			sum = 0;

			for (int n = 0; n < 4; n++)
			{
				int			at = i + j + n / 2 * 4 + n % 2;

				sum += at < k ? abs(code[at]) : 0;
			}
			small = small && sum <= INT8_QUAD;
		}
	return small;
}

/* INT8, weight by weight; returns the number of bytes */
static size_t
slow_pack_int8(const Case *t, uint8_t *to)
{
	int			filled = (t->k + 15) / 16 * 16;
	uint8_t    *at = to;

	for (int p = 0; p < (t->n + COLS - 1) / COLS; p++)
	{
		int			cols = k_min(COLS, t->n - p * COLS);
		const uint8_t *src = t->src + (size_t) p * COLS * ((size_t) t->k + 4);

		for (int c = 0; c < cols; c++)
			memcpy(at + c * 4, src + (size_t) c * ((size_t) t->k + 4), 4);
		at += COLS * 4;
		at[0] = 1;
		for (int c = 0; c < cols; c++)
			at[0] &= small_codes((const int8_t *) src + (size_t) c * ((size_t) t->k + 4) + 4, t->k);
		at += 64;
		for (int g = 0; g < filled; g += I8_GROUP)
		{
			uint8_t    *codes = at + COLS * 2;

			for (int c = 0; c < cols; c++)
			{
				const uint8_t *row = src + (size_t) c * ((size_t) t->k + 4) + 4;
				int16_t		sum = 0;

				for (int k = 0; k < k_min(I8_GROUP, t->k - g); k++)
				{
					sum = (int16_t) (sum + (int8_t) row[g + k]);
					codes[k / 4 * 4 * COLS + (t->by_column ? c * 4 + k % 4 : k % 4 * COLS + c)] = row[g + k];
				}
				memcpy(at + c * 2, &sum, 2);
			}
			at = codes + (size_t) k_min(I8_GROUP, filled - g) * COLS;
		}
	}
	return (size_t) (at - to);
}

static void
int8_case(const Impl *im, int n, int k)
{
	size_t		len = ktype_row_bytes(KT_INT8, k) * (size_t) n;
	uint8_t    *src = xalloc(len + 1);
	Case		t = {.by_column = strcmp(im->k->name, "portable") != 0, .n = n, .k = k, .src = src + 1};
	KMat		m = {.type = KT_INT8, .n = n, .k = k, .nbytes = im->k->mat_bytes(KT_INT8, n, k)};
	KTensor		tensor = {.name = "w", .type = KT_INT8, .ndim = 2, .shape = {n, k}, .data = src + 1,
						  .nbytes = len};
	uint8_t    *want = xalloc(m.nbytes);

	for (int j = 0; j < n; j++)
		if (j / COLS % 2 == 0)
			rnd_small_row(k, src + 1 + ktype_row_bytes(KT_INT8, k) * (size_t) j);
		else
			rnd_row(KT_INT8, k, src + 1 + ktype_row_bytes(KT_INT8, k) * (size_t) j);
	m.data = xalloc(m.nbytes);
	memset(m.data, 0x5a, m.nbytes);
	im->k->mat_pack(&m, &tensor, 0, n);
	EXPECT(slow_pack_int8(&t, want) == m.nbytes && memcmp(want, m.data, m.nbytes) == 0,
		   "%s INT8 %dx%d: other bytes", im->k->name, n, k);
	free(src);
	free(want);
	free(m.data);
}

void
test_pack(const Impl *im)
{
	/* the reference keeps the file's rows */
	if (strcmp(im->k->name, "ref") == 0)
		return;
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
	{
		one_format(im, &layouts[i], MAX_N, MAX_K);
		one_format(im, &layouts[i], 32, ktype_block(layouts[i].type));
		one_format(im, &layouts[i], 1, 2 * ktype_block(layouts[i].type));
	}
	int8_case(im, MAX_N, 3 * I8_GROUP);
	int8_case(im, 32, I8_GROUP + 16);
	int8_case(im, 33, 2 * I8_GROUP - 9);
	int8_case(im, 1, 5);
}
