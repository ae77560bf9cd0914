/*
 * loglikelihood_inputs.h
 *	  From a prompt and its continuations to the sequences of a WK_LOGPROBS request.
 */
#ifndef VLLM_BACKEND_POOLING_LOGLIKELIHOOD_INPUTS_H
#define VLLM_BACKEND_POOLING_LOGLIKELIHOOD_INPUTS_H

#include "backend/backend.h"

/* Part of Backend.pool(): sets task, join, prompt and sequences of *out; the caller has set the rest. */
bool		choices_make(const Tok *tok, int vocab_size, int max_len, const PoolRequest *pr, PoolSpec *out,
						 Err *e);

#endif
