/*
 * internlm.c
 *	  InternLM2 (Cai et al. 2024, arXiv:2403.17297): Llama with different names and with q, k and v in
 *	  one matrix, grouped by the heads of k; and InternLM3, which is Llama.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
internlm2_conf(const Conf *c, DecoderConf *out, Err *e)
{
	if (!llama_conf(c, out, e))
		return false;
	if (!conf_has(c, "gguf.architecture"))
		out->qkv_bias = out->o_bias = conf_bool(c, "bias", false);
	return true;
}

bool
internlm3_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->eps = 1e-5f;
	out->n_kv_heads = 2;
	out->head_dim = 128;
	if (!dec_conf(c, out, e))
		return false;
	out->qkv_bias = conf_bool(c, "qkv_bias", conf_bool(c, "attention_bias", false));
	out->o_bias = out->mlp_bias = conf_bool(c, "bias", conf_bool(c, "mlp_bias", false));
	return true;
}

static bool
internlm2_layer(Binder *b, Decoder *d, Layer *l)
{
	const DecoderConf *c = &d->c;

	l->o.k = c->n_heads * c->head_dim;
	l->up.k = c->hidden;
	l->down.k = c->inter;
	if (bind_is_gguf(b) ? !bind_attn(b, l) : !bind_qkv(b, l, "attention.wqkv", "", true) ||
		!bind_linear(b, &l->o, "attention.wo", "", c->hidden, c->o_bias))
		return false;
	return bind_norm(b, &l->attn_norm, "attention_norm", "attn_norm", c->hidden) &&
		bind_norm(b, &l->mlp_norm, "ffn_norm", "ffn_norm", c->hidden) &&
		bind_linear(b, &l->up, "feed_forward.w1", "ffn_gate", c->inter, false) &&
		bind_linear(b, &l->up, "feed_forward.w3", "ffn_up", c->inter, false) &&
		bind_linear(b, &l->down, "feed_forward.w2", "ffn_down", c->hidden, false);
}

bool
internlm2_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.tok_embeddings") && bind_layers(b, "model.layers.", internlm2_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "output");
}
