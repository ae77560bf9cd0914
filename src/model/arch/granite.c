/*
 * granite.c
 *	  Granite 3 (IBM 2024): Llama with four multipliers: of the embedding, of the scores, of a block's
 *	  output, and, as a divisor, of the logits.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/decoder.h"

bool
granite_multipliers(const Conf *c, DecoderConf *out, Err *e)
{
	/* GGUF's key is a factor for other models; for Granite it is the same divisor */
	const char *logits = conf_has(c, "gguf.architecture") ? "logit_scale" : "logits_scaling";
	float		divisor;

	if (!dec_conf_num(c, "embedding_multiplier", 0, 1e9, 1, &out->embed_scale, e) ||
		!dec_conf_num(c, "residual_multiplier", 0, 1e9, 1, &out->residual_scale, e) ||
		!dec_conf_num(c, "attention_multiplier", 0, 1e9, 1, &out->attn_scale, e) ||
		!dec_conf_num(c, logits, 0, 1e9, 1, &divisor, e))
		return false;
	out->logit_scale = 1 / divisor;
	return true;
}

bool
granite_conf(const Conf *c, DecoderConf *out, Err *e)
{
	return llama_conf(c, out, e) && granite_multipliers(c, out, e);
}
