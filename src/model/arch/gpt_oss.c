/*
 * gpt_oss.c
 *	  gpt-oss (OpenAI 2025, arXiv:2508.10925): experts whose gate is clamped, biases on all matrices of
 *	  the blocks, a window in every other layer.  Each head's softmax has an additional learned score
 *	  without a value, so that a head can attend to nothing.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

static bool
is_even(const Conf *c, int layer)
{
	(void) c;
	return layer % 2 == 0;
}

/* Check a constant of the activation, as there is only one kernel. */
static bool
constant(const Conf *c, const char *key, double want, Err *e)
{
	double		v = conf_num(c, key, want);

	return v == want || err_set(e, ERR_UNSUPPORTED, "\"%s\" = %g is not supported", key, v);
}

bool
gpt_oss_conf(const Conf *c, DecoderConf *out, Err *e)
{
	int			window;

	out->eps = 1e-5f;
	out->head_dim = conf_has(c, "gguf.architecture") ? 0 : 64;
	out->rope[0].keys = (RopeKeys) {.theta = 150000, .exact = conf_has(c, "gguf.architecture")};
	out->moe.routing = KROUTE_TOPK_SOFTMAX;
	out->moe.router_bias = out->moe.bias = true;
	if (!dec_conf(c, out, e) || !dec_conf_moe(c, out, e) ||
		!dec_conf_window(c, 128, true, &window, e) ||
		!dec_conf_windows(c, out, window, is_even, e) ||
		!constant(c, "swiglu_alpha", 1.702, e) || !constant(c, "swiglu_limit", 7, e))
		return false;
	out->act = KACT_SWIGLU_OAI;
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", true);
	return true;
}

static const MoeNames names = {
	.router = "mlp.router", .gate_up = "mlp.experts.gate_up_proj", .down = "mlp.experts.down_proj",
	.alternate = true, .transposed = true, .gate_up_bias = "mlp.experts.gate_up_proj_bias",
	.down_bias = "mlp.experts.down_proj_bias",
};

static bool
gpt_oss_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) && bind_attn(b, l) &&
		bind_vector(b, &l->sinks, "self_attn.sinks", "attn_sinks.weight", d->c.n_heads) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "post_attention_norm", d->c.hidden) &&
		bind_moe(b, l, &names);
}

bool
gpt_oss_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", gpt_oss_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}
