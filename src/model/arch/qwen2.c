/*
 * qwen2.c
 *	  Qwen2 and Qwen2.5 (Yang et al. 2024, arXiv:2407.10671): Llama with biases on
 *	  q, k and v, and optionally a sliding window in the upper layers.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/decoder.h"

static bool
is_upper(const Conf *c, int layer)
{
	return layer >= conf_int(c, "max_window_layers", 28);
}

bool
qwen2_conf(const Conf *c, DecoderConf *out, Err *e)
{
	int			window;
	int			from;

	if (!dec_conf(c, out, e) ||
		!dec_conf_window(c, 4096, false, &window, e) ||
		!dec_conf_int(c, "max_window_layers", 0, DEC_MAX_LAYERS, 28, &from, e))
		return false;
	out->qkv_bias = true;
	if (!conf_bool(c, "use_sliding_window", false))
		window = 0;
	return dec_conf_windows(c, out, window, is_upper, e);
}
