/*
 * retry_budget.c
 *	  Exponential backoff with jitter, and the budget of retries.
 *
 * The jitter is derived from the request's id, not from a shared state: requests that fail at the same
 * time wait for different times, and a test sees the same waits each time.
 *
 * The budget: when an endpoint is down, each request would become several calls, just when the endpoint
 * can bear them least.  So calls may be retried as long as retries are a tenth of all calls.  A few
 * retries are always available and are refilled, one a second, so that a client with few requests has
 * some as well.
 *
 * Tested by tests/unit/remote/upstream/test_remote_retry.c.
 */
#include "remote/upstream/retry_budget.h"

#include <stddef.h>

/* Return a pseudo-random number of [0, 1); splitmix64. */
static double
fraction(uint64_t seed, uint64_t n)
{
	uint64_t	z = seed + (n + 1) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	z ^= z >> 31;
	return (double) (z >> 11) / 9007199254740992.0;
}

int64_t
retry_wait_us(uint64_t seed, int tries, int64_t after_ms)
{
	int64_t		base = RETRY_BASE_US;
	double		f = fraction(seed, (uint64_t) tries);

	for (int i = 1; i < tries && base < RETRY_MOST_US; i++)
		base *= 2;
	if (base > RETRY_MOST_US)
		base = RETRY_MOST_US;
	if (after_ms < 0)
		return (int64_t) ((double) base * (0.5 + f));
	/* a day is as good as forever */
	if (after_ms > 86400000)
		after_ms = 86400000;
	/* not before after_ms, and not all requests at the same moment */
	return after_ms * 1000 + (int64_t) ((double) RETRY_BASE_US * f);
}

static void
start(RetryBudget *b)
{
	if (b->at_us == 0 && b->left < RETRY_FEW)
	{
		b->left = RETRY_FEW;
		b->at_us = 1;
	}
}

void
retry_earn(RetryBudget *b)
{
	start(b);
	if (b->left < RETRY_MOST)
		b->left += 0.1;
}

bool
retry_spend(RetryBudget *b, int64_t now_us)
{
	start(b);
	if (b->at_us > 1 && now_us > b->at_us && b->left < RETRY_FEW)
	{
		b->left += (double) (now_us - b->at_us) / 1e6;
		if (b->left > RETRY_FEW)
			b->left = RETRY_FEW;
	}
	b->at_us = now_us > 1 ? now_us : 1;
	if (b->left < 1)
		return false;
	b->left -= 1;
	return true;
}
