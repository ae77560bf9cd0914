/*
 * encode.h
 *	  Encode requests as calls to an endpoint.
 *
 * One request is one call, with two exceptions: inputs of several requests may go into one call
 * (coalescing), and the endpoint may need several calls for one request (log-likelihoods of choices).  A
 * parameter that the dialect doesn't have is ERR_UNSUPPORTED, with its name.
 */
#ifndef VLLM_REMOTE_CODEC_ENCODE_H
#define VLLM_REMOTE_CODEC_ENCODE_H

#include "base/buf.h"
#include "remote/codec/endpoint_options.h"
#include "remote/codec/request_fields.h"

/* How the response is read (decode.c). */
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
	/* /completions with echo: log-probabilities of a choice that follows the prompt */
	RSHAPE_LOGPROBS,
	RSHAPE_MODELS,				/* GET /models */
	RSHAPE_API					/* WK_API: the endpoint's body is passed on unchanged */
} RShape;

typedef struct RCall
{
	RShape		shape;
	bool		get;			/* GET without a body, else POST */
	bool		stream;			/* the response is server-sent events */
	bool		off_v1;			/* vLLM's paths outside of /v1: the base URL's trailing "/v1" is left out */
	const char *path;			/* points into the options, or constant */
	Buf			body;
	int			n_requests;			/* number of requests whose inputs the call has */
	int			part;			/* RSHAPE_LOGPROBS: index of the choice */
	int64_t		tokens;			/* estimated tokens of prompt and output, for tokens_per_minute */
} RCall;

typedef struct RCalls
{
	RCall	   *v;
	int			n;
} RCalls;

/* May this request's input go into one call with those of other requests? */
bool		body_can_join(const RequestFields *a, const ROptions *o);
/* Does the call need the context length, which is not known yet? */
bool		body_wants_length(const RequestFields *a, const ROptions *o);
/* Are both requests the same but for their inputs? */
bool		body_same(const RequestFields *a, const RequestFields *b);
/*
 * Make the calls of n requests.  If n > 1, all must be the same and may be coalesced.  Returns false if
 * it made none.
 */
bool		body_make(const RequestFields *const *requests, int n, const ROptions *o, RCalls *calls, Err *e);
void		body_free(RCalls *calls);

#endif
