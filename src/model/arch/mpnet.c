/*
 * mpnet.c
 *	  MPNet (Song et al. 2020, arXiv:2004.09297): RoBERTa's positions, no token types, and a bias of
 *	  attention by distance that all layers share.
 *
 * Tested by tests/golden/encoders_golden.c.
 */
#include "model/layers/encoder.h"

#define PADDING 1				/* the class's value, whatever the configuration says */
#define BUCKETS 32

static const EncoderNames names = {
	.q = "attention.attn.q", .k = "attention.attn.k", .v = "attention.attn.v", .o = "attention.attn.o",
	.attn_norm = "attention.LayerNorm", .up = "intermediate.dense", .down = "output.dense",
	.mlp_norm = "output.LayerNorm",
};

bool
mpnet_conf(const Conf *c, DecoderConf *out, Err *e)
{
	if (!bert_conf(c, out, e) ||
		!dec_conf_int(c, "relative_attention_num_buckets", BUCKETS, BUCKETS, BUCKETS, &out->bias_buckets, e))
		return false;
	out->n_types = 0;
	out->pos_first = PADDING + 1;
	out->max_len = out->n_pos - out->pos_first;
	return out->max_len > 0 ||
		err_set(e, ERR_BAD_FILE, "model configuration has \"max_position_embeddings\" = %d", out->n_pos);
}

static bool
mpnet_layer(Binder *b, Decoder *d, Layer *l)
{
	(void) d;
	return enc_layer(b, l, &names);
}

bool
mpnet_bind(Binder *b, Decoder *d)
{
	return enc_ignore_heads(b) && enc_embeddings(b, d, "mpnet.", NULL) &&
		bind_table(b, &d->buckets, "mpnet.encoder.relative_attention_bias.weight", "",
				   BUCKETS * d->c.n_heads, d->c.n_heads, BIND_TURNED) &&
		bind_layers(b, "mpnet.encoder.layer.", mpnet_layer) &&
		enc_heads(b, d, "classifier.dense", HA_TANH, "classifier.out_proj");
}
