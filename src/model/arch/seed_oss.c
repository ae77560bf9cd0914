/*
 * seed_oss.c
 *	  Seed-OSS (ByteDance 2025): Llama with biases on q, k and v, and switches for the others.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
seed_oss_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->n_kv_heads = 8;
	out->head_dim = conf_has(c, "gguf.architecture") ? 0 : 128;
	if (!dec_conf(c, out, e))
		return false;
	out->qkv_bias = conf_bool(c, "attention_bias", true);
	out->o_bias = conf_bool(c, "attention_out_bias", false);
	out->mlp_bias = conf_bool(c, "mlp_bias", false);
	return true;
}

static bool
seed_oss_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) && bind_attn(b, l) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "post_attention_norm", d->c.hidden) &&
		bind_glu(b, l);
}

bool
seed_oss_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", seed_oss_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}
