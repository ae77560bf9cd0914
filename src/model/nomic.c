/*
 * nomic.c
 *	  Nomic Embed's BERT (Nussbaum et al. 2024, arXiv:2402.01613): rotation, a gate in the MLP, no biases.
 *
 * The configuration is one of GPT-2's kind with keys of its own, or, from newer tools, with the
 * usual ones.  Within the length that it was trained with, which is all that is taken,
 * "rotary_scaling_factor" changes nothing.
 *
 * Tested by tests/golden/encoders_golden.c.
 */
#include "model/encoder.h"

static const EncoderNames names = {
	.qkv = "attn.Wqkv", .o = "attn.out_proj", .attn_norm = "norm1",
	.up = "mlp.fc11", .gate = "mlp.fc12", .down = "mlp.fc2", .mlp_norm = "norm2",
};

/* What other models of the same code have. */
static bool
refuse_others(const Conf *c, Err *e)
{
	static const char *const flags[] = {"prenorm", "use_rms_norm", "parallel_block", "causal", "rotary_emb_interleaved"};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (conf_bool(c, flags[i], false))
			return err_set(e, ERR_UNSUPPORTED, "\"%s\" is not supported", flags[i]);
	if (conf_num(c, "rotary_emb_fraction", 1) != 1)
		return err_set(e, ERR_UNSUPPORTED, "\"rotary_emb_fraction\" = %g is not supported",
					   conf_num(c, "rotary_emb_fraction", 1));
	if (conf_int(c, "moe_every_n_layers", 0) > 0)
		return err_set(e, ERR_UNSUPPORTED, "experts in Nomic's BERT are not supported");
	return true;
}

bool
nomic_conf(const Conf *c, DecoderConf *out, Err *e)
{
	int			trained;

	enc_defaults(out);
	out->glu = true;
	out->act = KACT_SILU;
	out->max_len = 2048;
	out->rope[0].keys = (RopeKeys) {.theta_key = conf_has(c, "rotary_emb_base") ? "rotary_emb_base" : NULL, .theta = 1000};
	if (!refuse_others(c, e) || !enc_conf(c, out, e) ||
		!dec_conf_int(c, "max_trained_positions", 1, DEC_MAX_LEN, out->max_len, &trained, e))
		return false;
	out->max_len = trained < out->max_len ? trained : out->max_len;
	out->qkv_bias = out->o_bias = conf_bool(c, "qkv_proj_bias", false);
	out->mlp_bias = conf_bool(c, "mlp_fc1_bias", false);
	out->down_bias = conf_bool(c, "mlp_fc2_bias", false);
	return enc_conf_types(c, out, 2, e);
}

static bool
nomic_layer(Binder *b, Decoder *d, Layer *l)
{
	(void) d;
	return enc_layer(b, l, &names);
}

bool
nomic_bind(Binder *b, Decoder *d)
{
	/* transformers' own models with a head */
	if (bind_has(b, "nomic_bert.embeddings.word_embeddings.weight", ""))
		return enc_ignore_heads(b) && enc_embeddings(b, d, "nomic_bert.", "nomic_bert.emb_ln") &&
			bind_layers(b, "nomic_bert.encoder.layers.", nomic_layer) &&
			enc_heads(b, d, "nomic_bert.pooler.dense", HA_TANH, "classifier");
	return enc_ignore_heads(b) && enc_embeddings(b, d, "bert.", "bert.emb_ln") &&
		bind_layers(b, "bert.encoder.layers.", nomic_layer) &&
		enc_heads(b, d, "bert.pooler.dense", HA_TANH, "classifier");
}
