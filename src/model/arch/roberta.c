/*
 * roberta.c
 *	  RoBERTa (Liu et al. 2019, arXiv:1907.11692), XLM-RoBERTa and CamemBERT: BERT whose table of
 *	  positions begins after the row of the padding token.
 *
 * Of a table of 514 rows with padding 1, 512 are positions of tokens.
 *
 * Tested by tests/golden/encoders_golden.c.
 */
#include "model/layers/encoder.h"

bool
roberta_conf(const Conf *c, DecoderConf *out, Err *e)
{
	int			padding;

	if (!bert_conf(c, out, e) || !dec_conf_int(c, "pad_token_id", 0, DEC_MAX_VOCAB, 1, &padding, e))
		return false;
	if (padding + 1 >= out->n_pos)
		return err_set(e, ERR_BAD_FILE, "model configuration has \"max_position_embeddings\" = %d, "
					   "which leaves no positions behind \"pad_token_id\" = %d", out->n_pos, padding);
	out->pos_first = padding + 1;
	out->max_len = out->n_pos - out->pos_first;
	return true;
}

bool
roberta_bind(Binder *b, Decoder *d)
{
	return enc_ignore_heads(b) && enc_embeddings(b, d, "roberta.", NULL) &&
		bind_layers(b, "roberta.encoder.layer.", bert_layer) &&
		enc_heads(b, d, "classifier.dense", HA_TANH, "classifier.out_proj");
}
