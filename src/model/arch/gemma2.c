/*
 * gemma2.c
 *	  Gemma 2 (Gemma Team 2024, arXiv:2408.00118): Gemma with additional norms after attention and MLP,
 *	  soft caps on scores and logits, and a window in every other layer.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

#include <math.h>

static bool
is_even(const Conf *c, int layer)
{
	(void) c;
	return layer % 2 == 0;
}

/* Read the settings that Gemma 2 and 3 share. */
bool
gemma2_attn(const Conf *c, DecoderConf *out, int layers_by_width, Err *e)
{
	float		scalar = (float) out->head_dim;

	/* GGUF doesn't store it; only the largest model differs */
	if (!conf_has(c, "gguf.architecture"))
		scalar = 256;
	else if (out->n_layers == layers_by_width)
		scalar = (float) out->hidden / (float) out->n_heads;
	if (!dec_conf_num(c, "query_pre_attn_scalar", 0, 1e9, (double) scalar, &scalar, e))
		return false;
	out->attn_scale = (float) pow((double) scalar, -0.5);
	return true;
}

/* Read a soft cap; null is none. */
static bool
softcap(const Conf *c, const char *key, double dflt, float *out, Err *e)
{
	return dec_conf_num(c, key, 0, 1e9, conf_is_null(c, key) ? 0 : dflt, out, e);
}

bool
gemma2_conf(const Conf *c, DecoderConf *out, Err *e)
{
	int			window;

	out->n_kv_heads = 4;
	return gemma_conf(c, out, e) && gemma2_attn(c, out, 46, e) &&
		softcap(c, "attn_logit_softcapping", 50, &out->attn_softcap, e) &&
		softcap(c, "final_logit_softcapping", 30, &out->logit_softcap, e) &&
		dec_conf_window(c, 4096, true, &window, e) &&
		dec_conf_windows(c, out, window, is_even, e);
}

static bool
gemma2_layer(Binder *b, Decoder *d, Layer *l)
{
	int			n = d->c.hidden;

	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", n) && bind_attn(b, l) &&
		bind_norm(b, &l->attn_out_norm, "post_attention_layernorm", "post_attention_norm", n) &&
		bind_norm(b, &l->mlp_norm, "pre_feedforward_layernorm", "ffn_norm", n) && bind_glu(b, l) &&
		bind_norm(b, &l->mlp_out_norm, "post_feedforward_layernorm", "post_ffw_norm", n);
}

bool
gemma2_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", gemma2_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}

void
gemma2_forward(Decoder *d, float *logits)
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
		dec_out_norm(d, &l->attn_out_norm);

		dec_norm(d, &l->mlp_norm);
		dec_glu(d, l);
		dec_out_norm(d, &l->mlp_out_norm);
	}
	dec_head(d, logits);
}
