/*
 * response_limit.c
 *	  Limits of the sizes of responses, derived from the requests.
 *
 * Without them, an endpoint that sends without end would fill the memory.  The limits are generous: a
 * token is a whole event of a stream, and a response may repeat the request's input with everything
 * escaped.
 *
 * Tested by tests/unit/remote/upstream/test_remote_response_limit.c.
 */
#include "remote/upstream/response_limit.h"

#include <unistd.h>

#define MB				(1024.0 * 1024)
#define EVENT_BYTES		1024	/* of a stream's event, around one token */
#define TOKEN_BYTES		256		/* of a token, if not in an event */
#define LOGPROB_BYTES	256		/* of a token, its bytes as numbers, and its log-probability */
#define MANY_TOKENS		65536	/* if the endpoint decides how many */
#define MANY_LOGPROBS	1000	/* log-probabilities of one token if only the vocabulary limits them */
#define VECTOR_BYTES	(2 * MB)	/* of a vector of 64k dimensions as numbers */
#define ESCAPED			8		/* bytes of an escaped byte in JSON */

static double
logprob_bytes(int k)
{
	return k == -2 ? 0 : LOGPROB_BYTES * (1.0 + (k < 0 ? MANY_LOGPROBS : k));
}

static double
generation(const RequestFields *a, const RCall *r, double in)
{
	double		tokens = a->max_tokens >= 0 ? a->max_tokens : MANY_TOKENS;
	double		token = (r->stream ? EVENT_BYTES : TOKEN_BYTES) + logprob_bytes(a->logprobs);

	/* a token of the prompt is at least one byte of it */
	return 4 * MB + in * ESCAPED + in * logprob_bytes(a->prompt_logprobs) +
		(a->n > 1 ? a->n : 1) * tokens * token;
}

size_t
bound_answer(const RequestFields *const *requests, int n, const RCall *r)
{
	const RequestFields *a = requests[0];
	double		in = (double) r->body.len;
	double		most = (double) BOUND_MOST;

	switch (r->shape)
	{
		case RSHAPE_COMPLETION:
		case RSHAPE_CHAT:
			most = generation(a, r, in);
			break;
		case RSHAPE_EMBEDDINGS:
		case RSHAPE_CLASSIFY:
			most = MB + n * VECTOR_BYTES;
			break;
		case RSHAPE_SCORE:
		case RSHAPE_RERANK:
			/* some endpoints repeat the documents */
			most = 4 * MB + in * ESCAPED;
			break;
		case RSHAPE_TOKENIZE:
		case RSHAPE_DETOKENIZE:
			most = 4 * MB + in * TOKEN_BYTES;
			break;
		case RSHAPE_LOGPROBS:
			most = 4 * MB + in * (ESCAPED + LOGPROB_BYTES + logprob_bytes(a->logprobs > 0 ? a->logprobs : 1));
			break;
		case RSHAPE_MODELS:
			most = 16 * MB;
			break;
		case RSHAPE_POOLING:	/* a vector for each token */
		case RSHAPE_API:		/* any size that the body asks for */
			break;
	}
	return most < (double) BOUND_MOST ? (size_t) most : BOUND_MOST;
}

size_t
bound_held(void)
{
	double		quarter = (double) sysconf(_SC_PHYS_PAGES) * (double) sysconf(_SC_PAGESIZE) / 4;

	if (quarter < (double) BOUND_MOST)
		return BOUND_MOST;
	return quarter < 1024 * MB ? (size_t) quarter : (size_t) (1024 * MB);
}
