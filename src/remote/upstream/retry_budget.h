/*
 * retry_budget.h
 *	  When a call is made again, and how many may be.
 */
#ifndef VLLM_REMOTE_UPSTREAM_RETRY_BUDGET_H
#define VLLM_REMOTE_UPSTREAM_RETRY_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define RETRY_BASE_US	INT64_C(250000)
#define RETRY_MOST_US	INT64_C(8000000)
#define RETRY_FIRST_US	(RETRY_BASE_US * 3 / 2)	/* the longest wait before a first retry */

/*
 * us to wait before try number `tries` + 1 (tries >= 1); the same for the same seed.  after_ms: Retry-After,
 * -1 = none
 */
int64_t		retry_wait_us(uint64_t seed, int tries, int64_t after_ms);

/* So that an outage isn't multiplied: a call in ten may be a repeated one, and a few. */
typedef struct RetryBudget
{
	double		left;
	int64_t		at_us;			/* 0 = not used yet */
} RetryBudget;

#define RETRY_FEW		20
#define RETRY_MOST		1000

/* A request's first call is made. */
void		retry_earn(RetryBudget *b);
/* May a call be repeated?  Then it is counted. */
bool		retry_spend(RetryBudget *b, int64_t now_us);

#endif
