/*
 * qwen3.c
 *	  Qwen3 (Yang et al. 2025, arXiv:2505.09388): Llama whose heads of q and k are
 *	  normed before they are rotated, and optionally a window in the upper layers.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
qwen3_conf(const Conf *c, DecoderConf *out, Err *e)
{
	/* GGUF omits it if it follows from the other sizes */
	out->head_dim = conf_has(c, "gguf.architecture") ? 0 : 128;
	if (!qwen2_conf(c, out, e))
		return false;
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", false);
	return true;
}

static bool
qwen3_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) && bind_attn(b, l) &&
		bind_qk_norm(b, l) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden) && bind_ffn(b, l);
}

bool
qwen3_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", qwen3_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}

void
qwen3_forward(Decoder *d, float *logits)
{
	dec_embed(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		dec_norm(d, &l->attn_norm);
		dec_qkv(d, l);
		dec_qk_norm(d, l);
		dec_rope(d, l);
		dec_attn(d, l);
		if (!dec_wanted(d, l))
			return;
		dec_o(d, l);

		dec_norm(d, &l->mlp_norm);
		dec_ffn(d, l);
	}
	dec_head(d, logits);
}
