/*
 * hunyuan.c
 *	  Hunyuan, dense (Tencent 2025): Llama whose heads of q and k are normed after the rotation.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
hunyuan_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->eps = 1e-5f;
	if (!dec_conf(c, out, e))
		return false;
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", false);
	return true;
}

static bool
hunyuan_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) && bind_attn(b, l) &&
		bind_qk_norm_as(b, l, "self_attn.query_layernorm", "self_attn.key_layernorm") &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden) && bind_glu(b, l);
}

bool
hunyuan_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", hunyuan_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}

void
hunyuan_forward(Decoder *d, float *logits)
{
	dec_embed(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		dec_norm(d, &l->attn_norm);
		dec_qkv(d, l);
		dec_rope(d, l);
		dec_qk_norm(d, l);
		dec_attn(d, l);
		if (!dec_wanted(d, l))
			return;
		dec_o(d, l);

		dec_norm(d, &l->mlp_norm);
		dec_glu(d, l);
	}
	dec_head(d, logits);
}
