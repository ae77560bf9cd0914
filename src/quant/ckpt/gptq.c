/*
 * gptq.c
 *	  GPTQ checkpoints (AutoGPTQ, GPTQModel), also as BitBLAS uses them.
 *
 *		qweight		I32 [K * bits / 32][N]	codes packed along K, the first lowest
 *		qzeros		I32 [G][N * bits / 32]	zero points packed along N
 *		scales		F16 [G][N]
 *		g_idx		I32 [K]					group of each column; may be in disorder
 *
 * w[n][k] = scales[g][n] * (q - z), g = g_idx[k].  The first format ("gptq") stores z - 1,
 * so that 15 stands for 16; "gptq_v2" stores z.  With 3 bits the 32 codes of 3 words are
 * one string of bits.  The third one, "marlin", is in marlin.c.
 *
 * "dynamic" has patterns of module names; the first match counts: with "-:" the module stays as
 * it is, any other pattern overrides the settings.
 */
#include "base/assert.h"
#include "base/json/json.h"
#include "quant/ckpt/ckpt_gptq.h"

/* settings of the configuration, and their overrides */
#define GPTQ_SETTINGS "bits group_size sym desc_act"
#define GPTQ_FORMATS "gptq gptq_v2 marlin"

static void
codes_3(const CkptReader *r, int64_t row0, int step, int n, int64_t col0, int m, uint8_t *out)
{
	int64_t		line = r->n * 4;

	for (int at = 0; at < m; at += 32)
	{
		const uint8_t *p = (const uint8_t *) r->q->data + (col0 + at) / 32 * 3 * line + row0 * 4;

		for (int j = 0; j < n; j++, p += 4 * (size_t) step)
		{
			uint64_t	lo = ckpt_u32(p) | (uint64_t) ckpt_u32(p + line) << 32;
			uint32_t	hi = ckpt_u32(p + 2 * line);
			uint8_t    *o = out + j * CKPT_CHUNK + at;

			for (int i = 0; i < 21; i++)
				o[i] = (uint8_t) (lo >> (3 * i) & 7);
			o[21] = (uint8_t) (lo >> 63 | (hi & 3) << 1);
			for (int i = 22; i < 32; i++)
				o[i] = (uint8_t) (hi >> (3 * i - 64) & 7);
		}
	}
}

static void
codes(const CkptReader *r, int64_t row0, int step, int n, int64_t col0, int m, uint8_t *out)
{
	int			per_word = 32 / r->bits;

	ASSERT(32 % r->bits == 0 && m % per_word == 0);	/* `out` is written word by word */
	for (int at = 0; at < m; at += per_word)
	{
		const uint8_t *p = (const uint8_t *) r->q->data + ((col0 + at) / per_word * r->n + row0) * 4;

		for (int j = 0; j < n; j++, p += 4 * (size_t) step)
			ckpt_spread(ckpt_u32(p), r->bits, out + j * CKPT_CHUNK + at);
	}
}

static float
zero(const CkptReader *r, int64_t row, int64_t group)
{
	int64_t		words = r->n * r->bits / 32;
	const uint8_t *line = (const uint8_t *) r->zeros->data + group * words * 4;
	int64_t		bit = row * r->bits;
	uint32_t	v = ckpt_u32(line + bit / 32 * 4) >> bit % 32;

	if (bit % 32 + r->bits > 32)
		v |= ckpt_u32(line + bit / 32 * 4 + 4) << (32 - bit % 32);
	return (float) ((int) (v & ((1u << r->bits) - 1)) + r->zero_add);
}

bool
gptq_reader(Ckpt *c, CkptReader *r, const char *module, const GptqSpec *s, Err *e)
{
	int64_t		group;
	int64_t		groups;

	r->bits = (int) s->bits;
	r->codes = r->bits == 3 ? codes_3 : codes;
	r->zero_of = zero;
	r->zero_add = s->v2 ? 0 : 1;
	r->zero_bits = r->bits == 3 ? 0 : r->bits;
	r->symmetric = s->sym;
	if (!ckpt_groups(r, s->group, &group, &groups, e))
		return false;
	if (r->k * r->bits % 32 != 0 || r->n * r->bits % 32 != 0 ||
		(r->bits == 3 && (r->k % 32 != 0 || r->n % 32 != 0)))
		return err_set(e, ERR_BAD_FILE, "matrix \"%s\" of shape [%lld, %lld] can't be packed with %d bits",
					   r->name, (long long) r->n, (long long) r->k, r->bits);
	if ((r->q = ckpt_part(c, r, module, ".qweight", ckpt_i32, 2, r->k * r->bits / 32, r->n, e)) == NULL ||
		(r->zeros = ckpt_part(c, r, module, ".qzeros", ckpt_i32, 2, groups, r->n * r->bits / 32, e)) ==
		NULL || (r->scale = ckpt_part(c, r, module, ".scales", ckpt_floats, 2, groups, r->n, e)) == NULL ||
		(s->desc_act && !s->static_groups && groups > 1 &&
		 !ckpt_needs_order(c, module, ".g_idx", "\"desc_act\": true", e)) ||
		!ckpt_order(c, r, module, ".g_idx", groups, e))
		return false;
	ckpt_scale_cols(r, r->scale, group);
	return true;
}

/* Read the settings of an object over those of *s. */
bool
gptq_settings(const Json *o, GptqSpec *s, Err *e)
{
	if (!ckpt_int(o, "bits", 1, 32, s->bits, &s->bits, e) ||
		!ckpt_int(o, "group_size", -1, 1 << 24, s->group, &s->group, e) ||
		!ckpt_bool(o, "sym", s->sym, &s->sym, e) ||
		!ckpt_bool(o, "desc_act", s->desc_act, &s->desc_act, e) ||
		!ckpt_bool(o, "static_groups", s->static_groups, &s->static_groups, e))
		return false;
	if (s->bits != 2 && s->bits != 3 && s->bits != 4 && s->bits != 8 && s->bits < 16)
		return err_set(e, ERR_UNSUPPORTED,
					   "quantization configuration has \"bits\" = %lld, which is not supported",
					   (long long) s->bits);
	return true;
}

/* Check that nothing but bits, groups and symmetry affects the arithmetic. */
bool
gptq_plain_integers(const Json *o, const char *data_types, Err *e)
{
	int			word;
	int64_t		bits;

	return ckpt_word(o, "data_type", data_types, 0, &word, e) &&
		ckpt_int(o, "act_bits", 16, 32, 16, &bits, e) && ckpt_int(o, "super_bits", 0, 0, 0, &bits, e);
}

/* Read the format.  Older configurations have a switch for it, or a method of its own. */
static bool
base_spec(const Ckpt *c, GptqSpec *s, Err *e)
{
	bool		marlin = strcmp(c->name, "marlin") == 0;
	bool		is_marlin;
	int			format;

	*s = (GptqSpec) {.bits = 4, .group = 128, .sym = true};
	if (!gptq_settings(c->conf, s, e) || !ckpt_bool(c->conf, "is_marlin_format", marlin, &is_marlin, e) ||
		!ckpt_word(c->conf, "checkpoint_format", GPTQ_FORMATS, marlin || is_marlin ? 2 : 0, &format, e) ||
		!ckpt_word(c->conf, "format", GPTQ_FORMATS, format, &format, e))
		return false;
	s->v2 = format == 1;
	s->marlin = format == 2;
	return true;
}

bool
gptq_open(Ckpt *c, Err *e)
{
	/* keys that say how the tool found the codes, and switches of other programs */
	static const char known[] = GPTQ_SETTINGS " quant_method method checkpoint_format format dynamic lm_head "
		"pack_dtype meta quantizer true_sequential damp_percent damp_auto_increment static_groups mse "
		"act_group_aware hyb_act model_name_or_path model_file_base_name model_seqlen dataset tokenizer "
		"batch_size pad_token_id use_exllama disable_exllama exllama_config use_cuda_fp16 max_input_length "
		"cache_block_outputs backend block_name_to_quantize module_name_preceding_first_block "
		"modules_in_block_to_quantize modules_to_not_convert version offload_to_disk device is_marlin_format "
		GPTQ_EXPORTED_KEYS;
	int			pack;
	const Json *rules;
	const Json *v;
	GptqSpec	s;

	if (!ckpt_map(c->conf, "dynamic", &rules, e) || !ckpt_known(c->conf, known, e) || !base_spec(c, &s, e) ||
		!ckpt_word(c->conf, "pack_dtype", "int32", 0, &pack, e) ||
		!gptq_plain_integers(c->conf, GPTQ_EXPORTED, e))
		return false;
	json_each(v, rules)
	{
		bool		matches;
		const char *p = v->key;

		if (!ckpt_known(v, GPTQ_SETTINGS " damp_percent damp_auto_increment mse static_groups "
										 "true_sequential", e) ||
			!gptq_settings(v, &s, e) || !ckpt_match(p + (p[0] == '+' || p[0] == '-' ? 2 * (p[1] == ':') : 0),
													"", false, &matches, e))
			return false;
	}
	return true;
}

/* Read the settings of a module; *skip: the module stays as it is. */
static bool
module_spec(const Ckpt *c, const char *module, GptqSpec *s, bool *skip, Err *e)
{
	const Json *v;

	*skip = false;
	if (!base_spec(c, s, e))
		return false;
	json_each(v, ckpt_get(c->conf, "dynamic"))
	{
		bool		not = strncmp(v->key, "-:", 2) == 0;
		bool		matches;

		if (!ckpt_match(v->key + (not || strncmp(v->key, "+:", 2) == 0 ? 2 : 0), module, false, &matches, e))
			return false;
		if (!matches)
			continue;
		*skip = not;
		return not || gptq_settings(v, s, e);
	}
	return true;
}

bool
gptq_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e)
{
	const KTensor *q = ckpt_find(c, module, ".qweight");
	const KTensor *b = ckpt_find(c, module, ".B");
	GptqSpec	s;
	bool		skip;

	if (q == NULL && b == NULL)
		return true;
	if (!module_spec(c, module, &s, &skip, e))
		return false;
	if (skip || s.bits >= 16)
		return true;
	/* BitBLAS stores bytes in an order of its kernels */
	if (q != NULL && (q->type == KT_I8 || q->type == KT_U8))
	{
		err_set(e, ERR_UNSUPPORTED, "tensor \"%s\" in file \"%s\" has a layout of BitBLAS, which is not "
									"supported", q->name,
				ckpt_where(c, q));
		return err_hint(e, "Checkpoints of BitBLAS are supported in GPTQ's layout.");
	}
	*out = ckpt_reader(c, module, n, k);
	return s.marlin ? marlin_reader(c, *out, module, &s, e) : gptq_reader(c, *out, module, &s, e);
}
