/*
 * quark.c
 *	  AMD Quark's checkpoints: FP8 with one scale a tensor or row, and MXFP4.
 *
 *		FP8		weight F8_E4M3 [N][K], weight_scale F32: one, or [N]
 *		MXFP4	weight U8 [N][K / 2], the low nibble first, weight_scale U8 [N][K / 32]
 *
 * The configuration has a description of each tensor for all modules, for classes and
 * names of modules; of its "weight" only what makes these two may be there.
 */
#include "base/json/json.h"
#include "quant/ckpt/ckpt_internal.h"

static bool
check_weight(const Json *w, Err *e)
{
	static const char known[] = "dtype observer_cls is_dynamic qscheme ch_axis group_size symmetric "
		"round_method scale_type scale_format scale_calculation_mode mx_element_dtype zero_point_type "
		"is_mse_observer enable_buffer_reuse max_input_numel qat_spec";
	int			dtype;
	int			word;
	bool		dynamic;
	int64_t		group;

	if (!ckpt_known(w, known, e) || !ckpt_word(w, "dtype", "fp8_e4m3 fp4 mx", -1, &dtype, e) ||
		!ckpt_word(w, "qscheme", "per_tensor per_channel per_group", 0, &word, e) ||
		!ckpt_word(w, "mx_element_dtype", "fp4", 0, &word, e) ||
		!ckpt_bool(w, "is_dynamic", false, &dynamic, e))
		return false;
	if (dynamic)
		return err_set(e, ERR_UNSUPPORTED,
					   "quantization configuration has weights with \"is_dynamic\" = true");
	if (dtype < 1)
		return true;
	return ckpt_int(w, "group_size", 32, 32, 32, &group, e) &&
		ckpt_word(w, "scale_format", "e8m0", 0, &word, e);
}

/* Of one layer or of all: a weight is described by an object, or by a list of one. */
static bool
check_layer(const Json *o, Err *e)
{
	const Json *w = ckpt_get(o, "weight");

	if (!ckpt_known(o, "weight input_tensors output_tensors bias target_device", e))
		return false;
	if (json_is_array(w) && json_count(w) == 1)
		w = w->child;
	return w == NULL || (json_is_object(w) ? check_weight(w, e) :
						 err_set(e, ERR_UNSUPPORTED,
								 "quantization configuration has weights with several scales"));
}

/* Algorithms that found the weights don't matter, but rotations may go on in the model. */
static bool
check_algorithms(const Json *list, Err *e)
{
	const Json *v;
	char		buf[80];

	json_each(v, list)
	{
		const Json *name = ckpt_get(v, "name");

		if (!json_is_string(name) || strstr(name->s, "rot") != NULL)
			return err_set(e, ERR_UNSUPPORTED,
						   "quantization configuration has the algorithm %s, which is not supported",
						   ckpt_show(name != NULL ? name : v, buf, sizeof(buf)));
	}
	return true;
}

bool
quark_open(Ckpt *c, Err *e)
{
	static const char known[] = "quant_method quant_mode global_quant_config layer_quant_config "
		"layer_type_quant_config exclude export kv_cache_quant_config kv_cache_group min_kv_scale "
		"kv_cache_post_rope version log_severity_level config_version algo_config";
	static const char *const maps[] = {"layer_quant_config", "layer_type_quant_config"};
	const Json *v;
	int			word;

	if (!ckpt_known(c->conf, known, e) || !check_algorithms(ckpt_get(c->conf, "algo_config"), e) ||
		!ckpt_word(ckpt_get(c->conf, "export"), "weight_format", "real_quantized", 0, &word, e) ||
		!check_layer(ckpt_get(c->conf, "global_quant_config"), e))
		return false;
	for (int i = 0; i < 2; i++)
	{
		const Json *layers;

		if (!ckpt_map(c->conf, maps[i], &layers, e))
			return false;
		json_each(v, layers)
			if (!check_layer(v, e))
				return false;
	}
	return true;
}

bool
quark_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e)
{
	static const char *const acts[] = {".input_scale", ".input_zero_point"};
	const KTensor *w = ckpt_find(c, module, ".weight");
	const KTensor *scale;
	CkptReader *r;

	if (w == NULL || w->type < KT_COUNT)
		return true;
	*out = r = ckpt_reader(c, module, n, k);
	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
		ckpt_unused(c, r, module, acts[i]);
	if (w->type == KT_U8)
		return ckpt_mx(c, r, module, ".weight", ".weight_scale", e);
	return ckpt_bytes(c, r, module, ".weight", ckpt_f8, e) &&
		(scale = ckpt_part(c, r, module, ".weight_scale", ckpt_floats, 0, 0, 0, e)) != NULL &&
		ckpt_scale_shape(c, r, scale, 0, 0, e);
}
