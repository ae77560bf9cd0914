/*
 * glm4_moe.c
 *	  GLM-4.5 and 4.6 (Zhipu AI 2025, arXiv:2508.06471): experts as in DeepSeek-V3, half of each
 *	  head rotated, and perhaps norms on the heads of q and k.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
glm4_moe_conf(const Conf *c, DecoderConf *out, Err *e)
{
	int			extra;

	out->eps = 1e-5f;
	out->rope[0].part = 0.5f;
	out->moe.normalize = !conf_has(c, "gguf.architecture");
	if (!dec_conf(c, out, e) ||
		!dec_conf_int(c, "gguf.nextn_predict_layers", 0, out->n_layers - 1, 0, &extra, e))
		return false;
	/* GGUF counts drafting layers */
	out->n_layers -= extra;
	out->qkv_bias = conf_bool(c, "attention_bias", false);
	return deepseek_sigmoid(c, out, e);
}

static bool
glm4_moe_layer(Binder *b, Decoder *d, Layer *l)
{
	const Conf *c = bind_conf(b);
	bool		norms = bind_is_gguf(b) ? bind_has(b, "", "attn_q_norm.weight") :
		conf_bool(c, "use_qk_norm", false);

	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) && bind_attn(b, l) &&
		(!norms || bind_qk_norm(b, l)) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "post_attention_norm", d->c.hidden) &&
		bind_ffn(b, l);
}

bool
glm4_moe_bind(Binder *b, Decoder *d)
{
	(void) d;
	bind_ignore_extra_layers(b);
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", glm4_moe_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}
