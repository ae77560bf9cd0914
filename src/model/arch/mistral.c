/*
 * mistral.c
 *	  Mistral (Jiang et al. 2023, arXiv:2310.06825): Llama whose attention may be limited to the last
 *	  sliding_window positions, in all layers.  Ministral 3 (2025): q is scaled by position beyond the
 *	  length of training.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include <string.h>

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
	bool		ministral = strcmp(conf_str(c, "text_config.model_type", conf_str(c, "model_type", "")),
								   "ministral3") == 0;

	out->n_kv_heads = 8;
	out->head_dim = ministral ? 128 : 0;
	out->rope[0].keys.tempered = true;
	return dec_conf(c, out, e) && dec_conf_temper(c, out, e) &&
		mistral_windows(c, out, ministral ? 0 : 4096, e);
}
