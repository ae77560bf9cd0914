/*
 * qwen2.c
 *	  Qwen2 and Qwen2.5 (Yang et al. 2024, arXiv:2407.10671): Llama with biases on
 *	  q, k and v, and optionally a sliding window in the upper layers.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include <string.h>

#include "model/decoder.h"

/* Which layers have the window: layer_types when given, else those from
 * max_window_layers up. */
static bool
windowed(const Conf *c, int layer, int n_layers, int from, bool *out, Err *e)
{
	size_t		n;
	const char *const *types = conf_strs(c, "layer_types", &n);
	char		buf[65];

	if (types == NULL)
		*out = layer >= from;
	else if (n != (size_t) n_layers)
		return err_set(e, ERR_BAD_FILE, "model configuration has %zu \"layer_types\", expected %d",
					   n, n_layers);
	else if (strcmp(types[layer], "sliding_attention") == 0)
		*out = true;
	else if (strcmp(types[layer], "full_attention") == 0)
		*out = false;
	else
		return err_set(e, ERR_UNSUPPORTED, "layer type \"%s\" is not supported",
					   dec_printable(types[layer], buf, sizeof(buf)));
	return true;
}

bool
qwen2_conf(const Conf *c, DecoderConf *out, Err *e)
{
	int			window;
	int			from;

	if (!dec_conf(c, out, e) ||
		!dec_conf_int(c, "sliding_window", 1, DEC_MAX_LEN, 4096, &window, e) ||
		!dec_conf_int(c, "max_window_layers", 0, DEC_MAX_LAYERS, 28, &from, e))
		return false;
	out->qkv_bias = true;
	if (!conf_bool(c, "use_sliding_window", false) || window >= out->max_len)
		return true;
	for (int i = 0; i < out->n_layers; i++)
	{
		bool		on = false;

		if (!windowed(c, i, out->n_layers, from, &on, e))
			return false;
		out->window[i] = on ? window : 0;
	}
	return true;
}
