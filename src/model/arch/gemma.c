/*
 * gemma.c
 *	  Gemma (Gemma Team 2024, arXiv:2403.08295): Llama with norms by 1 + w, GELU and an embedding that
 *	  is multiplied by sqrt(hidden).
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/decoder.h"

#include <math.h>
#include <string.h>

/*
 * Return sqrt(hidden) rounded to the type of the model's weights, as in training and in transformers.
 * GGUF doesn't store that type; all Gemma models had BF16.
 */
static float
embed_scale(const Conf *c, int hidden)
{
	const char *dtype = conf_str(c, "dtype", conf_str(c, "torch_dtype", "float32"));
	float		scale = (float) sqrt((double) hidden);

	if (conf_has(c, "gguf.architecture") || strcmp(dtype, "bfloat16") == 0)
		return kbf16_to_f32(kf32_to_bf16(scale));
	return strcmp(dtype, "float16") == 0 ? kf16_to_f32(kf32_to_f16(scale)) : scale;
}

bool
gemma_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->head_dim = 256;
	out->act = KACT_GELU_TANH;
	out->tied = true;
	out->one_plus = true;
	if (!dec_conf(c, out, e))
		return false;
	/* old checkpoints say "gelu" but mean this */
	if (out->act == KACT_GELU)
		out->act = KACT_GELU_TANH;
	if (conf_bool(c, "use_bidirectional_attention", false) && !out->both_ways)
		return err_set(e, ERR_UNSUPPORTED, "\"use_bidirectional_attention\" is not supported");
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", false);
	out->embed_scale = embed_scale(c, out->hidden);
	return true;
}
