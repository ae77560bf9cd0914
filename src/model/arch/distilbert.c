/*
 * distilbert.c
 *	  DistilBERT (Sanh et al. 2019, arXiv:1910.01108): BERT without token types, with different names.
 *
 * Tested by tests/golden/encoders_golden.c.
 */
#include "model/layers/encoder.h"

static const EncoderNames names = {
	.q = "attention.q_lin", .k = "attention.k_lin", .v = "attention.v_lin", .o = "attention.out_lin",
	.attn_norm = "sa_layer_norm", .up = "ffn.lin1", .down = "ffn.lin2", .mlp_norm = "output_layer_norm",
};

bool
distilbert_conf(const Conf *c, DecoderConf *out, Err *e)
{
	enc_defaults(out);
	out->no_rope = true;
	out->n_layers = 6;
	if (!dec_conf_int(c, "dim", 1, DEC_MAX_HIDDEN, out->hidden, &out->hidden, e) ||
		!dec_conf_int(c, "hidden_dim", 1, DEC_MAX_INTER, out->inter, &out->inter, e) || !enc_conf(c, out, e))
		return false;
	out->n_pos = out->max_len;
	return true;
}

static bool
distilbert_layer(Binder *b, Decoder *d, Layer *l)
{
	(void) d;
	return enc_layer(b, l, &names);
}

bool
distilbert_bind(Binder *b, Decoder *d)
{
	return enc_ignore_heads(b) && bind_ignore_under(b, "vocab_") &&
		enc_embeddings(b, d, "distilbert.", NULL) && bind_layers(b, "distilbert.transformer.layer.",
																 distilbert_layer) &&
		enc_heads(b, d, "pre_classifier", HA_RELU, "classifier");
}
