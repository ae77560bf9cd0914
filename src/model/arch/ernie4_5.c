/*
 * ernie4_5.c
 *	  ERNIE 4.5, dense (Baidu 2025): Llama with adjacent rotary pairs and one switch for all biases.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/decoder.h"

bool
ernie4_5_conf(const Conf *c, DecoderConf *out, Err *e)
{
	bool		gguf = conf_has(c, "gguf.architecture");

	out->eps = 1e-5f;
	out->tied = true;
	out->n_kv_heads = 2;
	out->head_dim = gguf ? 0 : 128;
	out->rope[0].keys.theta = 500000;
	if (!dec_conf(c, out, e))
		return false;
	out->interleaved = true;
	out->qkv_bias = out->o_bias = out->mlp_bias =
		conf_bool(c, gguf ? "attention_bias" : "use_bias", false);
	return true;
}
