/*
 * test_remote_retry.c
 *	  Waits between tries, and the retry budget.
 */
#include "remote/upstream/retry_budget.h"

#include "tests/unit/check.h"

static void
test_waits(void)
{
	static const int64_t base[] = {250, 500, 1000, 2000, 4000, 8000, 8000, 8000};
	double		sum[8] = {0};
	int64_t		low[8],
				high[8] = {0};

	for (int i = 0; i < 8; i++)
		low[i] = INT64_MAX;
	for (uint64_t seed = 0; seed < 2000; seed++)
		for (int i = 0; i < 8; i++)
		{
			int64_t		w = retry_wait_us(seed, i + 1, -1);

			CHECK(w >= base[i] * 500 && w <= base[i] * 1500, "try %d: %lld", i, (long long) w);
			CHECK(w == retry_wait_us(seed, i + 1, -1), "the same again");
			sum[i] += (double) w;
			low[i] = w < low[i] ? w : low[i];
			high[i] = w > high[i] ? w : high[i];
		}
	for (int i = 0; i < 8; i++)
	{
		double		mean = sum[i] / 2000 / 1000;

		CHECK(mean > (double) base[i] * 0.97 && mean < (double) base[i] * 1.03, "%d: mean %f", i, mean);
		CHECK(low[i] < base[i] * 510 && high[i] > base[i] * 1490, "%d: from end to end", i);
	}
	/* neighbouring seeds differ */
	for (uint64_t seed = 0; seed < 100; seed++)
		CHECK(retry_wait_us(seed, 1, -1) != retry_wait_us(seed + 1, 1, -1) &&
			  retry_wait_us(seed, 6, -1) != retry_wait_us(seed, 7, -1), "%d", (int) seed);
	for (uint64_t seed = 0; seed < 100; seed++)
	{
		int64_t		w = retry_wait_us(seed, 1, 3000);

		CHECK(w >= 3000000 && w <= 3250000, "Retry-After: %lld", (long long) w);
		CHECK(retry_wait_us(seed, 1, 0) <= 250000, "0");
		CHECK(retry_wait_us(seed, 9, INT64_MAX) > 0, "no overflow");
		CHECK(retry_wait_us(seed, 1000000, -1) <= 12000000, "however many");
	}
}

static void
test_budget(void)
{
	RetryBudget b = {0};
	int64_t		now = 5000000;
	int			n = 0;

	while (retry_spend(&b, now))
		n++;
	CHECK(n == RETRY_FEW, "a few: %d", n);
	for (int i = 0; i < 100; i++)
		retry_earn(&b);
	for (n = 0; retry_spend(&b, now); n++)
		;
	CHECK(n == 9 || n == 10, "one in ten: %d", n);
	now += 3000000;
	for (n = 0; retry_spend(&b, now); n++)
		;
	CHECK(n == 3, "one a second: %d", n);
	now += INT64_C(3600000000);
	for (n = 0; retry_spend(&b, now); n++)
		;
	CHECK(n == RETRY_FEW, "no more than a few come back: %d", n);
	for (int i = 0; i < 1000000; i++)
		retry_earn(&b);
	for (n = 0; retry_spend(&b, now); n++)
		;
	CHECK(n >= RETRY_MOST - 1 && n <= RETRY_MOST, "nor is saved for ever: %d", n);
}

/* All calls fail, 10 a second: retries are a tenth, and what is refilled with time. */
static void
test_outage(void)
{
	RetryBudget b = {0};
	int			repeated = 0;

	for (int i = 0; i < 100000; i++)
	{
		retry_earn(&b);
		for (int k = 0; k < 3; k++)
			repeated += retry_spend(&b, 1000000 + (int64_t) i * 1000);
	}
	CHECK(repeated >= 10000 && repeated <= 10000 + 100 + RETRY_FEW, "%d of 100,000 in 100 s", repeated);
}

int
main(void)
{
	RUN(test_waits());
	RUN(test_budget());
	RUN(test_outage());
	return check_done("test_remote_retry");
}
