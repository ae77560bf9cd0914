/*
 * autoround.c
 *	  AutoRound checkpoints: GPTQ's or AWQ's layout for integers, compressed-tensors' for floats, as
 *	  "packing_format" says.
 *
 * Floats are NVFP4, MXFP4, MXFP8 or FP8 with a scale a row; a module's tensors decide.  Activations, which
 * these formats round, too, stay as they are.
 *
 * "extra_config" has settings of single modules, by their names or by patterns; a module with 16 or more
 * bits stays as it is.
 */
#include "base/json/json.h"
#include "quant/ckpt/ckpt_gptq.h"

#define FORMATS "auto_round:auto_gptq auto_round auto_round:gptqmodel auto_round:auto_awq " \
	"auto_round:llm_compressor auto_round:fp8_static"
#define FORMAT_AWQ 3
#define FORMAT_FLOATS 4			/* and above */

static bool
auto_spec(const Ckpt *c, GptqSpec *s, int *format, Err *e)
{
	*s = (GptqSpec) {.bits = 4, .group = 128, .sym = true};
	if (!gptq_settings(c->conf, s, e) || !ckpt_word(c->conf, "packing_format", FORMATS, 0, format, e))
		return false;
	s->v2 = *format == 1 || *format == 2;
	/* a wrong default shows in the zero points if they are symmetric, but not if they aren't */
	return s->sym || ckpt_get(c->conf, "packing_format") != NULL ||
		err_set(e, ERR_UNSUPPORTED, "quantization configuration has no \"packing_format\"");
}

bool
autoround_open(Ckpt *c, Err *e)
{
	/* keys that say how the tool found the codes */
	static const char known[] = "quant_method bits group_size sym data_type packing_format backend "
		"extra_config act_bits act_data_type act_group_size act_sym act_dynamic amp batch_size "
		"enable_minmax_tuning enable_norm_bias_tuning enable_quanted_input gradient_accumulate_steps iters "
		"lr low_gpu_mem_usage minmax_lr nsamples quant_block_list scale_dtype seqlen supported_types "
		"block_name_to_quantize to_quant_block_names autoround_version train_bs dataset "
		"static_attention_granularity static_kv_granularity enable_torch_compile modules_to_not_convert "
		"regex_config quant_lm_head model_dtype provider version damp_percent desc_act true_sequential "
		"lm_head super_bits fmt activation_scheme";
	static const char floats[] = "mx_fp mx_fp4 mx_fp8 mx_fp_rceil nv_fp nv_fp4 fp fp8 fp8_sym";
	static const char extra[] = "bits group_size sym data_type act_bits act_data_type act_group_size act_sym "
		"act_dynamic scale_dtype super_bits super_group_size fixed_by_user in_blocks";
	const Json *extras;
	const Json *v;
	GptqSpec	s;
	int			format;
	int			word;
	bool		matches;

	if (!ckpt_map(c->conf, "extra_config", &extras, e) || !ckpt_known(c->conf, known, e) ||
		!auto_spec(c, &s, &format, e))
		return false;
	if (format >= FORMAT_FLOATS ? !ckpt_word(c->conf, "data_type", floats, -1, &word, e) ||
		!ckpt_word(c->conf, "fmt", "e4m3", 0, &word, e) :
		!gptq_plain_integers(c->conf, "int int_sym int_asym_dq", e))
		return false;
	json_each(v, extras)
		if (!ckpt_known(v, extra, e) || !gptq_settings(v, &s, e) ||
			(format < FORMAT_FLOATS && !gptq_plain_integers(v, "int float fp int_sym", e)) ||
			!ckpt_match(v->key, "", true, &matches, e))
			return false;
	return true;
}

/* Describe a module whose weights are floats of 4 or 8 bits. */
static bool
floats_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e)
{
	const KTensor *w = ckpt_find(c, module, ".weight");
	bool		four = ckpt_find(c, module, ".weight_packed") != NULL;

	if (!four && (w == NULL || w->type < KT_COUNT))
		return true;
	*out = ckpt_reader(c, module, n, k);
	ckpt_unused(c, *out, module, ".input_scale");
	ckpt_unused(c, *out, module, ".input_global_scale");
	return four ? ckpt_packed_fp4(c, *out, module, e) : ckpt_fp8(c, *out, module, e);
}

bool
autoround_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e)
{
	const Json *all = ckpt_get(c->conf, "extra_config");
	const Json *mine = json_get(all, module);
	const Json *v;
	GptqSpec	s;
	int			format;

	if (!auto_spec(c, &s, &format, e))
		return false;
	if (format >= FORMAT_FLOATS)
		return floats_matrix(c, module, n, k, out, e);
	if (ckpt_find(c, module, ".qweight") == NULL)
		return true;
	json_each(v, all)
	{
		bool		matches;

		if (mine != NULL)
			break;
		if (!ckpt_match(v->key, module, true, &matches, e))
			return false;
		if (matches)
			mine = v;
	}
	if (mine != NULL && !gptq_settings(mine, &s, e))
		return false;
	if (s.bits >= 16)
		return true;
	*out = ckpt_reader(c, module, n, k);
	if (format == FORMAT_AWQ)
		return awq_reader(c, *out, module, &s, e);
	return gptq_reader(c, *out, module, &s, e);
}
