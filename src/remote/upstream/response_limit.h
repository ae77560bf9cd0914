/*
 * response_limit.h
 *	  Limits of the sizes of responses.
 */
#ifndef VLLM_REMOTE_UPSTREAM_RESPONSE_LIMIT_H
#define VLLM_REMOTE_UPSTREAM_RESPONSE_LIMIT_H

#include "remote/codec/encode.h"

#define BOUND_MOST	((size_t) 256 << 20)	/* bytes, whatever the request */

/* Return the maximal bytes of a 200 response to a call of n requests, derived from what they ask for. */
size_t		bound_answer(const RequestFields *const *requests, int n, const RCall *r);

/* Return the bytes that the program may hold of all responses: a quarter of the memory, at most 1 GB. */
size_t		bound_held(void);

#endif
