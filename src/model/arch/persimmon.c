/*
 * persimmon.c
 *	  Persimmon (Adept 2023): LayerNorm, also on the heads of q and k, rotary positions in half of
 *	  each head, squared ReLU; q, k and v in one matrix, head by head.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
persimmon_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->eps = 1e-5f;
	out->act = KACT_RELU2;
	out->rope[0].part = 0.5f;
	out->layer_norm = out->norm_bias = true;
	out->qkv_bias = out->o_bias = out->mlp_bias = true;
	return dec_conf(c, out, e);
}

static bool
persimmon_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "input_layernorm", "", d->c.hidden) &&
		bind_qkv(b, l, "self_attn.query_key_value", "", true) && bind_o(b, l, "self_attn.dense") &&
		(!conf_bool(bind_conf(b), "qk_layernorm", true) ||
		 bind_qk_norm_as(b, l, "self_attn.q_layernorm", "self_attn.k_layernorm")) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "", d->c.hidden) &&
		bind_mlp(b, l, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h");
}

bool
persimmon_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", persimmon_layer) &&
		bind_final_norm(b, "model.final_layernorm") && bind_head(b, "lm_head");
}
