/*
 * heads.h
 *	  Private to src/model: the layers after pooling, and which tasks a model has.
 *
 * By its class (DecoderConf.head, set before the architecture's conf function) a checkpoint has a
 * classifier: a Head, a few layers y = norm(act(x W^T + b)) of which the last has one output for each
 * label.  Classifiers of decoders have the same names in all models and are bound here.  An encoder's
 * architecture binds its own, at the end of its bind function:
 *
 *	case HEAD_SEQUENCE:
 *		return bind_classifier_dense(b, "bert.pooler.dense", "", hidden, HA_TANH, true) &&
 *			bind_classifier(b, "classifier", "", true);
 *	case HEAD_TOKENS:
 *		return bind_classifier(b, "classifier", "", true);
 *
 * and sets d->classifier_pool if it isn't the first token (CLS).  With HEAD_BARE it ignores such
 * tensors (bind_ignore()).  Names are as in bind.h, of both containers.
 *
 * Models of sentence-transformers may have layers of their own: Decoder.row_layers before pooling and
 * Decoder.dense after it, bound here by the configuration's keys "st.rows.N" and "st.dense.N"
 * (src/loader/sentence_transformers_config.c).
 *
 * Heads are small and their output is the final result, so they are never quantized on loading.
 */
#ifndef VLLM_MODEL_LAYERS_HEADS_H
#define VLLM_MODEL_LAYERS_HEADS_H

#include "model/layers/bind.h"

/* Rows that a head computes at once. */
#define HEAD_ROWS 64

#define HEAD_MAX_LABELS 65536

/* One or two token ids: the score is the last one's logit over the first's (Qwen3-Reranker). */
#define HEAD_TOKENS_KEY "override.classifier_token_ids"

/* Return the kind of head that a class name says; *stem: length of the model's part of the name
 * ("Bert"). */
HeadKind	head_kind(const char *class_name, size_t *stem);

/* Look up an activation by its name in a configuration ("gelu"). */
bool		head_act(const char *name, HeadAct *out, Err *e);
/* Read the settings that are the same in all architectures, after the architecture's conf function. */
bool		heads_conf(const Conf *conf, DecoderConf *c, Err *e);

/* Bind one more layer of the classifier, with n outputs. */
bool		bind_classifier_dense(Binder *b, const char *hf, const char *gguf, int n, HeadAct act, bool bias);
/* Bind a LayerNorm after the layer that was bound last, with a bias if the file has one. */
bool		bind_classifier_norm(Binder *b, const char *hf, const char *gguf);
/* Bind the last layer: one output for each row of the tensor, the labels. */
bool		bind_classifier(Binder *b, const char *hf, const char *gguf, bool bias);

/* Bind the heads that the architecture has not bound; dec_bind() calls this after the architecture's
 * function. */
bool		bind_heads(Binder *b, Decoder *d);

/* Set tasks, poolers and activations in *info. */
bool		heads_info(const Decoder *d, const Conf *conf, ModelInfo *info, Err *e);

/* Return the width of the widest row between a head's layers. */
size_t		heads_width(const Decoder *d);
/* Return the width of the widest row that a head's layer reads: the first layer reads all poolers'
 * results side by side. */
size_t		heads_inputs(const Decoder *d);
/* Prepare heads after the weights are packed. */
void		heads_ready(Decoder *d, const Conf *conf);

/* Compute y[n][width] of the layers before pooling, for n hidden rows. */
void		dec_pool_rows(Decoder *d, const float *x, int n, float *y);
/* Compute y[n][width] of a task's head for n rows. */
void		dec_pool_head(Decoder *d, PoolTask t, int width, const float *x, int n, float *y);

#endif
