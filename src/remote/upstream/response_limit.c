/*
 * response_limit.c
 *	  How large an answer may be, by what was asked for.
 *
 * An endpoint that sends without end would else fill the memory with what nobody has asked for.  The bounds
 * are generous: a token is a whole event of a stream, and an answer may repeat what it was asked, with
 * everything escaped.
 *
 * Tested by tests/unit/remote/test_remote_response_limit.c.
 */
#include "remote/upstream/response_limit.h"

#include <unistd.h>

#define MB				(1024.0 * 1024)
#define EVENT_BYTES		1024	/* of a stream, around one token */
#define TOKEN_BYTES		256		/* with nothing around it */
#define LOGPROB_BYTES	256		/* a token, its bytes as numbers, its log-probability */
#define MANY_TOKENS		65536	/* where the endpoint decides */
#define MANY_LOGPROBS	1000	/* log-probabilities of a token, where only the vocabulary limits them */
#define VECTOR_BYTES	(2 * MB)	/* of 64k dimensions as numbers */
#define ESCAPED			8		/* a byte in JSON */

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

	/* a token of the prompt is a byte of it at least */
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
			/* some repeat the documents */
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
		case RSHAPE_API:		/* whatever the body asks for */
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
