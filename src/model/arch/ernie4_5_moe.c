/*
 * ernie4_5_moe.c
 *	  ERNIE 4.5 with experts (Baidu 2025): chosen by softmax and a learned correction, in some of the
 *	  layers, with a shared expert that computes all rows.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

/* Set the layers with experts: from .. to, with this number modulo the interval. */
static bool
expert_layers(const Conf *c, DecoderConf *out, Err *e)
{
	bool		gguf = conf_has(c, "gguf.architecture");
	int			every;
	int			from;
	int			to;

	if (!dec_conf_int(c, "moe_layer_interval", 1, DEC_MAX_LAYERS, 1, &every, e) ||
		!dec_conf_int(c, gguf ? "first_k_dense_replace" : "moe_layer_start_index", 0, DEC_MAX_LAYERS, 1,
					  &from, e) ||
		!dec_conf_int(c, "moe_layer_end_index", -1, DEC_MAX_LAYERS, -1, &to, e))
		return false;
	for (int i = 0; i < out->n_layers; i++)
		out->layers[i].moe = (i + 1) % every == 0 && i >= from && (to < 0 || i <= to);
	return true;
}

bool
ernie4_5_moe_conf(const Conf *c, DecoderConf *out, Err *e)
{
	bool		gguf = conf_has(c, "gguf.architecture");
	int			shared;

	out->eps = 1e-5f;
	out->tied = true;
	out->n_kv_heads = gguf ? 0 : 4;
	out->rope[0].keys.theta = 500000;
	out->moe.correction = out->moe.normalize = true;
	if (!dec_conf(c, out, e) || !dec_conf_moe(c, out, e) || !expert_layers(c, out, e) ||
		!dec_conf_num(c, "moe_norm_min", 0, 1, 1e-12, &out->moe.normalize_min, e) ||
		!dec_conf_int(c, gguf ? "n_shared_experts" : "moe_num_shared_experts", 0, KROUTE_MAX_EXPERTS,
					  gguf ? 0 : 2, &shared, e))
		return false;
	out->interleaved = true;
	if (conf_bool(c, "use_bias", false))
		return err_set(e, ERR_UNSUPPORTED, "\"use_bias\" is not supported in this architecture");
	if ((int64_t) shared * out->moe.inter > DEC_MAX_INTER)
		return err_set(e, ERR_BAD_FILE, "model configuration has \"moe_num_shared_experts\" = %d", shared);
	out->moe.shared_inter = shared * out->moe.inter;
	return true;
}

static bool
ernie4_5_moe_layer(Binder *b, Decoder *d, Layer *l)
{
	MoeNames	names = moe_names;

	names.correction = "mlp.moe_statics.e_score_correction_bias";
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) && bind_attn(b, l) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden) &&
		(l->c->moe ? bind_moe(b, l, &names) : bind_glu(b, l));
}

bool
ernie4_5_moe_bind(Binder *b, Decoder *d)
{
	(void) d;
	bind_ignore_extra_layers(b);
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", ernie4_5_moe_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}
