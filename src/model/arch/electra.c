/*
 * electra.c
 *	  ELECTRA (Clark et al. 2020, arXiv:2003.10555): BERT whose embeddings may be narrower than its layers.
 *
 * Tested by tests/golden/encoders_golden.c.
 */
#include "model/layers/encoder.h"

bool
electra_conf(const Conf *c, DecoderConf *out, Err *e)
{
	if (!bert_conf(c, out, e) ||
		!dec_conf_int(c, "embedding_size", 1, DEC_MAX_HIDDEN, 128, &out->embed_width, e))
		return false;
	/* they share the layers' work space */
	if (out->embed_width > out->hidden)
		return err_set(e, ERR_UNSUPPORTED,
					   "\"embedding_size\" = %d above \"hidden_size\" = %d is not supported",
					   out->embed_width, out->hidden);
	out->narrow = out->embed_width != out->hidden;
	return true;
}

bool
electra_bind(Binder *b, Decoder *d)
{
	d->project_in.k = d->c.embed_width;
	return enc_ignore_heads(b) && bind_ignore_under(b, "discriminator_predictions.") &&
		bind_ignore_under(b, "generator_predictions.") && bind_ignore_under(b, "generator_lm_head.") &&
		enc_embeddings(b, d, "electra.", NULL) &&
		(!d->c.narrow || bind_linear(b, &d->project_in, "electra.embeddings_project", "", d->c.hidden,
									 true)) &&
		bind_layers(b, "electra.encoder.layer.", bert_layer) &&
		enc_heads(b, d, "classifier.dense", HA_GELU, "classifier.out_proj");
}
