/*
 * step_loop.c
 *	  The step loop: jobs, then a step of the instance whose turn it is (model_scheduler.h), then what
 *	  the step has finished.
 *
 * In the middle of a long step, between two operations, the backend calls on_progress(): the lane may then
 * make steps of instances with latency work, before the long step goes on (nested_steps()).  Nothing of the
 * long step's is touched meanwhile but by its own thread, so its results are the same.
 *
 * Where instances have replicas (ranks.h) there is a lane for each: lane r is a thread that steps the r-th
 * replica of every instance.  Jobs are the first lane's; while it has some, the others stand between two
 * steps, so what a job does to an instance or its replicas meets none of them.
 *
 * Final frames are staged by the sink (request.c) and sent when the step is over
 * and its statistics are published: who reads an answer finds it counted.  One
 * burst of final frames wakes the supervisor once.  A backend that calls sinks on a
 * thread of its own (output_queue.c) sends them from there.
 *
 * Hang detection: header.busy is 1 from before the first step until there is no
 * due work; step_counter grows after every step, and on the way of long steps: with several lanes when each
 * that is busy has come so far, as one that hangs would not be missed otherwise.  busy and step_counter are
 * relaxed counters.  Idle, the threads sleep on a condition variable: 0 % CPU.
 *
 * Tested by tests/unit/server/test_server.c and test_fake.c.
 */
#include "server/step_loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "server/model_scheduler.h"

#define PUBLISH_US		20000
#define MAX_INSTANCES		(2 * WIRE_MAX_MODELS)	/* those on their way out, too */

typedef struct Lane
{
	Step	   *step;
	int			no;				/* of replicas */
	/* held during its steps, but the first's; who holds all of them is alone with the instances */
	pthread_mutex_t turn;
	bool		poked;			/* under Step.lock */
	bool		busy;			/* under Step.lock; its thread alone writes it */
	bool		moved;			/* under Step.lock: it has made a step since step_counter grew */
	/* its thread's: */
	bool		unpublished;
	ModelScheduler turns;		/* of instances[] */
	int			running;		/* whose step is on the way, which may be interrupted; -1 = none */
	int64_t		began_us;		/* when that step began, */
	int64_t		nested_us;		/* and for how long it stood for the sake of others */
} Lane;

typedef struct Instance
{
	BackendModel *in;
	StepShare  *share;			/* what is published; owned */
} Instance;

struct Step
{
	Link	   *link;
	const Backend *be;
	SettingsBox *box;
	Stats	   *stats;
	Jobs	   *jobs;

	pthread_mutex_t lock;
	pthread_cond_t more;
	_Atomic bool halting;		/* the first lane wants to be alone */
	pthread_cond_t resumed;		/* signals that the first lane no longer runs alone */
	Job		   *todo;			/* under lock */
	Job		  **todo_tail;

	pthread_mutex_t dirty_lock; /* held for a few instructions */
	ServerCall *dirty;			/* under dirty_lock */
	ServerCall **dirty_tail;

	Lane	   *lanes;
	int			n_lanes;
	Instance	instances[MAX_INSTANCES]; /* changed while all lanes stand */
	int			n_instances;
	int			sleep_ms;		/* the first lane's */
	_Atomic int64_t inflight;
	_Atomic int watch_ends;		/* the server thread wants to know when requests have ended */
};

void
step_watch(Step *s, int by)
{
	atomic_fetch_add(&s->watch_ends, by);
}

bool
step_watched(Step *s)
{
	return atomic_load(&s->watch_ends) > 0;
}

/* From this lane on. */
static void
poke_from(Step *s, int lane)
{
	pthread_mutex_lock(&s->lock);
	for (int i = lane; i < s->n_lanes; i++)
		s->lanes[i].poked = true;
	pthread_cond_broadcast(&s->more);
	pthread_mutex_unlock(&s->lock);
}

void
step_poke(Step *s)
{
	poke_from(s, 0);
}

void
step_run(Step *s, Job *j)
{
	pthread_mutex_lock(&s->lock);
	j->next = NULL;
	*s->todo_tail = j;
	s->todo_tail = &j->next;
	s->lanes[0].poked = true;
	pthread_cond_broadcast(&s->more);
	pthread_mutex_unlock(&s->lock);
}

_Atomic int64_t *
step_inflight(Step *s)
{
	return &s->inflight;
}

void
step_dirty(Step *s, ServerCall *c)
{
	pthread_mutex_lock(&s->dirty_lock);
	if (!c->dirty)
	{
		c->dirty = true;
		c->dirty_next = NULL;
		*s->dirty_tail = c;
		s->dirty_tail = &c->dirty_next;
	}
	pthread_mutex_unlock(&s->dirty_lock);
}

/* Publish what has been counted, then send the final frames; false: there are none.  Any thread. */
static bool
send_finals(Step *s)
{
	ServerCall *c;

	pthread_mutex_lock(&s->dirty_lock);
	c = s->dirty;
	s->dirty = NULL;
	s->dirty_tail = &s->dirty;
	pthread_mutex_unlock(&s->dirty_lock);
	if (c == NULL)
		return false;
	stats_publish(s->stats);
	while (c != NULL)
	{
		ServerCall *next = c->dirty_next;

		c->dirty = false;
		if (c->last_kind < 0)
			scall_drop(c);
		else
			scall_end(c, (WireFrame) c->last_kind, &c->last);
		buf_free(&c->last);
		buf_free(&c->text);
		intvec_free(&c->ids);
		atomic_fetch_sub(&s->inflight, 1);
		/*
		 * The server may free c from here on (partner: server_try_free()).  In one order with watch_ends: who
		 * begins to watch and then finds this one in the core (let_go() in lora_cache.c) is told.
		 */
		atomic_store(&c->in_core, false);
		if (step_watched(s))
			link_ring_doorbell(s->link);
		c = next;
	}
	/* who waits for a limit of its role may wait in another lane */
	if (s->n_lanes > 1)
		step_poke(s);
	return true;
}

static void
flush(Lane *l)
{
	Step	   *s = l->step;

	if (send_finals(s))
		l->unpublished = false;
	else if (l->unpublished && clock_us() - stats_when(s->stats) > PUBLISH_US)
	{
		stats_publish(s->stats);
		l->unpublished = false;
	}
}

/* The lane, which is busy, has done something. */
static void
moved(Lane *l)
{
	Step	   *s = l->step;
	bool		all = true;

	if (s->n_lanes > 1)
	{
		pthread_mutex_lock(&s->lock);
		l->moved = true;
		for (int i = 0; i < s->n_lanes; i++)
			all = all && (s->lanes[i].moved || !s->lanes[i].busy);
		for (int i = 0; i < s->n_lanes && all; i++)
			s->lanes[i].moved = false;
		pthread_mutex_unlock(&s->lock);
	}
	if (all)
		atomic_fetch_add_explicit(&s->link->hdr->step_counter, 1, memory_order_relaxed);
}

/* under Step.lock */
static void
note_busy(Lane *l, bool busy)
{
	Step	   *s = l->step;
	bool		any = false;

	l->busy = busy;
	l->moved = false;
	for (int i = 0; i < s->n_lanes; i++)
		any = any || s->lanes[i].busy;
	atomic_store_explicit(&s->link->hdr->busy, any, memory_order_relaxed);
}

static void
set_busy(Lane *l, bool busy)
{
	pthread_mutex_lock(&l->step->lock);
	note_busy(l, busy);
	pthread_mutex_unlock(&l->step->lock);
}

/* A backend's own thread has called sinks. */
static void
on_events(void *ctx)
{
	send_finals(ctx);
}

/* Which instances have work now.  When the next one has: 0 = at once, INT64_MAX = none will. */
static int64_t
look_for_work(Lane *l, int64_t now)
{
	Step	   *s = l->step;
	int64_t		due = INT64_MAX;

	ASSERT(l->turns.n == s->n_instances);
	for (int i = 0; i < s->n_instances; i++)
	{
		const Instance *in = &s->instances[i];
		/* a step that is on its way is changing what would be looked at */
		int64_t		d = i == l->running ? 0 : s->be->generator->next_due(in->in, l->no);
		WorkClass	work = WORK_NONE;

		if (d <= now)
			work = s->be->generator->work_class(in->in, l->no);
		/* no request waits for it: it moves blocks to the offload tier, or looks whether files are there */
		if (d <= now && work == WORK_NONE)
			work = WORK_BACKGROUND;
		msched_set_weight(&l->turns, i, atomic_load(in->share->weight));
		msched_set_work(&l->turns, i, work);
		atomic_store(&in->share->work, work);
		if (work == WORK_NONE)
			atomic_store(&in->share->waits_for, NULL);
		if (d < due)
			due = d;
	}
	return due <= now ? 0 : due;
}

/* Instance i has computed for so long, while others had work. */
static void
note_waits(Lane *l, int i, int64_t us)
{
	Step	   *s = l->step;

	for (int k = 0; k < s->n_instances; k++)
	{
		if (k == i || l->turns.a[k].work == WORK_NONE)
			continue;
		atomic_store(&s->instances[k].share->waits_for, s->instances[i].in);
		atomic_fetch_add(&s->instances[k].share->wait_us, us);
		if (l->turns.a[k].running)
			atomic_fetch_add(&s->instances[k].share->paused_us, us);
	}
}

/* A step of instance i, whose time is charged to it. */
static void
run_step(Lane *l, int i)
{
	Step	   *s = l->step;
	Settings	set;
	int64_t		start = clock_us();
	int64_t		us;

	settings_get(s->box, &set);
	l->turns.share = set.background_share;
	l->turns.a[i].running = true;
	s->be->generator->step(s->instances[i].in, l->no, &set);
	l->turns.a[i].running = false;
	us = clock_us() - start;
	if (l->running == i)
		us -= l->nested_us;
	msched_charge(&l->turns, i, us);
	note_waits(l, i, us);
	moved(l);
	l->unpublished = true;
	flush(l);
}

/* The step at hand can stand still for a while: those go first whose turn it is. */
static void
nested_steps(Lane *l)
{
	int64_t		now = clock_us();
	int			i;

	look_for_work(l, now);
	while ((i = msched_preempting(&l->turns, l->running, now - l->began_us - l->nested_us)) >= 0)
	{
		int			outer = l->running;
		int64_t		start = now;

		l->running = -1;
		run_step(l, i);
		l->running = outer;
		now = clock_us();
		l->nested_us += now - start;
		look_for_work(l, now);
	}
}

/* A long step goes on: it doesn't hang.  between: it is between two operations. */
static void
on_progress(void *ctx, bool between)
{
	Lane	   *l = ctx;

	moved(l);
	if (between && l->running >= 0)
		nested_steps(l);
}

void
step_attach(Step *s, BackendModel *in, const _Atomic int *weight)
{
	if (s->n_instances == MAX_INSTANCES)
	{
		log_line('P', "too many loaded models");
		exit(1);
	}
	s->instances[s->n_instances] = (Instance) {in, mem_zalloc(sizeof(StepShare))};
	s->instances[s->n_instances].share->weight = weight;
	stats_attach(s->stats, in, s->instances[s->n_instances++].share);
	for (int i = 0; i < s->n_lanes; i++)
		msched_add(&s->lanes[i].turns, MODEL_WEIGHT);
	if (s->be->generator->on_events != NULL)
		s->be->generator->on_events(in, on_events, s);
	if (s->be->generator->on_progress != NULL)
		for (int i = 0; i < s->n_lanes; i++)
			s->be->generator->on_progress(in, i, on_progress, &s->lanes[i]);
}

void
step_detach(Step *s, BackendModel *in)
{
	StepShare  *share = NULL;

	for (int i = 0; i < s->n_instances && share == NULL; i++)
	{
		if (s->instances[i].in != in)
			continue;
		share = s->instances[i].share;
		s->instances[i] = s->instances[--s->n_instances];
		for (int k = 0; k < s->n_lanes; k++)
			msched_remove(&s->lanes[k].turns, i);
	}
	/* its address may be another's one day */
	for (int i = 0; i < s->n_instances; i++)
		if (atomic_load(&s->instances[i].share->waits_for) == in)
			atomic_store(&s->instances[i].share->waits_for, NULL);
	stats_detach(s->stats, in);
	mem_free(share);
	s->be->loader->free(in);
	flush(&s->lanes[0]);
}

bool
step_check(Step *s, Err *e)
{
	for (int i = 0; i < s->n_instances; i++)
		if (!s->be->control->check_state(s->instances[i].in, e))
			return false;
	return true;
}

void
step_reset_prefix_cache(Step *s)
{
	for (int i = 0; i < s->n_instances; i++)
		if (s->be->control->reset_prefix_cache != NULL)
			s->be->control->reset_prefix_cache(s->instances[i].in);
	if (s->be->control->reset_tier != NULL)
		s->be->control->reset_tier();
	stats_publish(s->stats);
}

void
step_keep(Step *s, int64_t deadline_us)
{
	for (int i = 0; i < s->n_instances; i++)
		s->be->control->flush_kv_to_tier(s->instances[i].in, deadline_us);
}

typedef struct Teller
{
	const BackendModel *instance;
	void		(*tell) (void *ctx, const BackendModel *in, const PinInfo *i);
	void	   *ctx;
} Teller;

static void
tell_pin(void *ctx, const PinInfo *i)
{
	const Teller *t = ctx;

	t->tell(t->ctx, t->instance, i);
}

void
step_pins(Step *s, void (*tell) (void *ctx, const BackendModel *in, const PinInfo *i), void *ctx)
{
	Teller		t = {NULL, tell, ctx};

	for (int i = 0; i < s->n_instances; i++)
	{
		t.instance = s->instances[i].in;
		if (s->be->control->pins != NULL)
			s->be->control->pins(s->instances[i].in, tell_pin, &t);
	}
}

bool
step_unpin(Step *s, uint64_t id)
{
	bool		done = false;

	for (int i = 0; i < s->n_instances && !done; i++)
		done = s->be->control->unpin != NULL && s->be->control->unpin(s->instances[i].in, id);
	stats_publish(s->stats);
	return done;
}

int64_t
step_live(Step *s)
{
	int64_t		n = 0;

	for (int i = 0; i < s->n_instances; i++)
	{
		CoreStats	cs;

		s->be->control->stats(s->instances[i].in, &cs);
		n += cs.live;
	}
	return n;
}

void
step_sleep(Step *s, int ms)
{
	s->sleep_ms = ms;
}

/* Make the step whose turn it is.  When the next is due: 0 = at once, INT64_MAX = there is no work. */
static int64_t
next_step(Lane *l)
{
	Step	   *s = l->step;
	int64_t		now = clock_us();
	int64_t		due = look_for_work(l, now);
	int			i = msched_next(&l->turns);

	if (i < 0)
		return due;
	if (!l->busy)
		set_busy(l, true);
	if (l->no == 0 && s->sleep_ms > 0)
	{
		usleep((useconds_t) s->sleep_ms * 1000);
		s->sleep_ms = 0;
	}
	l->running = i;
	l->began_us = clock_us();
	l->nested_us = 0;
	run_step(l, i);
	l->running = -1;
	return 0;
}

/* Sleep until poked or due. */
static void
wait_for_work(Lane *l, int64_t due)
{
	Step	   *s = l->step;
	struct timespec ts = {.tv_sec = due / 1000000,.tv_nsec = due % 1000000 * 1000};

	if (l->busy)
		set_busy(l, false);
	if (l->unpublished)
	{
		stats_publish(s->stats);
		l->unpublished = false;
	}
	pthread_mutex_lock(&s->lock);
	while (!l->poked)
	{
		if (due == INT64_MAX)
			pthread_cond_wait(&s->more, &s->lock);
		else if (pthread_cond_timedwait(&s->more, &s->lock, &ts) != 0)
			break;
	}
	pthread_mutex_unlock(&s->lock);
}

/*
 * The other lanes stand between two steps.  A lane that waits for a long one to end isn't busy, or it would
 * seem to hang (moved()).
 */
static void
halt_lanes(Step *s)
{
	bool		busy = s->lanes[0].busy;

	if (s->n_lanes == 1)
		return;
	atomic_store(&s->halting, true);
	if (busy)
		set_busy(&s->lanes[0], false);
	for (int i = 1; i < s->n_lanes; i++)
		pthread_mutex_lock(&s->lanes[i].turn);
	if (busy)
		set_busy(&s->lanes[0], true);
}

static void
resume_lanes(Step *s)
{
	if (s->n_lanes == 1)
		return;
	for (int i = 1; i < s->n_lanes; i++)
		pthread_mutex_unlock(&s->lanes[i].turn);
	pthread_mutex_lock(&s->lock);
	atomic_store(&s->halting, false);
	pthread_cond_broadcast(&s->resumed);
	pthread_mutex_unlock(&s->lock);
	/* there may be work for them now */
	poke_from(s, 1);
}

static void
run_jobs(Step *s)
{
	Job		   *j;

	pthread_mutex_lock(&s->lock);
	s->lanes[0].poked = false;
	j = s->todo;
	s->todo = NULL;
	s->todo_tail = &s->todo;
	pthread_mutex_unlock(&s->lock);
	if (j == NULL)
		return;
	halt_lanes(s);
	while (j != NULL)
	{
		Job		   *next = j->next;

		j->run(j);
		jobs_post(s->jobs, j);
		j = next;
	}
	resume_lanes(s);
}

static void *
step_main(void *arg)
{
	Lane	   *l = arg;

	for (;;)
	{
		int64_t		due;

		run_jobs(l->step);
		due = next_step(l);
		if (due != 0)
			wait_for_work(l, due);
	}
	return NULL;
}

/* Another lane. */
static void *
lane_main(void *arg)
{
	Lane	   *l = arg;
	Step	   *s = l->step;

	for (;;)
	{
		int64_t		due;

		pthread_mutex_lock(&s->lock);
		/* a mutex alone would not let the first lane in as long as this one has work */
		while (atomic_load(&s->halting))
		{
			if (l->busy)
				note_busy(l, false);
			pthread_cond_wait(&s->resumed, &s->lock);
		}
		l->poked = false;
		pthread_mutex_unlock(&s->lock);
		/* the first lane has come between: it is halting */
		if (pthread_mutex_trylock(&l->turn) != 0)
			continue;
		due = next_step(l);
		pthread_mutex_unlock(&l->turn);
		if (due != 0)
			wait_for_work(l, due);
	}
	return NULL;
}

static void
start_lane(Lane *l)
{
	pthread_t	t;
	char		name[16] = "step";

	if (l->no > 0)
		snprintf(name, sizeof(name), "step %d", l->no);
	if (pthread_create(&t, NULL, l->no == 0 ? step_main : lane_main, l) != 0)
	{
		log_line('P', "could not start the step thread");
		exit(1);
	}
	pthread_setname_np(t, name);
	pthread_detach(t);
}

Step *
step_new(Link *link, const Backend *be, SettingsBox *box, Stats *stats, Jobs *jobs)
{
	Step	   *s = mem_zalloc(sizeof(Step));
	pthread_condattr_t attr;

	s->link = link;
	s->be = be;
	s->box = box;
	s->stats = stats;
	s->jobs = jobs;
	s->todo_tail = &s->todo;
	s->dirty_tail = &s->dirty;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->dirty_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->more, &attr);
	pthread_cond_init(&s->resumed, NULL);
	s->n_lanes = be->generator->lanes != NULL ? be->generator->lanes() : 1;
	s->lanes = mem_zalloc((size_t) s->n_lanes * sizeof(Lane));
	for (int i = 0; i < s->n_lanes; i++)
	{
		s->lanes[i].step = s;
		s->lanes[i].no = i;
		s->lanes[i].running = -1;
		pthread_mutex_init(&s->lanes[i].turn, NULL);
	}
	for (int i = 0; i < s->n_lanes; i++)
		start_lane(&s->lanes[i]);
	return s;
}
