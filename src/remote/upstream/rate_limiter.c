/*
 * rate_limiter.c
 *	  Requests and tokens per minute.
 *
 * The limits of the options are token buckets that hold a tenth of a minute's worth and are refilled
 * with the other nine tenths, so that in any minute, wherever it begins, no more calls are made than the
 * limit says.  Tokens are estimated when a call begins and corrected when it ends.  A call larger than
 * the bucket waits until it is full, and leaves a debt.
 *
 * The limits that an endpoint reports (x-ratelimit-*, Retry-After) apply to all requests to the url.
 * Running calls count against the reported rest, because the endpoint may not have counted them yet.
 *
 * Tested by tests/unit/remote/upstream/test_remote_rate.c.
 */
#include "remote/upstream/rate_limiter.h"

#include <string.h>

#define MINUTE_US	6e7
#define MOST_MS		INT64_C(86400000)

static void
bucket_init(Bucket *b, int per_minute)
{
	double		n = per_minute;

	if (n <= 0)
		return;
	b->size = n < 10 ? 1 : (double) (per_minute / 10);
	b->per_us = (n < 2 ? n : n - b->size) / MINUTE_US;
	b->left = b->size;
}

void
rate_init(Rate *r, int requests_per_minute, int tokens_per_minute)
{
	memset(r, 0, sizeof(*r));
	bucket_init(&r->requests, requests_per_minute);
	bucket_init(&r->tokens, tokens_per_minute);
	r->said_requests = r->said_tokens = -1;
}

static void
refill(Bucket *b, int64_t now)
{
	if (b->at_us != 0 && now > b->at_us)
		b->left += (double) (now - b->at_us) * b->per_us;
	if (b->left > b->size)
		b->left = b->size;
	if (b->at_us == 0 || now > b->at_us)
		b->at_us = now;
}

/* Return when the bucket holds n tokens, or is full. */
static int64_t
bucket_us(Bucket *b, double n, int64_t now)
{
	if (b->size <= 0)
		return now;
	refill(b, now);
	if (n > b->size)
		n = b->size;
	/* the sum of many small refills may be slightly below a whole number */
	if (b->left + 1e-6 >= n)
		return now;
	return now + 1 + (int64_t) ((n - b->left) / b->per_us);
}

int64_t
rate_own_us(Rate *r, int64_t tokens, int64_t now_us)
{
	int64_t		a = bucket_us(&r->requests, 1, now_us);
	int64_t		b = bucket_us(&r->tokens, (double) tokens, now_us);

	return a > b ? a : b;
}

int64_t
rate_said_us(const Rate *r, int64_t tokens, int in_flight, int64_t now_us)
{
	int64_t		when = now_us;

	if (r->until_us > when)
		when = r->until_us;
	if (r->said_requests >= 0 && now_us < r->said_requests_us && r->said_requests <= in_flight)
	{
		if (r->said_requests > 0)
			return INT64_MAX;
		if (r->said_requests_us > when)
			when = r->said_requests_us;
	}
	if (r->said_tokens >= 0 && now_us < r->said_tokens_us && r->said_tokens - r->tokens_in_flight < tokens)
	{
		if (in_flight > 0 && r->said_tokens >= tokens)
			return INT64_MAX;
		if (r->said_tokens_us > when)
			when = r->said_tokens_us;
	}
	return when;
}

/*
 * Return what is taken for an estimate.  The estimate comes from max_tokens, which may be anything, and
 * the used tokens may never be reported: so the debt is limited to what a minute refills.
 */
static double
estimated(const Bucket *b, int64_t tokens)
{
	double		most = 2 * b->size + b->per_us * MINUTE_US;

	return (double) tokens < most ? (double) tokens : most;
}

static void
take(Bucket *b, double n, int64_t now)
{
	if (b->size <= 0)
		return;
	refill(b, now);
	b->left -= n;
}

void
rate_begin(Rate *r, int64_t tokens, int64_t now_us)
{
	take(&r->requests, 1, now_us);
	take(&r->tokens, estimated(&r->tokens, tokens), now_us);
	r->tokens_in_flight += tokens;
}

void
rate_end(Rate *r, int64_t estimate, int64_t used)
{
	r->tokens_in_flight -= estimate;
	if (r->tokens.size > 0 && used >= 0)
		r->tokens.left += estimated(&r->tokens, estimate) - (double) used;
}

/* Return the end of a reported limit, at most a day from now; one second if none or nonsense was reported. */
static int64_t
reset_us(int64_t ms, int64_t now)
{
	if (ms < 0)
		ms = 1000;
	return now + (ms < MOST_MS ? ms : MOST_MS) * 1000;
}

void
rate_reported(Rate *r, const HttpResult *h, int64_t now_us)
{
	if (h->remaining_requests >= 0)
	{
		r->said_requests = h->remaining_requests;
		r->said_requests_us = reset_us(h->reset_requests_ms, now_us);
	}
	if (h->remaining_tokens >= 0)
	{
		r->said_tokens = h->remaining_tokens;
		r->said_tokens_us = reset_us(h->reset_tokens_ms, now_us);
	}
	if ((h->status == 429 || h->status == 503) && h->retry_after_ms >= 0)
	{
		int64_t		until = reset_us(h->retry_after_ms, now_us);

		if (until > r->until_us)
			r->until_us = until;
	}
}
