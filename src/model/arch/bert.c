/*
 * bert.c
 *	  BERT (Devlin et al. 2018, arXiv:1810.04805) and ERNIE: learned positions and token types.
 *
 * GGUF's "bert" is also RoBERTa, whose table of positions converters cut to the rows that are used, and
 * DistilBERT.
 *
 * Tested by tests/golden/encoders_golden.c.
 */
#include "model/layers/encoder.h"

#include <string.h>

const EncoderNames bert_names = {
	.q = "attention.self.query", .k = "attention.self.key", .v = "attention.self.value",
	.o = "attention.output.dense", .attn_norm = "attention.output.LayerNorm",
	.up = "intermediate.dense", .down = "output.dense", .mlp_norm = "output.LayerNorm",
};

bool
bert_conf(const Conf *c, DecoderConf *out, Err *e)
{
	char		buf[65];
	const char *positions = conf_str(c, "position_embedding_type", "absolute");

	enc_defaults(out);
	out->no_rope = true;
	if (strcmp(positions, "absolute") != 0)
		return err_set(e, ERR_UNSUPPORTED, "\"position_embedding_type\" \"%s\" is not supported",
					   dec_printable(positions, buf, sizeof(buf)));
	if (conf_bool(c, "use_task_id", false))
		return err_set(e, ERR_UNSUPPORTED, "\"use_task_id\" is not supported");
	if (!enc_conf(c, out, e))
		return false;
	out->n_pos = out->max_len;
	return enc_conf_types(c, out, 2, e);
}

bool
bert_layer(Binder *b, Decoder *d, Layer *l)
{
	(void) d;
	return enc_layer(b, l, &bert_names);
}

bool
bert_bind(Binder *b, Decoder *d)
{
	return enc_ignore_heads(b) && enc_embeddings(b, d, "bert.", NULL) &&
		bind_layers(b, "bert.encoder.layer.", bert_layer) &&
		enc_heads(b, d, "bert.pooler.dense", HA_TANH, "classifier");
}

bool
ernie_bind(Binder *b, Decoder *d)
{
	return enc_ignore_heads(b) && enc_embeddings(b, d, "ernie.", NULL) &&
		bind_layers(b, "ernie.encoder.layer.", bert_layer) &&
		enc_heads(b, d, "ernie.pooler.dense", HA_TANH, "classifier");
}
