/*
 * response_limit.h
 *	  How large an answer may be.
 */
#ifndef VLLM_REMOTE_UPSTREAM_RESPONSE_LIMIT_H
#define VLLM_REMOTE_UPSTREAM_RESPONSE_LIMIT_H

#include "remote/codec/encode.h"

#define BOUND_MOST	((size_t) 256 << 20)	/* bytes, whatever was asked for */

/* Bytes of the body of a 200 to a call of n requests: by what they ask for. */
size_t		bound_answer(const RequestFields *const *requests, int n, const RCall *r);

/* Bytes that a program may hold of all answers: a quarter of the memory, 1 GB at most. */
size_t		bound_held(void);

#endif
