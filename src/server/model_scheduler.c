/*
 * model_scheduler.c
 *	  Chooses the loaded model that computes next.
 *
 * Tested by tests/unit/server/test_model_scheduler.c: shares by weight, bounds of the lead, waiting
 * times, in 100,000 random events.
 */
#include "server/model_scheduler.h"

#include <math.h>

#include "base/alloc.h"
#include "base/assert.h"

void
msched_add(ModelScheduler *m, int weight)
{
	ASSERT(weight > 0);
	if (m->n == m->cap)
	{
		m->cap = m->cap == 0 ? 16 : m->cap * 2;
		m->a = mem_realloc(m->a, (size_t) m->cap * sizeof(ModelAccount));
	}
	m->a[m->n++] = (ModelAccount) {.weight = (double) weight / MODEL_WEIGHT, .vtime = m->now};
}

void
msched_remove(ModelScheduler *m, int i)
{
	ASSERT(i >= 0 && i < m->n && !m->a[i].running);
	m->a[i] = m->a[--m->n];
}

void
msched_set_weight(ModelScheduler *m, int i, int weight)
{
	ASSERT(weight > 0);
	m->a[i].weight = (double) weight / MODEL_WEIGHT;
}

void
msched_set_work(ModelScheduler *m, int i, WorkClass work)
{
	ModelAccount *a = &m->a[i];

	if (a->work == WORK_NONE && work != WORK_NONE)
		a->vtime = fmax(a->vtime, m->now);
	if (work != WORK_LATENCY)
		a->yields = false;
	a->work = work;
}

/* Return the sum of the weights of models with background work, or with other work. */
static double
weights(const ModelScheduler *m, bool background)
{
	double		sum = 0;

	for (int i = 0; i < m->n; i++)
		if (m->a[i].work != WORK_NONE && (m->a[i].work == WORK_BACKGROUND) == background)
			sum += m->a[i].weight;
	return sum;
}

/* Must model i wait until no other model has work? */
static bool
gives_way(const ModelScheduler *m, int i)
{
	return m->a[i].work == WORK_BACKGROUND && m->share == 0 && weights(m, false) > 0;
}

/* Return model i's weight among the models that have work now. */
static double
weight_now(const ModelScheduler *m, int i)
{
	double		others = weights(m, false);

	if (m->a[i].work != WORK_BACKGROUND || others == 0 || m->share == 0)
		return m->a[i].weight;
	return m->a[i].weight / weights(m, true) * others * m->share / (100 - m->share);
}

/* Return the least virtual time of the models with work other than latency work. */
static double
others_at(const ModelScheduler *m)
{
	double		least = INFINITY;

	for (int k = 0; k < m->n; k++)
		if (m->a[k].work != WORK_NONE && m->a[k].work != WORK_LATENCY && !gives_way(m, k))
			least = fmin(least, m->a[k].vtime);
	return least;
}

/* Return the next model with latency work that is not too far ahead; -1 = none. */
static int
next_latency(ModelScheduler *m)
{
	double		others = others_at(m);
	int			best = -1;

	for (int i = 0; i < m->n; i++)
	{
		ModelAccount *a = &m->a[i];

		if (a->work != WORK_LATENCY)
			continue;
		if (a->vtime - others > MSCHED_LEAD_US)
			a->yields = true;
		else if (a->vtime - others <= MSCHED_LEAD_US - MSCHED_SLICE_US)
			a->yields = false;
		if (!a->yields && !a->running && (best < 0 || a->vtime < m->a[best].vtime))
			best = i;
	}
	return best;
}

/* Return the model with the least virtual time, among those that needn't wait for others' work. */
static int
next_by_time(const ModelScheduler *m)
{
	int			best = -1;

	for (int i = 0; i < m->n; i++)
		if (m->a[i].work != WORK_NONE && !m->a[i].running && !gives_way(m, i) &&
			(best < 0 || m->a[i].vtime < m->a[best].vtime))
			best = i;
	return best;
}

int
msched_next(ModelScheduler *m)
{
	int			i = next_latency(m);

	return i >= 0 ? i : next_by_time(m);
}

void
msched_charge(ModelScheduler *m, int i, int64_t us)
{
	double		least = INFINITY;

	m->a[i].vtime += (double) us / weight_now(m, i);
	for (int k = 0; k < m->n; k++)
		if (m->a[k].work != WORK_NONE && !gives_way(m, k))
			least = fmin(least, m->a[k].vtime);
	if (isfinite(least))
		m->now = fmax(m->now, least);
}

int
msched_preempting(ModelScheduler *m, int i)
{
	int			k = next_latency(m);

	/* between two models with latency work, virtual time decides, and a switch needs a lead of a SLICE */
	if (k >= 0 && m->a[i].work == WORK_LATENCY && m->a[k].vtime + MSCHED_SLICE_US > m->a[i].vtime)
		return -1;
	return k;
}

bool
msched_alone(const ModelScheduler *m, int i, int k)
{
	return m->a[i].work == WORK_LATENCY && !m->a[i].yields && m->a[k].work != WORK_LATENCY;
}

int
msched_concurrent(ModelScheduler *m)
{
	int			i = msched_next(m);
	double		ahead = i >= 0 && m->a[i].yields ? MSCHED_LEAD_US + MSCHED_SLICE_US : MSCHED_SLICE_US;

	for (int k = 0; k < m->n && i >= 0; k++)
		if (m->a[k].running && (msched_alone(m, i, k) || msched_alone(m, k, i) ||
								m->a[i].vtime > m->a[k].vtime + ahead))
			return -1;
	return i;
}
