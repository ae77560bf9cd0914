/*
 * bnb.c
 *	  bitsandbytes checkpoints.
 *
 * 4 bits (NF4, FP4): all weights of a matrix in one row, in blocks:
 *
 *		weight				U8 [N * K / 2][1]	two codes a byte, the high nibble first
 *		weight.quant_map	F32 [16]			value of each code
 *		weight.absmax		F32 [blocks]		scale of each block
 *		weight.quant_state.bitsandbytes__nf4	U8: JSON with sizes
 *
 * With double quantization absmax is U8: the scale is nested_quant_map[absmax[i]] *
 * nested_absmax[i / nested_blocksize] + nested_offset.
 *
 * 8 bits: weight I8 [N][K], SCB F32 [N]; w = weight * SCB / 127.  bitsandbytes computes columns with
 * large activations separately; this engine keeps precision by using blocks of 32 (Q8_0).
 */
#include <math.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "quant/ckpt/ckpt_internal.h"

bool
bnb_open(Ckpt *c, Err *e)
{
	static const char known[] = "quant_method load_in_4bit load_in_8bit _load_in_4bit _load_in_8bit "
		"bnb_4bit_quant_type bnb_4bit_use_double_quant bnb_4bit_compute_dtype bnb_4bit_quant_storage "
		"llm_int8_threshold llm_int8_skip_modules llm_int8_enable_fp32_cpu_offload llm_int8_has_fp16_weight "
		"target_parameters";
	int			word;

	return ckpt_known(c->conf, known, e) && ckpt_word(c->conf, "bnb_4bit_quant_type", "nf4 fp4", 0, &word,
													  e) &&
		ckpt_word(c->conf, "bnb_4bit_quant_storage", "uint8", 0, &word, e);
}

/* ---- 4 bits ---- */

/* Read codes.  They continue from row to row, so with an odd K a row may begin in the middle of a byte;
 * for other K ckpt_stream() reads them. */
static void
codes(const CkptReader *r, int64_t row0, int step, int n, int64_t col0, int m, uint8_t *out)
{
	for (int j = 0; j < n; j++, out += CKPT_CHUNK)
	{
		int64_t		at = (row0 + (int64_t) j * step) * r->k + col0;

		for (int i = 0; i < m; i++, at++)
			out[i] = ((const uint8_t *) r->q->data)[at / 2] >> (at % 2 == 0 ? 4 : 0) & 15;
	}
}

static float
nested_scale(const CkptReader *r, int64_t row, int64_t group)
{
	uint8_t		code = ((const uint8_t *) r->codes2->data)[group];

	ASSERT(group < ckpt_count(r->codes2) && group / r->group2 < ckpt_count(r->scale));
	(void) row;
	return ckpt_element(r->scale2, code) * ckpt_element(r->scale, group / r->group2) + r->offset2;
}

static float
largest(const KTensor *t, int64_t n)
{
	float		most = 0;

	for (int64_t i = 0; i < n; i++)
		most = fmaxf(most, fabsf(ckpt_element(t, i)));
	return most;
}

/* Return the JSON of sizes, which the caller frees; NULL with the error set. */
static Json *
quant_state(Ckpt *c, CkptReader *r, const char *module, Err *e)
{
	bool		fp4 = ckpt_find(c, module, ".weight.quant_state.bitsandbytes__fp4") != NULL;
	const KTensor *t = ckpt_part(c, r, module, fp4 ? ".weight.quant_state.bitsandbytes__fp4" :
								 ".weight.quant_state.bitsandbytes__nf4", ckpt_u8, 0, 0, 0, e);
	Json	   *o;
	char	   *text;

	if (t == NULL)
		return NULL;
	/* Parse a copy: another process may change the file between the parser's two passes over a
	 * string. */
	text = t->nbytes < 65536 ? mem_strndup(t->data, t->nbytes) : NULL;
	o = text != NULL ? json_parse(text, t->nbytes) : NULL;
	mem_free(text);
	if (!json_is_object(o))
	{
		err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" is not a JSON object", t->name,
				ckpt_where(c, t));
		json_free(o);
		return NULL;
	}
	return o;
}

static bool
nested(Ckpt *c, CkptReader *r, const char *module, const Json *state, int64_t blocks, Err *e)
{
	static const KType f32[] = {KT_F32, KT_COUNT};
	const Json *offset = ckpt_get(state, "nested_offset");
	int64_t		outer;

	if (!ckpt_int(state, "nested_blocksize", 1, 1 << 24, 256, &r->group2, e))
		return false;
	outer = (blocks + r->group2 - 1) / r->group2;
	if (!json_is_number(offset) || !(fabs(offset->num) < 1e30))
		return err_set(e, ERR_BAD_FILE, "matrix \"%s\" has an invalid \"nested_offset\"", r->name);
	r->offset2 = (float) offset->num;
	if ((r->codes2 = ckpt_part(c, r, module, ".weight.absmax", ckpt_u8, 1, blocks, 0, e)) == NULL ||
		(r->scale = ckpt_part(c, r, module, ".weight.nested_absmax", f32, 1, outer, 0, e)) == NULL ||
		(r->scale2 = ckpt_part(c, r, module, ".weight.nested_quant_map", f32, 1, 256, 0, e)) == NULL)
		return false;
	r->scale_of = nested_scale;
	r->most = largest(r->scale, outer) * largest(r->scale2, 256) + fabsf(r->offset2);
	return true;
}

/* Read shape and blocks from the state, and the scales. */
static bool
blocks_of(Ckpt *c, CkptReader *r, const char *module, const Json *state, Err *e)
{
	static const KType f32[] = {KT_F32, KT_COUNT};
	const Json *shape = ckpt_get(state, "shape");
	const KTensor *absmax = ckpt_find(c, module, ".weight.absmax");
	int64_t		blocks;

	if (json_count(shape) != 2 || shape->child->num != (double) r->n ||
		shape->child->next->num != (double) r->k)
		return err_set(e, ERR_BAD_FILE, "matrix \"%s\" does not have the shape [%lld, %lld] in its "
										"quantization state", r->name,
					   (long long) r->n, (long long) r->k);
	if (!ckpt_int(state, "blocksize", 1, 1 << 24, 64, &r->group, e))
		return false;
	r->flat = true;
	blocks = (r->n * r->k + r->group - 1) / r->group;
	if (absmax != NULL && absmax->type == KT_U8)
		return nested(c, r, module, state, blocks, e);
	r->scale = ckpt_part(c, r, module, ".weight.absmax", f32, 1, blocks, 0, e);
	r->group_step = 1;
	return r->scale != NULL;
}

static bool
four_bits(Ckpt *c, CkptReader *r, const char *module, Err *e)
{
	static const KType f32[] = {KT_F32, KT_COUNT};
	const KTensor *map;
	Json	   *state = quant_state(c, r, module, e);
	bool		ok = state != NULL && blocks_of(c, r, module, state, e);

	json_free(state);
	if (!ok || (r->q = ckpt_part(c, r, module, ".weight", ckpt_u8, 2, (r->n * r->k + 1) / 2, 1, e)) == NULL ||
		(map = ckpt_part(c, r, module, ".weight.quant_map", f32, 1, 16, 0, e)) == NULL)
		return false;
	r->bits = 4;
	r->codes = r->k % 2 == 0 ? ckpt_stream : codes;
	r->row_bytes = r->k / 2;
	r->high_first = true;
	r->value = r->table;
	memcpy(r->table, map->data, 16 * sizeof(float));
	for (int i = 0; i < 16; i++)
		if (!(fabsf(r->table[i]) <= 1))
			return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has a value beyond 1", map->name,
						   ckpt_where(c, map));
	return true;
}

static bool
eight_bits(Ckpt *c, CkptReader *r, const char *module, Err *e)
{
	static const KType f32[] = {KT_F32, KT_COUNT};
	const KTensor *format = ckpt_find(c, module, ".weight_format");

	if (!ckpt_bytes(c, r, module, ".weight", ckpt_i8, e) ||
		(r->scale = ckpt_part(c, r, module, ".SCB", f32, 1, r->n, 0, e)) == NULL)
		return false;
	r->row_step = 1;
	r->factor = 1.0f / 127.0f;
	if (format == NULL)
		return true;
	ckpt_unused(c, r, module, ".weight_format");
	return (format->type == KT_U8 && format->nbytes == 1 && *(const uint8_t *) format->data == 0) ||
		err_set(e, ERR_UNSUPPORTED, "tensor \"%s\" in file \"%s\" asks for a layout that is not supported",
				format->name, ckpt_where(c, format));
}

bool
bnb_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e)
{
	const KTensor *w = ckpt_find(c, module, ".weight");

	if (w == NULL || (w->type != KT_U8 && w->type != KT_I8))
		return true;
	if (n > INT64_MAX / 4 / k)
		return err_set(e, ERR_BAD_FILE, "matrix \"%s.weight\" is too large", module);
	*out = ckpt_reader(c, module, n, k);
	return w->type == KT_U8 ? four_bits(c, *out, module, e) : eight_bits(c, *out, module, e);
}
