/*
 * pooling_inputs.h
 *	  From a pooled request's texts to the sequences that the core computes: prompts, pairs, lengths; and
 *	  the configuration of pooling in a model's files.
 */
#ifndef VLLM_BACKEND_POOLING_POOLING_INPUTS_H
#define VLLM_BACKEND_POOLING_POOLING_INPUTS_H

#include "backend/backend.h"

typedef struct PoolModel PoolModel;

/*
 * Before the model is made or checked: merge the model option "hf_overrides" (a JSON object, or "") into
 * the configuration, and add the ids of the tokens by which a language model scores.
 */
bool		pooling_prepare(Files *f, const char *hf_overrides, Err *e);

/*
 * Make a PoolModel; it references info, tok and chat, and does not own them.  If tok is NULL, the result
 * only describes the model.
 */
PoolModel  *poolmodel_new(const ModelInfo *info, const Tok *tok, int max_model_len, const Conf *conf,
						  const ChatModel *chat, Err *e);
void		poolmodel_free(PoolModel *m);
/* The same as core_cap_length(), for texts. */
void		poolmodel_shorten(PoolModel *m, int tokens);

/* Backend.pool */
bool		pooling_make(const PoolModel *m, const PoolRequest *pr, PoolSpec *out, PoolExtra *extra, Err *e);
/* Backend.labels */
const char *const *pooling_labels(const PoolModel *m, PoolTask task);

#endif
