/*
 * mistral.c
 *	  Mistral (Jiang et al. 2023, arXiv:2310.06825): Llama whose attention may be
 *	  limited to the last sliding_window positions, in all layers.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/decoder.h"

bool
mistral_windows(const Conf *c, DecoderConf *out, int dflt, Err *e)
{
	int			window;

	return dec_conf_window(c, dflt, false, &window, e) && dec_conf_windows(c, out, window, NULL, e);
}

bool
mistral_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->n_kv_heads = 8;
	return dec_conf(c, out, e) && mistral_windows(c, out, 4096, e);
}
