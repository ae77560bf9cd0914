/*
 * pack.c
 *	  Matrices in the form that CUDA's products read (layout.h), packed on the host.
 *
 * Each weight comes from kgroup_get(), so a format is one row of the table.  Codes of a table are packed
 * as indices; halves are copied as they are in the blocks, no weight is rounded.
 */
#include "cuda/pack.h"

#include <math.h>

#include "groups.h"

/* scales as the macro's arguments */
#define S(name, strip, header, sub, pieces) SCALE_##name = strip | header << 8 | sub << 16 | pieces << 24,
enum
{
	CUDA_SCALES(S)
};
#undef S
#define LAYOUT(codes, scale, off, size) \
	{CUDA_##codes, CUDA_##scale, off, size, SCALE_##scale & 255, SCALE_##scale >> 8 & 255, \
	 SCALE_##scale >> 16 & 255, SCALE_##scale >> 24}

static const CudaLayout layouts[KT_COUNT] = {
	[KT_F32] = LAYOUT(FLOAT, NONE, 0, 4),
	[KT_F16] = LAYOUT(FLOAT, NONE, 0, 2),
	[KT_BF16] = LAYOUT(FLOAT, NONE, 0, 2),
	[KT_Q8_0] = LAYOUT(BYTE, D, 0, 0),
	[KT_Q4_0] = LAYOUT(NIBBLE, D, 8, 0),
	[KT_Q4_1] = LAYOUT(NIBBLE, DM, 0, 0),
	[KT_Q5_0] = LAYOUT(BYTE, D, 0, 0),
	[KT_Q5_1] = LAYOUT(BYTE, DM, 0, 0),
	[KT_Q2_K] = LAYOUT(NIBBLE, KHM, 0, 0),
	[KT_Q3_K] = LAYOUT(NIBBLE, KH, 4, 0),
	[KT_Q4_K] = LAYOUT(NIBBLE, K2, 0, 0),
	[KT_Q5_K] = LAYOUT(BYTE, K2, 0, 0),
	[KT_Q6_K] = LAYOUT(BYTE, KH, 0, 0),
	[KT_IQ4_NL] = LAYOUT(TABLE, D, 0, 0),
	[KT_IQ4_XS] = LAYOUT(TABLE, K1, 0, 0),
	[KT_MXFP4] = LAYOUT(TABLE, E, 0, 0),
	[KT_NF4] = LAYOUT(TABLE, D, 0, 0),
	[KT_FP4] = LAYOUT(TABLE, D, 0, 0),
	[KT_INT8] = LAYOUT(BYTE, ROW, 0, 0),
	[KT_FP8] = LAYOUT(E4M3, F, 0, 0),
};

const int8_t *
cuda_table(KType t)
{
	return t == KT_MXFP4 ? kcode_mxfp4 : t == KT_NF4 ? kcode_nf4 : t == KT_FP4 ? kcode_fp4 : kcode_iq4;
}

const CudaLayout *
cuda_layout(KType t)
{
	return (unsigned) t < KT_COUNT && layouts[t].pieces > 0 ? &layouts[t] : NULL;
}

size_t
cuda_mat_bytes(KType t, int n, int k)
{
	const CudaLayout *l = cuda_layout(t);

	if (l == NULL || ktype_row_bytes(t, k) == 0)
		return 0;
	return ((size_t) n + CUDA_STRIP - 1) / CUDA_STRIP * cuda_strip_bytes(l, k);
}

/* ---- codes ---- */

static void
put_code(const CudaLayout *l, KType t, uint8_t *codes, int j, int k, int q)
{
	int			place = cuda_place(l, j, k),
				code = q + l->off,
				nibble;

	if (l->codes == CUDA_BYTE)
	{
		codes[place] = (uint8_t) q;
		return;
	}
	if (l->codes == CUDA_TABLE)
		for (code = 0; cuda_table(t)[code] != q; code++)
			;
	/* in a lane's word of 8 codes the two of a register are nibbles r and r + 4 */
	nibble = place % 8 / 2 + place % 2 * 4;
	codes[place / 8 * 4 + nibble / 2] |= (uint8_t) (code << nibble % 2 * 4);
}

static int
get_code(const CudaLayout *l, KType t, const uint8_t *codes, int j, int k)
{
	int			place = cuda_place(l, j, k),
				nibble = place % 8 / 2 + place % 2 * 4,
				code = codes[l->codes == CUDA_BYTE ? place : place / 8 * 4 + nibble / 2];

	if (l->codes == CUDA_BYTE)
		return (int8_t) code;
	code = code >> nibble % 2 * 4 & 15;
	return l->codes == CUDA_TABLE ? cuda_table(t)[code] : code - l->off;
}

/* ---- scales ---- */

static bool
has_min(const CudaLayout *l)
{
	return l->scale == CUDA_DM || l->scale == CUDA_K2 || l->scale == CUDA_KHM;
}

/* offset of a format's half d, followed by m, in its block */
static size_t
halves_at(KType t)
{
	return t == KT_Q2_K ? offsetof(KBlockQ2_K, d) : t == KT_Q3_K ? offsetof(KBlockQ3_K, d) :
		t == KT_Q6_K ? offsetof(KBlockQ6_K, d) : 0;
}

static void
put_header(const CudaLayout *l, KType t, uint8_t *header, int j, const uint8_t *block)
{
	int			fields = has_min(l) ? 2 : 1;

	if (l->scale == CUDA_E)
		header[cuda_scale_place(j, 0, 1)] = block[0];
	else if (l->header > 0)
		for (int f = 0; f < fields; f++)
			memcpy(header + 2 * cuda_scale_place(j, f, fields), block + halves_at(t) + 2 * f, 2);
}

static void
put_sub(const CudaLayout *l, uint8_t *sub, int j, const KGroup *g)
{
	if (l->scale == CUDA_K1)
		sub[cuda_scale_place(j, 0, 1)] = (uint8_t) g->ds;
	for (int f = 0; l->sub == 2 && f < 2; f++)
		sub[cuda_scale_place(j, f, 2)] = (uint8_t) (l->scale == CUDA_K2 ? (f == 0 ? g->ds : g->ms) :
													l->scale == CUDA_KHM ? g->sc[f] | g->mn[f] << 4 :
														g->sc[f]);
}

static float
half_of(const uint8_t *header, int j, int field, int fields)
{
	uint16_t	h;

	memcpy(&h, header + 2 * cuda_scale_place(j, field, fields), 2);
	return kf16_to_f32(h);
}

/* get d and m of output j for the half h of a piece */
static void
get_scales(const CudaLayout *l, const uint8_t *header, const uint8_t *sub, int j, int h, float *d, float *m)
{
	int			fields = has_min(l) ? 2 : 1,
				e,
				s;

	*m = 0.0f;
	if (l->scale == CUDA_E)
	{
		e = header[cuda_scale_place(j, 0, 1)];
		*d = k_float(e < 2 ? 0x00200000u << e : (uint32_t) (e - 1) << 23);
		return;
	}
	*d = half_of(header, j, 0, fields);
	if (fields == 2)
		*m = half_of(header, j, 1, fields);
	if (l->scale == CUDA_K1)
		*d *= (float) (int8_t) sub[cuda_scale_place(j, 0, 1)];
	else if (l->scale == CUDA_K2)
	{
		*d *= (float) sub[cuda_scale_place(j, 0, 2)];
		*m = -(*m * (float) sub[cuda_scale_place(j, 1, 2)]);
	}
	else if (l->scale == CUDA_KH)
		*d *= (float) (int8_t) sub[cuda_scale_place(j, h, 2)];
	else if (l->scale == CUDA_KHM)
	{
		s = sub[cuda_scale_place(j, h, 2)];
		*d *= (float) (s & 15);
		*m = -(*m * (float) (s >> 4));
	}
}

/* ---- matrices ---- */

/*
 * Pack row j of a strip of FP8.  Products treat the code of NaN as a number, so a group that has one
 * gets the scale NaN: the result is NaN in both cases.
 */
static void
put_fp8(const CudaLayout *l, uint8_t *strip, int j, const uint8_t *row, int k)
{
	const uint8_t *codes = row + (ktype_row_bytes(KT_FP8, k) - (size_t) k);

	for (int at = 0; at < k; at += FP8_GROUP, row += sizeof(float), strip += cuda_block_bytes(l))
	{
		uint8_t    *to = strip + (size_t) l->header * CUDA_STRIP;
		float		d;

		memcpy(&d, row, sizeof(d));
		for (int i = 0; i < k_min(FP8_GROUP, k - at); i++)
		{
			to[(size_t) (i / CUDA_PIECE) * cuda_piece_codes(l) + (size_t) cuda_place(l, j, i % CUDA_PIECE)] =
				codes[at + i];
			if ((codes[at + i] & 0x7f) == 0x7f)
				d = NAN;
		}
		memcpy(strip + sizeof(d) * (size_t) cuda_scale_place(j, 0, 1), &d, sizeof(d));
	}
}

/* pack row j of a strip: floats, or INT8 after its scale */
static void
put_plain(const CudaLayout *l, uint8_t *strip, int j, const uint8_t *row, int k)
{
	uint8_t    *codes = strip + (size_t) l->strip_header * CUDA_STRIP;
	size_t		size = l->codes == CUDA_FLOAT ? l->size : 1;

	if (l->scale == CUDA_ROW)
	{
		memcpy(strip + 4 * cuda_scale_place(j, 0, 1), row, 4);
		row += 4;
	}
	for (int i = 0; i < k; i++)
		memcpy(codes + (size_t) (i / CUDA_PIECE) * cuda_block_bytes(l) +
			   (size_t) cuda_place(l, j, i % CUDA_PIECE) * size, row + (size_t) i * size, size);
}

static void
put_groups(const CudaLayout *l, KType t, uint8_t *strip, int j, const uint8_t *row, int k)
{
	size_t		piece = (size_t) l->sub * CUDA_STRIP + cuda_piece_codes(l),
				bytes = ktype_row_bytes(t, ktype_block(t));
	KGroup		g[QK_BLOCK / KGROUP];

	for (int b = 0; b < k / ktype_block(t); b++, row += bytes)
	{
		uint8_t    *at = strip + (size_t) b * cuda_block_bytes(l);

		kgroup_get(t, row, g);
		put_header(l, t, at, j, row);
		at += (size_t) l->header * CUDA_STRIP;
		for (int p = 0; p < l->pieces; p++, at += piece)
		{
			put_sub(l, at, j, &g[p]);
			for (int i = 0; i < CUDA_PIECE; i++)
				put_code(l, t, at + (size_t) l->sub * CUDA_STRIP, j, i, g[p].q[i]);
		}
	}
}

void
cuda_mat_pack(KMat *m, const KTensor *src, int n0, int n1)
{
	const CudaLayout *l = cuda_layout(m->type);
	size_t		bytes = cuda_strip_bytes(l, m->k);

	for (int first = n0; first < n1; first += CUDA_STRIP)
	{
		uint8_t    *strip = (uint8_t *) m->data + (size_t) (first / CUDA_STRIP) * bytes;

		memset(strip, 0, bytes);
		for (int j = 0; j < CUDA_STRIP && first + j < n1; j++)
			if (ktype_grouped(m->type))
				put_groups(l, m->type, strip, j, ktensor_row(src, first + j), m->k);
			else if (m->type == KT_FP8)
				put_fp8(l, strip, j, ktensor_row(src, first + j), m->k);
			else
				put_plain(l, strip, j, ktensor_row(src, first + j), m->k);
	}
}

void
cuda_mat_row(const KMat *m, int row, float *out)
{
	const CudaLayout *l = cuda_layout(m->type);
	const uint8_t *strip = (const uint8_t *) m->data + (size_t) (row / CUDA_STRIP) * cuda_strip_bytes(l,
			m->k);
	size_t		piece = (size_t) l->sub * CUDA_STRIP + cuda_piece_codes(l);
	int			j = row % CUDA_STRIP;

	for (int i = 0; i < m->k; i++)
	{
		int			p = i / CUDA_PIECE,
					at = i % CUDA_PIECE;
		const uint8_t *block = strip + (size_t) l->strip_header * CUDA_STRIP +
			(size_t) (p / l->pieces) * cuda_block_bytes(l);
		const uint8_t *sub = block + (size_t) l->header * CUDA_STRIP + (size_t) (p % l->pieces) * piece;
		const uint8_t *codes = sub + (size_t) l->sub * CUDA_STRIP;
		float		d,
					s;

		if (l->codes == CUDA_FLOAT)
			out[i] = kelem_get(m->type, codes, (size_t) cuda_place(l, j, at));
		else if (l->codes == CUDA_E4M3)
		{
			memcpy(&d, block + sizeof(d) * (size_t) cuda_scale_place(j, 0, 1), sizeof(d));
			out[i] = d * kf8_to_f32(KT_F8_E4M3, codes[cuda_place(l, j, at)]);
		}
		else if (l->scale == CUDA_ROW)
		{
			memcpy(&d, strip + 4 * cuda_scale_place(j, 0, 1), 4);
			out[i] = d * (float) (int8_t) codes[cuda_place(l, j, at)];
		}
		else
		{
			get_scales(l, block, sub, j, at / 16, &d, &s);
			out[i] = d * (float) get_code(l, m->type, codes, j, at);
			out[i] = has_min(l) ? out[i] + s : out[i];
		}
	}
}
