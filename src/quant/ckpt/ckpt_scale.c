/*
 * ckpt_scale.c
 *	  Read scales and zero points of a quantized checkpoint's matrix: single elements, and properties
 *	  of all of them.
 *
 * One thread reads all of them when a model is checked and when it is loaded.  So functions over whole
 * tensors are loops without calls that work on bits: in all these formats the bits of absolute values
 * are ordered like the values.
 *
 * Tested by tests/unit/quant/ckpt/test_ckpt.c and tests/golden/ckpt_golden.c.
 */
#include <math.h>

#include "base/assert.h"
#include "quant/ckpt/ckpt_internal.h"

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

void
ckpt_elements(const KTensor *t, int64_t i, int64_t n, float *out)
{
	const uint8_t *p = (const uint8_t *) t->data + 2 * i;

	if (t->type == KT_BF16)
		kblock_to_float(KT_BF16, p, n, out);
	else if (t->type != KT_F16)
		for (int64_t j = 0; j < n; j++)
			out[j] = ckpt_element(t, i + j);
	else
		/* as kf16_to_f32() does for finite values */
		for (int64_t j = 0; j < n; j++)
		{
			uint16_t	h;
			uint32_t	u;
			float		f;

			memcpy(&h, p + 2 * j, sizeof(h));
			u = (uint32_t) (h & 0x7fff) << 13;
			memcpy(&f, &u, sizeof(f));
			f *= 0x1p112f;
			memcpy(&u, &f, sizeof(u));
			u |= (uint32_t) (h & 0x8000) << 16;
			memcpy(out + j, &u, sizeof(u));
		}
}

/* ---- whole tensors ---- */

static uint32_t
largest_32(const uint8_t *p, int64_t n)
{
	uint32_t	most = 0;

	for (int64_t i = 0; i < n; i++)
	{
		uint32_t	v = ckpt_u32(p + 4 * i) & 0x7fffffff;

		most = v > most ? v : most;
	}
	return most;
}

static uint32_t
largest_16(const uint8_t *p, int64_t n)
{
	uint16_t	most = 0;

	for (int64_t i = 0; i < n; i++)
	{
		uint16_t	v;

		memcpy(&v, p + 2 * i, sizeof(v));
		v &= 0x7fff;
		most = v > most ? v : most;
	}
	return most;
}

static uint32_t
largest_8(const uint8_t *p, int64_t n, uint8_t mask)
{
	uint8_t		most = 0;

	for (int64_t i = 0; i < n; i++)
	{
		uint8_t		v = p[i] & mask;

		most = v > most ? v : most;
	}
	return most;
}

bool
ckpt_finite(const Ckpt *c, const KTensor *t, float *most, Err *e)
{
	int64_t		n = ckpt_count(t);
	uint32_t	bits = t->type == KT_F32 ? largest_32(t->data, n) :
		t->type == KT_F16 || t->type == KT_BF16 ? largest_16(t->data, n) :
		largest_8(t->data, n, t->type == KT_F8_E4M3 ? 0x7f : 0xff);
	KTensor		one = {.type = t->type, .data = &bits};

	*most = ckpt_element(&one, 0);
	if (*most < INFINITY)
		return true;
	err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has a scale that is not finite", t->name,
			ckpt_where(c, t));
	for (int64_t i = 0; i < n; i++)
		if (!(fabsf(ckpt_element(t, i)) < INFINITY))
			return err_detail(e, "The scale of element %lld is NaN or infinite.", (long long) i);
	return false;
}

/* ---- of a matrix ---- */

float
ckpt_scale_at(const CkptReader *r, int64_t row, int64_t group)
{
	if (r->scale_of != NULL)
		return r->scale_of(r, row, group);
	if (r->row_div > 1)
		row /= r->row_div;
	return ckpt_element(r->scale, row * r->row_step + group * r->group_step) * r->factor;
}

float
ckpt_zero_at(const CkptReader *r, int64_t row, int64_t group)
{
	return r->zero_of != NULL ? r->zero_of(r, row, group) : r->zero0;
}

void
ckpt_input_scale(Ckpt *c, CkptReader *r, const char *module)
{
	const KTensor *s = ckpt_find(c, module, ".input_scale");
	const KTensor *z = ckpt_find(c, module, ".input_zero_point");
	KInt8X		x = {0};

	if (s == NULL || ckpt_count(s) != 1 || (s->type != KT_F32 && s->type != KT_F16 && s->type != KT_BF16))
		return;
	x.scale = ckpt_element(s, 0);
	if (!(x.scale >= 0x1p-100f && x.scale <= 0x1p100f))
		return;
	if (z != NULL)
	{
		if (ckpt_count(z) != 1 || z->type != KT_I8)
			return;
		x.zero = (float) *(const int8_t *) z->data;
	}
	r->with_x.x = x;
}

static void
add_zero(CkptZeros *o, float z)
{
	o->lo = z < o->lo ? z : o->lo;
	o->hi = z > o->hi ? z : o->hi;
	o->whole = o->whole && z == floorf(z);
}

/* Zero points packed without a gap: collect which byte values occur, instead of reading each element. */
static void
packed_zeros(const CkptReader *r, CkptZeros *o)
{
	const uint8_t *p = r->zeros->data;
	bool		seen[256] = {false};

	ASSERT(8 % r->zero_bits == 0);	/* none crosses the end of a byte */
	for (size_t i = 0; i < r->zeros->nbytes; i++)
		seen[p[i]] = true;
	for (int b = 0; b < 256; b++)
		for (int at = 0; seen[b] && at < 8; at += r->zero_bits)
			add_zero(o, (float) ((b >> at & ((1 << r->zero_bits) - 1)) + r->zero_add));
}

static void
float_zeros(const CkptReader *r, CkptZeros *o)
{
	int64_t		n = ckpt_count(r->zeros);
	float		z[256];

	for (int64_t i = 0; i < n; i += 256)
	{
		int64_t		m = n - i < 256 ? n - i : 256;

		ckpt_elements(r->zeros, i, m, z);
		for (int64_t j = 0; j < m; j++)
			add_zero(o, z[j]);
	}
}

/* Return the number of groups of a row's columns. */
static int64_t
groups_of(const CkptReader *r)
{
	return r->g_idx != NULL ? r->n_groups : (r->k + r->group - 1) / r->group;
}

static bool
not_symmetric(const Ckpt *c, const CkptReader *r, float middle, Err *e)
{
	int64_t		groups = groups_of(r);

	err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has zero points, but the quantization is "
							 "symmetric",
			r->zeros->name, ckpt_where(c, r->zeros));
	for (int64_t g = 0; g < groups; g++)
		for (int64_t i = 0; i < r->n; i++)
			if (r->zero_of(r, i, g) != middle)
				return err_detail(e, "The one of row %lld in group %lld is %g, expected %g.", (long long) i,
								  (long long) g, (double) r->zero_of(r, i, g), (double) middle);
	return false;
}

bool
ckpt_zeros(const Ckpt *c, const CkptReader *r, CkptZeros *o, Err *e)
{
	float		middle = (float) (1 << (r->bits - 1));
	int64_t		groups = groups_of(r);

	*o = (CkptZeros) {INFINITY, -INFINITY, true};
	if (r->zero_floats)
		float_zeros(r, o);
	else if (r->zero_of == NULL)
		add_zero(o, r->zero0);
	else if (r->zero_bits > 0)
		packed_zeros(r, o);
	else
		for (int64_t g = 0; g < groups; g++)
			for (int64_t row = 0; row < r->n; row++)
				add_zero(o, r->zero_of(r, row, g));
	return !r->symmetric || (o->lo == middle && o->hi == middle) || not_symmetric(c, r, middle, e);
}
