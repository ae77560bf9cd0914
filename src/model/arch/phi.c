/*
 * phi.c
 *	  Phi-1, 1.5 and 2 (Li et al. 2023, arXiv:2309.05463): attention and MLP in parallel after one
 *	  LayerNorm, rotary positions in a part of each head, biases everywhere.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
phi_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->eps = 1e-5f;
	out->act = KACT_GELU_TANH;
	out->rope[0].part = 0.5f;
	out->layer_norm = out->norm_bias = true;
	out->qkv_bias = out->o_bias = out->mlp_bias = out->head_bias = true;
	return dec_conf(c, out, e);
}

static bool
phi_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) &&
		bind_qkv_apart(b, l, "self_attn.") &&
		(!conf_bool(bind_conf(b), "qk_layernorm", false) ||
		 bind_qk_norm_as(b, l, "self_attn.q_layernorm", "self_attn.k_layernorm")) &&
		 bind_o(b, l, "self_attn.dense") && bind_mlp(b, l, "mlp.fc1", "mlp.fc2");
}

bool
phi_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", phi_layer) &&
		bind_final_norm(b, "model.final_layernorm") && bind_head(b, "lm_head");
}

void
phi_forward(Decoder *d, float *logits)
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
		dec_add(d);				/* h is still the normed input */
		dec_mlp(d, l);
	}
	dec_head(d, logits);
}
