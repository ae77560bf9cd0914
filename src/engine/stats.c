/*
 * stats.c
 *	  WireStats: totals over the live instances, over those that are gone, and
 *	  over requests that never got to one.
 *
 * Everything is under one mutex; the arena's copy is written under the sequence
 * lock: seq odd (release fence), data, seq even (release); partner: the readers in
 * src/pg, which retry when seq was odd or changed.  A request's final frame is
 * published after stats_publish(), so that who has read an answer sees it counted.
 * Resetting subtracts a base: backends' counters only grow.
 *
 * Tested by tests/unit/test_server.c.
 */
#include "engine/stats.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define MAX_INST	(2 * WIRE_MAX_MODELS)

struct Stats
{
	pthread_mutex_t lock;
	const Backend *be;
	WireStats  *to;
	StatsRow	rows[WIRE_MAX_MODELS];
	int			n_rows;
	const Inst *inst[MAX_INST];
	int			n_inst;
	CoreStats	gone;			/* of instances that are no more */
	CoreStats	base;			/* subtracted (reset) */
	int64_t		early_failed, early_cancelled;
	int64_t		rss;
	int64_t		rss_us;
	int64_t		when_us;
};

Stats *
stats_new(WireStats *to, const Backend *be, const char *isa, int cpu_threads)
{
	Stats	   *s = mem_zalloc(sizeof(Stats));

	pthread_mutex_init(&s->lock, NULL);
	s->be = be;
	s->to = to;
	memset((char *) to + sizeof(to->seq), 0, sizeof(*to) - sizeof(to->seq));
	atomic_store(&to->seq, 0);
	to->started_us = clock_us();
	to->cpu_threads = cpu_threads;
	snprintf(to->isa, sizeof(to->isa), "%s", isa);
	return s;
}

void
stats_rows(Stats *s, const StatsRow *rows, int n)
{
	pthread_mutex_lock(&s->lock);
	memcpy(s->rows, rows, (size_t) n * sizeof(StatsRow));
	s->n_rows = n;
	pthread_mutex_unlock(&s->lock);
}

/* The counters that only grow, sign * b added to a. */
static void
accumulate(CoreStats *a, const CoreStats *b, int sign)
{
	a->steps += sign * b->steps;
	a->step_rows += sign * b->step_rows;
	a->step_seqs += sign * b->step_seqs;
	a->step_us += sign * b->step_us;
	a->generate_us += sign * b->generate_us;
	a->requests += sign * b->requests;
	a->finished += sign * b->finished;
	a->failed += sign * b->failed;
	a->cancelled += sign * b->cancelled;
	a->prompt_tokens += sign * b->prompt_tokens;
	a->cached_tokens += sign * b->cached_tokens;
	a->output_tokens += sign * b->output_tokens;
	a->preemptions += sign * b->preemptions;
	if (sign > 0 && b->max_batch > a->max_batch)
		a->max_batch = b->max_batch;
}

void
stats_attach(Stats *s, const Inst *in)
{
	pthread_mutex_lock(&s->lock);
	if (s->n_inst < MAX_INST)
		s->inst[s->n_inst++] = in;
	pthread_mutex_unlock(&s->lock);
}

void
stats_detach(Stats *s, const Inst *in)
{
	CoreStats	cs;

	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < s->n_inst; i++)
		if (s->inst[i] == in)
		{
			s->be->stats(in, &cs);
			/* what is alive now will be aborted */
			cs.cancelled += cs.live;
			accumulate(&s->gone, &cs, 1);
			s->inst[i] = s->inst[--s->n_inst];
			break;
		}
	pthread_mutex_unlock(&s->lock);
}

void
stats_early(Stats *s, bool cancelled)
{
	pthread_mutex_lock(&s->lock);
	if (cancelled)
		s->early_cancelled++;
	else
		s->early_failed++;
	pthread_mutex_unlock(&s->lock);
}

int64_t
stats_rss(void)
{
	FILE	   *f = fopen("/proc/self/statm", "re");
	long		size = 0;
	long		rss = 0;

	if (f == NULL)
		return 0;
	if (fscanf(f, "%ld %ld", &size, &rss) != 2)
		rss = 0;
	fclose(f);
	return (int64_t) rss * sysconf(_SC_PAGESIZE);
}

/* Everything summed up; kv and running figures are of now. */
static void
total(Stats *s, CoreStats *t)
{
	*t = s->gone;
	for (int i = 0; i < s->n_inst; i++)
	{
		CoreStats	cs;

		s->be->stats(s->inst[i], &cs);
		accumulate(t, &cs, 1);
		t->running += cs.running;
		t->waiting += cs.waiting;
		t->kv_blocks_total += cs.kv_blocks_total;
		t->kv_blocks_used += cs.kv_blocks_used;
	}
	t->requests += s->early_failed + s->early_cancelled;
	t->failed += s->early_failed;
	t->cancelled += s->early_cancelled;
}

/* Steps are counted by the instance. */
static void
fill_steps(WireHist *to, const CoreStats *cs)
{
	_Static_assert(STEP_SIZES <= WIRE_HIST_BUCKETS, "no room");
	memcpy(to->count, cs->step_sizes, sizeof(cs->step_sizes));
	to->sum = cs->step_rows;
}

static void
fill_row(Stats *s, WireModelStat *to, const StatsRow *r)
{
	CoreStats	cs;

	*to = r->m;
	if (r->inst != NULL)
	{
		s->be->stats(r->inst, &cs);
		to->kv_blocks_total = cs.kv_blocks_total;
		to->kv_blocks_used = cs.kv_blocks_used;
		to->kv_bytes = cs.kv_bytes;
		to->running = cs.running;
		to->waiting = cs.waiting;
	}
	to->requests = atomic_load(&r->counters->requests);
	to->prompt_tokens = atomic_load(&r->counters->prompt_tokens);
	to->output_tokens = atomic_load(&r->counters->output_tokens);
	to->preemptions = atomic_load(&r->counters->preemptions);
	to->prefilled_tokens = atomic_load_explicit(&r->counters->prefilled_tokens, memory_order_relaxed);
	to->generated_tokens = atomic_load_explicit(&r->counters->generated_tokens, memory_order_relaxed);
	for (int i = 0; i < WIRE_N_ENDS; i++)
		to->ended[i] = atomic_load_explicit(&r->counters->ended[i], memory_order_relaxed);
	for (int i = 0; i < WIRE_N_HISTS; i++)
	{
		const Hist *h = &r->counters->hist[i];

		for (int b = 0; b < WIRE_HIST_BUCKETS; b++)
			to->hist[i].count[b] = atomic_load_explicit(&h->count[b], memory_order_relaxed);
		to->hist[i].sum = atomic_load_explicit(&h->sum, memory_order_relaxed);
	}
	if (r->inst != NULL)
		fill_steps(&to->hist[WH_ITERATION], &cs);
}

void
stats_publish(Stats *s)
{
	WireStats  *w = s->to;
	CoreStats	t;
	uint32_t	seq;

	pthread_mutex_lock(&s->lock);
	total(s, &t);
	accumulate(&t, &s->base, -1);
	s->when_us = clock_us();
	if (s->when_us - s->rss_us > 100000)
	{
		s->rss = stats_rss();
		s->rss_us = s->when_us;
	}
	seq = atomic_load_explicit(&w->seq, memory_order_relaxed) & ~UINT32_C(1);
	atomic_store_explicit(&w->seq, seq + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	w->steps = t.steps;
	w->step_rows = t.step_rows;
	w->step_seqs = t.step_seqs;
	w->step_us = t.step_us;
	w->generate_us = t.generate_us;
	w->max_batch = t.max_batch;
	w->requests = t.requests;
	w->finished = t.finished;
	w->failed = t.failed;
	w->cancelled = t.cancelled;
	w->prompt_tokens = t.prompt_tokens;
	w->cached_tokens = t.cached_tokens;
	w->output_tokens = t.output_tokens;
	w->preemptions = t.preemptions;
	w->running = t.running;
	w->waiting = t.waiting;
	w->kv_blocks_total = t.kv_blocks_total;
	w->kv_blocks_used = t.kv_blocks_used;
	w->rss_bytes = s->rss;
	for (int i = 0; i < s->n_rows; i++)
		fill_row(s, &w->models[i], &s->rows[i]);
	w->n_models = (uint32_t) s->n_rows;
	atomic_store_explicit(&w->seq, seq + 2, memory_order_release);
	pthread_mutex_unlock(&s->lock);
}

void
stats_reset(Stats *s)
{
	pthread_mutex_lock(&s->lock);
	total(s, &s->base);
	pthread_mutex_unlock(&s->lock);
	stats_publish(s);
}

int64_t
stats_when(Stats *s)
{
	int64_t		r;

	pthread_mutex_lock(&s->lock);
	r = s->when_us;
	pthread_mutex_unlock(&s->lock);
	return r;
}
