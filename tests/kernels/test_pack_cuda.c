/*
 * test_pack_cuda.c
 *	  Matrices packed for CUDA (kernels/cuda/layout.h), for conform.
 *
 * The bytes are read from the first to the last, as the layout is described, and each
 * weight must be the file's, to the bit.  Strips packed in any order, over whatever was in
 * memory, are the same bytes.  Needs no CUDA.
 */
#include "cuda/pack.h"
#include "groups.h"
#include "tests/kernels/conform.h"

#define MAX_N	(2 * CUDA_STRIP + 6)
#define MAX_K	(2 * QK_BLOCK)

/* what pack.c's table says, once more */
typedef struct Format
{
	KType		type;
	int			bits;			/* of a code */
	int			off;
	int			block;			/* k that share a header */
	int			halves;			/* 16 bits each in a header: d, m; 0: a byte */
	char		sub;			/* b: int8; 2: bytes s, z; h: int8 for 16 k; H: s and z for 16 k */
} Format;

static const Format formats[] = {
	{KT_Q8_0, 8, 0, 32, 1, 0},
	{KT_Q4_0, 4, 8, 32, 1, 0},
	{KT_Q4_1, 4, 0, 32, 2, 0},
	{KT_Q5_0, 8, 0, 32, 1, 0},
	{KT_Q5_1, 8, 0, 32, 2, 0},
	{KT_Q2_K, 4, 0, 256, 2, 'H'},
	{KT_Q3_K, 4, 4, 256, 1, 'h'},
	{KT_Q4_K, 4, 0, 256, 2, '2'},
	{KT_Q5_K, 8, 0, 256, 2, '2'},
	{KT_Q6_K, 8, 0, 256, 1, 'h'},
	{KT_IQ4_NL, 4, 0, 32, 1, 0},
	{KT_IQ4_XS, 4, 0, 256, 1, 'b'},
	{KT_MXFP4, 4, 0, 32, 0, 0},
	{KT_NF4, 4, 0, 32, 1, 0},
	{KT_FP4, 4, 0, 32, 1, 0},
};

typedef struct Scales
{
	float		d[2];			/* of the halves of a piece */
	float		m[2];
} Scales;

/* 64 outputs in the order of headers: g and g + 8 of each tile side by side */
static int
output_at(int i)
{
	return i / 16 * 16 + i % 16 / 2 + i % 2 * 8;
}

static float
half_at(const uint8_t *p)
{
	uint16_t	h;

	memcpy(&h, p, 2);
	return kf16_to_f32(h);
}

/* a header's d and m of all outputs; where it ends */
static const uint8_t *
read_header(const Format *f, const uint8_t *p, Scales *to)
{
	int			sign = f->block == QK_BLOCK ? -1 : 1;

	for (int pair = 0; pair < CUDA_STRIP; pair += 2)
		for (int field = 0; field < (f->halves ? f->halves : 1); field++)
			for (int i = pair; i < pair + 2; i++)
			{
				Scales	   *s = &to[output_at(i)];

				if (field == 0)
					s->m[0] = s->m[1] = 0;
				if (f->halves == 0)
				{
					s->d[0] = s->d[1] = *p == 0 ? 0x1p-128f : *p == 1 ? 0x1p-127f : ldexpf(1, *p - 128);
					p++;
					continue;
				}
				if (field == 0)
					s->d[0] = s->d[1] = half_at(p);
				else
					s->m[0] = s->m[1] = sign * half_at(p);
				p += 2;
			}
	return p;
}

/* A piece's sub-scales. */
static const uint8_t *
read_sub(const Format *f, const uint8_t *p, const Scales *head, Scales *to)
{
	memcpy(to, head, CUDA_STRIP * sizeof(*to));
	for (int pair = 0; f->sub != 0 && pair < CUDA_STRIP; pair += 2)
		for (int field = 0; field < (f->sub == 'b' ? 1 : 2); field++)
			for (int i = pair; i < pair + 2; i++, p++)
			{
				Scales	   *s = &to[output_at(i)];
				float		v = f->sub == '2' ? *p : f->sub == 'H' ? *p & 15 : (int8_t) *p;

				if (f->sub == '2' && field == 1)
					s->m[0] = s->m[1] = s->m[0] * v;
				else if (f->sub == 'h' || f->sub == 'H')
					s->d[field] *= v;
				else
					s->d[0] = s->d[1] = s->d[0] * v;
				if (f->sub == 'H')
					s->m[field] *= (float) (*p >> 4);
			}
	return p;
}

/* The weights of n x k in order, output by output, from the bytes; how many those were. */
static size_t
read_matrix(const Format *f, const uint8_t *packed, int n, int k, float *to)
{
	const uint8_t *p = packed;
	const int8_t *table = f->type == KT_MXFP4 ? kcode_mxfp4 : f->type == KT_IQ4_NL || f->type == KT_IQ4_XS ?
		kcode_iq4 : f->type == KT_NF4 ? kcode_nf4 : f->type == KT_FP4 ? kcode_fp4 : NULL;
	Scales		head[CUDA_STRIP],
				s[CUDA_STRIP];

	for (int n0 = 0; n0 < n; n0 += CUDA_STRIP)
		for (int k0 = 0; k0 < k; k0 += 32)
		{
			if (k0 % f->block == 0)
				p = read_header(f, p, head);
			p = read_sub(f, p, head, s);
			/* tile, then for 4 bits and bytes lane and step */
			for (int i = 0; i < 4 * 32 * 2; i++, p += f->bits)
				for (int e = 0; e < 8; e++)
				{
					int			lane = i / 2 % 32,
								reg = e / 2,
								j = i / 64 * 16 + lane / 4 + reg % 2 * 8,
								at = i % 2 * 16 + reg / 2 * 8 + lane % 4 * 2 + e % 2,
								nibble = reg + e % 2 * 4,
								code = f->bits == 8 ? (int8_t) p[e] : p[nibble / 2] >> nibble % 2 * 4 & 15;

					code = table != NULL ? table[code] : code - f->off;
					if (n0 + j < n)
						to[(size_t) (n0 + j) * k + k0 + at] = s[j].d[at / 16] * (float) code +
							s[j].m[at / 16];
				}
		}
	return (size_t) (p - packed);
}

/* floats of 2 and 4 bytes: by tile, step and lane */
static size_t
read_floats(KType t, const uint8_t *packed, int n, int k, float *to)
{
	size_t		at = 0;

	for (int n0 = 0; n0 < n; n0 += CUDA_STRIP)
		for (int k0 = 0; k0 < k; k0 += 32)
			for (int i = 0; i < 4 * 2 * 32; i++)
				for (int e = 0; e < 8; e++, at++)
				{
					int			j = i / 64 * 16 + i % 32 / 4 + e / 2 % 2 * 8,
								c = k0 + i / 32 % 2 * 16 + e / 4 * 8 + i % 4 * 2 + e % 2;

					if (n0 + j < n && c < k)
						to[(size_t) (n0 + j) * k + c] = kelem_get(t, packed, at);
					else
						EXPECT(k_bits(kelem_get(t, packed, at)) == 0, "%s: no zero at output %d, k %d",
							   ktype_name(t), n0 + j, c);
				}
	return at * (t == KT_F32 ? 4 : 2);
}

static size_t
read_int8(const uint8_t *packed, int n, int k, float *to)
{
	const uint8_t *p = packed;
	float		d[CUDA_STRIP];

	for (int n0 = 0; n0 < n; n0 += CUDA_STRIP)
	{
		for (int i = 0; i < CUDA_STRIP; i++, p += 4)
			memcpy(&d[output_at(i)], p, 4);
		for (int k0 = 0; k0 < k; k0 += 32)
			for (int i = 0; i < 4 * 32 * 2; i++)
				for (int e = 0; e < 8; e++, p++)
				{
					int			j = i / 64 * 16 + i / 2 % 32 / 4 + e / 2 % 2 * 8,
								c = k0 + i % 2 * 16 + e / 4 * 8 + i / 2 % 4 * 2 + e % 2;

					if (n0 + j < n && c < k)
						to[(size_t) (n0 + j) * k + c] = d[j] * (float) (int8_t) *p;
				}
	}
	return (size_t) (p - packed);
}

/* for 128 k the floats, then four pieces of codes; zeros fill up */
static size_t
read_fp8(const uint8_t *packed, int n, int k, float *to)
{
	const uint8_t *p = packed;
	float		d[CUDA_STRIP];

	for (int n0 = 0; n0 < n; n0 += CUDA_STRIP)
		for (int k0 = 0; k0 < (k + 127) / 128 * 128; k0 += 32)
		{
			for (int i = 0; k0 % 128 == 0 && i < CUDA_STRIP; i++, p += 4)
				memcpy(&d[output_at(i)], p, 4);
			for (int i = 0; i < 4 * 32 * 2; i++)
				for (int e = 0; e < 8; e++, p++)
				{
					int			j = i / 64 * 16 + i / 2 % 32 / 4 + e / 2 % 2 * 8,
								c = k0 + i % 2 * 16 + e / 4 * 8 + i / 2 % 4 * 2 + e % 2;

					if (n0 + j < n && c < k)
						to[(size_t) (n0 + j) * k + c] = d[j] * kf8_to_f32(KT_F8_E4M3, *p);
					else
						EXPECT(*p == 0, "FP8: no zero at output %d, k %d", n0 + j, c);
				}
		}
	return (size_t) (p - packed);
}

/* a NaN among the codes makes its group's scale one, and no other */
static void
fp8_nan(void)
{
	enum
	{
		N = 20, LEN = 300
	};
	size_t		row = ktype_row_bytes(KT_FP8, LEN);
	uint8_t    *src = xalloc(row * N);
	float		w[LEN];
	KMat		m = {.type = KT_FP8, .n = N, .k = LEN, .nbytes = cuda_mat_bytes(KT_FP8, N, LEN)};
	KTensor		tensor = {.name = "w", .type = KT_FP8, .ndim = 2, .shape = {N, LEN}, .data = src,
						  .nbytes = row * N};
	int			bad = 0;

	m.data = xalloc(m.nbytes);
	for (int j = 0; j < N; j++)
		rnd_row(KT_FP8, LEN, src + row * (size_t) j);
	src[row * 17 + 3 * sizeof(float) + 200] = 0xff;
	cuda_mat_pack(&m, &tensor, 0, N);
	for (int j = 0; j < N; j++)
	{
		cuda_mat_row(&m, j, w);
		for (int i = 0; i < LEN; i++)
			bad += isnan(w[i]) != (j == 17 && i / 128 == 1);
	}
	EXPECT(bad == 0, "FP8: %d weights are NaN, or not", bad);
	free(src);
	free(m.data);
}

static size_t
read_all(KType t, const uint8_t *packed, int n, int k, float *to)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (formats[i].type == t)
			return read_matrix(&formats[i], packed, n, k, to);
	return t == KT_INT8 ? read_int8(packed, n, k, to) : t == KT_FP8 ? read_fp8(packed, n, k, to) :
		read_floats(t, packed, n, k, to);
}

static void
one_matrix(KType t, int n, int k, bool perm)
{
	size_t		row = ktype_row_bytes(t, k),
				bytes = cuda_mat_bytes(t, n, k),
				got_bytes;
	int32_t		order[MAX_N];
	uint8_t    *src = xalloc(row * n + 1),
			   *other = xalloc(bytes);
	float	   *want = xalloc((size_t) k * 4),
			   *got = xalloc((size_t) n * k * 4),
			   *again = xalloc((size_t) k * 4);
	KMat		m = {.type = t, .n = n, .k = k, .data = xalloc(bytes), .nbytes = bytes};
	KTensor		tensor = {.name = "w", .type = t, .ndim = 2, .shape = {n, k}, .data = src + 1,
						  .nbytes = row * n,
	.row_perm = perm ? order : NULL};
	int			bad = 0;

	for (int j = 0; j < n; j++)
	{
		order[j] = (j + 5) % n;
		rnd_row(t, k, src + 1 + row * (size_t) j);
	}
	memset(m.data, 0x5a, bytes);
	cuda_mat_pack(&m, &tensor, 0, n);
	memcpy(other, m.data, bytes);
	/* strip by strip, the last one first, over something else */
	memset(m.data, 0xff, bytes);
	for (int n0 = (n - 1) / CUDA_STRIP * CUDA_STRIP; n0 >= 0; n0 -= CUDA_STRIP)
		cuda_mat_pack(&m, &tensor, n0, k_min(n0 + CUDA_STRIP, n));
	EXPECT(memcmp(m.data, other, bytes) == 0, "%s %dx%d: other bytes in another order", ktype_name(t), n, k);

	got_bytes = read_all(t, m.data, n, k, got);
	EXPECT(got_bytes == bytes, "%s %dx%d: %zu bytes, should be %zu", ktype_name(t), n, k, bytes, got_bytes);
	for (int j = 0; j < n; j++)
	{
		kblock_to_float(t, src + 1 + row * (size_t) (perm ? order[j] : j), k, want);
		cuda_mat_row(&m, j, again);
		/* -0 counts as 0: of the table's two zeros one is kept */
		for (int i = 0; i < k; i++)
			bad += !(want[i] == got[(size_t) j * k + i]) + !(want[i] == again[i]);
	}
	EXPECT(bad == 0, "%s %dx%d: %d weights differ", ktype_name(t), n, k, bad);
	free(src);
	free(other);
	free(want);
	free(got);
	free(again);
	free(m.data);
}

/* docs/user/gpu.md has each type with its bits a weight */
static void
documented(void)
{
	FILE	   *f = fopen("docs/user/gpu.md", "r");
	char		line[2048];
	char		name[16];
	bool		seen[KT_COUNT] = {false};
	bool		table = false;
	double		bits;

	EXPECT(f != NULL, "docs/user/gpu.md can't be read");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
	{
		table = line[0] == '|' && (table || strncmp(line, "| weights | bits a weight |", 27) == 0);
		if (!table || sscanf(line, "| %15s | %lf |", name, &bits) != 2)
			continue;
		for (int t = 0; t < KT_COUNT; t++)
			if (strcmp(name, ktype_name((KType) t)) == 0)
			{
				double		now = 8.0 * (double) cuda_mat_bytes((KType) t, CUDA_STRIP,
																4096) / (CUDA_STRIP * 4096);

				seen[t] = true;
				EXPECT(fabs(now - bits) < 0.006, "docs/user/gpu.md: %s has %g bits a weight, it takes %g",
					   name, bits, now);
			}
	}
	for (int t = 0; t < KT_COUNT; t++)
		EXPECT(seen[t] == (cuda_layout((KType) t) != NULL), "docs/user/gpu.md: %s is %s",
			   ktype_name((KType) t), seen[t] ? "there" : "missing");
	if (f != NULL)
		fclose(f);
}

void
test_pack_cuda(void)
{
	size_t		before;

	documented();
	rnd_seed(9);
	for (int t = 0; t < KT_COUNT; t++)
	{
		int			block = ktype_block((KType) t);

		/* NVFP4 stays Q8_0 there (ckpt_read.c), and the others are for CPUs */
		if (t == KT_NV4 || t > KT_FP8)
		{
			EXPECT(cuda_mat_bytes((KType) t, 64, 512) == 0, "%s has a layout", ktype_name((KType) t));
			continue;
		}
		one_matrix((KType) t, MAX_N, MAX_K, true);
		one_matrix((KType) t, CUDA_STRIP, block > 1 ? block : 33, false);
		one_matrix((KType) t, 1, block > 1 ? 3 * block : 31, false);
		before = 0;
		for (int n = 1; n < 300; n += 13)
		{
			size_t		now = cuda_mat_bytes((KType) t, n, 512);

			EXPECT(now >= before && now > 0 && now % 64 == 0, "%s of %d outputs: %zu bytes",
				   ktype_name((KType) t), n, now);
			before = now;
		}
		if (t == KT_FP8)
			fp8_nan();
		if (block > 1)
			EXPECT(cuda_mat_bytes((KType) t, 64, block + 1) == 0, "%s: k is no multiple",
				   ktype_name((KType) t));
	}
}
