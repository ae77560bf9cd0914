/*
 * starcoder2.c
 *	  StarCoder 2 (Lozhkov et al. 2024, arXiv:2402.19173): LayerNorm, rotary positions,
 *	  grouped-query attention in a window, an MLP without a gate, biases by one switch.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
starcoder2_conf(const Conf *c, DecoderConf *out, Err *e)
{
	/* GGUF shows biases by their tensors */
	bool		bias = conf_bool(c, conf_has(c, "gguf.architecture") ? "attention_bias" : "use_bias", true);

	out->eps = 1e-5f;
	out->act = KACT_GELU_TANH;
	out->tied = true;
	out->layer_norm = out->norm_bias = true;
	out->qkv_bias = out->o_bias = out->mlp_bias = bias;
	return dec_conf(c, out, e) && mistral_windows(c, out, 0, e);
}

static bool
starcoder2_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) && bind_attn(b, l) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden) &&
		bind_mlp(b, l, "mlp.c_fc", "mlp.c_proj");
}

bool
starcoder2_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", starcoder2_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}
