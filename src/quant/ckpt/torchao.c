/*
 * torchao.c
 *	  TorchAO's int8 and float8 weights, as its second version stores them in safetensors.
 *
 * A weight is a tensor subclass that is taken apart into its tensors:
 *
 *		_weight_qdata		I8 or F8_E4M3 [N][K]
 *		_weight_scale		[N][1] or [N][K / G]
 *		_weight_zero_point	I8, as the scales
 *
 * w = (qdata - zero_point) * scale.
 */
#include "base/json/json.h"
#include "quant/ckpt/ckpt_internal.h"

bool
torchao_open(Ckpt *c, Err *e)
{
	static const char configs[] = "Int8WeightOnlyConfig Int8DynamicActivationInt8WeightConfig "
		"Float8WeightOnlyConfig Float8DynamicActivationFloat8WeightConfig";
	const Json *v;
	int			word;
	int64_t		version;

	if (!ckpt_known(c->conf, "quant_method quant_type modules_to_not_convert include_input_output_embeddings "
					"untie_embedding_weights quant_type_kwargs", e))
		return false;
	if (json_count(ckpt_get(c->conf, "quant_type")) != 1)
		return err_set(e, ERR_UNSUPPORTED, "quantization configuration has not one \"quant_type\"");
	v = ckpt_get(ckpt_get(c->conf, "quant_type"), "default");
	if (ckpt_get(v, "_type") == NULL)
		return err_set(e, ERR_UNSUPPORTED,
					   "quantization configuration has a \"quant_type\" that is not supported");
	if (!ckpt_word(v, "_type", configs, -1, &word, e) || !ckpt_int(v, "_version", 2, 2, 2, &version, e))
		return false;
	c->ints[0] = word == 1;		/* activations of 8 bits */
	return true;
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
		(w->type != KT_I8 || ckpt_i8_zeros(c, r, module, "._weight_zero_point", e));
}
