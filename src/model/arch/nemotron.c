/*
 * nemotron.c
 *	  Nemotron-4 and Minitron (NVIDIA 2024, arXiv:2402.16819): layer norms by 1 + w, squared ReLU
 *	  without a gate, half of each head rotated.  Arcee (AFM) has the same feed-forward network in an
 *	  otherwise plain Llama.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
nemotron_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->eps = 1e-5f;
	out->act = KACT_RELU2;
	out->rope[0].part = 0.5f;
	if (!dec_conf(c, out, e))
		return false;
	out->layer_norm = out->norm_bias = out->one_plus = true;
	out->qkv_bias = conf_bool(c, "attention_bias", false);
	out->o_bias = conf_bool(c, "attention_out_bias", out->qkv_bias);
	out->mlp_bias = conf_bool(c, "mlp_bias", false);
	return true;
}

bool
arcee_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->eps = 1e-5f;
	out->act = KACT_RELU2;
	return llama_conf(c, out, e);
}

static bool
nemotron_layer(Binder *b, Decoder *d, Layer *l)
{
	l->up.k = d->c.hidden;
	l->down.k = d->c.inter;
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) && bind_attn(b, l) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden) &&
		bind_linear(b, &l->up, "mlp.up_proj", "ffn_up", d->c.inter, d->c.mlp_bias) &&
		bind_linear(b, &l->down, "mlp.down_proj", "ffn_down", d->c.hidden, d->c.mlp_bias);
}

bool
nemotron_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", nemotron_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}
