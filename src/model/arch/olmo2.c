/*
 * olmo2.c
 *	  OLMo 2 (OLMo Team 2025, arXiv:2501.00656) and OLMo 3: norms after attention and MLP instead of
 *	  before, and on q and k as one vector.  OLMo 3 has windows in three of four layers, to which a
 *	  scaling of the rotary positions doesn't apply.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

static bool
is_local(const Conf *c, int layer)
{
	(void) c;
	return (layer + 1) % 4 != 0;
}

static bool
windows(const Conf *c, DecoderConf *out, int window, Err *e)
{
	if (!dec_conf_windows(c, out, window, is_local, e))
		return false;
	out->rope[1] = (Rope) {.dim = out->rope[0].dim, .keys = {
		.section = "sliding_attention", .theta = out->rope[0].keys.theta, .local = true,
		.theta_key = conf_has(c, "rope_local_base_freq") ? "rope_local_base_freq" : NULL
	}};
	for (int i = 0; i < out->n_layers; i++)
		out->layers[i].rope = out->layers[i].sliding;
	return true;
}

bool
olmo2_conf(const Conf *c, DecoderConf *out, Err *e)
{
	int			window;

	out->eps = 1e-5f;
	if (!dec_conf(c, out, e))
		return false;
	out->qk_norm = QKNORM_WIDE;
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", false);
	/* OLMo 3 has the same name in GGUF */
	if (!conf_has(c, "gguf.architecture") || !conf_has(c, "sliding_window"))
		return true;
	if (!dec_conf_int(c, "sliding_window", 1, DEC_MAX_LEN, 4096, &window, e))
		return false;
	return windows(c, out, window, e);
}

bool
olmo3_conf(const Conf *c, DecoderConf *out, Err *e)
{
	int			window;

	out->rope[0].keys = (RopeKeys) {.section = "full_attention", .theta = 500000};
	return olmo2_conf(c, out, e) && dec_conf_window(c, 4096, true, &window, e) &&
		windows(c, out, window, e);
}

static bool
olmo2_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_attn(b, l) && bind_qk_norm(b, l) &&
		bind_norm(b, &l->attn_out_norm, "post_attention_layernorm", "post_attention_norm", d->c.hidden) &&
		bind_glu(b, l) &&
		bind_norm(b, &l->mlp_out_norm, "post_feedforward_layernorm", "post_ffw_norm", d->c.hidden);
}

bool
olmo2_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", olmo2_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}

void
olmo2_forward(Decoder *d, float *logits)
{
	dec_embed(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		dec_plain(d);
		dec_qkv(d, l);
		dec_qk_norm(d, l);
		dec_rope(d, l);
		dec_attn(d, l);
		if (!dec_wanted(d, l))
			return;
		dec_o(d, l);
		dec_out_norm(d, &l->attn_out_norm);

		dec_plain(d);
		dec_glu(d, l);
		dec_out_norm(d, &l->mlp_out_norm);
	}
	dec_head(d, logits);
}
