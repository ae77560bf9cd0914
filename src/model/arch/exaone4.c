/*
 * exaone4.c
 *	  EXAONE 4 (LG AI Research 2025, arXiv:2507.11407): norms after attention and MLP, as in OLMo 2,
 *	  and on the heads of q and k.  If it has windows, three of four layers have one, and the fourth
 *	  has no positions.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/decoder.h"

#include <string.h>

static bool
is_local(const Conf *c, int layer)
{
	/* "LLLG": a cycle of local and global layers */
	const char *pattern = conf_str(c, "sliding_window_pattern", "LLLG");
	size_t		n = strlen(pattern);

	return n > 0 && pattern[(size_t) layer % n] == 'L';
}

bool
exaone4_conf(const Conf *c, DecoderConf *out, Err *e)
{
	int			window;

	out->eps = 1e-5f;
	if (!dec_conf(c, out, e) ||
		!dec_conf_window(c, conf_has(c, "gguf.architecture") ? 0 : 4096, false, &window, e))
		return false;
	if (window == 0)
		return true;
	if (!dec_conf_windows(c, out, window, is_local, e))
		return false;
	for (int i = 0; i < out->n_layers; i++)
		out->layers[i].rope = out->layers[i].sliding ? 0 : -1;
	return true;
}
