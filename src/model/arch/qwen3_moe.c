/*
 * qwen3_moe.c
 *	  Qwen3-MoE (Yang et al. 2025, arXiv:2505.09388): Qwen3 with experts.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
qwen3_moe_conf(const Conf *c, DecoderConf *out, Err *e)
{
	int			window = 0;

	/* GGUF has no key for it: all existing models normalize */
	out->moe.normalize = conf_has(c, "gguf.architecture");
	if (!dec_conf(c, out, e) ||
		(conf_bool(c, "use_sliding_window", false) && !dec_conf_window(c, 4096, false, &window, e)))
		return false;
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", false);
	return dec_conf_windows(c, out, window, NULL, e) && qwen_moe_layers(c, out, e);
}
