/*
 * draft_internal.h
 *	  Private to src/model: what the files of drafts.def share.
 */
#ifndef VLLM_MODEL_DRAFT_DRAFT_INTERNAL_H
#define VLLM_MODEL_DRAFT_DRAFT_INTERNAL_H

#include "model/layers/bind.h"
#include "model/draft/draft.h"

bool		medusa_conf(const Conf *c, DecoderConf *o, Err *e);
bool		medusa_bind(Binder *b, Decoder *d);
bool		mlp_conf(const Conf *c, DecoderConf *o, Err *e);
bool		mlp_bind(Binder *b, Decoder *d);
bool		eagle_conf(const Conf *c, DecoderConf *o, Err *e);
bool		eagle_bind(Binder *b, Decoder *d);
void		eagle_forward(Decoder *d, float *logits);
bool		eagle3_conf(const Conf *c, DecoderConf *o, Err *e);
bool		eagle3_bind(Binder *b, Decoder *d);
void		eagle3_forward(Decoder *d, float *logits);
bool		mtp_conf(const Conf *c, DecoderConf *o, Err *e);
bool		mtp_bind(Binder *b, Decoder *d);
void		mtp_forward(Decoder *d, float *logits);

/* x = head h's hidden rows for n rows. */
void		medusa_rows(Decoder *d, int h, const float *hidden, int n, float *x);
/* Update the state after draft h - 1 (for h = 0: hidden, of the target) and its tokens to that of draft
 * h. */
void		mlp_rows(Decoder *d, int h, const int32_t *tokens, int n, float *state);

/* Allocate an array of n empty matrices, one for each head. */
Linear	   *draft_linears(int n);
/* Bind a matrix of k inputs and n outputs, with a bias if the file has one. */
bool		draft_linear(Binder *b, Linear *l, const char *hf, int n, int k);

#endif
