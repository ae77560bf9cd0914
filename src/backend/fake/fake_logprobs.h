/*
 * fake_logprobs.h
 *	  Made-up log-probabilities of the fake backend.
 */
#ifndef VLLM_BACKEND_FAKE_FAKE_LOGPROBS_H
#define VLLM_BACKEND_FAKE_FAKE_LOGPROBS_H

#include "core/core.h"

#define FAKE_LOGPROB (-0.25)	/* of each output token */

/* Return the log-probabilities of an output's ids; NULL if they are not requested. */
Logprobs   *fakeout_logprobs(const OutParams *out, const int32_t *ids, int n);
Logprobs   *fakeout_prompt(const OutParams *out, const IntVec *prompt);

#endif
