/*
 * phi3.c
 *	  Phi-3, Phi-3.5 and Phi-4 (Abdin et al. 2024, arXiv:2404.14219): Llama with q, k and v
 *	  in one matrix, gate and up in another.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
phi3_conf(const Conf *c, DecoderConf *out, Err *e)
{
	int			window = 0;

	out->eps = 1e-5f;
	/* GGUF: 0 = none */
	return dec_conf(c, out, e) && dec_conf_window(c, 0, false, &window, e) &&
		dec_conf_windows(c, out, window, NULL, e);
}

static bool
phi3_layer(Binder *b, Decoder *d, Layer *l)
{
	l->o.k = d->c.n_heads * d->c.head_dim;
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) &&
		bind_qkv(b, l, "self_attn.qkv_proj", "attn_qkv", false) &&
		bind_linear(b, &l->o, "self_attn.o_proj", "attn_output", d->c.hidden, false) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden) &&
		bind_glu_fused(b, l);
}

bool
phi3_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", phi3_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}
