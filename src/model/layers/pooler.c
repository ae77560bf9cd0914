/*
 * pooler.c
 *	  Pooling: names of tasks, the poolers of poolers.def, activations.
 *
 * Tested by tests/unit/model/layers/test_pooler.c.
 */
#include "model/layers/pooler.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"

static const char *const task_names[PT_COUNT] = {
	[PT_NONE] = "",
	[PT_EMBED] = "embed",
	[PT_TOKEN_EMBED] = "token_embed",
	[PT_CLASSIFY] = "classify",
	[PT_TOKEN_CLASSIFY] = "token_classify",
	[PT_SCORE] = "score",
	[PT_REWARD] = "reward",
	[PT_LOGPROBS] = "logprobs",
};

PoolTask
pool_task_by_name(const char *s, size_t n)
{
	for (int t = PT_NONE + 1; t < PT_COUNT; t++)
		if (strlen(task_names[t]) == n && memcmp(task_names[t], s, n) == 0)
			return (PoolTask) t;
	return PT_NONE;
}

const char *
pool_task_name(PoolTask t)
{
	return task_names[t];
}

/* ---- gather ---- */

static void
start_zero(float *sum, int width)
{
	memset(sum, 0, (size_t) width * sizeof(float));
}

static void
start_least(float *sum, int width)
{
	for (int i = 0; i < width; i++)
		sum[i] = -FLT_MAX;
}

static void
add_copy(float *sum, const float *row, int width, int pos)
{
	(void) pos;
	memcpy(sum, row, (size_t) width * sizeof(float));
}

static void
add_sum(float *sum, const float *row, int width, int pos)
{
	(void) pos;
	for (int i = 0; i < width; i++)
		sum[i] += row[i];
}

static void
add_max(float *sum, const float *row, int width, int pos)
{
	(void) pos;
	for (int i = 0; i < width; i++)
		sum[i] = row[i] > sum[i] || isnan(row[i]) ? row[i] : sum[i];
}

/* later tokens have larger weights: 1, 2, 3 ... (Muennighoff 2022, arXiv:2202.08904) */
static void
add_weighted(float *sum, const float *row, int width, int pos)
{
	float		w = (float) (pos + 1);

	for (int i = 0; i < width; i++)
		sum[i] += w * row[i];
}

static double
by_nothing(int from, int n)
{
	(void) from;
	(void) n;
	return 0;
}

static double
by_rows(int from, int n)
{
	return n - from;
}

static double
by_root(int from, int n)
{
	return sqrt(n - from);
}

static double
by_weights(int from, int n)
{
	return ((double) n * (n + 1) - (double) from * (from + 1)) / 2;
}

static void
divide(float *sum, int width, double by)
{
	for (int i = 0; i < width; i++)
		sum[i] = (float) (sum[i] / by);
}

static const struct
{
	void		(*start) (float *sum, int width);
	void		(*add) (float *sum, const float *row, int width, int pos);
}			ways[] = {
	[KPOOL_COPY] = {start_zero, add_copy},
	[KPOOL_SUM] = {start_zero, add_sum},
	[KPOOL_MAX] = {start_least, add_max},
	[KPOOL_WEIGHTED] = {start_zero, add_weighted},
};

static const struct
{
	PoolRows	rows;
	KPoolAdd	how;
	double		(*by) (int from, int n);
}			poolers[] = {
#define POOLER(name, key, rows, how, by) {rows, KPOOL_##how, by},
#include "model/layers/poolers.def"
#undef POOLER
};

PoolRows
pool_rows(PoolKind k)
{
	ALWAYS((size_t) k < sizeof(poolers) / sizeof(poolers[0]));
	return poolers[k].rows;
}

PoolRows
pool_plan_rows(const PoolPlan *p)
{
	for (int i = 1; i < p->n; i++)
		if (pool_rows(p->kinds[i]) != pool_rows(p->kinds[0]))
			return PR_ALL;
	return p->n > 0 ? pool_rows(p->kinds[0]) : PR_ALL;
}

void
pool_start(PoolKind k, float *sum, int width)
{
	ways[poolers[k].how].start(sum, width);
}

void
pool_add(PoolKind k, float *sum, const float *row, int width, int pos)
{
	ways[poolers[k].how].add(sum, row, width, pos);
}

void
pool_end(PoolKind k, float *sum, int width, int from, int n)
{
	double		by = poolers[k].by(from, n);

	if (by != 0)
		divide(sum, width, by);
}

KPoolAdd
pool_how(PoolKind k)
{
	return poolers[k].how;
}

double
pool_divisor(PoolKind k, int from, int n)
{
	return poolers[k].by(from, n);
}

/* ---- finish ---- */

static void
softmax(float *v, int n)
{
	float		most = v[0];
	double		sum = 0;

	for (int i = 1; i < n; i++)
		most = v[i] > most ? v[i] : most;
	for (int i = 0; i < n; i++)
		sum += exp((double) v[i] - most);
	for (int i = 0; i < n; i++)
		v[i] = (float) (exp((double) v[i] - most) / sum);
}

/* Normalize to length 1; a zero vector stays as it is. */
static void
length1(float *v, int n)
{
	double		sum = 0;

	for (int i = 0; i < n; i++)
		sum += (double) v[i] * v[i];
	if (sum > 0)
		divide(v, n, sqrt(sum));
}

int
pool_finish(PoolAct act, int dimensions, float *v, int width)
{
	ASSERT(width > 0);
	if (dimensions > 0 && dimensions < width)
		width = dimensions;
	switch (act)
	{
		case PA_NONE:
			break;
		case PA_SOFTMAX:
			softmax(v, width);
			break;
		case PA_SIGMOID:
			for (int i = 0; i < width; i++)
				v[i] = (float) (1 / (1 + exp(-(double) v[i])));
			break;
		case PA_LENGTH1:
			length1(v, width);
			break;
	}
	return width;
}
