/*
 * encode.h
 *	  From requests to an endpoint's calls.
 *
 * One request is one call, but for: inputs of several requests that go together (gather), and requests that
 * the endpoint answers only piece by piece (log-likelihoods of choices).  A parameter that the dialect
 * doesn't know is ERR_UNSUPPORTED, with its name.
 */
#ifndef VLLM_REMOTE_CODEC_ENCODE_H
#define VLLM_REMOTE_CODEC_ENCODE_H

#include "base/buf.h"
#include "remote/codec/endpoint_options.h"
#include "remote/codec/request_fields.h"

/* How the answer is read (decode.c). */
typedef enum RShape
{
	RSHAPE_COMPLETION,			/* /completions */
	RSHAPE_CHAT,				/* /chat/completions */
	RSHAPE_EMBEDDINGS,			/* /embeddings: a row for each request */
	RSHAPE_SCORE,				/* vLLM's /score */
	RSHAPE_RERANK,				/* Jina's and Cohere's /rerank */
	RSHAPE_CLASSIFY,			/* vLLM's /classify */
	RSHAPE_POOLING,				/* vLLM's /pooling */
	RSHAPE_TOKENIZE,
	RSHAPE_DETOKENIZE,
	RSHAPE_LOGPROBS,			/* /completions with echo: log-probabilities of a choice behind the prompt */
	RSHAPE_MODELS,				/* GET /models */
	RSHAPE_API					/* the endpoint's body as it is, WK_API */
} RShape;

typedef struct RCall
{
	RShape		shape;
	bool		get;			/* GET without a body, else POST */
	bool		stream;			/* answered as server-sent events */
	bool		off_v1;			/* vLLM's paths beside /v1: the base URL's trailing "/v1" is left out */
	const char *path;			/* in options or constant */
	Buf			body;
	int			n_requests;			/* whose inputs these are */
	int			part;			/* of RSHAPE_LOGPROBS: which choice */
	int64_t		tokens;			/* estimate of prompt and answer, for tokens_per_minute */
} RCall;

typedef struct RCalls
{
	RCall	   *v;
	int			n;
} RCalls;

/* May this request's input go with those of others into one call? */
bool		body_gathers(const RequestFields *a, const ROptions *o);
/* Can it be made only if the length of the context is known, which it isn't yet? */
bool		body_wants_length(const RequestFields *a, const ROptions *o);
/* Do both ask for the same but for their inputs? */
bool		body_same(const RequestFields *a, const RequestFields *b);
/* The calls of n requests (n > 1: all gather and are the same).  False: none was made. */
bool		body_make(const RequestFields *const *requests, int n, const ROptions *o, RCalls *calls, Err *e);
void		body_free(RCalls *calls);

#endif
