/*
 * encoder.h
 *	  Private to src/model: the frame of BERT (Devlin et al. 2018, arXiv:1810.04805) and similar
 *	  models.
 *
 * An encoder is a Decoder with bidirectional attention and no head for a vocabulary: its output is
 * hidden rows, for a pooler or a classifier.  The frame: embeddings are added up and normed; each
 * layer's two blocks are followed by a norm of the block's output plus its input.  Models differ in how
 * positions enter (a table, rotation, a slope or a bias by distance), whether the MLP has a gate, and in
 * names.
 */
#ifndef VLLM_MODEL_LAYERS_ENCODER_H
#define VLLM_MODEL_LAYERS_ENCODER_H

#include "model/layers/heads.h"

/* Set the common defaults; call before enc_conf() and before the architecture's own settings. */
void		enc_defaults(DecoderConf *out);
/* Call dec_conf(), and reject the decoder variants of these families. */
bool		enc_conf(const Conf *c, DecoderConf *out, Err *e);
/* Read the number of rows of the table of token types; dflt if the key is absent, 0 = no table. */
bool		enc_conf_types(const Conf *c, DecoderConf *out, int dflt, Err *e);

/* A layer's names in Hugging Face's checkpoints; GGUF uses the same names for all models. */
typedef struct EncoderNames
{
	const char *qkv;			/* one matrix for all; NULL: separate ones */
	const char *q;
	const char *k;
	const char *v;
	const char *o;
	const char *attn_norm;		/* after attention */
	const char *up;
	const char *gate;			/* an MLP with a gate: NULL: the gate is in the matrix of up, */
	bool		gate_last;		/* the gate's rows follow those of up */
	const char *down;
	const char *mlp_norm;		/* after the MLP */
} EncoderNames;

/* BERT's names, and a layer function that uses them. */
extern const EncoderNames bert_names;
bool		bert_layer(Binder *b, Decoder *d, Layer *l);

bool		enc_layer(Binder *b, Layer *l, const EncoderNames *n);
/* Bind an encoder layer without its MLP but with the norm after it. */
bool		enc_attn(Binder *b, Layer *l, const EncoderNames *n);
/*
 * Bind tables and their norm.  prefix comes before "embeddings."; norm: the norm's whole name, NULL =
 * the usual one.
 */
bool		enc_embeddings(Binder *b, Decoder *d, const char *prefix, const char *norm);

/* Ignore tensors that embeddings don't use: masked language models' heads, poolers and the like. */
bool		enc_ignore_heads(Binder *b);
/* Bind the classifier if the class has one.  For texts: `dense`, its activation, `out`; for tokens:
 * "classifier". */
bool		enc_heads(Binder *b, Decoder *d, const char *dense, HeadAct act, const char *out);

void		enc_forward(Decoder *d, float *out);

#endif
