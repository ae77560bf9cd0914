/*
 * rate_limiter.h
 *	  Requests and tokens per minute of one url: what its options allow, and what the endpoint says.
 */
#ifndef VLLM_REMOTE_UPSTREAM_RATE_LIMITER_H
#define VLLM_REMOTE_UPSTREAM_RATE_LIMITER_H

#include "remote/http/http_client.h"

/* A bucket that fills steadily; what is in it may be taken at once. */
typedef struct Bucket
{
	double		size, per_us;	/* 0 = no limit */
	double		left;			/* may be below 0: who takes more than it holds leaves a debt */
	int64_t		at_us;
} Bucket;

typedef struct Rate
{
	Bucket		requests, tokens;
	int64_t		until_us;		/* the endpoint wants no call before; 0 = none */
	int64_t		said_requests, said_tokens;	/* it takes so many more until these; -1 = nothing said */
	int64_t		said_requests_us, said_tokens_us;
	int64_t		tokens_in_flight;	/* estimates of calls under way */
} Rate;

void		rate_init(Rate *r, int requests_per_minute, int tokens_per_minute);
/*
 * When a call of so many tokens may be made: <= now_us: now.  INT64_MAX: when one of the calls under way has
 * ended.
 */
int64_t		rate_own_us(Rate *r, int64_t tokens, int64_t now_us);
int64_t		rate_said_us(const Rate *r, int64_t tokens, int in_flight, int64_t now_us);
/* A call is made; it has ended, having used so many tokens (-1 = not known). */
void		rate_begin(Rate *r, int64_t tokens, int64_t now_us);
void		rate_end(Rate *r, int64_t estimate, int64_t used);
/* What its answer said. */
void		rate_told(Rate *r, const HttpResult *h, int64_t now_us);

#endif
