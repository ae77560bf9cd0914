/*
 * olmoe.c
 *	  OLMoE (Muennighoff et al. 2024, arXiv:2409.02060): Llama with experts and with norms on q and k
 *	  as one vector.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/decoder.h"

bool
olmoe_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->eps = 1e-5f;
	if (!dec_conf(c, out, e) || !dec_conf_moe(c, out, e))
		return false;
	/* q and k would be clipped after their norms */
	if (conf_num(c, "clip_qkv", 0) != 0)
		return err_set(e, ERR_UNSUPPORTED, "\"clip_qkv\" = %g is not supported in this architecture",
					   conf_num(c, "clip_qkv", 0));
	out->qk_norm = QKNORM_WIDE;
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", false);
	return true;
}
