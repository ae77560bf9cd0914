/*
 * server_stats.c
 *	  WireStats: totals over the live instances, over the freed ones, and over requests that never
 *	  reached an instance.
 *
 * One mutex protects everything.  The arena's copy is written under the sequence lock
 * (ipc_server/stats_seqlock.h).  A request's final frame is sent after stats_publish(), so that a client
 * that has read its result finds it counted.  A reset subtracts a base, so the backends' counters only
 * grow.
 *
 * Tested by tests/unit/server/test_server.c.
 */
#include "server/server_stats.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/machine/cpus.h"
#include "base/alloc.h"
#include "base/machine/system_memory.h"
#include "runtime/devices.h"
#include "core/ranks/ranks.h"
#include "server/model_scheduler.h"
#include "ipc_server/stats_seqlock.h"

#define MAX_INSTANCES	(2 * WIRE_MAX_MODELS)

struct Stats
{
	pthread_mutex_t lock;
	const Backend *be;
	WireStats  *to;
	StatsRow	rows[WIRE_MAX_MODELS];
	int			n_rows;
	const BackendModel *instances[MAX_INSTANCES];
	const StepShare *share[MAX_INSTANCES];	/* owned by the step loop */
	int			n_instances;
	WireFigures freed;			/* sums of instances that were freed */
	WireFigures base;			/* counts to subtract since the last reset */
	int64_t		early_failed, early_cancelled;
	int64_t		rss;
	int64_t		rss_us;
	int64_t		available;
	int64_t		available_us;
	int			n_devices;
	WireDevice	devices[WIRE_MAX_DEVICES];
	int			n_ranks;
	WireRank	ranks[WIRE_MAX_RANKS];
	int			ranks_on[WIRE_MAX_RANKS];	/* RankInfo.device */
	int64_t		when_us;
};

/* -1 = unknown */
static int64_t
available_memory(void)
{
	uint64_t	n = sysmem_available("");

	return n > INT64_MAX ? -1 : (int64_t) n;
}

static void
look_at_devices(Stats *s)
{
	s->n_devices = devices_n();
	ALWAYS(s->n_devices >= 0 && s->n_devices <= WIRE_MAX_DEVICES);
	for (int i = 0; i < s->n_devices; i++)
	{
		WireDevice *d = &s->devices[i];
		KDevInfo	info;

		devices_info(i, &info);
		*d = (WireDevice) {
			.ordinal = i, .capability = info.cc, .multiprocessors = info.sms, .usable = info.usable,
				.rank = -1,
			.memory_total = (int64_t) info.total
		};
		snprintf(d->name, sizeof(d->name), "%s", info.name);
		snprintf(d->uuid, sizeof(d->uuid), "%s", info.uuid);
		snprintf(d->driver, sizeof(d->driver), "%s", info.driver);
		snprintf(d->note, sizeof(d->note), "%s", info.why);
	}
}

/*
 * Return the rank of the first engine process that computes on the device; -1 = none.  here: this
 * process does.
 */
static int32_t
rank_on(const Stats *s, int device, bool here)
{
	if (here)
		return 0;
	for (int i = 0; i < s->n_ranks; i++)
		if (s->ranks_on[i] == device)
			return s->ranks[i].rank;
	return -1;
}

/* Read the devices' memory; called on each publication. */
static void
look_at_device_memory(Stats *s)
{
	for (int i = 0; i < s->n_devices; i++)
	{
		KDevInfo	info;
		uint64_t	free_bytes;
		uint64_t	held;
		bool		here = devices_memory(i, &free_bytes, &held);

		devices_info(i, &info);
		if (!here)
			free_bytes = info.free;
		s->devices[i].rank = rank_on(s, i, here);
		s->devices[i].memory_available = (int64_t) free_bytes;
		s->devices[i].engine_bytes = (int64_t) held;
		if (s->devices[i].rank >= 0 && ranks_world() > 1)
			ranks_exchange(s->devices[i].note, sizeof(s->devices[i].note));
	}
}

/* Read the ranks and their devices; and their memory, which takes reading files, only if `memory` is set. */
static void
look_at_ranks(Stats *s, bool memory)
{
	RankInfo	info;
	int			n = 0;

	for (; n < WIRE_MAX_RANKS && ranks_info(n, &info); n++)
	{
		WireRank   *r = &s->ranks[n];

		s->ranks_on[n] = info.device;
		if (memory || n >= s->n_ranks || r->pid != info.pid)
			r->bytes = ranks_bytes(&info);
		r->rank = info.rank;
		r->replica = info.replica;
		r->pid = info.pid;
	}
	s->n_ranks = n;
}

/*
 * Make the next publication read the values that are read only at intervals.  Called before a time in
 * which the engine may publish nothing.
 */
static void
look_again(Stats *s)
{
	s->rss_us = s->available_us = 0;
}

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
	to->cpus = (int32_t) sysconf(_SC_NPROCESSORS_ONLN);
	to->cpus_usable = cpus_usable();
	cpus_name(to->cpu_name, sizeof(to->cpu_name));
	to->memory_total = (int64_t) sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
	s->available = available_memory();
	look_at_devices(s);
	return s;
}

/* Add sign * b to a, for the counters, which only grow. */
static void
accumulate(WireFigures *a, WireFigures *b, int sign)
{
	for (int i = 0; i < WIRE_N_FIGURES; i++)
	{
		int64_t    *x = wire_figure(a, i);
		int64_t		y = *wire_figure(b, i);

		if (wire_figures[i].kind == WIRE_COUNTER)
			*x += sign * y;
		else if (wire_figures[i].kind == WIRE_PEAK && sign > 0 && y > *x)
			*x = y;
	}
}

/* Add the gauges. */
static void
add_gauges(WireFigures *a, WireFigures *b)
{
	for (int i = 0; i < WIRE_N_FIGURES; i++)
	{
		int64_t    *x = wire_figure(a, i);
		int64_t		y = *wire_figure(b, i);

		if (wire_figures[i].kind == WIRE_GAUGE)
			*x += y;
		else if (wire_figures[i].kind == WIRE_LIMIT && y > *x)
			*x = y;
	}
}

static bool
has_instance(const StatsRow *rows, int n, const BackendModel *in)
{
	for (int i = 0; i < n; i++)
		if (rows[i].instance == in)
			return true;
	return false;
}

/* Add the histograms of KV blocks. */
static void
add_hists(WireHist *to, const WireHist *h)
{
	for (int i = 0; i < WIRE_N_KV_HISTS; i++)
	{
		for (int b = 0; b < WIRE_HIST_BUCKETS; b++)
			to[i].count[b] += h[i].count[b];
		to[i].sum += h[i].sum;
	}
}

/* Return the instance's index among those that are attached; -1 = none. */
static int
attached_at(const Stats *s, const BackendModel *in)
{
	for (int i = 0; i < s->n_instances; i++)
		if (s->instances[i] == in)
			return i;
	return -1;
}

/* A model's instance is about to go.  Its counters stay with the first of the models that shared it. */
static void
keep_counters(Stats *s, const StatsRow *old, const StatsRow *rows, int n)
{
	CoreStats	cs;

	for (int i = 0; i < n; i++)
		if (rows[i].counters == old->counters)
		{
			s->be->control->stats(old->instance, &cs);
			accumulate(&old->counters->freed, &cs.fig, 1);
			for (int b = 0; b < STEP_SIZES; b++)
				old->counters->freed_steps[b] += cs.step_sizes[b];
			add_hists(old->counters->freed_kv, cs.kv_life);
		}
}

void
stats_rows(Stats *s, const StatsRow *rows, int n)
{
	ALWAYS(n >= 0 && n <= WIRE_MAX_MODELS);
	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < s->n_rows; i++)
	{
		const StatsRow *old = &s->rows[i];

		if (old->instance != NULL && !has_instance(s->rows, i, old->instance) &&
			!has_instance(rows, n, old->instance))
			keep_counters(s, old, rows, n);
	}
	memcpy(s->rows, rows, (size_t) n * sizeof(StatsRow));
	s->n_rows = n;
	look_again(s);
	pthread_mutex_unlock(&s->lock);
}

void
stats_attach(Stats *s, const BackendModel *in, const StepShare *share)
{
	pthread_mutex_lock(&s->lock);
	/* a second time its counters would be added twice */
	ASSERT(attached_at(s, in) < 0);
	if (s->n_instances < MAX_INSTANCES)
	{
		s->share[s->n_instances] = share;
		s->instances[s->n_instances++] = in;
	}
	look_again(s);
	pthread_mutex_unlock(&s->lock);
}

void
stats_detach(Stats *s, const BackendModel *in)
{
	CoreStats	cs;
	int			i;

	pthread_mutex_lock(&s->lock);
	i = attached_at(s, in);
	if (i >= 0)
	{
		s->be->control->stats(in, &cs);
		/* requests that are live now will be aborted */
		cs.cancelled += cs.live;
		accumulate(&s->freed, &cs.fig, 1);
		s->instances[i] = s->instances[--s->n_instances];
		s->share[i] = s->share[s->n_instances];
	}
	look_again(s);
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
	return sysmem_of_process((int) getpid());
}

/* Compute the totals. */
static void
total(Stats *s, WireFigures *t)
{
	*t = s->freed;
	for (int i = 0; i < s->n_instances; i++)
	{
		CoreStats	cs;

		s->be->control->stats(s->instances[i], &cs);
		accumulate(t, &cs.fig, 1);
		add_gauges(t, &cs.fig);
	}
	t->requests += s->early_failed + s->early_cancelled;
	t->failed += s->early_failed;
	t->cancelled += s->early_cancelled;
}

/* Add the sizes of steps, which the instance counts. */
static void
add_steps(WireHist *to, const int64_t *sizes)
{
	_Static_assert(STEP_SIZES <= WIRE_HIST_BUCKETS, "no room");
	for (int i = 0; i < STEP_SIZES; i++)
		to->count[i] += sizes[i];
}

/* Return the index of the model that has this instance; -1 = none has it any more. */
static int
row_of(const Stats *s, const BackendModel *in)
{
	for (int i = 0; i < s->n_rows && in != NULL; i++)
		if (s->rows[i].instance == in)
			return i;
	return -1;
}

static void
fill_share(const Stats *s, WireModelStat *to, const BackendModel *in)
{
	int			i = attached_at(s, in);
	const StepShare *h;

	to->scheduling_weight = MODEL_WEIGHT;
	to->waits_for = -1;
	if (i < 0)
		return;
	h = s->share[i];
	to->scheduling_weight = atomic_load(h->weight);
	to->work = atomic_load(&h->work);
	to->waits_for = row_of(s, atomic_load(&h->waits_for));
	to->compute_us = atomic_load(&h->compute_us);
	to->wait_us = atomic_load(&h->wait_us);
	to->paused_us = atomic_load(&h->paused_us);
}

static void
fill_row(Stats *s, WireModelStat *to, const StatsRow *r)
{
	CoreStats	cs = {0};

	*to = r->m;
	if (r->instance != NULL)
		s->be->control->stats(r->instance, &cs);
	to->fig = cs.fig;
	fill_share(s, to, r->instance);
	to->max_loras = cs.max_loras;
	memcpy(to->loras_running, cs.loras_running, sizeof(to->loras_running));
	memcpy(to->loras_waiting, cs.loras_waiting, sizeof(to->loras_waiting));
	accumulate(&to->fig, &r->counters->freed, 1);
	to->requests = atomic_load(&r->counters->requests);
	to->prompt_tokens = atomic_load(&r->counters->prompt_tokens);
	to->output_tokens = atomic_load(&r->counters->output_tokens);
	to->preemptions = atomic_load(&r->counters->preemptions);
	to->prefilled_tokens = atomic_load_explicit(&r->counters->prefilled_tokens, memory_order_relaxed);
	to->reused_tokens = atomic_load_explicit(&r->counters->reused_tokens, memory_order_relaxed);
	to->back_tokens = atomic_load_explicit(&r->counters->back_tokens, memory_order_relaxed);
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
	add_steps(&to->hist[WH_ITERATION], cs.step_sizes);
	add_steps(&to->hist[WH_ITERATION], r->counters->freed_steps);
	to->hist[WH_ITERATION].sum = to->fig.step_rows;
	add_hists(&to->hist[WH_KV_LIFETIME], cs.kv_life);
	add_hists(&to->hist[WH_KV_LIFETIME], r->counters->freed_kv);
}

void
stats_publish(Stats *s)
{
	WireStats  *w = s->to;
	WireFigures t;
	bool		ranks = false;

	pthread_mutex_lock(&s->lock);
	total(s, &t);
	accumulate(&t, &s->base, -1);
	s->when_us = clock_us();
	if (s->when_us - s->rss_us > 100000)
	{
		s->rss = stats_rss();
		s->rss_us = s->when_us;
	}
	if (s->when_us - s->available_us > 1000000)
	{
		s->available = available_memory();
		s->available_us = s->when_us;
		ranks = true;
	}
	look_at_ranks(s, ranks);
	if (s->n_devices != devices_n())
		look_at_devices(s);
	look_at_device_memory(s);
	statlock_take(w);
	w->fig = t;
	w->rss_bytes = s->rss;
	w->memory_available = s->available;
	w->n_devices = (uint32_t) s->n_devices;
	memcpy(w->devices, s->devices, (size_t) s->n_devices * sizeof(WireDevice));
	w->n_ranks = (uint32_t) s->n_ranks;
	memcpy(w->ranks, s->ranks, (size_t) s->n_ranks * sizeof(WireRank));
	for (int i = 0; i < s->n_rows; i++)
		fill_row(s, &w->models[i], &s->rows[i]);
	w->n_models = (uint32_t) s->n_rows;
	statlock_release(w);
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
