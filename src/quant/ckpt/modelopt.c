/*
 * modelopt.c
 *	  NVIDIA ModelOpt's checkpoints, as described by hf_quant_config.json or config.json.
 *
 * A module's tensors decide its format:
 *
 *		FP8		weight F8 [N][K]; weight_scale: one, [N], of blocks of 128 x 128, or
 *				exponents of 32 columns (MXFP8)
 *		NVFP4	weight U8 [N][K / 2], weight_scale F8_E4M3 [N][K / 16], weight_scale_2 F32;
 *				w = code * weight_scale * weight_scale_2
 *		MXFP4	weight U8 [N][K / 2], weight_scale U8 [N][K / 32]
 *
 * Scales of activations are not used.  A "pre_quant_scale" would be needed, but the list of algorithms
 * below excludes those that have one.
 */
#include "base/json/json.h"
#include "quant/ckpt/ckpt_internal.h"

#define ALGOS "FP8 fp8 FP8_PER_CHANNEL_PER_TOKEN FP8_PB_WO fp8_pb_wo NVFP4 W4A16_NVFP4 W4A8_NVFP4_FP8 " \
			  "MXFP4 mxfp4 MXFP8 W4A8_MXFP4_FP8"

static bool
check_algo(const Json *o, Err *e)
{
	static const char known[] = "quant_algo kv_cache_quant_algo group_size exclude_modules quantized_layers "
		"quant_method producer ignore kv_cache_scheme config_groups quantization modules_to_not_convert";
	int			word;

	return ckpt_known(o, known, e) && ckpt_word(o, "quant_algo", ALGOS " MIXED_PRECISION", -1, &word, e);
}

bool
modelopt_open(Ckpt *c, Err *e)
{
	const Json *inner;
	const Json *layers;
	const Json *o;
	const Json *v;
	int			word;

	if (!check_algo(c->conf, e) || !ckpt_map(c->conf, "quantization", &inner, e) || !check_algo(inner, e))
		return false;
	o = inner != NULL ? inner : c->conf;
	if (!ckpt_map(o, "quantized_layers", &layers, e))
		return false;
	if (ckpt_get(o, "quant_algo") == NULL)
		return err_set(e, ERR_BAD_FILE, "quantization configuration has no \"quant_algo\"");
	json_each(v, layers)
		if (!ckpt_known(v, "quant_algo group_size", e) || !ckpt_word(v, "quant_algo", ALGOS, -1, &word, e))
			return false;
	return true;
}

/* Describe FP8 with exponents of 32 columns, or with scales of any other shape. */
static bool
fp8(Ckpt *c, CkptReader *r, const char *module, Err *e)
{
	const KTensor *scale;
	bool		mx;

	if (!ckpt_bytes(c, r, module, ".weight", ckpt_f8, e) ||
		(scale = ckpt_part(c, r, module, ".weight_scale", ckpt_scales, 0, 0, 0, e)) == NULL)
		return false;
	mx = scale->type == KT_U8 || scale->type == KT_F8_E8M0;
	return ckpt_scale_shape(c, r, scale, mx ? 1 : 128, mx ? 32 : 128, e);
}

bool
modelopt_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e)
{
	const KTensor *w = ckpt_find(c, module, ".weight");
	const KTensor *s = ckpt_find(c, module, ".weight_scale");
	CkptReader *r;

	if (w == NULL || w->type < KT_COUNT)
		return true;
	*out = r = ckpt_reader(c, module, n, k);
	ckpt_unused(c, r, module, ".input_scale");
	if (w->type != KT_U8)
		return fp8(c, r, module, e);
	if (s != NULL && s->type != KT_F8_E4M3)
		return ckpt_mx(c, r, module, ".weight", ".weight_scale", e);
	return ckpt_nvfp4(c, r, module, ".weight", ".weight_scale", e) &&
		ckpt_one_float(c, r, module, ".weight_scale_2", &r->factor, e);
}
