/*
 * minimax_m2.c
 *	  MiniMax-M2 (MiniMax 2025): Mixtral with norms on q and k as one vector, a part of each head
 *	  rotated, and experts chosen by sigmoid and a learned correction.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
minimax_m2_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->rope[0].keys.theta = 5000000;
	out->qk_norm = QKNORM_WIDE;
	out->moe.routing = KROUTE_SIGMOID;
	out->moe.correction = out->moe.normalize = true;
	return dec_conf(c, out, e) && dec_conf_moe(c, out, e);
}

static const MoeNames names = {
	.router = "block_sparse_moe.gate", .correction = "block_sparse_moe.e_score_correction_bias",
	.experts = "block_sparse_moe.experts", .gate = "w1", .up = "w3", .down = "w2",
};

static bool
minimax_m2_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) && bind_attn(b, l) &&
		bind_qk_norm(b, l) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden) &&
		bind_moe(b, l, &names);
}

bool
minimax_m2_bind(Binder *b, Decoder *d)
{
	(void) d;
	bind_ignore_extra_layers(b);
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", minimax_m2_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}
