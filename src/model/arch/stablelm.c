/*
 * stablelm.c
 *	  StableLM 2 and StableLM 3B (Bellagente et al. 2024, arXiv:2402.17834): Llama with LayerNorm and
 *	  rotary positions in a quarter of each head; attention and MLP may be parallel after one norm;
 *	  heads of q and k may be normed, each with its own weights.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
stablelm_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->eps = 1e-5f;
	out->rope[0].part = 0.25f;
	out->layer_norm = out->norm_bias = true;
	if (!dec_conf(c, out, e))
		return false;
	out->qk_norm = QKNORM_HEADS;
	out->qkv_bias = conf_bool(c, conf_has(c, "gguf.architecture") ? "attention_bias" : "use_qkv_bias", false);
	out->parallel = conf_bool(c, "use_parallel_residual", false);
	return true;
}

static bool
stablelm_layer(Binder *b, Decoder *d, Layer *l)
{
	bool		norm = bind_is_gguf(b) ? bind_has(b, "", "attn_q_norm.weight") :
		conf_bool(bind_conf(b), "qk_layernorm", false);

	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) && bind_attn(b, l) &&
		(!norm || bind_qk_norm_heads(b, l, "self_attn.q_layernorm", "self_attn.k_layernorm")) &&
		(d->c.parallel || bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden)) &&
		bind_glu(b, l);
}

bool
stablelm_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", stablelm_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}

void
stablelm_forward(Decoder *d, float *logits)
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
		if (d->c.parallel)
			dec_add(d);			/* h is still the normed input */
		else
			dec_norm(d, &l->mlp_norm);
		dec_glu(d, l);
	}
	dec_head(d, logits);
}
