/*
 * qwen2_moe.c
 *	  Qwen1.5-MoE and Qwen2-MoE (Yang et al. 2024, arXiv:2407.10671): Qwen2 with experts and a shared
 *	  expert that computes all rows and has a gate.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

/*
 * Set the layers with experts: every n-th one by "decoder_sparse_step", except for those listed in
 * "mlp_only_layers".  GGUF has no key for that.
 */
bool
qwen_moe_layers(const Conf *c, DecoderConf *out, Err *e)
{
	size_t		n;
	const double *dense = conf_nums(c, "mlp_only_layers", &n);
	int			step;

	if (!dec_conf_moe(c, out, e) ||
		!dec_conf_int(c, "decoder_sparse_step", 1, DEC_MAX_LAYERS, 1, &step, e))
		return false;
	for (int i = 0; i < out->n_layers; i++)
		out->layers[i].moe = (i + 1) % step == 0;
	for (size_t i = 0; i < n; i++)
		if (dense[i] >= 0 && dense[i] < out->n_layers)
			out->layers[(int) dense[i]].moe = false;
	return true;
}

static bool
is_even_and_low(const Conf *c, int layer)
{
	return layer % 2 == 0 && layer < conf_int(c, "max_window_layers", 28);
}

bool
qwen2_moe_conf(const Conf *c, DecoderConf *out, Err *e)
{
	int			window = 0;

	out->moe.shared_gate = true;
	if (!dec_conf(c, out, e) ||
		(conf_bool(c, "use_sliding_window", false) && !dec_conf_window(c, 4096, false, &window, e)))
		return false;
	out->qkv_bias = conf_bool(c, "qkv_bias", true);
	return dec_conf_windows(c, out, window, is_even_and_low, e) && qwen_moe_layers(c, out, e) &&
		dec_conf_int(c, "shared_expert_intermediate_size", 1, DEC_MAX_INTER, out->moe.shared_inter,
					 &out->moe.shared_inter, e);
}

static bool
qwen2_moe_layer(Binder *b, Decoder *d, Layer *l)
{
	MoeNames	names = moe_names;

	names.shared = "mlp.shared_expert.";
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) && bind_attn(b, l) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden) &&
		(l->c->moe ? bind_moe(b, l, &names) : bind_glu(b, l));
}

bool
qwen2_moe_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", qwen2_moe_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}
