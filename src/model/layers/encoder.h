/*
 * encoder.h
 *	  Private to src/model: the frame of BERT (Devlin et al. 2018, arXiv:1810.04805) and
 *	  those built alike.
 *
 * An encoder is a Decoder with attention both ways and no head for a vocabulary: what
 * it gives are hidden rows, for a pooler or a classifier.  The frame: embeddings are
 * added up and normed; each layer's two blocks are followed by a norm of their sum with
 * what came in.  What differs is how positions are told (a table, rotation, a slope or
 * a bias by distance), whether the MLP has a gate, and names.
 */
#ifndef VLLM_MODEL_LAYERS_ENCODER_H
#define VLLM_MODEL_LAYERS_ENCODER_H

#include "model/layers/heads.h"

/* What they have in common, before enc_conf() and what the architecture sets beside it. */
void		enc_defaults(DecoderConf *out);
/* dec_conf(), and that it isn't the decoder of one of these families. */
bool		enc_conf(const Conf *c, DecoderConf *out, Err *e);
/* The table of token types: its rows, dflt without the key; 0 = there is none. */
bool		enc_conf_types(const Conf *c, DecoderConf *out, int dflt, Err *e);

/* A layer's names in Hugging Face's checkpoints; GGUF's are the same everywhere. */
typedef struct EncoderNames
{
	const char *qkv;			/* in one; NULL: */
	const char *q;
	const char *k;
	const char *v;
	const char *o;
	const char *attn_norm;		/* behind attention */
	const char *up;
	const char *gate;			/* an MLP with a gate: NULL: in one with up, */
	bool		gate_last;		/* the gate's rows follow those of up */
	const char *down;
	const char *mlp_norm;		/* behind the MLP */
} EncoderNames;

/* BERT's own, and a layer that has them. */
extern const EncoderNames bert_names;
bool		bert_layer(Binder *b, Decoder *d, Layer *l);

bool		enc_layer(Binder *b, Layer *l, const EncoderNames *n);
/* An encoder layer without its MLP, but with the norm after it. */
bool		enc_attn(Binder *b, Layer *l, const EncoderNames *n);
/*
 * Tables and their norm: prefix is what stands before "embeddings."; norm: its whole name, NULL = the usual.
 */
bool		enc_embeddings(Binder *b, Decoder *d, const char *prefix, const char *norm);

/* What embeddings have no use for: masked language models' heads, poolers and the like. */
bool		enc_ignore_heads(Binder *b);
/* A classifier, if the class has one: of texts `dense`, its activation, `out`; of tokens "classifier". */
bool		enc_heads(Binder *b, Decoder *d, const char *dense, HeadAct act, const char *out);

void		enc_forward(Decoder *d, float *out);

#endif
