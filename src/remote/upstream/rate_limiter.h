/*
 * rate_limiter.h
 *	  Requests and tokens per minute of one url: the limits of its options, and those that the endpoint
 *	  reports.
 */
#ifndef VLLM_REMOTE_UPSTREAM_RATE_LIMITER_H
#define VLLM_REMOTE_UPSTREAM_RATE_LIMITER_H

#include "remote/http/http_client.h"

/* A token bucket that fills steadily; its content may be taken at once. */
typedef struct Bucket
{
	double		size, per_us;	/* 0 = no limit */
	double		left;			/* may be below 0: taking more than it holds leaves a debt */
	int64_t		at_us;
} Bucket;

typedef struct Rate
{
	Bucket		requests, tokens;
	int64_t		until_us;		/* the endpoint wants no call before; 0 = none */
	/* what the endpoint still accepts until it resets its limits; -1 = not reported */
	int64_t		said_requests, said_tokens;
	int64_t		said_requests_us, said_tokens_us;
	int64_t		tokens_in_flight;	/* estimates of running calls */
} Rate;

void		rate_init(Rate *r, int requests_per_minute, int tokens_per_minute);
/*
 * Return when a call of `tokens` tokens may be made: a time <= now_us means now, INT64_MAX means after
 * one of the running calls has ended.  By the options, and by what the endpoint has reported.
 */
int64_t		rate_own_us(Rate *r, int64_t tokens, int64_t now_us);
int64_t		rate_said_us(const Rate *r, int64_t tokens, int in_flight, int64_t now_us);
/* A call begins; a call has ended and used `used` tokens (-1 = unknown). */
void		rate_begin(Rate *r, int64_t tokens, int64_t now_us);
void		rate_end(Rate *r, int64_t estimate, int64_t used);
/* Take over the limits that a response has reported. */
void		rate_reported(Rate *r, const HttpResult *h, int64_t now_us);

#endif
