/*
 * eurobert.c
 *	  EuroBERT (Boizard et al. 2025, arXiv:2503.05500): Llama with bidirectional attention.
 *
 * Tested by tests/golden/encoders_golden.c.
 */
#include "model/layers/heads.h"

#include <string.h>

bool
eurobert_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->both_ways = out->no_head = true;
	out->eps = 1e-5f;
	out->max_len = 8192;
	if (!llama_conf(c, out, e))
		return false;
	/* converters to GGUF leave its q and k as they are */
	out->interleaved = out->permuted = false;
	return true;
}

/* Bind the head for texts, which comes after pooling.  Pooling after the head ("late") would be another
 * computation and is not supported. */
static bool
eurobert_head(Binder *b, Decoder *d)
{
	const char *pooling = conf_str(bind_conf(b), "classifier_pooling", "late");
	char		buf[65];

	if (d->c.head == HEAD_TOKENS)
		return bind_classifier(b, "classifier", "", true);
	if (d->c.head != HEAD_SEQUENCE)
		return true;
	if (strcmp(pooling, "mean") == 0)
		d->classifier_pool = POOL_MEAN;
	else if (strcmp(pooling, "bos") != 0)
		return err_set(bind_err(b), ERR_UNSUPPORTED, "\"classifier_pooling\" \"%s\" is not supported",
					   dec_printable(pooling, buf, sizeof(buf)));
	return bind_classifier_dense(b, "dense", "", d->c.hidden, HA_GELU, true) &&
		bind_classifier(b, "classifier", "", true);
}

bool
eurobert_bind(Binder *b, Decoder *d)
{
	return bind_ignore(b, "lm_head.bias") && llama_bind(b, d) && eurobert_head(b, d);
}
