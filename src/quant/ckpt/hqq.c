/*
 * hqq.c
 *	  HQQ checkpoints, as hqq and transformers store them in safetensors.
 *
 *		W_q				codes, packed
 *		scale, zero		F16, BF16 or F32: one of each group; zero points are any numbers
 *		axis, packing, shape, ...	settings, in tensors: numbers U8 or I32, words as bytes
 *
 * All weights, row by row, are cut into rows of a matrix [R][C]: with axis 1 each of its rows is
 * a group, with axis 0 each of its columns.  w = (code - zero) * scale.
 *
 * Codes are packed along the rows: with S lines of words, line i has rows i, S + i, 2 S + i ..., the
 * first in the highest bits.  Words are bytes; with 3 bits they are I32 with 10 codes, padding rows of
 * zeros at the end, and the highest two bits unused.  W_q may be stored as floats with the same bytes
 * ("view_as_float").
 *
 * Safetensors files never have scales and zero points that are quantized themselves.
 */
#include "base/assert.h"
#include "base/json/json.h"
#include "quant/ckpt/ckpt_internal.h"

#define PACKINGS "8bit_u8 4bit_u8 2bit_u8 1bit_u8 3bit_32"

/* indices of r->dims */
enum
{
	COLS,						/* C */
	LINES,						/* S */
	PER_WORD					/* codes */
};

static bool
check_params(const Json *o, Err *e)
{
	return ckpt_known(o, "weight_quant_params offload_meta", e) &&
		ckpt_known(ckpt_get(o, "weight_quant_params"),
				   "nbits channel_wise group_size optimize round_zero axis view_as_float", e);
}

/* The configuration has settings of all modules, or of some by their names; the tensors repeat them. */
bool
hqq_open(Ckpt *c, Err *e)
{
	const Json *all;
	const Json *v;

	if (!ckpt_known(c->conf, "quant_method quant_config skip_modules", e) ||
		!ckpt_map(c->conf, "quant_config", &all, e))
		return false;
	if (ckpt_get(all, "weight_quant_params") != NULL)
		return check_params(all, e);
	json_each(v, all)
		if (!check_params(v, e))
			return false;
	return true;
}

/* ---- settings of a module ---- */

/* Read a number; `dflt` if it is absent. */
static bool
setting(Ckpt *c, CkptReader *r, const char *module, const char *ending, int dflt, int *out, Err *e)
{
	static const KType types[] = {KT_U8, KT_I32, KT_COUNT};
	const KTensor *t;

	*out = dflt;
	if (ckpt_find(c, module, ending) == NULL)
		return true;
	if ((t = ckpt_part(c, r, module, ending, types, 0, 0, 0, e)) == NULL)
		return false;
	if (ckpt_count(t) != 1)
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has %lld elements, expected 1", t->name,
					   ckpt_where(c, t), (long long) ckpt_count(t));
	*out = t->type == KT_U8 ? *(const uint8_t *) t->data : (int32_t) ckpt_u32(t->data);
	return true;
}

/* Read how the codes are packed: set r->bits and the codes per word. */
static bool
packing(Ckpt *c, CkptReader *r, const char *module, Err *e)
{
	static const int bits[] = {8, 4, 2, 1, 3};
	const KTensor *t = ckpt_part(c, r, module, ".packing", ckpt_u8, 0, 0, 0, e);
	char		word[16] = "";
	Json		v = {.type = JSON_IS_STRING, .key = "packing", .key_len = 7, .s = word};
	Json		o = {.type = JSON_IS_OBJECT, .child = &v};
	int			i;

	if (t == NULL)
		return false;
	if (t->nbytes < sizeof(word))
		memcpy(word, t->data, t->nbytes);
	v.len = strlen(word);
	if (!ckpt_word(&o, "packing", PACKINGS, -1, &i, e))
		return err_detail(e, "That is in tensor \"%s\" of file \"%s\".", t->name, ckpt_where(c, t));
	r->bits = bits[i];
	r->dims[PER_WORD] = r->bits == 3 ? 10 : 8 / r->bits;
	return true;
}

/* Check the settings that would change the arithmetic, and settings that repeat known values. */
static bool
other_settings(Ckpt *c, CkptReader *r, const char *module, Err *e)
{
	static const char *const none[] = {".quant_scale", ".quant_zero"};
	static const char *const unused[] = {
		".nbits", ".group_size", ".unpack_view_dtype", ".view_as_float", ".compute_dtype", ".offload_meta",
		".encoded_state_dict", ".stores_quant_config", ".channel_wise", ".optimize", ".round_zero"
	};
	static const KType i64[] = {KT_I64, KT_COUNT};
	const KTensor *shape = ckpt_part(c, r, module, ".shape", i64, 1, 2, 0, e);

	if (shape == NULL)
		return false;
	if (memcmp(shape->data, (int64_t[2]) {r->n, r->k}, 16) != 0)
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" does not have the shape [%lld, %lld]",
					   shape->name, ckpt_where(c, shape), (long long) r->n, (long long) r->k);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
	{
		int			yes;

		if (!setting(c, r, module, none[i], 0, &yes, e))
			return false;
		if (yes != 0)
			return err_set(e, ERR_UNSUPPORTED, "matrix \"%s\" has \"%s\", which is not supported", r->name,
						   none[i] + 1);
	}
	for (size_t i = 0; i < sizeof(unused) / sizeof(unused[0]); i++)
		ckpt_unused(c, r, module, unused[i]);
	return true;
}

/* ---- codes and scales ---- */

/* Unpack n codes from consecutive words. */
static void
take_codes(const uint8_t *p, bool wide, int shift, int mask, int n, uint8_t *out)
{
	if (wide)
		for (int i = 0; i < n; i++)
			out[i] = (uint8_t) (ckpt_u32(p + 4 * i) >> shift & (uint32_t) mask);
	else
		for (int i = 0; i < n; i++)
			out[i] = (uint8_t) (p[i] >> shift & mask);
}

static void
codes(const CkptReader *r, int64_t row0, int step, int n, int64_t col0, int m, uint8_t *out)
{
	int64_t		cols = r->dims[COLS];
	int64_t		lines = r->dims[LINES];
	bool		wide = r->bits == 3;

	for (int j = 0; j < n; j++, out += CKPT_CHUNK)
		for (int i = 0, run; i < m; i += run)
		{
			int64_t		at = (row0 + (int64_t) j * step) * r->k + col0 + i;
			int64_t		row = at / cols;
			int64_t		col = at % cols;
			int			shift = r->bits * (int) (r->dims[PER_WORD] - 1 - row / lines);
			const uint8_t *p = (const uint8_t *) r->q->data + (row % lines * cols + col) * (wide ? 4 : 1);

			ASSERT(shift >= 0);	/* each line of words has PER_WORD rows at most */
			run = cols - col < m - i ? (int) (cols - col) : m - i;
			take_codes(p, wide, shift, (1 << r->bits) - 1, run, out + i);
		}
}

/* The zero point with axis 1: one for each row of the matrix [R][C]. */
static float
zero(const CkptReader *r, int64_t row, int64_t group)
{
	return ckpt_element(r->zeros, row * r->row_step + group * r->group_step);
}

/* The scales and zero points with axis 0: one for each column. */
static void
columns(const CkptReader *r, int64_t row, int64_t col0, int m, float *s, float *z)
{
	int64_t		cols = r->dims[COLS];
	int64_t		at = (row * r->k + col0) % cols;

	for (int i = 0, run; i < m; i += run, at = 0)
	{
		run = cols - at < m - i ? (int) (cols - at) : m - i;
		ckpt_elements(r->scale, at, run, s + i);
		ckpt_elements(r->zeros, at, run, z + i);
	}
}

/* Compute the matrix [R][C]: with `count` groups, or one for all. */
static bool
layout(CkptReader *r, int axis, int64_t count)
{
	int64_t		all = r->n * r->k;
	int64_t		rows = count == 1 ? r->n : axis == 1 ? count : all / count;
	bool		ragged = rows < 1 || all % rows != 0 || (count != 1 && all % count != 0);

	if (ragged || (r->bits != 3 && rows % r->dims[PER_WORD] != 0))
		return false;
	r->dims[COLS] = all / rows;
	r->dims[LINES] = (rows + r->dims[PER_WORD] - 1) / r->dims[PER_WORD];
	r->zero_of = zero;
	r->group = r->k;
	if (count == 1)
		return true;
	if (axis == 0)
		r->columns = columns;
	r->group = axis == 0 ? 1 : r->dims[COLS];
	r->flat = r->k % r->group != 0;
	r->row_step = r->flat ? 0 : r->k / r->group;
	r->group_step = 1;
	return true;
}

bool
hqq_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e)
{
	static const KType bytes[] = {KT_U8, KT_I32, KT_F16, KT_BF16, KT_F32, KT_COUNT};
	CkptReader *r;
	int			axis;
	int64_t		count;

	if (ckpt_find(c, module, ".W_q") == NULL)
		return true;
	*out = r = ckpt_reader(c, module, n, k);
	r->codes = codes;
	r->zero_floats = true;
	if (n > INT64_MAX / 16 / k)
		return err_set(e, ERR_BAD_FILE, "matrix \"%s\" is too large", r->name);
	if (!setting(c, r, module, ".axis", 0, &axis, e) || !packing(c, r, module, e) ||
		!other_settings(c, r, module, e) ||
		(r->q = ckpt_part(c, r, module, ".W_q", bytes, 0, 0, 0, e)) == NULL ||
		(r->scale = ckpt_part(c, r, module, ".scale", ckpt_floats, 0, 0, 0, e)) == NULL ||
		(r->zeros = ckpt_part(c, r, module, ".zero", ckpt_floats, 0, 0, 0, e)) == NULL)
		return false;
	if (axis < 0 || axis > 1)
		return err_set(e, ERR_BAD_FILE, "matrix \"%s\" has groups along axis %d", r->name, axis);
	count = ckpt_count(r->scale);
	if (count < 1 || ckpt_count(r->zeros) != count || !layout(r, axis, count) ||
		r->q->nbytes != (size_t) (r->dims[LINES] * r->dims[COLS] * (r->bits == 3 ? 4 : 1)))
		return err_set(e, ERR_BAD_FILE, "matrix \"%s\" of [%lld, %lld] can't have %lld groups and codes of "
										"%zu bytes",
					   r->name, (long long) n, (long long) k, (long long) count, r->q->nbytes);
	return true;
}
