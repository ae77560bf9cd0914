/*
 * retry_budget.h
 *	  When a call is retried, and how many retries may be made.
 */
#ifndef VLLM_REMOTE_UPSTREAM_RETRY_BUDGET_H
#define VLLM_REMOTE_UPSTREAM_RETRY_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define RETRY_BASE_US	INT64_C(250000)
#define RETRY_MOST_US	INT64_C(8000000)
#define RETRY_FIRST_US	(RETRY_BASE_US * 3 / 2)	/* longest wait before a first retry */

/*
 * Return the us to wait before try number `tries` + 1 (tries >= 1).  The same seed gives the same
 * result.  after_ms: Retry-After; -1 = none.
 */
int64_t		retry_wait_us(uint64_t seed, int tries, int64_t after_ms);

/*
 * Keeps retries from multiplying the load in an outage: about one call in ten, and a few more, may be a
 * retry.
 */
typedef struct RetryBudget
{
	double		left;
	int64_t		at_us;			/* 0 = not used yet */
} RetryBudget;

#define RETRY_FEW		20
#define RETRY_MOST		1000

/* Count the first call of a request. */
void		retry_earn(RetryBudget *b);
/* May a call be repeated?  If so, count it. */
bool		retry_spend(RetryBudget *b, int64_t now_us);

#endif
