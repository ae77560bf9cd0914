/*
 * torchao.c
 *	  TorchAO's int8, intx and float8 weights, in safetensors or pickled (torch_weights.c).
 *
 * A weight is a tensor subclass, stored as its inner tensors:
 *
 *		_weight_qdata		I8 or F8_E4M3 [N][K]; fewer bits in bytes, too
 *		_weight_scale		[N], [N][1] or [N][K / G]
 *		_weight_zero_point	I8, in the first version I32 or I64, as the scales
 *
 * w = (qdata - zero_point) * scale.
 *
 * "quant_type" has one class of TorchAO with its settings, or, in old versions, a word.
 *
 * Tested by tests/unit/quant/ckpt/test_ckpt.c and tests/golden/ckpt_golden.c.
 */
#include "base/json/json.h"
#include "quant/ckpt/ckpt_internal.h"

bool
torchao_open(Ckpt *c, Err *e)
{
	static const char configs[] = "Int8WeightOnlyConfig Int8DynamicActivationInt8WeightConfig "
		"Float8WeightOnlyConfig Float8DynamicActivationFloat8WeightConfig IntxWeightOnlyConfig "
		"Int8DynamicActivationIntxWeightConfig";
	static const char words[] = "int8_weight_only int8_dynamic_activation_int8_weight float8_weight_only "
		"float8_dynamic_activation_float8_weight";
	const Json *v;
	int			word;
	int64_t		version;

	if (!ckpt_known(c->conf, "quant_method quant_type modules_to_not_convert include_input_output_embeddings "
					"untie_embedding_weights quant_type_kwargs", e))
		return false;
	v = ckpt_get(c->conf, "quant_type");
	if (json_is_string(v))
	{
		if (!ckpt_word(c->conf, "quant_type", words, -1, &word, e))
			return false;
	}
	else
	{
		if (json_count(v) != 1)
			return err_set(e, ERR_UNSUPPORTED, "quantization configuration does not have exactly one "
											   "\"quant_type\"");
		v = ckpt_get(v, "default");
		if (ckpt_get(v, "_type") == NULL)
			return err_set(e, ERR_UNSUPPORTED,
						   "quantization configuration has a \"quant_type\" that is not supported");
		if (!ckpt_word(v, "_type", configs, -1, &word, e) || !ckpt_int(v, "_version", 1, 2, 2, &version, e))
			return false;
	}
	c->ints[0] = word == 1;		/* activations of 8 bits */
	return true;
}

/* Return a zero point of the first version, whose types are wider than the codes. */
static float
wide_zero(const CkptReader *r, int64_t row, int64_t group)
{
	int64_t		at = row / r->row_div * r->row_step + group * r->group_step;
	const uint8_t *p = r->zeros->data;
	int64_t		z = (int32_t) ckpt_u32(p + 4 * at);

	if (r->zeros->type == KT_I64)
		memcpy(&z, p + 8 * at, sizeof(z));
	return 128 + (float) z;
}

/* Check that the wide zero points are in the range of I8 codes. */
static bool
wide_zeros(Ckpt *c, CkptReader *r, const char *module, Err *e)
{
	static const KType types[] = {KT_I32, KT_I64, KT_COUNT};
	const KTensor *z = ckpt_part(c, r, module, "._weight_zero_point", types, 0, 0, 0, e);

	if (z == NULL)
		return false;
	if (ckpt_count(z) != ckpt_count(r->scale))
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has a shape that does not match its "
										"scales",
					   z->name, ckpt_where(c, z));
	r->zeros = z;
	r->zero_of = wide_zero;
	for (int64_t i = 0; i < ckpt_count(z); i++)
	{
		const uint8_t *p = z->data;
		int64_t		v = z->type == KT_I32 ? (int32_t) ckpt_u32(p + 4 * i) : 0;

		if (z->type == KT_I64)
			memcpy(&v, p + 8 * i, sizeof(v));
		if (v < -128 || v > 127)
			return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has a zero point beyond the codes",
						   z->name, ckpt_where(c, z));
	}
	return true;
}

static bool
zeros_of(Ckpt *c, CkptReader *r, const char *module, Err *e)
{
	const KTensor *z = ckpt_find(c, module, "._weight_zero_point");

	if (r->q->type != KT_I8)
	{
		/* float8 codes have no zero points: ignore the tensor */
		ckpt_unused(c, r, module, "._weight_zero_point");
		return true;
	}
	return z == NULL || z->type == KT_I8 ? ckpt_i8_zeros(c, r, module, "._weight_zero_point", e) :
		wide_zeros(c, r, module, e);
}

bool
torchao_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e)
{
	const KTensor *w = ckpt_find(c, module, "._weight_qdata");
	const KTensor *scale;
	CkptReader *r;
	int64_t		groups;

	if (w == NULL)
		return true;
	*out = r = ckpt_reader(c, module, n, k);
	ckpt_unused(c, r, module, "._weight_act_quant_scale");
	ckpt_unused(c, r, module, "._weight_act_quant_zero_point");
	if (!ckpt_bytes(c, r, module, "._weight_qdata", w->type == KT_I8 ? ckpt_i8 : ckpt_f8, e) ||
		(scale = ckpt_part(c, r, module, "._weight_scale", ckpt_floats, 0, 0, 0, e)) == NULL)
		return false;
	groups = scale->ndim == 2 ? scale->shape[1] : 1;
	r->int8_acts = c->ints[0] != 0;
	if (groups > 1 && k % groups != 0)
		return err_set(e, ERR_BAD_FILE, "matrix \"%s\" of %lld columns can't have %lld groups", r->name,
					   (long long) k, (long long) groups);
	return ckpt_scale_shape(c, r, scale, groups > 1 ? 1 : 0, groups > 1 ? k / groups : 0, e) &&
		zeros_of(c, r, module, e);
}
