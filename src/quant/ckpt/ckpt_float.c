/*
 * ckpt_float.c
 *	  What the methods with small floats and bytes share: the values of the codes, and scales whose
 *	  shape decides their layout.
 *
 *		E4M3	1 sign, 4 exponent, 3 mantissa bits, no infinity; up to 448
 *		E5M2	as a half with 2 mantissa bits
 *		E2M1	0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives
 *		E2M3	up to 7.5, E3M2 up to 28: all codes are numbers
 */
#include <math.h>

#include "base/assert.h"
#include "quant/ckpt/ckpt_internal.h"

const KType ckpt_f8[] = {KT_F8_E4M3, KT_F8_E5M2, KT_COUNT};
const KType ckpt_i8[] = {KT_I8, KT_COUNT};
static const KType exponents[] = {KT_U8, KT_F8_E8M0, KT_COUNT};
const KType ckpt_scales[] = {KT_F32, KT_F16, KT_BF16, KT_U8, KT_F8_E8M0, KT_COUNT};

float
ckpt_e4m3(uint8_t b)
{
	/* a half has the same fields, and an exponent bias that is 8 larger */
	if ((b & 0x7f) == 0x7f)
		return NAN;
	return kf16_to_f32((uint16_t) ((b & 0x80) << 8 | (b & 0x7f) << 7)) * 256;
}

float
ckpt_e8m0(uint8_t b)
{
	uint32_t	bits = b > 0 ? (uint32_t) b << 23 : 0x00400000;
	float		v;

	memcpy(&v, &bits, sizeof(v));
	return b == 255 ? NAN : v;
}

static void
set_table(CkptReader *r, float (*value) (uint8_t code))
{
	ALWAYS(r->bits > 0 && r->bits <= 8);
	for (int i = 0; i < 1 << r->bits; i++)
		r->table[i] = value((uint8_t) i);
	r->value = r->table;
}

static float
e5m2(uint8_t b)
{
	return kf16_to_f32((uint16_t) (b << 8));
}

static float
e2m1(uint8_t b)
{
	return (float) kcode_mxfp4[b] * 0.5f;
}

bool
ckpt_bytes(Ckpt *c, CkptReader *r, const char *module, const char *ending, const KType *types, Err *e)
{
	r->q = ckpt_part(c, r, module, ending, types, 2, r->n, r->k, e);
	if (r->q == NULL)
		return false;
	r->bits = 8;
	r->codes = ckpt_stream;
	r->row_bytes = r->k;
	if (r->q->type == KT_I8)
	{
		r->flip = 0x80;
		r->zero0 = 128;
	}
	else
		set_table(r, r->q->type == KT_F8_E5M2 ? e5m2 : ckpt_e4m3);
	return true;
}

void
ckpt_fp4(CkptReader *r, const KTensor *t)
{
	r->q = t;
	r->bits = 4;
	r->codes = ckpt_stream;
	r->row_bytes = r->k / 2;
	r->e2m1 = true;
	set_table(r, e2m1);
}

/* Decode a sign, an exponent (0 stands for 1 - bias) and mantissa bits. */
static float
fp6(uint8_t b, int mantissa, int bias)
{
	int			e = b >> mantissa & ((1 << (5 - mantissa)) - 1);
	int			m = (b & ((1 << mantissa) - 1)) | (e > 0 ? 1 << mantissa : 0);
	float		v = ldexpf((float) m, (e > 0 ? e : 1) - bias - mantissa);

	return b & 0x20 ? -v : v;
}

static float
e2m3(uint8_t b)
{
	return fp6(b, 3, 1);
}

static float
e3m2(uint8_t b)
{
	return fp6(b, 2, 3);
}

bool
ckpt_mx6(Ckpt *c, CkptReader *r, const char *module, bool wide, Err *e)
{
	if (r->k % 32 != 0)
		return err_set(e, ERR_BAD_FILE, "matrix \"%s\" of %lld columns can't have blocks of 32", r->name,
					   (long long) r->k);
	if ((r->q = ckpt_part(c, r, module, ".weight", ckpt_u8, 2, r->n, r->k / 4 * 3, e)) == NULL ||
		(r->scale = ckpt_part(c, r, module, ".weight_scale", exponents, 2, r->n, r->k / 32, e)) == NULL)
		return false;
	r->bits = 6;
	r->codes = ckpt_stream;
	r->row_bytes = r->k / 4 * 3;
	set_table(r, wide ? e3m2 : e2m3);
	ckpt_scale_rows(r, r->scale, 32);
	return true;
}

/* Set d to the dimensions other than 1.  Return false if there are more than two. */
static bool
two_dims(const KTensor *t, int64_t *d)
{
	int			n = 0;

	d[0] = d[1] = 1;
	for (int i = 0; i < t->ndim; i++)
	{
		if (t->shape[i] != 1 && n == 2)
			return false;
		if (t->shape[i] != 1)
			d[n++] = t->shape[i];
	}
	return true;
}

static bool
blocks_of(CkptReader *r, int64_t rows, int64_t cols, int64_t across)
{
	r->row_div = rows;
	r->row_step = across;
	r->group = cols;
	r->group_step = 1;
	return true;
}

/* Describe the scales of one matrix; with blocks one dimension may be 1. */
static bool
one_matrix(CkptReader *r, const KTensor *t, int64_t rows, int64_t cols)
{
	int64_t		d[2];
	int64_t		down = rows > 0 ? (r->n + rows - 1) / rows : 0;
	int64_t		across = cols > 0 ? (r->k + cols - 1) / cols : 0;

	if (!two_dims(t, d))
		return false;
	if (d[0] == 1 && d[1] == 1)
		return true;			/* one scale for all weights */
	if (down > 0 && across > 0 && t->ndim >= 2 && d[0] * d[1] == down * across && (d[0] == down || down == 1))
		return blocks_of(r, rows, cols, across);
	r->row_step = 1;
	return d[0] == r->n && d[1] == 1;
}

/*
 * Describe the scales of t->shape[0] matrices.  A matrix may not end within a block, unless it has only
 * one block; gate and up projection in one matrix may have one block each.
 */
static bool
several_matrices(CkptReader *r, const KTensor *t, int64_t rows, int64_t cols)
{
	int64_t		per = t->shape[0] > 0 ? r->n / t->shape[0] : 0;
	int64_t		down = t->shape[1];
	int64_t		want = rows > 0 ? (per + rows - 1) / rows : down;

	if (per < 1 || down < 1 || r->n % t->shape[0] != 0 || per % down != 0 ||
		t->shape[2] != (cols > 0 ? (r->k + cols - 1) / cols : 1))
		return false;
	if (want > 1 ? down != want || (rows > 0 && per % rows != 0) : down > 2)
		return false;
	return blocks_of(r, per / down, cols > 0 ? cols : r->k, t->shape[2]);
}

bool
ckpt_scale_shape(Ckpt *c, CkptReader *r, const KTensor *t, int64_t rows, int64_t cols, Err *e)
{
	r->scale = t;
	r->row_step = r->group_step = 0;
	if (r->q->ndim == 3 && t->ndim == 3 ? several_matrices(r, t, rows, cols) : one_matrix(r, t, rows, cols))
		return true;
	return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has a shape that does not match a matrix "
									"of [%lld, %lld]",
				   t->name, ckpt_where(c, t), (long long) r->n, (long long) r->k);
}

static float
i8_zero(const CkptReader *r, int64_t row, int64_t group)
{
	return 128 + (float) ((const int8_t *) r->zeros->data)[row / r->row_div * r->row_step +
														   group * r->group_step];
}

bool
ckpt_i8_zeros(Ckpt *c, CkptReader *r, const char *module, const char *ending, Err *e)
{
	const KTensor *z = ckpt_find(c, module, ending);

	if (z == NULL)
		return true;
	if (z->ndim != r->scale->ndim)
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has a shape that does not match its "
										"scales",
					   z->name, ckpt_where(c, z));
	for (int i = 0; i < z->ndim; i++)
		if (z->shape[i] != r->scale->shape[i])
			return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has a shape that does not match "
											"its scales",
						   z->name, ckpt_where(c, z));
	if ((r->zeros = ckpt_part(c, r, module, ending, ckpt_i8, 0, 0, 0, e)) == NULL)
		return false;
	r->zero_of = i8_zero;
	return true;
}

bool
ckpt_one_float(Ckpt *c, CkptReader *r, const char *module, const char *ending, float *out, Err *e)
{
	static const KType f32[] = {KT_F32, KT_COUNT};
	const KTensor *t = ckpt_part(c, r, module, ending, f32, 0, 0, 0, e);

	if (t == NULL)
		return false;
	if (t->nbytes != sizeof(float))
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has %zu elements, expected 1", t->name,
					   ckpt_where(c, t), t->nbytes / sizeof(float));
	memcpy(out, t->data, sizeof(float));
	if (*out != 0 && fabsf(*out) < INFINITY)
		return true;
	return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has a scale that can't be used: %g",
				   t->name, ckpt_where(c, t), (double) *out);
}

bool
ckpt_mx(Ckpt *c, CkptReader *r, const char *module, const char *ending, const char *scale, Err *e)
{
	const KTensor *t;

	if (r->k % 32 != 0)
		return err_set(e, ERR_BAD_FILE, "matrix \"%s\" of %lld columns can't have blocks of 32", r->name,
					   (long long) r->k);
	if ((t = ckpt_part(c, r, module, ending, ckpt_u8, 2, r->n, r->k / 2, e)) == NULL ||
		(r->scale = ckpt_part(c, r, module, scale, exponents, 2, r->n, r->k / 32, e)) == NULL)
		return false;
	ckpt_fp4(r, t);
	ckpt_scale_rows(r, r->scale, 32);
	return true;
}

bool
ckpt_nvfp4(Ckpt *c, CkptReader *r, const char *module, const char *ending, const char *scale, Err *e)
{
	static const KType e4m3[] = {KT_F8_E4M3, KT_COUNT};
	const KTensor *t = ckpt_find(c, module, scale);
	/* ModelOpt's W4A8_NVFP4_FP8 has a scale for each 32 columns */
	int			group = t != NULL && t->ndim == 2 && r->k % 32 == 0 && t->shape[1] == r->k / 32 ? 32 : 16;

	if (r->k % group != 0)
		return err_set(e, ERR_BAD_FILE, "matrix \"%s\" of %lld columns can't have blocks of %d", r->name,
					   (long long) r->k, group);
	if ((t = ckpt_part(c, r, module, ending, ckpt_u8, 2, r->n, r->k / 2, e)) == NULL ||
		(r->scale = ckpt_part(c, r, module, scale, e4m3, 2, r->n, r->k / group, e)) == NULL)
		return false;
	ckpt_fp4(r, t);
	ckpt_scale_rows(r, r->scale, group);
	return true;
}

bool
ckpt_packed_fp4(Ckpt *c, CkptReader *r, const char *module, Err *e)
{
	float		global;

	if (ckpt_find(c, module, ".weight_global_scale") == NULL)
		return ckpt_mx(c, r, module, ".weight_packed", ".weight_scale", e);
	if (!ckpt_nvfp4(c, r, module, ".weight_packed", ".weight_scale", e) ||
		!ckpt_one_float(c, r, module, ".weight_global_scale", &global, e))
		return false;
	r->factor = 1.0f / global;
	return true;
}

bool
ckpt_fp8(Ckpt *c, CkptReader *r, const char *module, Err *e)
{
	const KTensor *scale;
	bool		mx;

	if (!ckpt_bytes(c, r, module, ".weight", ckpt_f8, e) ||
		(scale = ckpt_part(c, r, module, ".weight_scale", ckpt_scales, 0, 0, 0, e)) == NULL)
		return false;
	mx = scale->type == KT_U8 || scale->type == KT_F8_E8M0;
	return ckpt_scale_shape(c, r, scale, mx ? 1 : 128, mx ? 32 : 128, e);
}
