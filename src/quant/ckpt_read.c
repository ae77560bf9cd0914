/*
 * ckpt_read.c
 *	  Rows of a quantized checkpoint's matrix, in a type that the kernels take.
 *
 * ckpt_finish() reads all scales and zero points of a matrix once and chooses the type:
 *
 *		Q4_0, Q8_0	integer codes less a zero point, in groups of whole blocks, within the
 *					type's range: the codes stay, the scale becomes a half
 *		Q4_1		4 bits with a zero point; -zero * scale becomes a half, too
 *		INT8		8 bits with one scale a row, made for activations of 8 bits
 *		MXFP4		the same in another order
 *		Q8_0		other codes of up to 4 bits: blocks with mixed scales, tables
 *		BF16		all else
 *
 * A half has 11 significant bits: as scales go it is exact for F16 and in practice for
 * BF16, and else off by at most 2^-11 of itself, 1/256 of a step for 4 bits.  Scales too
 * large or too small for that (see half_fits()) lead to BF16.
 *
 * Rows are made CKPT_ROWS at a time in chunks of CKPT_CHUNK columns, so that layouts with
 * the columns outermost are read word by word, each once.
 *
 * Tested by tests/unit/test_ckpt.c and tests/golden/ckpt_golden.c.
 */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "quant/ckpt_int.h"
#include "quant/quantize.h"

#define BLOCK 32

/* ---- scales ---- */

float
ckpt_element(const KTensor *t, int64_t i)
{
	const uint8_t *p = t->data;
	uint16_t	h;
	float		f;

	switch (t->type)
	{
		case KT_F32:
			memcpy(&f, p + i * 4, 4);
			return f;
		case KT_F16:
		case KT_BF16:
			memcpy(&h, p + i * 2, 2);
			return t->type == KT_F16 ? kf16_to_f32(h) : kbf16_to_f32(h);
		case KT_F8_E4M3:
			return ckpt_e4m3(p[i]);
		default:
			return ckpt_e8m0(p[i]);
	}
}

static int64_t
elements(const KTensor *t)
{
	int64_t		n = 1;

	for (int i = 0; i < t->ndim; i++)
		n *= t->shape[i];
	return n;
}

static float
scale_at(const CkptReader *r, int64_t row, int64_t group)
{
	if (r->scale_of != NULL)
		return r->scale_of(r, row, group);
	return ckpt_element(r->scale, row / r->row_div * r->row_step + group * r->group_step) * r->factor;
}

static float
zero_at(const CkptReader *r, int64_t row, int64_t group)
{
	return r->zero_of != NULL ? r->zero_of(r, row, group) : r->zero0;
}

static int64_t
group_at(const CkptReader *r, int64_t row, int64_t col)
{
	if (r->g_idx != NULL)
		return r->g_idx[col];
	return r->flat ? (row * r->k + col) / r->group : col / r->group;
}

/* The first column behind col, at most `to`, that may be in another group. */
static int64_t
group_end(const CkptReader *r, int64_t row, int64_t col, int64_t to)
{
	int64_t		end;

	if (r->g_idx != NULL)
	{
		for (end = col + 1; end < to && r->g_idx[end] == r->g_idx[col];)
			end++;
		return end;
	}
	end = r->flat ? col + r->group - (row * r->k + col) % r->group : (col / r->group + 1) * r->group;
	return end < to ? end : to;
}

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

/* Codes of a row one behind the other, the first in the lowest bits of the first byte. */
void
ckpt_stream(const CkptReader *r, int64_t row0, int n, int64_t col0, int m, uint8_t *out)
{
	int			mask = (1 << r->bits) - 1;

	for (int j = 0; j < n; j++, out += CKPT_CHUNK)
	{
		const uint8_t *row = (const uint8_t *) r->q->data + (row0 + j) * r->row_bytes;
		const uint8_t *p = row + col0 * r->bits / 8;

		if (r->bits == 8)
			for (int i = 0; i < m; i++)
				out[i] = p[i] ^ r->flip;
		else if (r->bits == 4)
			for (int i = 0; i < m; i++)
				out[i] = (uint8_t) (p[i / 2] >> ((i + r->high_first) % 2 * 4) & 15);
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

static void
row_floats(const CkptReader *r, int64_t row, int64_t col0, int m, const uint8_t *codes, float *out)
{
	for (int64_t c = col0, end; c < col0 + m; c = end)
	{
		int64_t		g = group_at(r, row, c);
		float		s = scale_at(r, row, g);
		float		z = zero_at(r, row, g);

		end = group_end(r, row, c, col0 + m);
		for (int64_t i = c - col0; i < end - col0; i++)
			out[i] = ((r->value != NULL ? r->value[codes[i]] : (float) codes[i]) - z) * s;
	}
}

static uint8_t
low_nibble(int v)
{
	return (uint8_t) (v & 15);
}

static void
put_nibbles(const uint8_t *codes, int add, uint8_t *qs)
{
	for (int i = 0; i < BLOCK / 2; i++)
		qs[i] = (uint8_t) (low_nibble(codes[i] + add) | low_nibble(codes[i + BLOCK / 2] + add) << 4);
}

/* A block of codes with one scale, as they are. */
static void
put_block(const CkptReader *r, int64_t row, int64_t col, const uint8_t *codes, uint8_t *to)
{
	int64_t		g = group_at(r, row, col);
	float		z = zero_at(r, row, g);

	if (r->t.type == KT_MXFP4)
	{
		KBlockMXFP4 b = {.e = ((const uint8_t *) r->scale->data)[row * r->row_step + g * r->group_step]};

		put_nibbles(codes, 0, b.qs);
		memcpy(to, &b, sizeof(b));
	}
	else if (r->t.type == KT_Q4_0)
	{
		KBlockQ4_0	b = {.d = kf32_to_f16(scale_at(r, row, g))};

		put_nibbles(codes, 8 - (int) z, b.qs);
		memcpy(to, &b, sizeof(b));
	}
	else if (r->t.type == KT_Q4_1)
	{
		float		s = scale_at(r, row, g);
		KBlockQ4_1	b = {.d = kf32_to_f16(s), .m = kf32_to_f16(-z * s)};

		put_nibbles(codes, 0, b.qs);
		memcpy(to, &b, sizeof(b));
	}
	else
	{
		KBlockQ8_0	b = {.d = kf32_to_f16(scale_at(r, row, g))};

		for (int i = 0; i < BLOCK; i++)
			b.qs[i] = (int8_t) (codes[i] - (int) z);
		memcpy(to, &b, sizeof(b));
	}
}

/* Columns col0 .. col0+m-1 of a row to the row that begins at `to`. */
static void
put_row(const CkptReader *r, bool exact, int64_t row, int64_t col0, int m, const uint8_t *codes, uint8_t *to)
{
	KType		type = r->t.type;
	float		x[CKPT_CHUNK];

	if (type == KT_INT8)
	{
		float		s = scale_at(r, row, 0);
		int			z = (int) zero_at(r, row, 0);

		memcpy(to, &s, sizeof(s));
		for (int i = 0; i < m; i++)
			to[sizeof(s) + (size_t) (col0 + i)] = (uint8_t) (codes[i] - z);
		return;
	}
	to += ktype_row_bytes(type, col0);
	if (exact)
	{
		size_t		bytes = ktype_row_bytes(type, BLOCK);

		for (int i = 0; i < m; i += BLOCK, to += bytes)
			put_block(r, row, col0 + i, codes + i, to);
		return;
	}
	row_floats(r, row, col0, m, codes, x);
	if (type != KT_BF16)
		quantize_row(type, x, m, to);
	else
		for (int i = 0; i < m; i++)
		{
			uint16_t	h = kf32_to_bf16(x[i]);

			memcpy(to + (size_t) i * 2, &h, 2);
		}
}

static void
make_rows(const CkptReader *r, bool exact, int64_t row0, int n, uint8_t *to)
{
	uint8_t		codes[CKPT_ROWS * CKPT_CHUNK];
	size_t		bytes = ktype_row_bytes(r->t.type, r->k);

	for (int at = 0; at < n; at += CKPT_ROWS)
	{
		int			rows = n - at < CKPT_ROWS ? n - at : CKPT_ROWS;

		for (int64_t col = 0; col < r->k; col += CKPT_CHUNK)
		{
			int			m = r->k - col < CKPT_CHUNK ? (int) (r->k - col) : CKPT_CHUNK;

			r->codes(r, row0 + at, rows, col, m, codes);
			for (int j = 0; j < rows; j++)
				put_row(r, exact, row0 + at + j, col, m, codes + j * CKPT_CHUNK, to + (size_t) (at + j) * bytes);
		}
	}
}

static void
rows_as_they_are(const KReader *r, int64_t row0, int n, void *to)
{
	make_rows((const CkptReader *) (const void *) r, true, row0, n, to);
}

static void
rows_by_value(const KReader *r, int64_t row0, int n, void *to)
{
	make_rows((const CkptReader *) (const void *) r, false, row0, n, to);
}

/* ---- checks, and the choice of the type ---- */

/* All scales must be finite; the largest to *most. */
static bool
check_scales(const Ckpt *c, const CkptReader *r, const KTensor *t, float *most, Err *e)
{
	int64_t		n = elements(t);

	*most = 0;
	for (int64_t i = 0; i < n; i++)
	{
		float		s = fabsf(ckpt_element(t, i));

		if (!(s < INFINITY))
		{
			err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has a scale that is not finite", t->name,
					ckpt_where(c, t));
			return err_detail(e, "The scale of element %lld is NaN or infinite.", (long long) i);
		}
		*most = s > *most ? s : *most;
	}
	*most *= fabsf(r->factor);
	return true;
}

/* The largest and the smallest zero point. */
static void
zero_range(const CkptReader *r, float *lo, float *hi)
{
	int64_t		groups = r->g_idx != NULL ? 0 : (r->k + r->group - 1) / r->group;

	for (int64_t i = 0; r->g_idx != NULL && i < r->k; i++)
		groups = r->g_idx[i] >= groups ? r->g_idx[i] + 1 : groups;
	*lo = *hi = r->zero0;
	if (r->zero_of == NULL)
		return;
	*lo = INFINITY;
	*hi = -INFINITY;
	for (int64_t g = 0; g < groups; g++)
		for (int64_t row = 0; row < r->n; row++)
		{
			float		z = r->zero_of(r, row, g);

			*lo = z < *lo ? z : *lo;
			*hi = z > *hi ? z : *hi;
		}
}

/*
 * May scales of steps up to `most` be halves, with codes up to `code`?  A subnormal half is
 * off by up to 2^-25: nothing beside the largest step if that is a normal half.
 */
static bool
half_fits(float most, float code)
{
	return most == 0 || (most >= 0x1p-14f && most * code <= 65504);
}

/* Integer codes that a block type holds as they are; KT_COUNT if none does. */
static KType
integer_type(const CkptReader *r, bool blocks, float most, float zlo, float zhi)
{
	float		lo = -zhi;
	float		hi = (float) ((1 << r->bits) - 1) - zlo;
	bool		bytes = lo >= -128 && hi <= 127;

	if (bytes && r->group >= r->k && r->g_idx == NULL && r->k <= INT8_MAX_K && r->bits > 4 &&
		(r->int8_acts || r->k % BLOCK != 0 || !half_fits(most, 128)))
		return KT_INT8;
	if (!blocks || !half_fits(most, 256))
		return KT_COUNT;
	if (lo >= -8 && hi <= 7)
		return KT_Q4_0;
	if (r->bits <= 4)
		return KT_Q4_1;
	return bytes ? KT_Q8_0 : KT_COUNT;
}

/* The type of a matrix; false: its codes don't stay as they are. */
static bool
choose(CkptReader *r, float most, float zlo, float zhi)
{
	bool		blocks = r->k % BLOCK == 0 && r->g_idx == NULL && !r->flat && (r->group % BLOCK == 0 || r->group >= r->k);
	bool		whole = zlo == floorf(zlo) && zhi == floorf(zhi);
	float		code = 0;
	KType		t = KT_COUNT;

	if (r->e2m1 && blocks && r->group == BLOCK && (r->scale->type == KT_U8 || r->scale->type == KT_F8_E8M0))
		t = KT_MXFP4;
	else if (r->value == NULL && whole)
		t = integer_type(r, blocks, most, zlo, zhi);
	if (t != KT_COUNT)
	{
		r->t.type = t;
		return true;
	}
	for (int i = 0; i < 1 << r->bits; i++)
	{
		float		v = r->value != NULL ? r->value[i] : (float) i;

		code = fmaxf(code, fmaxf(fabsf(v - zlo), fabsf(v - zhi)));
	}
	/* Q8_0's own scales are a 127th of the largest weight: halves, too */
	r->t.type = r->bits <= 4 && r->k % BLOCK == 0 && half_fits(most * code / 127, 127) ? KT_Q8_0 : KT_BF16;
	return false;
}

/* An order that is none isn't kept. */
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
		return err_set(e, ERR_BAD_FILE, "matrix \"%s\" can't have groups of %lld columns", r->name, (long long) size);
	*group = size < 0 || size > r->k ? r->k : size;
	*groups = (r->k + *group - 1) / *group;
	return true;
}

bool
ckpt_order(Ckpt *c, CkptReader *r, const char *module, const char *ending, int64_t groups, Err *e)
{
	const KTensor *t;

	if (ckpt_find(c, module, ending) == NULL)
		return true;
	if ((t = ckpt_part(c, r, module, ending, ckpt_i32, 1, r->k, 0, e)) == NULL)
		return false;
	/* a copy: nobody may change it once it is checked */
	r->g_idx = mem_alloc((size_t) r->k * sizeof(int32_t));
	memcpy(r->g_idx, t->data, (size_t) r->k * sizeof(int32_t));
	for (int64_t i = 0; i < r->k; i++)
		if (r->g_idx[i] < 0 || r->g_idx[i] >= groups)
		{
			err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has an invalid group", t->name, ckpt_where(c, t));
			return err_detail(e, "Column %lld is in group %d of %lld.", (long long) i, r->g_idx[i], (long long) groups);
		}
	return true;
}

bool
ckpt_symmetric(const Ckpt *c, const CkptReader *r, int64_t groups, Err *e)
{
	for (int64_t g = 0; g < groups; g++)
		for (int64_t i = 0; i < r->n; i++)
			if (r->zero_of(r, i, g) != (float) (1 << (r->bits - 1)))
			{
				err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has zero points, but the quantization is symmetric",
						r->zeros->name, ckpt_where(c, r->zeros));
				return err_detail(e, "The one of row %lld in group %lld is %g, expected %d.", (long long) i,
								  (long long) g, (double) r->zero_of(r, i, g), 1 << (r->bits - 1));
			}
	return true;
}

bool
ckpt_finish(Ckpt *c, CkptReader *r, Err *e)
{
	float		most;
	float		most2 = 0;
	float		zlo;
	float		zhi;
	bool		exact;

	drop_trivial_order(r);
	if (!check_scales(c, r, r->scale, &most, e) || (r->scale2 != NULL && !check_scales(c, r, r->scale2, &most2, e)))
		return false;
	zero_range(r, &zlo, &zhi);
	exact = choose(r, r->scale_of != NULL ? r->most : most, zlo, zhi);
	r->r.rows = exact || r->t.type == KT_INT8 ? rows_as_they_are : rows_by_value;
	r->r.parts = r->parts;
	r->t = (KTensor) {
		.name = r->name, .type = r->t.type, .ndim = 2, .shape = {r->n, r->k}, .reader = &r->r,
		.nbytes = ktype_row_bytes(r->t.type, r->k) * (size_t) r->n, .base = r->parts[0]
	};
	return true;
}
