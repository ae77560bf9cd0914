/*
 * test_pooler.c
 *	  Poolers against their definitions, also with an instruction; activations and dimensions; names of
 *	  tasks.
 */
#include <math.h>
#include <string.h>

#include "model/layers/pooler.h"
#include "tests/unit/check.h"

#define WIDTH 3
#define ROWS 5

/* Row i is i + 1, -(i + 1), 2 i. */
static float
at(int row, int j)
{
	return j == 0 ? (float) (row + 1) : j == 1 ? (float) -(row + 1) : (float) (2 * row);
}

/* Return the value by definition for rows from .. ROWS - 1. */
static double
defined(PoolKind k, int from, int j)
{
	double		sum = 0;
	double		weights = 0;
	double		most = -INFINITY;

	for (int i = from; i < ROWS; i++)
	{
		double		w = k == POOL_WEIGHTED_MEAN ? i + 1 : 1;

		sum += w * (double) at(i, j);
		weights += w;
		most = fmax(most, (double) at(i, j));
	}
	switch (k)
	{
		case POOL_CLS:
			return (double) at(from, j);
		case POOL_LAST:
			return (double) at(ROWS - 1, j);
		case POOL_MAX:
			return most;
		case POOL_MEAN_SQRT_LEN:
			return sum / sqrt(weights);
		default:
			return sum / weights;
	}
}

static void
test_poolers(void)
{
	for (int k = 0; k < POOL_KINDS; k++)
		for (int from = 0; from < 3; from++)
		{
			PoolRows	which = pool_rows((PoolKind) k);
			float		sum[WIDTH];
			float		row[WIDTH];

			pool_start((PoolKind) k, sum, WIDTH);
			for (int i = from; i < ROWS; i++)
			{
				for (int j = 0; j < WIDTH; j++)
					row[j] = at(i, j);
				if (which == PR_ALL || i == (which == PR_FIRST ? from : ROWS - 1))
					pool_add((PoolKind) k, sum, row, WIDTH, i);
			}
			pool_end((PoolKind) k, sum, WIDTH, from, ROWS);
			for (int j = 0; j < WIDTH; j++)
				CHECK(fabs((double) sum[j] - defined((PoolKind) k, from, j)) < 1e-5,
					  "pooler %d from %d: %g, expected %g", k, from, (double) sum[j],
					  defined((PoolKind) k, from, j));
		}
}

static void
test_plans(void)
{
	PoolPlan	p = {.n = 2,.kinds = {POOL_CLS, POOL_CLS}};

	CHECK(pool_plan_rows(&p) == PR_FIRST, "the same twice");
	p.kinds[1] = POOL_LAST;
	CHECK(pool_plan_rows(&p) == PR_ALL, "first and last");
	p.n = 0;
	CHECK(pool_plan_rows(&p) == PR_ALL, "none");
}

static void
test_finish(void)
{
	float		v[4] = {3, 4, 12, 84};
	float		zero[2] = {0, 0};
	float		s[3] = {1000, 999, -1000};
	float		g[2] = {0, -1000};

	CHECK(pool_finish(PA_LENGTH1, 2, v, 4) == 2 && fabsf(v[0] - 0.6f) < 1e-6f && fabsf(v[1] - 0.8f) < 1e-6f,
		  "cut, then length 1");
	CHECK(pool_finish(PA_LENGTH1, 0, zero, 2) == 2 && zero[0] == 0, "what has no length stays");
	CHECK(pool_finish(PA_SOFTMAX, 0, s, 3) == 3 && fabsf(s[0] - 0.7310586f) < 1e-6f &&
		  fabsf(s[0] + s[1] + s[2] - 1) < 1e-6f, "softmax of large numbers: %g", (double) s[0]);
	pool_finish(PA_SIGMOID, 0, g, 2);
	CHECK(g[0] == 0.5f && g[1] == 0, "sigmoid");
	CHECK(pool_finish(PA_NONE, 9, v, 4) == 4, "no more than there is");
}

static void
test_names(void)
{
	for (int t = PT_NONE + 1; t < PT_COUNT; t++)
		CHECK(pool_task_by_name(pool_task_name((PoolTask) t), strlen(pool_task_name((PoolTask) t))) ==
			  (PoolTask) t, "task %d", t);
	CHECK(pool_task_by_name("", 0) == PT_NONE && pool_task_by_name("embedx", 6) == PT_NONE &&
		  pool_task_by_name("embedx", 5) == PT_EMBED, "names that aren't");
}

int
main(void)
{
	RUN(test_poolers());
	RUN(test_plans());
	RUN(test_finish());
	RUN(test_names());
	return check_done("test_pooler");
}
