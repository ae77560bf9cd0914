/*
 * ckpt_read.c
 *	  Make rows of a quantized checkpoint's matrix, in a type that the kernels support.
 *
 * ckpt_finish() reads all scales and zero points of a matrix once and chooses the type:
 *
 *		Q4_0, Q8_0	integer codes less a zero point, in groups of whole blocks, within the
 *					type's range: the codes stay, the scale becomes a half
 *		Q4_1		up to 4 bits with any zero point; -zero * scale becomes a half, too
 *		INT8		8 bits with one scale a row, made for activations of 8 bits
 *		MXFP4		the codes in another order
 *		Q8_0		other codes of up to 4 bits: blocks with mixed scales, tables
 *					NF4, FP4 and NVFP4 are also offered in 4 bits (ckpt_four.c)
 *		BF16		everything else; E4M3 with scales for whole groups of 128 columns is also offered as FP8,
 *					with its codes and scales as they are
 *
 * A half has 11 significant bits.  It represents F16 scales exactly and BF16 scales almost always; else
 * it is off by at most 2^-11 of the scale, 1/256 of a step for 4 bits.  Scales too large or too small
 * for that (see half_fits()) lead to BF16.
 *
 * Rows are made CKPT_ROWS at a time in chunks of CKPT_CHUNK columns, so that layouts with the columns
 * outermost are read word by word, each word once.  For the same reason evenly spaced rows are requested
 * together.
 *
 * Tested by tests/unit/quant/ckpt/test_ckpt.c and tests/golden/ckpt_golden.c.
 */
#include <math.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "quant/ckpt/ckpt_internal.h"
#include "quant/quantize.h"

#define BLOCK 32

void
ckpt_scale_rows(CkptReader *r, const KTensor *t, int64_t group)
{
	r->scale = t;
	r->group = group;
	r->row_step = (r->k + group - 1) / group;
	r->group_step = 1;
}

void
ckpt_scale_cols(CkptReader *r, const KTensor *t, int64_t group)
{
	r->scale = t;
	r->group = group;
	r->row_step = 1;
	r->group_step = r->n;
}

/* ---- codes ---- */

/* Unpack m codes of 4 bits of a row. */
static void
stream_nibbles(const CkptReader *r, const uint8_t *p, int m, uint8_t *out)
{
	int			i = 0;

	for (; i + 8 <= m; i += 8)
	{
		uint32_t	word = ckpt_u32(p + i / 2);

		if (r->high_first)
			word = (word & 0x0f0f0f0f) << 4 | (word >> 4 & 0x0f0f0f0f);
		ckpt_spread(word, 4, out + i);
	}
	for (; i < m; i++)
		out[i] = p[i / 2] >> ((i + r->high_first) % 2 * 4) & 15;
}

/* Read codes that follow each other without gaps, the first in the lowest bits of the first byte. */
void
ckpt_stream(const CkptReader *r, int64_t row0, int step, int n, int64_t col0, int m, uint8_t *out)
{
	int			mask = (1 << r->bits) - 1;

	for (int j = 0; j < n; j++, out += CKPT_CHUNK)
	{
		const uint8_t *row = (const uint8_t *) r->q->data + (row0 + (int64_t) j * step) * r->row_bytes;
		const uint8_t *p = row + col0 * r->bits / 8;

		if (r->bits == 8)
			for (int i = 0; i < m; i++)
				out[i] = p[i] ^ r->flip;
		else if (r->bits == 4)
			stream_nibbles(r, p, m, out);
		else
			for (int i = 0; i < m; i++)
			{
				int			bit = i * r->bits;
				int			lo = p[bit / 8] >> bit % 8;

				if (bit % 8 + r->bits > 8)
					lo |= p[bit / 8 + 1] << (8 - bit % 8);
				out[i] = (uint8_t) (lo & mask);
			}
	}
}

/* ---- rows ---- */

/* A run of columns with one scale and zero point. */
typedef struct CkptReadRun
{
	int			end;			/* the first column after the run, relative to the chunk */
	int64_t		group;
	float		scale;
	float		zero;
} CkptReadRun;

/* Find the runs of columns col0 .. col0+m-1 of a row whose groups are in order.  Return their number. */
static int
find_runs(const CkptReader *r, int64_t row, int64_t col0, int m, CkptReadRun *runs)
{
	int64_t		at = (r->flat ? row * r->k : 0) + col0;
	int64_t		group = at / r->group;
	int64_t		end = (group + 1) * r->group - at;
	int			n = 0;

	ALWAYS(r->group > 0 && m <= CKPT_CHUNK);	/* a run has a column or more: there is room for all */
	for (bool more = true; more; n++, group++, end += r->group)
	{
		more = end < m;
		runs[n] = (CkptReadRun) {more ? (int) end : m, group, ckpt_scale_at(r, row, group),
								 ckpt_zero_at(r, row, group)};
	}
	return n;
}

static void
to_floats(const CkptReader *r, const uint8_t *codes, int n, float *out)
{
	if (r->value == NULL)
		for (int i = 0; i < n; i++)
			out[i] = (float) codes[i];
	else
		for (int i = 0; i < n; i++)
			out[i] = r->value[codes[i]];
}

/* Convert values to weights for columns whose groups are not in order. */
static void
disordered(const CkptReader *r, int64_t row, int64_t col0, int m, float *x)
{
	const int32_t *group = r->g_idx + col0;
	float		scale[CKPT_CHUNK];
	float		zero[CKPT_CHUNK];
	bool		few = r->n_groups <= m;

	for (int g = 0; few && g < (int) r->n_groups; g++)
	{
		scale[g] = ckpt_scale_at(r, row, g);
		zero[g] = ckpt_zero_at(r, row, g);
	}
	if (!few)
		for (int i = 0; i < m; i++)
			x[i] = (x[i] - ckpt_zero_at(r, row, group[i])) * ckpt_scale_at(r, row, group[i]);
	else if (r->zero_of != NULL)
		for (int i = 0; i < m; i++)
			x[i] = (x[i] - zero[group[i]]) * scale[group[i]];
	else
		for (int i = 0; i < m; i++)
			x[i] = (x[i] - r->zero0) * scale[group[i]];
}

static void
row_floats(const CkptReader *r, int64_t row, int64_t col0, int m, const uint8_t *codes, float *out)
{
	float		s[CKPT_CHUNK];
	float		z[CKPT_CHUNK];
	CkptReadRun	runs[CKPT_CHUNK];
	int			n;

	to_floats(r, codes, m, out);
	if (r->g_idx != NULL)
	{
		disordered(r, row, col0, m, out);
		return;
	}
	if (r->columns != NULL)
	{
		r->columns(r, row, col0, m, s, z);
		for (int i = 0; i < m; i++)
			out[i] = (out[i] - z[i]) * s[i];
		return;
	}
	n = find_runs(r, row, col0, m, runs);
	for (int j = 0, i = 0; j < n; j++)
	{
		float		scale = runs[j].scale;
		float		zero = runs[j].zero;

		for (; i < runs[j].end; i++)
			out[i] = (out[i] - zero) * scale;
	}
}

/* Convert a zero point that was an integer when it was checked (the file may have changed since). */
static int
whole(float zero)
{
	return zero > -1024 && zero < 1024 ? (int) zero : 0;
}

static void
put_nibbles(const uint8_t *codes, int add, uint8_t *qs)
{
	for (int i = 0; i < BLOCK / 2; i++)
		qs[i] = (uint8_t) (((codes[i] + add) & 15) | ((codes[i + BLOCK / 2] + add) & 15) << 4);
}

/* Store a block of codes with one scale; the codes stay as they are. */
static void
put_block(const CkptReader *r, const CkptReadRun *run, int64_t row, const uint8_t *codes, uint8_t *to)
{
	if (r->t.type == KT_MXFP4)
	{
		KBlockMXFP4 b =
			{.e = ((const uint8_t *) r->scale->data)[row * r->row_step + run->group * r->group_step]};

		put_nibbles(codes, 0, b.qs);
		memcpy(to, &b, sizeof(b));
	}
	else if (r->t.type == KT_Q4_0)
	{
		KBlockQ4_0	b = {.d = kf32_to_f16(run->scale)};

		put_nibbles(codes, 8 - whole(run->zero), b.qs);
		memcpy(to, &b, sizeof(b));
	}
	else if (r->t.type == KT_Q4_1)
	{
		KBlockQ4_1	b = {.d = kf32_to_f16(run->scale), .m = kf32_to_f16(-run->zero * run->scale)};

		put_nibbles(codes, 0, b.qs);
		memcpy(to, &b, sizeof(b));
	}
	else
	{
		KBlockQ8_0	b = {.d = kf32_to_f16(run->scale)};
		int			zero = whole(run->zero);

		for (int i = 0; i < BLOCK; i++)
			b.qs[i] = (int8_t) (codes[i] - zero);
		memcpy(to, &b, sizeof(b));
	}
}

static void
put_int8(const CkptReader *r, int64_t row, int64_t col0, int m, const uint8_t *codes, uint8_t *to)
{
	float		s = ckpt_scale_at(r, row, 0);
	int			zero = whole(ckpt_zero_at(r, row, 0));

	memcpy(to, &s, sizeof(s));
	to += sizeof(s) + (size_t) col0;
	for (int i = 0; i < m; i++)
		to[i] = (uint8_t) (codes[i] - zero);
}

/* Convert as kf32_to_bf16() does, in a loop that the compiler can vectorize. */
static void
put_bf16(const float *x, int m, uint8_t *to)
{
	for (int i = 0; i < m; i++)
	{
		uint32_t	u;
		uint16_t	h;

		memcpy(&u, x + i, sizeof(u));
		h = (uint16_t) ((u & 0x7fffffffu) > 0x7f800000u ? u >> 16 |
						0x40 : (u + 0x7fffu + (u >> 16 & 1)) >> 16);
		memcpy(to + 2 * i, &h, sizeof(h));
	}
}

/* The same with the scale of the activations. */
static void
put_int8_x(const CkptReader *r, int64_t row, int64_t col0, int m, const uint8_t *codes, uint8_t *to)
{
	memcpy(to, &r->with_x.x, sizeof(r->with_x.x));
	put_int8(r, row, col0, m, codes, to + sizeof(r->with_x.x));
}

/* Convert columns col0 .. col0+m-1 of a row to the row that begins at `to`. */
typedef void (*CkptPut) (const CkptReader *r, int64_t row, int64_t col0, int m, const uint8_t *codes,
						 uint8_t *to);

static void
put_values(const CkptReader *r, int64_t row, int64_t col0, int m, const uint8_t *codes, uint8_t *to)
{
	KType		type = r->t.type;
	float		x[CKPT_CHUNK];

	to += ktype_row_bytes(type, col0);
	row_floats(r, row, col0, m, codes, x);
	if (type == KT_BF16)
		put_bf16(x, m, to);
	else
		quantize_row(type, x, m, to);
}

/* Store the codes as they are. */
static void
put_as_they_are(const CkptReader *r, int64_t row, int64_t col0, int m, const uint8_t *codes, uint8_t *to)
{
	KType		type = r->t.type;
	size_t		bytes = ktype_row_bytes(type, BLOCK);
	CkptReadRun	runs[CKPT_CHUNK];
	int			n;

	if (type == KT_INT8)
	{
		put_int8(r, row, col0, m, codes, to);
		return;
	}
	to += ktype_row_bytes(type, col0);
	n = find_runs(r, row, col0, m, runs);
	for (int j = 0, i = 0; j < n; j++)
	{
		ASSERT(runs[j].end % BLOCK == 0);	/* choose(): a block has one scale */
		for (; i < runs[j].end; i += BLOCK, to += bytes)
			put_block(r, &runs[j], row, codes + i, to);
	}
}

/* Make n rows of `bytes` bytes each. */
static void
make_rows(const CkptReader *r, CkptPut put, size_t bytes, int64_t row0, int step, int n, uint8_t *to)
{
	uint8_t		codes[CKPT_ROWS * CKPT_CHUNK];

	for (int at = 0; at < n; at += CKPT_ROWS)
	{
		int64_t		row = row0 + (int64_t) at * step;
		int			rows = n - at < CKPT_ROWS ? n - at : CKPT_ROWS;

		for (int64_t col = 0; col < r->k; col += CKPT_CHUNK)
		{
			int			m = r->k - col < CKPT_CHUNK ? (int) (r->k - col) : CKPT_CHUNK;

			r->codes(r, row, step, rows, col, m, codes);
			for (int j = 0; j < rows; j++)
				put(r, row + (int64_t) j * step, col, m, codes + j * CKPT_CHUNK,
					to + (size_t) (at + j) * bytes);
		}
	}
}

static void
rows_unchanged(const KReader *r, int64_t row0, int step, int n, void *to)
{
	const CkptReader *c = (const CkptReader *) (const void *) r;

	make_rows(c, put_as_they_are, ktype_row_bytes(c->t.type, c->k), row0, step, n, to);
}

static void
rows_by_value(const KReader *r, int64_t row0, int step, int n, void *to)
{
	const CkptReader *c = (const CkptReader *) (const void *) r;

	make_rows(c, put_values, ktype_row_bytes(c->t.type, c->k), row0, step, n, to);
}

/* Return the reader that offers kr's type. */
static const CkptReader *
offers(const KReader *r)
{
	return (const CkptReader *) (const void *) ((const char *) r - offsetof(CkptReader, offer));
}

static void
rows_four(const KReader *kr, int64_t row0, int step, int n, void *to)
{
	const CkptReader *r = offers(kr);

	make_rows(r, ckpt_put_four, ktype_row_bytes(r->offer_t.type, r->k), row0, step, n, to);
}

static void
rows_with_x(const KReader *kr, int64_t row0, int step, int n, void *to)
{
	const void *at = (const char *) kr - offsetof(CkptReader, with_x);
	const CkptReader *r = at;

	make_rows(r, put_int8_x, ktype_row_bytes(KT_INT8S, r->k), row0, step, n, to);
}

/* Copy E4M3 codes unchanged; the codes of a row follow its scales. */
static void
rows_fp8(const KReader *kr, int64_t row0, int step, int n, void *to)
{
	const CkptReader *r = offers(kr);
	uint8_t		codes[CKPT_ROWS * CKPT_CHUNK];
	size_t		bytes = ktype_row_bytes(KT_FP8, r->k);
	size_t		scales = bytes - (size_t) r->k;

	for (int at = 0; at < n; at += CKPT_ROWS)
	{
		int64_t		row = row0 + (int64_t) at * step;
		int			rows = n - at < CKPT_ROWS ? n - at : CKPT_ROWS;
		uint8_t    *out = (uint8_t *) to + (size_t) at * bytes;

		for (int64_t col = 0; col < r->k; col += CKPT_CHUNK)
		{
			int			m = r->k - col < CKPT_CHUNK ? (int) (r->k - col) : CKPT_CHUNK;

			r->codes(r, row, step, rows, col, m, codes);
			for (int j = 0; j < rows; j++)
				memcpy(out + (size_t) j * bytes + scales + col, codes + j * CKPT_CHUNK, (size_t) m);
		}
		for (int j = 0; j < rows; j++)
			for (int64_t col = 0; col < r->k; col += FP8_GROUP)
			{
				float		d = ckpt_scale_at(r, row + (int64_t) j * step, col / r->group);

				memcpy(out + (size_t) j * bytes + (size_t) (col / FP8_GROUP) * sizeof(d), &d, sizeof(d));
			}
	}
}

/* ---- the choice of the type ---- */

/*
 * Return true if scales of steps up to `most` can be halves, with codes up to `code`.  A subnormal half
 * is off by up to 2^-25, which is negligible beside the largest step if that is a normal half.
 */
static bool
half_fits(float most, float code)
{
	return most == 0 || (most >= 0x1p-14f && most * code <= 65504);
}

/* Return the block type that can hold the codes as they are; KT_COUNT if none can. */
static KType
integer_type(const CkptReader *r, bool blocks, float most, const CkptZeros *z)
{
	float		lo = -z->hi;
	float		hi = (float) ((1 << r->bits) - 1) - z->lo;
	bool		bytes = z->whole && lo >= -128 && hi <= 127;

	if (bytes && r->group >= r->k && !r->flat && r->g_idx == NULL && r->k <= INT8_MAX_K && r->bits > 4 &&
		(r->int8_acts || r->k % BLOCK != 0 || !half_fits(most, 128)))
		return KT_INT8;
	if (!blocks || !half_fits(most, 256))
		return KT_COUNT;
	if (z->whole && lo >= -8 && hi <= 7)
		return KT_Q4_0;
	/* the limit keeps the product with the zero point within a half */
	if (r->bits <= 4 && z->lo >= -256 && z->hi <= 256)
		return KT_Q4_1;
	return bytes ? KT_Q8_0 : KT_COUNT;
}

/* Choose the type of a matrix.  Return false if its codes don't stay as they are. */
static bool
choose(CkptReader *r, float most, const CkptZeros *z)
{
	bool		blocks = r->k % BLOCK == 0 && r->g_idx == NULL && r->columns == NULL && !r->flat &&
		(r->group % BLOCK == 0 || r->group >= r->k);
	float		code = 0;
	KType		t = KT_COUNT;

	if (r->e2m1 && blocks && r->group == BLOCK && (r->scale->type == KT_U8 || r->scale->type == KT_F8_E8M0))
		t = KT_MXFP4;
	else if (r->value == NULL && r->columns == NULL)
		t = integer_type(r, blocks, most, z);
	if (t != KT_COUNT)
	{
		r->t.type = t;
		return true;
	}
	for (int i = 0; i < 1 << r->bits; i++)
	{
		float		v = r->value != NULL ? r->value[i] : (float) i;

		code = fmaxf(code, fmaxf(fabsf(v - z->lo), fabsf(v - z->hi)));
	}
	/* Q8_0's own scales, a 127th of the largest weight, must be halves, too */
	r->t.type = r->bits <= 4 && r->k % BLOCK == 0 && half_fits(most * code / 127, 127) ? KT_Q8_0 : KT_BF16;
	return false;
}

/* Return true if the matrix has the form of KT_FP8: E4M3 with one scale for each 128 columns or more. */
static bool
is_fp8(const CkptReader *r)
{
	return r->q != NULL && r->q->type == KT_F8_E4M3 && r->bits == 8 && r->zero_of == NULL && r->zero0 == 0 &&
		r->columns == NULL && r->g_idx == NULL && !r->flat && (r->group % FP8_GROUP == 0 || r->group >= r->k);
}

/* Offer rows of a type that takes less memory, for a backend that has kernels for it. */
static void
offer(CkptReader *r, KType type, void (*rows) (const KReader *r, int64_t row0, int step, int n, void *to))
{
	r->offer = (KReader) {.rows = rows, .parts = r->parts};
	r->offer_t = r->t;
	r->offer_t.type = type;
	r->offer_t.reader = &r->offer;
	r->offer_t.nbytes = ktype_row_bytes(type, r->k) * (size_t) r->n;
	r->r.offer = &r->offer_t;
}

/* Offer rows of KT_INT8S beside those of INT8. */
static void
offer_with_x(CkptReader *r)
{
	r->with_x.rows = rows_with_x;
	r->with_x.parts = r->parts;
	r->with_x_t = r->t;
	r->with_x_t.type = KT_INT8S;
	r->with_x_t.reader = &r->with_x;
	r->with_x_t.nbytes = ktype_row_bytes(KT_INT8S, r->k) * (size_t) r->n;
	r->r.with_x = &r->with_x_t;
}

/* Drop an order that is the natural one. */
static void
drop_trivial_order(CkptReader *r)
{
	for (int64_t i = 0; r->g_idx != NULL && i < r->k; i++)
		if (r->g_idx[i] != i / r->group)
			return;
	mem_free(r->g_idx);
	r->g_idx = NULL;
}

bool
ckpt_groups(const CkptReader *r, int64_t size, int64_t *group, int64_t *groups, Err *e)
{
	if (size == 0 || size < -1)
		return err_set(e, ERR_BAD_FILE, "matrix \"%s\" can't have groups of %lld columns", r->name,
					   (long long) size);
	*group = size < 0 || size > r->k ? r->k : size;
	*groups = (r->k + *group - 1) / *group;
	return true;
}

bool
ckpt_needs_order(const Ckpt *c, const char *module, const char *ending, const char *setting, Err *e)
{
	if (ckpt_find(c, module, ending) != NULL)
		return true;
	/* columns in their natural order would give wrong weights without an error */
	err_set(e, ERR_BAD_FILE, "tensor \"%s%s\" is missing in model \"%s\"", module, ending,
			ckpt_where(c, NULL));
	return err_detail(e, "The quantization configuration has %s: the tensor holds the group of each column.",
					  setting);
}

bool
ckpt_order(Ckpt *c, CkptReader *r, const char *module, const char *ending, int64_t groups, Err *e)
{
	const KTensor *t;

	if (ckpt_find(c, module, ending) == NULL)
		return true;
	if ((t = ckpt_part(c, r, module, ending, ckpt_i32, 1, r->k, 0, e)) == NULL)
		return false;
	/* a copy, so that no other process can change it after the check */
	r->g_idx = mem_alloc((size_t) r->k * sizeof(int32_t));
	r->n_groups = groups;
	memcpy(r->g_idx, t->data, (size_t) r->k * sizeof(int32_t));
	for (int64_t i = 0; i < r->k; i++)
		if (r->g_idx[i] < 0 || r->g_idx[i] >= groups)
		{
			err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has an invalid group", t->name,
					ckpt_where(c, t));
			return err_detail(e, "Column %lld is in group %d of %lld.", (long long) i, r->g_idx[i],
							  (long long) groups);
		}
	return true;
}

/* Return the number of elements that a tensor of scales must have so that ckpt_scale_at() reads no others. */
static int64_t
scales_needed(const CkptReader *r)
{
	int64_t		groups = r->flat ? (r->n * r->k + r->group - 1) / r->group :
		r->g_idx != NULL ? r->n_groups : (r->k + r->group - 1) / r->group;

	return (r->n - 1) / r->row_div * r->row_step + (groups - 1) * r->group_step + 1;
}

bool
ckpt_finish(Ckpt *c, CkptReader *r, Err *e)
{
	float		most = 0;
	float		most2;
	CkptZeros	zeros;
	KType		four;
	bool		exact;

	/* a method that takes a matrix has described where all of it is */
	ALWAYS(r->codes != NULL && r->n_parts > 0 && (r->scale != NULL || r->scale_of != NULL));
	ALWAYS(r->scale_of != NULL || r->columns != NULL || scales_needed(r) <= ckpt_count(r->scale));
	drop_trivial_order(r);
	if ((r->scale != NULL && !ckpt_finite(c, r->scale, &most, e)) ||
		(r->scale2 != NULL && !ckpt_finite(c, r->scale2, &most2, e)) ||
		(r->zero_floats && !ckpt_finite(c, r->zeros, &most2, e)) || !ckpt_zeros(c, r, &zeros, e))
		return false;
	if (zeros.lo == zeros.hi && r->columns == NULL)
	{
		r->zero_of = NULL;
		r->zero0 = zeros.lo;
	}
	most = r->scale_of != NULL ? r->most : most * fabsf(r->factor);
	exact = choose(r, most, &zeros);
	r->r.rows = exact || r->t.type == KT_INT8 ? rows_unchanged : rows_by_value;
	r->r.parts = r->parts;
	r->t = (KTensor) {
		.name = r->name, .type = r->t.type, .ndim = 2, .shape = {r->n, r->k}, .reader = &r->r,
		.nbytes = ktype_row_bytes(r->t.type, r->k) * (size_t) r->n, .base = r->parts[0]
	};
	if (r->t.type == KT_INT8 && r->with_x.x.scale > 0)
		offer_with_x(r);
	four = exact ? KT_COUNT : ckpt_four(r, most);
	if (r->t.type == KT_BF16 && is_fp8(r))
		offer(r, KT_FP8, rows_fp8);
	else if (four != KT_COUNT)
		offer(r, four, rows_four);
	return true;
}
