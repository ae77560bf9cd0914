/*
 * choices.h
 *	  From a prompt and its continuations to the sequences of a WK_LOGPROBS request.
 */
#ifndef VLLM_ENGINE_CHOICES_H
#define VLLM_ENGINE_CHOICES_H

#include "engine/backend.h"

/* Part of Backend.pool(): task, join, prompt and sequences of *out, which is otherwise filled. */
bool		choices_make(const Tok *tok, int vocab_size, int max_len, const PoolRequest *pr, PoolSpec *out, Err *e);

#endif
