/*
 * step_loop.c
 *	  The step loop: runs jobs, then a step of the instance that model_scheduler.h chooses, then sends
 *	  the results of the step.
 *
 * In the middle of a long step, between two operations, the backend calls on_progress().  The lane may
 * then make steps of instances with latency work before the long step continues (between_operations()).
 * Meanwhile only the long step's own thread accesses its data, so its results are the same.
 *
 * A lane is a thread that makes steps.  If instances have replicas (ranks.h), there is a lane for each
 * replica: lane r makes the steps of the r-th replica of every instance.  If they have none, and compute
 * on CPUs, there are two lanes for the same instances.  When two instances have work that is scheduled
 * by virtual time, each lane makes a step with half of the compute threads (msched_concurrent()).  Which
 * threads run a loop does not change its results.  A latency step that preempts one lane's step gets all
 * threads: the other lane's step pauses meanwhile (Lane.alone).
 *
 * Jobs run on the first lane.  While it has some, the others stop between two steps, so a job never
 * changes an instance or its replicas during a step.
 *
 * The sink (request.c) stages final frames.  They are sent when the step is over and its statistics are
 * published, so that a client that has read its result finds it counted.  One burst of final frames
 * wakes the supervisor once.  A backend that calls sinks on a thread of its own (output_queue.c) sends
 * them from that thread.
 *
 * Hang detection: header.busy is 1 from before the first step until no work is due.  step_counter grows
 * after every step, and during long steps.  With several lanes it grows once each busy lane has made
 * progress, so that a hang of one lane is noticed.  busy and step_counter are relaxed counters.  Idle
 * threads sleep on a condition variable: 0 % CPU.
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
#define MAX_INSTANCES		(2 * WIRE_MAX_MODELS)	/* including those that are about to be freed */

#define LANES_AT_ONCE	2

typedef struct Lane Lane;

/* State of the lanes that share instances, one set for each replica. */
typedef struct Turns
{
	pthread_mutex_t lock;		/* not held during steps; taken before Step.lock */
	pthread_cond_t alone_ends;	/* signals that a lane is no longer alone */
	ModelScheduler models;		/* of instances[] */
	Lane	   *lanes[LANES_AT_ONCE];	/* the second one: NULL = one step at a time */
	int64_t		since_us;		/* time up to which steps have been charged */
} Turns;

struct Lane
{
	Step	   *step;
	Turns	   *turns;
	int			no;				/* index of its replica */
	int			half;			/* index in Turns.lanes; selects its half of the compute threads */
	/*
	 * held during its steps, except by the first lane; holding all of them gives exclusive access to the
	 * instances
	 */
	pthread_mutex_t turn;
	bool		woken;			/* under Step.lock */
	bool		busy;			/* under Step.lock; written only by its own thread */
	bool		moved;			/* under Step.lock: it has made progress since step_counter grew */
	/* under Turns.lock, and written only by its own thread: */
	int			running;		/* index of the instance of its innermost step; -1 = none */
	/* it makes latency steps in the middle of its step, while other lanes pause */
	bool		alone;
	bool		paused;			/* its step is paused because another lane is alone */
	/* owned by its thread: */
	bool		unpublished;
};

typedef struct Instance
{
	BackendModel *in;
	StepShare  *share;			/* published counters; owned */
	/* its steps may run with a part of the threads, at the same time as another instance's */
	bool		beside;
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
	_Atomic bool halting;		/* the first lane has jobs, or wants exclusive access */
	pthread_cond_t resumed;		/* signals that the first lane no longer runs alone */
	Job		   *todo;			/* under lock */
	Job		  **todo_tail;

	pthread_mutex_t dirty_lock; /* held for a few instructions */
	ServerCall *dirty;			/* under dirty_lock */
	ServerCall **dirty_tail;

	Lane	   *lanes;
	int			n_lanes;
	Turns	   *turns;			/* [n_replicas] */
	int			n_replicas;
	Instance	instances[MAX_INSTANCES]; /* changed only while all lanes are stopped */
	int			n_instances;
	int			sleep_ms;		/* used by the next step of the first replica's lanes */
	_Atomic int64_t inflight;
	_Atomic int watch_ends;		/* > 0: wake the server thread when requests have ended */
};

/* The lane that runs on this thread. */
static _Thread_local Lane *this_lane;

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

/* Wake the lanes from .. end - 1. */
static void
wake(Step *s, int from, int end)
{
	pthread_mutex_lock(&s->lock);
	for (int i = from; i < end; i++)
		s->lanes[i].woken = true;
	pthread_cond_broadcast(&s->more);
	pthread_mutex_unlock(&s->lock);
}

/* Wakes the first lane of each replica; it wakes the second one when there is work for two. */
void
step_wake(Step *s)
{
	wake(s, 0, s->n_replicas);
}

void
step_run(Step *s, Job *j)
{
	pthread_mutex_lock(&s->lock);
	j->next = NULL;
	*s->todo_tail = j;
	s->todo_tail = &j->next;
	s->lanes[0].woken = true;
	/* the others make no further step, however long the first lane takes to wake up */
	if (s->n_lanes > 1)
		atomic_store(&s->halting, true);
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

/*
 * Publish the statistics, then send the staged final frames.  Returns false if there are none.  Any
 * thread.
 */
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
		 * From here on the server may free c (partner: server_try_free()).  Sequentially consistent with
		 * watch_ends: a thread that begins to watch, and then finds in_core still set (let_go() in
		 * lora_cache.c), is woken.
		 */
		atomic_store(&c->in_core, false);
		if (step_watched(s))
			link_ring_doorbell(s->link);
		c = next;
	}
	/* a request that waits for a limit of its role may be in another replica's lane */
	if (s->n_replicas > 1)
		step_wake(s);
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

/* The lane, which is busy, has made progress. */
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

/* The caller holds Step.lock. */
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

/* The backend has called sinks on its own thread. */
static void
on_events(void *ctx)
{
	send_finals(ctx);
}

/* Return the other lane that makes steps of the same instances; NULL: there is none. */
static Lane *
other_lane(const Lane *l)
{
	return l->turns->lanes[1 - l->half];
}

/* ---- the caller holds Turns.lock ---- */

/*
 * Update which instances have work.  Returns when the next instance without work will have some;
 * INT64_MAX = none will, or the lane that runs its step will check.
 */
static int64_t
look_for_work(Lane *l, int64_t now)
{
	Step	   *s = l->step;
	ModelScheduler *m = &l->turns->models;
	int64_t		due = INT64_MAX;

	ASSERT(m->n == s->n_instances);
	for (int i = 0; i < s->n_instances; i++)
	{
		const Instance *in = &s->instances[i];
		/* a running step changes what next_due() reads */
		int64_t		d = m->a[i].running ? 0 : s->be->generator->next_due(in->in, l->no);
		WorkClass	work = WORK_NONE;

		if (d <= now)
			work = s->be->generator->work_class(in->in, l->no);
		/*
		 * no request waits for this work: it moves blocks to the offload tier, or checks whether files
		 * have been read
		 */
		if (d <= now && work == WORK_NONE)
			work = WORK_BACKGROUND;
		msched_set_weight(m, i, atomic_load(in->share->weight));
		msched_set_work(m, i, work);
		atomic_store(&in->share->work, work);
		if (work == WORK_NONE)
			atomic_store(&in->share->waits_for, NULL);
		if (d > now && d < due)
			due = d;
	}
	return due;
}

/* Does the lane's step use compute threads now? */
static bool
computes(const Lane *l)
{
	return l != NULL && l->running >= 0 && !l->paused;
}

static bool
is_computing(const Turns *t, int i)
{
	for (int k = 0; k < LANES_AT_ONCE; k++)
		if (computes(t->lanes[k]) && t->lanes[k]->running == i)
			return true;
	return false;
}

/* Instance i has computed for `us`: count that as waiting time of the others that have work. */
static void
note_waits(const Turns *t, int i, int64_t us)
{
	Step	   *s = t->lanes[0]->step;

	for (int k = 0; k < s->n_instances; k++)
	{
		if (t->models.a[k].work == WORK_NONE || is_computing(t, k))
			continue;
		atomic_store(&s->instances[k].share->waits_for, s->instances[i].in);
		atomic_fetch_add(&s->instances[k].share->wait_us, us);
		if (t->models.a[k].running)
			atomic_fetch_add(&s->instances[k].share->paused_us, us);
	}
}

/*
 * Charge the time since the last call to the instances that compute.  Called before the set of these
 * changes.
 */
static void
charge(Turns *t, int64_t now)
{
	int			n = computes(t->lanes[0]) + computes(t->lanes[1]);

	for (int k = 0; k < LANES_AT_ONCE; k++)
		if (computes(t->lanes[k]))
		{
			int			i = t->lanes[k]->running;
			int64_t		us = (now - t->since_us) / n;

			msched_charge(&t->models, i, us);
			atomic_fetch_add(&t->lanes[k]->step->instances[i].share->compute_us, us);
			note_waits(t, i, us);
		}
	t->since_us = now;
}

/* Give all compute threads to the lane that computes, or half of them to each of two lanes. */
static void
share_threads(Turns *t)
{
	int			n = computes(t->lanes[0]) + computes(t->lanes[1]);

	if (t->lanes[1] == NULL)
		return;
	for (int k = 0; k < LANES_AT_ONCE; k++)
	{
		Lane	   *l = t->lanes[k];

		if (computes(l) && l->step->instances[l->running].beside)
			l->step->be->generator->use_threads(l->step->instances[l->running].in, n == 1 ? 0 : k, n);
	}
}

/* Return the instance whose step may run at the same time as the other lane's; -1 = none. */
static int
next_beside(Lane *l)
{
	const Lane *other = other_lane(l);
	const Instance *in = l->step->instances;
	int			i = msched_concurrent(&l->turns->models);

	return i >= 0 && in[i].beside && in[other->running].beside && !other->alone ? i : -1;
}

/* Wake the other lane if it sleeps and there is a step for it. */
static void
wake_other(Lane *l)
{
	Lane	   *other = other_lane(l);

	if (other != NULL && other->running < 0 && l->running >= 0 && next_beside(other) >= 0)
		wake(l->step, (int) (other - l->step->lanes), (int) (other - l->step->lanes) + 1);
}

/* Run a step of instance i and charge its time.  Releases the lock during the step. */
static void
run_step(Lane *l, int i)
{
	Step	   *s = l->step;
	Turns	   *t = l->turns;
	int			outer = l->running;
	Settings	set;

	settings_get(s->box, &set);
	t->models.share = set.background_share;
	charge(t, clock_us());
	t->models.a[i].running = true;
	l->running = i;
	share_threads(t);
	wake_other(l);
	pthread_mutex_unlock(&t->lock);

	s->be->generator->step(s->instances[i].in, l->no, &set);
	moved(l);
	l->unpublished = true;

	pthread_mutex_lock(&t->lock);
	charge(t, clock_us());
	t->models.a[i].running = false;
	l->running = outer;
	share_threads(t);
	pthread_mutex_unlock(&t->lock);
	flush(l);
	pthread_mutex_lock(&t->lock);
}

static void
end_alone(Lane *l)
{
	if (l->alone)
	{
		l->alone = false;
		pthread_cond_broadcast(&l->turns->alone_ends);
	}
}

/* Pause the lane's step until the other lane's latency steps are done. */
static void
pause_lane(Lane *l)
{
	Turns	   *t = l->turns;

	charge(t, clock_us());
	l->paused = true;
	share_threads(t);
	/* only the other lane makes progress; a paused lane that is busy would seem to hang */
	set_busy(l, false);
	while (other_lane(l)->alone)
		pthread_cond_wait(&t->alone_ends, &t->lock);
	set_busy(l, true);
	charge(t, clock_us());
	l->paused = false;
	share_threads(t);
}

/* Called between two operations of the lane's step: run the steps that preempt it. */
static void
between_operations(Lane *l)
{
	Turns	   *t = l->turns;
	Lane	   *other = other_lane(l);
	bool		nested;
	int			i;

	pthread_mutex_lock(&t->lock);
	/* this step preempts another one itself */
	nested = l->alone;
	for (;;)
	{
		int64_t		now = clock_us();

		charge(t, now);
		look_for_work(l, now);
		i = msched_preempting(&t->models, l->running);
		if (i >= 0)
		{
			l->alone = true;
			run_step(l, i);
		}
		else if (other != NULL && other->alone && msched_alone(&t->models, other->running, l->running))
		{
			/* two lanes that are alone would wait for each other */
			end_alone(l);
			pause_lane(l);
		}
		else
			break;
	}
	if (!nested)
		end_alone(l);
	wake_other(l);
	pthread_mutex_unlock(&t->lock);
}

/* Called during a long step, which does not hang.  between: it is between two operations. */
static void
on_progress(void *ctx, bool between)
{
	(void) ctx;
	ASSERT(this_lane != NULL);
	moved(this_lane);
	/* a job may compute outside of steps */
	if (between && this_lane->running >= 0)
		between_operations(this_lane);
}

void
step_attach(Step *s, BackendModel *in, const _Atomic int *weight)
{
	if (s->n_instances == MAX_INSTANCES)
	{
		log_line('P', "too many loaded models");
		exit(1);
	}
	s->instances[s->n_instances] = (Instance) {in, mem_zalloc(sizeof(StepShare)), false};
	s->instances[s->n_instances].share->weight = weight;
	s->instances[s->n_instances].beside = s->n_lanes > s->n_replicas &&
		s->be->generator->use_threads(in, 0, 1);
	stats_attach(s->stats, in, s->instances[s->n_instances++].share);
	for (int i = 0; i < s->n_replicas; i++)
		msched_add(&s->turns[i].models, MODEL_WEIGHT);
	if (s->be->generator->on_events != NULL)
		s->be->generator->on_events(in, on_events, s);
	if (s->be->generator->on_progress != NULL)
		for (int i = 0; i < s->n_replicas; i++)
			s->be->generator->on_progress(in, i, on_progress, NULL);
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
		for (int k = 0; k < s->n_replicas; k++)
			msched_remove(&s->turns[k].models, i);
	}
	/* another instance may get the same address later */
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

typedef struct PinEmitter
{
	const BackendModel *instance;
	void		(*emit) (void *ctx, const BackendModel *in, const PinInfo *i);
	void	   *ctx;
} PinEmitter;

static void
emit_pin(void *ctx, const PinInfo *i)
{
	const PinEmitter *t = ctx;

	t->emit(t->ctx, t->instance, i);
}

void
step_pins(Step *s, void (*emit) (void *ctx, const BackendModel *in, const PinInfo *i), void *ctx)
{
	PinEmitter	t = {NULL, emit, ctx};

	for (int i = 0; i < s->n_instances; i++)
	{
		t.instance = s->instances[i].in;
		if (s->be->control->pins != NULL)
			s->be->control->pins(s->instances[i].in, emit_pin, &t);
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

/*
 * Make the next step.  Returns when the next one is due: 0 = at once, INT64_MAX = none for this lane
 * until it is woken.  A lane that finds no step needs no wake for existing work: the other lane is
 * computing, and checks when its step ends.
 */
static int64_t
next_step(Lane *l)
{
	Step	   *s = l->step;
	Lane	   *other = other_lane(l);
	int64_t		now = clock_us();
	int64_t		due;
	int			i;

	pthread_mutex_lock(&l->turns->lock);
	charge(l->turns, now);
	due = look_for_work(l, now);
	i = other != NULL && other->running >= 0 ? next_beside(l) : msched_next(&l->turns->models);
	if (i >= 0)
	{
		if (!l->busy)
			set_busy(l, true);
		if (l->turns == &s->turns[0] && s->sleep_ms > 0)
		{
			usleep((useconds_t) s->sleep_ms * 1000);
			s->sleep_ms = 0;
		}
		run_step(l, i);
		due = 0;
	}
	pthread_mutex_unlock(&l->turns->lock);
	return due;
}

/* Sleep until woken, or until `due`. */
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
	while (!l->woken)
	{
		if (due == INT64_MAX)
			pthread_cond_wait(&s->more, &s->lock);
		else if (pthread_cond_timedwait(&s->more, &s->lock, &ts) != 0)
			break;
	}
	pthread_mutex_unlock(&s->lock);
}

/*
 * Stop the other lanes between two steps.  A lane that waits for another one's long step is not marked
 * busy, or it would seem to hang (moved()).
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
	/* they may have got work meanwhile */
	wake(s, 1, s->n_lanes);
}

static void
run_jobs(Step *s)
{
	Job		   *j;

	pthread_mutex_lock(&s->lock);
	s->lanes[0].woken = false;
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

	this_lane = l;
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

/* Main function of the other lanes. */
static void *
lane_main(void *arg)
{
	Lane	   *l = arg;
	Step	   *s = l->step;

	this_lane = l;
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
		l->woken = false;
		pthread_mutex_unlock(&s->lock);
		/* the first lane was faster: it is stopping the lanes */
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
	bool		first = l == l->step->lanes;
	char		name[16] = "step";

	if (!first)
		snprintf(name, sizeof(name), "step %d", (int) (l - l->step->lanes));
	if (pthread_create(&t, NULL, first ? step_main : lane_main, l) != 0)
	{
		log_line('P', "could not start the step thread");
		exit(1);
	}
	pthread_setname_np(t, name);
	pthread_detach(t);
}

/* Make one lane for each replica; or two for the same instances, if these can share the compute threads. */
static void
make_lanes(Step *s)
{
	s->n_replicas = s->be->generator->lanes != NULL ? s->be->generator->lanes() : 1;
	s->n_lanes = s->n_replicas == 1 && s->be->generator->use_threads != NULL ? LANES_AT_ONCE : s->n_replicas;
	s->lanes = mem_zalloc((size_t) s->n_lanes * sizeof(Lane));
	s->turns = mem_zalloc((size_t) s->n_replicas * sizeof(Turns));
	for (int i = 0; i < s->n_replicas; i++)
	{
		pthread_mutex_init(&s->turns[i].lock, NULL);
		pthread_cond_init(&s->turns[i].alone_ends, NULL);
	}
	for (int i = 0; i < s->n_lanes; i++)
	{
		Lane	   *l = &s->lanes[i];

		l->step = s;
		l->no = i % s->n_replicas;
		l->half = i / s->n_replicas;
		l->turns = &s->turns[l->no];
		l->turns->lanes[l->half] = l;
		l->running = -1;
		pthread_mutex_init(&l->turn, NULL);
	}
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
	make_lanes(s);
	for (int i = 0; i < s->n_lanes; i++)
		start_lane(&s->lanes[i]);
	return s;
}
