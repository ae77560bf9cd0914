/*
 * test_remote_response_limit.c
 *	  Limits of responses: above what honest ones need, and far below a harmful size if little was asked
 *	  for.
 */
#include "remote/upstream/response_limit.h"
#include "tests/unit/check.h"

#define MB ((size_t) 1 << 20)

static size_t
of(RShape shape, bool stream, const RequestFields *a, int n, size_t body)
{
	RCall		r = {.shape = shape,.stream = stream,.n_requests = n,.body = {.len = body}};

	return bound_answer(&a, n, &r);
}

int
main(void)
{
	RequestFields a = {.n = 1,.max_tokens = 16,.logprobs = -2,.prompt_logprobs = -2};
	size_t		small = of(RSHAPE_COMPLETION, false, &a, 1, 100);

	CHECK(small >= MB && small < 8 * MB, "%zu", small);
	/* an event of a provider has some 300 bytes, a log-probability 100 */
	a.max_tokens = 10000;
	CHECK(of(RSHAPE_CHAT, true, &a, 1, 100) > 10000 * 600 && of(RSHAPE_CHAT, true, &a, 1, 100) < 32 * MB,
		  "a stream");
	a.n = 4;
	CHECK(of(RSHAPE_CHAT, true, &a, 1, 100) > 4 * 10000 * 600, "of four answers");
	a.n = 1;
	a.logprobs = 20;
	CHECK(of(RSHAPE_CHAT, false, &a, 1, 100) > 10000 * 21 * 150, "log-probabilities");
	a.logprobs = -2;
	a.prompt_logprobs = 5;
	CHECK(of(RSHAPE_COMPLETION, false, &a, 1, 10000) > 10000 * 6 * 150, "of the prompt");
	a.prompt_logprobs = -1;
	a.logprobs = -1;
	a.max_tokens = 1000000000;
	CHECK(of(RSHAPE_COMPLETION, true, &a, 1, 1000000000) == BOUND_MOST, "there is an end");
	a.max_tokens = -1;
	a.logprobs = a.prompt_logprobs = -2;
	CHECK(of(RSHAPE_CHAT, true, &a, 1, 100) > 32768 * 600, "the endpoint decides");
	/* 16,384 dimensions as numbers of 25 characters */
	CHECK(of(RSHAPE_EMBEDDINGS, false, &a, 1, 10) > 16384 * 25 &&
		  of(RSHAPE_EMBEDDINGS, false, &a, 1, 10) < 8 * MB, "a vector");
	for (int n = 1; n < 100; n++)
	{
		const RequestFields *requests[100];
		RCall		r = {.shape = RSHAPE_EMBEDDINGS,.n_requests = n};

		for (int i = 0; i < n; i++)
			requests[i] = &a;
		CHECK(bound_answer(requests, n, &r) > (size_t) n * 16384 * 25, "%d vectors", n);
	}
	CHECK(of(RSHAPE_TOKENIZE, false, &a, 1, 100000) > 100000 * 20 &&
		  of(RSHAPE_TOKENIZE, false, &a, 1, 100) < 8 * MB, "tokens");
	CHECK(of(RSHAPE_RERANK, false, &a, 10, 100000) > 600000 && of(RSHAPE_SCORE, false, &a, 10, 100) < 8 * MB,
		  "scores");
	CHECK(of(RSHAPE_MODELS, false, &a, 1, 0) >= 4 * MB && of(RSHAPE_MODELS, false, &a, 1, 0) <= 32 * MB,
		  "models");
	CHECK(of(RSHAPE_POOLING, false, &a, 1, 1000) == BOUND_MOST &&
		  of(RSHAPE_API, false, &a, 1, 1000) == BOUND_MOST, "not known");
	CHECK(bound_held() >= BOUND_MOST && bound_held() <= 1024 * MB, "%zu", bound_held());
	return check_done("test_remote_response_limit");
}
