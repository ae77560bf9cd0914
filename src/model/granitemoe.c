/*
 * granitemoe.c
 *	  Granite 3 with experts (IBM 2024), perhaps with one more that computes all rows.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/bind.h"

bool
granitemoe_conf(const Conf *c, DecoderConf *out, Err *e)
{
	bool		gguf = conf_has(c, "gguf.architecture");

	out->moe.routing = MOE_TOPK_SOFTMAX;
	if (!dec_conf(c, out, e) || !granite_multipliers(c, out, e) || !dec_conf_moe(c, out, e) ||
		!dec_conf_int(c, gguf ? "shared_expert_intermediate_size" : "shared_intermediate_size", 0, DEC_MAX_INTER, 0,
					  &out->moe.shared_inter, e))
		return false;
	out->interleaved = gguf;
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", false);
	return true;
}

static const MoeNames names = {
	.router = "block_sparse_moe.router.layer", .gate_up = "block_sparse_moe.input_linear",
	.down = "block_sparse_moe.output_linear", .shared_gate_up = "shared_mlp.input_linear",
	.shared_down = "shared_mlp.output_linear",
};

static bool
granitemoe_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) && bind_attn(b, l) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden) && bind_moe(b, l, &names);
}

bool
granitemoe_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", granitemoe_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}
