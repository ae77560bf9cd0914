/*
 * gte.c
 *	  GTE's encoders of 2024 (Zhang et al. 2024, arXiv:2407.19669; Alibaba's "new" implementation, also
 *	  Snowflake's Arctic-Embed 2): BERT with rotation and a gate in the MLP.
 *
 * Tested by tests/golden/encoders_golden.c.
 */
#include "model/layers/encoder.h"

#include <string.h>

static const EncoderNames names = {
	.qkv = "attention.qkv_proj", .o = "attention.o_proj", .attn_norm = "attn_ln",
	.up = "mlp.up_gate_proj", .gate_last = true, .down = "mlp.down_proj", .mlp_norm = "mlp_ln",
};

bool
gte_conf(const Conf *c, DecoderConf *out, Err *e)
{
	char		buf[65];
	const char *positions = conf_str(c, "position_embedding_type", "rope");
	const char *norm = conf_str(c, "layer_norm_type", "layer_norm");

	enc_defaults(out);
	out->glu = true;
	out->max_len = 8192;
	out->rope[0].keys.theta = conf_str(c, "model_type", "")[0] == 'g' ? 160000 : 10000;
	if (strcmp(positions, "rope") != 0)
		return err_set(e, ERR_UNSUPPORTED, "\"position_embedding_type\" \"%s\" is not supported",
					   dec_printable(positions, buf, sizeof(buf)));
	if (strcmp(norm, "layer_norm") != 0)
		return err_set(e, ERR_UNSUPPORTED, "\"layer_norm_type\" \"%s\" is not supported",
					   dec_printable(norm, buf, sizeof(buf)));
	if (conf_bool(c, "logn_attention_scale", false))
		return err_set(e, ERR_UNSUPPORTED, "\"logn_attention_scale\" is not supported");
	if (!enc_conf(c, out, e))
		return false;
	out->mlp_bias = false;
	return enc_conf_types(c, out, 1, e);
}

static bool
gte_layer(Binder *b, Decoder *d, Layer *l)
{
	(void) d;
	return enc_layer(b, l, &names);
}

bool
gte_bind(Binder *b, Decoder *d)
{
	/* transformers' own models with a head */
	if (bind_has(b, "gte.embeddings.word_embeddings.weight", ""))
		return enc_ignore_heads(b) && enc_embeddings(b, d, "gte.", NULL) &&
			bind_layers(b, "gte.encoder.layer.", gte_layer) &&
			enc_heads(b, d, "gte.pooler.dense", HA_TANH, "classifier");
	return enc_ignore_heads(b) && enc_embeddings(b, d, "new.", NULL) &&
		bind_layers(b, "new.encoder.layer.", gte_layer) &&
		enc_heads(b, d, "new.pooler.dense", HA_TANH, "classifier");
}
