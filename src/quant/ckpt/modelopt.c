/*
 * modelopt.c
 *	  NVIDIA ModelOpt's checkpoints, as described by hf_quant_config.json or config.json.
 *
 * A module's tensors decide its format:
 *
 *		FP8		weight F8 [N][K]; weight_scale: one, [N], of blocks of 128 x 128, or
 *				exponents of 32 columns (MXFP8)
 *		INT8	weight I8 [N][K], weight_scale: one or [N]; for INT8 activations if there is input_scale
 *		NVFP4	weight U8 [N][K / 2], weight_scale F8_E4M3 [N][K / 16] or [N][K / 32],
 *				weight_scale_2 F32; w = code * weight_scale * weight_scale_2
 *		MXFP4	weight U8 [N][K / 2], weight_scale U8 [N][K / 32]
 *
 * The input_scale of INT8, for all inputs of a matrix, is offered beside the matrix (KReader.with_x); other
 * scales of activations are not used.  A module with "pre_quant_scale", which must multiply its input, is
 * refused; the list of algorithms below has those that can do without it.
 */
#include "base/json/json.h"
#include "quant/ckpt/ckpt_internal.h"

#define ALGOS "FP8 fp8 FP8_PER_CHANNEL_PER_TOKEN FP8_PB_WO fp8_pb_wo NVFP4 W4A16_NVFP4 W4A8_NVFP4_FP8 " \
			  "MXFP4 mxfp4 MXFP8 W4A8_MXFP4_FP8 W8A16 W8A8_SQ_PER_CHANNEL"

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

static bool
int8(Ckpt *c, CkptReader *r, const char *module, Err *e)
{
	const KTensor *scale;

	r->int8_acts = ckpt_find(c, module, ".input_scale") != NULL;
	ckpt_input_scale(c, r, module);
	return ckpt_bytes(c, r, module, ".weight", ckpt_i8, e) &&
		(scale = ckpt_part(c, r, module, ".weight_scale", ckpt_floats, 0, 0, 0, e)) != NULL &&
		ckpt_scale_shape(c, r, scale, 0, 0, e);
}

/* Refuse a module whose input must be multiplied first. */
static bool
no_input_factors(const Ckpt *c, const char *module, Err *e)
{
	const KTensor *t = ckpt_find(c, module, ".pre_quant_scale");

	if (t == NULL)
		return true;
	err_set(e, ERR_UNSUPPORTED, "tensor \"%s\" in file \"%s\" is not supported", t->name, ckpt_where(c, t));
	err_detail(e, "ModelOpt's AWQ and SmoothQuant multiply the input of this matrix by it.");
	return err_hint(e, "Export the model by an algorithm without such tensors, for example FP8 or NVFP4.");
}

bool
modelopt_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e)
{
	const KTensor *w = ckpt_find(c, module, ".weight");
	const KTensor *s = ckpt_find(c, module, ".weight_scale");
	CkptReader *r;

	if (w == NULL || w->type < KT_COUNT)
		return true;
	if (!no_input_factors(c, module, e))
		return false;
	*out = r = ckpt_reader(c, module, n, k);
	ckpt_unused(c, r, module, ".input_scale");
	if (w->type == KT_I8)
		return int8(c, r, module, e);
	if (w->type != KT_U8)
		return ckpt_fp8(c, r, module, e);
	if (s != NULL && s->type != KT_F8_E4M3)
		return ckpt_mx(c, r, module, ".weight", ".weight_scale", e);
	return ckpt_nvfp4(c, r, module, ".weight", ".weight_scale", e) &&
		ckpt_one_float(c, r, module, ".weight_scale_2", &r->factor, e);
}
