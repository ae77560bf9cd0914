/*
 * smollm3.c
 *	  SmolLM3 (Hugging Face 2025): Llama without positions in every fourth layer, and
 *	  optionally a window.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/decoder.h"

bool
smollm3_conf(const Conf *c, DecoderConf *out, Err *e)
{
	size_t		n;
	const double *rotated = conf_nums(c, "no_rope_layers", &n);
	int			every;
	int			window = 0;

	out->tied = true;
	out->n_kv_heads = 4;
	out->rope[0].keys.theta = 2e6;
	if (!llama_conf(c, out, e) || !dec_conf_int(c, "no_rope_layer_interval", 1, DEC_MAX_LAYERS, 4, &every, e))
		return false;
	if (conf_bool(c, "use_sliding_window", false) && !dec_conf_window(c, 0, false, &window, e))
		return false;
	if (rotated != NULL && n != (size_t) out->n_layers)
		return err_set(e, ERR_BAD_FILE, "model configuration has %zu \"no_rope_layers\", expected %d", n,
					   out->n_layers);
	for (int i = 0; i < out->n_layers; i++)
		if (!(rotated != NULL ? rotated[i] != 0 : (i + 1) % every != 0))
			out->layers[i].rope = -1;
	if (!conf_has(c, "layer_types"))
	{
		/* only the layers without positions have the window */
		for (int i = 0; window > 0 && window < out->max_len && i < out->n_layers; i++)
			out->layers[i].window = out->layers[i].rope < 0 ? window : 0;
		return true;
	}
	return dec_conf_windows(c, out, window, NULL, e);
}
