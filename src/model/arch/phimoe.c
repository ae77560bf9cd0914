/*
 * phimoe.c
 *	  Phi-3.5-MoE (Microsoft 2024, arXiv:2404.14219): Mixtral with LayerNorm, biases, and two
 *	  experts chosen one after the other by SparseMixer.
 *
 * GGUF files of this model have a different rotary factor than the model, and are refused.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/decoder.h"

bool
phimoe_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->eps = 1e-5f;
	out->layer_norm = out->norm_bias = true;
	out->rope[0].keys.theta = 1000000;
	out->moe.routing = KROUTE_SPARSEMIXER;
	if (!dec_conf(c, out, e) || !mistral_windows(c, out, 0, e) || !dec_conf_moe(c, out, e) ||
		!dec_conf_num(c, "router_jitter_noise", 0, 1, 0.01, &out->moe.jitter, e))
		return false;
	if (out->moe.top_k != 2)
		return err_set(e, ERR_UNSUPPORTED,
					   "\"num_experts_per_tok\" = %d is not supported in this architecture", out->moe.top_k);
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", false);
	out->head_bias = conf_bool(c, "lm_head_bias", false);
	return true;
}
