/*
 * nomic.c
 *	  Nomic Embed's BERT (Nussbaum et al. 2024, arXiv:2402.01613): rotation, a gate in the MLP, no biases; and
 *	  its second generation (Nussbaum and Duderstadt 2025, arXiv:2502.07972): no gate, biases, and a
 *	  mixture of experts in every other layer.
 *
 * The configuration is like GPT-2's with additional keys, or, from newer tools, has the usual keys.
 * Only texts within the length of training are accepted; there "rotary_scaling_factor" has no effect.
 *
 * Tested by tests/golden/encoders_golden.c.
 */
#include "model/layers/encoder.h"

#include <string.h>

static const EncoderNames names = {
	.qkv = "attn.Wqkv", .o = "attn.out_proj", .attn_norm = "norm1",
	.up = "mlp.fc11", .gate = "mlp.fc12", .down = "mlp.fc2", .mlp_norm = "norm2",
};

static const EncoderNames plain_names = {
	.qkv = "attn.Wqkv", .o = "attn.out_proj", .attn_norm = "norm1",
	.up = "mlp.fc1", .down = "mlp.fc2", .mlp_norm = "norm2",
};

/* Refuse settings of other models that use the same code. */
static bool
refuse_others(const Conf *c, Err *e)
{
	static const char *const flags[] = {
		"prenorm", "use_rms_norm", "parallel_block", "causal", "rotary_emb_interleaved",
		"expert_choice_router", "moe_normalize_expert_weights"
	};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (conf_bool(c, flags[i], false))
			return err_set(e, ERR_UNSUPPORTED, "\"%s\" is not supported", flags[i]);
	if (conf_num(c, "rotary_emb_fraction", 1) != 1)
		return err_set(e, ERR_UNSUPPORTED, "\"rotary_emb_fraction\" = %g is not supported",
					   conf_num(c, "rotary_emb_fraction", 1));
	return true;
}

static bool
nomic_experts(const Conf *c, DecoderConf *out, Err *e)
{
	int			every;

	if (!dec_conf_int(c, "moe_every_n_layers", 0, DEC_MAX_LAYERS, 0, &every, e) || every == 0)
		return every == 0;
	if (out->glu)
		return err_set(e, ERR_UNSUPPORTED, "experts with a gate are not supported in this architecture");
	if (!dec_conf_int(c, "moe_top_k", 1, KROUTE_MAX_CHOSEN, 1, &out->moe.top_k, e) ||
		!dec_conf_moe(c, out, e))
		return false;
	out->moe.plain = true;
	for (int i = 0; i < out->n_layers; i++)
		out->layers[i].moe = i % every == 1;
	return true;
}

bool
nomic_conf(const Conf *c, DecoderConf *out, Err *e)
{
	bool		second = strcmp(conf_str(c, "gguf.architecture", ""), "nomic-bert-moe") == 0;
	const char *act = conf_str(c, "activation_function", "swiglu");
	int			trained;

	enc_defaults(out);
	/* other activations imply no gate */
	out->glu = !second && (strcmp(act, "swiglu") == 0 || strcmp(act, "geglu") == 0);
	out->act = second ? KACT_GELU : KACT_SILU;
	out->max_len = 2048;
	out->rope[0].keys = (RopeKeys) {.theta_key = conf_has(c, "rotary_emb_base") ? "rotary_emb_base" : NULL,
									.theta = 1000};
	if (!refuse_others(c, e) || !enc_conf(c, out, e) ||
		!dec_conf_int(c, "max_trained_positions", 1, DEC_MAX_LEN, out->max_len, &trained, e))
		return false;
	out->max_len = trained < out->max_len ? trained : out->max_len;
	out->qkv_bias = out->o_bias = conf_bool(c, "qkv_proj_bias", false);
	out->mlp_bias = conf_bool(c, "mlp_fc1_bias", false);
	out->down_bias = conf_bool(c, "mlp_fc2_bias", false);
	return nomic_experts(c, out, e) && enc_conf_types(c, out, 2, e);
}

/* The matrices of all experts are one below the other, those of `down` transposed. */
static bool
bind_experts(Binder *b, Decoder *d, Layer *l)
{
	const MoeConf *m = &d->c.moe;
	int			rows = m->n_experts * m->inter;
	bool		ok;

	l->moe.router.k = d->c.hidden;
	l->moe.router.exact = true;
	ok = bind_linear(b, &l->moe.router, "mlp.router.layer", "", m->n_experts, false) &&
		bind_vector(b, &l->moe.out_bias, "mlp.experts.bias", "", d->c.hidden);
	bind_stack(b, &l->moe.up, m->n_experts, m->top_k);
	bind_stack(b, &l->moe.down, m->n_experts, m->top_k);
	for (int i = 0; ok && i < m->n_experts; i++)
	{
		l->moe.up.of[i].k = d->c.hidden;
		l->moe.down.of[i].k = m->inter;
		ok = bind_block(b, &l->moe.up.of[i], "mlp.experts.mlp.w1", "", rows, d->c.hidden, i * m->inter, false,
						m->inter) &&
			bind_block(b, &l->moe.down.of[i], "mlp.experts.mlp.w2", "", rows, d->c.hidden, i * m->inter, true,
					   d->c.hidden);
	}
	return ok;
}

static bool
nomic_layer(Binder *b, Decoder *d, Layer *l)
{
	if (l->c->moe)
		return enc_attn(b, l, &plain_names) &&
			(bind_is_gguf(b) ? bind_moe(b, l, &moe_names) : bind_experts(b, d, l));
	return enc_layer(b, l, d->c.glu ? &names : &plain_names);
}

bool
nomic_bind(Binder *b, Decoder *d)
{
	/* GGUF doesn't say which biases exist */
	if (bind_is_gguf(b))
	{
		d->c.qkv_bias = bind_has(b, "", "blk.0.attn_qkv.bias");
		d->c.o_bias = bind_has(b, "", "blk.0.attn_output.bias");
		d->c.mlp_bias = bind_has(b, "", "blk.0.ffn_up.bias");
		d->c.down_bias = bind_has(b, "", "blk.0.ffn_down.bias");
	}
	/* transformers' own models with a head */
	if (bind_has(b, "nomic_bert.embeddings.word_embeddings.weight", ""))
		return enc_ignore_heads(b) && enc_embeddings(b, d, "nomic_bert.", "nomic_bert.emb_ln") &&
			bind_layers(b, "nomic_bert.encoder.layers.", nomic_layer) &&
			enc_heads(b, d, "nomic_bert.pooler.dense", HA_TANH, "classifier");
	return enc_ignore_heads(b) && enc_embeddings(b, d, "bert.", "bert.emb_ln") &&
		bind_layers(b, "bert.encoder.layers.", nomic_layer) &&
		enc_heads(b, d, "bert.pooler.dense", HA_TANH, "classifier");
}
