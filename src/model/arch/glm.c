/*
 * glm.c
 *	  GLM-4 (Team GLM 2024, arXiv:2406.12793): Llama with biases on q, k and v; half of each head is
 *	  rotated, in adjacent pairs; gate and up are one matrix.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
glm_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->eps = 1.5625e-7f;
	out->n_kv_heads = 2;
	/* GGUF omits it if it follows from the other sizes */
	out->head_dim = conf_has(c, "gguf.architecture") ? 0 : 128;
	out->rope[0].part = 0.5f;
	if (!dec_conf(c, out, e))
		return false;
	out->interleaved = true;
	out->qkv_bias = conf_bool(c, "attention_bias", true);
	return true;
}

/* Bind attention.  GGUF files made from the original's layout have q, k and v in one matrix. */
static bool
bind_glm_attn(Binder *b, Decoder *d, Layer *l)
{
	if (!bind_is_gguf(b) || !bind_has(b, "", "attn_qkv.weight"))
		return bind_attn(b, l);
	d->c.qkv_bias = bind_has(b, "", "attn_qkv.bias");
	l->o.k = d->c.n_heads * d->c.head_dim;
	return bind_qkv(b, l, "", "attn_qkv", false) &&
		bind_linear(b, &l->o, "", "attn_output", d->c.hidden, false);
}

static bool
glm_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) &&
		bind_glm_attn(b, d, l) && bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm",
											d->c.hidden) && bind_glu_fused(b, l);
}

bool
glm_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", glm_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}
