/*
 * mixtral.c
 *	  Mixtral (Jiang et al. 2024, arXiv:2401.04088): Mistral with experts.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
mixtral_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->eps = 1e-5f;
	out->rope[0].keys.theta = 1e6;
	out->moe.normalize = true;
	out->n_kv_heads = 8;
	return dec_conf(c, out, e) && mistral_windows(c, out, 0, e) && dec_conf_moe(c, out, e);
}
