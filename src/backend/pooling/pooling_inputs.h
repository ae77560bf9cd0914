/*
 * pooling_inputs.h
 *	  From a pooled request's texts to the sequences that the core computes: prompts,
 *	  pairs, lengths; and what a model's files say about all that.
 */
#ifndef VLLM_BACKEND_POOLING_POOLING_INPUTS_H
#define VLLM_BACKEND_POOLING_POOLING_INPUTS_H

#include "backend/backend.h"

typedef struct PoolModel PoolModel;

/*
 * Before the model is made or checked: let the model option "hf_overrides" (a JSON object, or "")
 * stand in the configuration, and tell it by which tokens a language model scores.
 */
bool		pooling_prepare(Files *f, const char *hf_overrides, Err *e);

/* info, tok, chat: referenced, not owned.  Without tok it is only to be looked at. */
PoolModel  *poolmodel_new(const ModelInfo *info, const Tok *tok, int max_model_len, const Conf *conf,
						  const ChatModel *chat, Err *e);
void		poolmodel_free(PoolModel *m);
/* core_cap_length(): texts, too */
void		poolmodel_shorten(PoolModel *m, int tokens);

/* Backend.pool */
bool		pooling_make(const PoolModel *m, const PoolRequest *pr, PoolSpec *out, PoolExtra *extra, Err *e);
/* Backend.labels */
const char *const *pooling_labels(const PoolModel *m, PoolTask task);

#endif
