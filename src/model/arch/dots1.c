/*
 * dots1.c
 *	  dots.llm1 (rednote-hilab 2025, arXiv:2506.05767): Qwen3 with experts as in DeepSeek-V3.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/decoder.h"

static bool
is_upper(const Conf *c, int layer)
{
	return layer >= conf_int(c, "max_window_layers", 62);
}

bool
dots1_conf(const Conf *c, DecoderConf *out, Err *e)
{
	int			window;

	if (!dec_conf(c, out, e) ||
		!dec_conf_window(c, conf_has(c, "gguf.architecture") ? 0 : 4096, false, &window, e))
		return false;
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", false);
	return dec_conf_windows(c, out, window, is_upper, e) && deepseek_sigmoid(c, out, e);
}
