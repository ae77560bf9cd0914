/*
 * minicpm.c
 *	  MiniCPM (Hu et al. 2024, arXiv:2404.06395): Llama with multipliers of the embedding, of a block's
 *	  output, and, as a divisor, of the logits.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/decoder.h"

#include <math.h>

bool
minicpm_conf(const Conf *c, DecoderConf *out, Err *e)
{
	float		depth;
	int			base;

	out->tied = true;
	if (!llama_conf(c, out, e))
		return false;
	if (conf_has(c, "gguf.architecture"))
	{
		float		divisor;

		if (!dec_conf_num(c, "embedding_multiplier", 0, 1e9, 12, &out->embed_scale, e) ||
			!dec_conf_num(c, "residual_multiplier", 0, 1e9, 1.4 / sqrt(out->n_layers), &out->residual_scale,
						  e) ||
			!dec_conf_num(c, "logit_scale", 0, 1e9, out->hidden / 256.0, &divisor, e))
			return false;
		out->logit_scale = 1 / divisor;
		return true;
	}
	if (!dec_conf_num(c, "scale_emb", 0, 1e9, 1, &out->embed_scale, e) ||
		!dec_conf_num(c, "scale_depth", 0, 1e9, 1, &depth, e) ||
		!dec_conf_int(c, "dim_model_base", 1, DEC_MAX_HIDDEN, 1, &base, e))
		return false;
	out->residual_scale = (float) ((double) depth / sqrt(out->n_layers));
	out->logit_scale = (float) base / (float) out->hidden;
	return true;
}
