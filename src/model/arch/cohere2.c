/*
 * cohere2.c
 *	  Command-R7B and Command-A (Cohere 2025, arXiv:2504.00698): Command-R with a window in three of
 *	  four layers and no positions in the fourth.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/decoder.h"

static bool
is_local(const Conf *c, int layer)
{
	(void) c;
	return (layer + 1) % 4 != 0;
}

bool
cohere2_conf(const Conf *c, DecoderConf *out, Err *e)
{
	int			window;

	out->rope[0].keys.theta = 10000;
	if (!cohere_conf(c, out, e) || !dec_conf_window(c, 4096, true, &window, e) ||
		!dec_conf_windows(c, out, window, is_local, e))
		return false;
	for (int i = 0; i < out->n_layers; i++)
		out->layers[i].rope = out->layers[i].sliding ? 0 : -1;
	return true;
}
