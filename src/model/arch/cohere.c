/*
 * cohere.c
 *	  Command-R (Cohere 2024): attention and MLP in parallel after one layer norm without biases,
 *	  adjacent rotary pairs, a factor of the logits, and optionally norms on the heads of q and k.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
cohere_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->eps = 1e-5f;
	out->tied = true;
	if (out->rope[0].keys.theta == 0)
		out->rope[0].keys.theta = 500000;
	if (!dec_conf(c, out, e) || !dec_conf_num(c, "logit_scale", 0, 1e9, 0.0625, &out->logit_scale, e))
		return false;
	/* this key may give the length of training, above the size of the table in the first
	 * implementation */
	if (!dec_conf_int(c, "model_max_length", 1, DEC_MAX_LEN, out->max_len, &out->max_len, e))
		return false;
	out->layer_norm = true;
	out->interleaved = true;
	out->qk_norm = QKNORM_HEADS;
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", false);
	return true;
}

static bool
cohere_layer(Binder *b, Decoder *d, Layer *l)
{
	bool		normed = conf_bool(bind_conf(b), "use_qk_norm", false) ||
		(bind_is_gguf(b) && bind_has(b, "", "attn_q_norm.weight"));

	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) && bind_attn(b, l) &&
		(!normed || bind_qk_norm(b, l)) && bind_glu(b, l);
}

bool
cohere_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", cohere_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}

void
cohere_forward(Decoder *d, float *logits)
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
		dec_add(d);
		dec_glu(d, l);
	}
	dec_head(d, logits);
}
