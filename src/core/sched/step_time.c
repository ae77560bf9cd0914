/*
 * step_time.c
 *	  Estimate how long a step will take, from the steps seen.
 *
 * Work is counted in units: a row costs 1 plus attn_weight for each key it attends to.  For each power
 * of two of units the estimator keeps the average time of the steps seen.  A step's time is about base +
 * rate * units, so the time per unit decreases with size, and a smaller step, scaled up, is an upper
 * bound for a larger one:
 *
 *	predict(u) = min over seen sizes v <= u of  time(v) * u / v
 *
 * So the estimate is rather too high than too low, chunks grow step by step from the minimum, and a slow
 * outlier is forgotten as smaller sizes bound it.  Results of requests don't depend on any of it (row
 * invariance); only latency does.
 *
 * Owner: the step thread.  O(COST_BUCKETS) a call, O(log rows) for cost_rows.  Tested by
 * tests/unit/core/sched/test_sched.c.
 */
#include "core/core_internal.h"

#include <math.h>

#define LEARN_RATE 0.3			/* weight of a new measurement */

static int
bucket_of(double units)
{
	int			b = units < 1 ? 0 : ilogb(units);

	return b < COST_BUCKETS ? b : COST_BUCKETS - 1;
}

double
cost_units(const Cost *c, int pos, int n)
{
	return n + c->attn_weight * ((double) n * pos + 0.5 * (double) n * n);
}

/* Return microseconds; INFINITY for more than twice the largest step seen. */
double
cost_predict(const Cost *c, double units)
{
	double		best = INFINITY;
	double		largest = 0;

	for (int b = 0; b < COST_BUCKETS; b++)
	{
		if (c->units[b] <= 0)
			continue;
		largest = c->units[b];
		if (units <= c->units[b])
			return fmin(best, c->us[b]);
		best = fmin(best, c->us[b] * units / c->units[b]);
	}
	return units <= 2 * largest ? best : INFINITY;
}

double
cost_rate(const Cost *c)
{
	double		best = INFINITY;

	for (int b = 0; b < COST_BUCKETS; b++)
		if (c->units[b] > 0)
			best = fmin(best, c->us[b] / c->units[b]);
	return isfinite(best) ? best : 0;
}

void
cost_learn(Cost *c, double units, double us)
{
	int			b = bucket_of(units);

	if (units <= 0)
		return;
	if (c->units[b] <= 0)
	{
		c->units[b] = units;
		c->us[b] = us;
	}
	else
	{
		c->units[b] += LEARN_RATE * (units - c->units[b]);
		c->us[b] += LEARN_RATE * (us - c->us[b]);
	}
	/* a smaller size whose time is no longer a bound for this one is out of date */
	for (int i = 0; i < b; i++)
	{
		double		bound = us * c->units[i] / units;

		if (c->units[i] > 0 && c->us[i] < bound)
			c->us[i] += LEARN_RATE * (bound - c->us[i]);
	}
}

int
cost_rows(const Cost *c, double units, int pos, int n, double target_us)
{
	int			lo = 0,
				hi = n;

	while (lo < hi)				/* find the largest number of rows that fits */
	{
		int			mid = lo + (hi - lo + 1) / 2;

		if (cost_predict(c, units + cost_units(c, pos, mid)) <= target_us)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}
