/*
 * step.c
 *	  The step loop: jobs, then one step of every instance with work, then what
 *	  the step has finished.
 *
 * Final frames are staged by the sink (request.c) and sent when the step is over
 * and its statistics are published: who reads an answer finds it counted.  One
 * burst of final frames wakes the supervisor once.  A backend that calls sinks on a
 * thread of its own (deliver.c) sends them from there.
 *
 * Hang detection: header.busy is 1 from before the first step until there is no
 * due work; step_counter grows after every round, and on the way of long steps.  busy and step_counter are
 * relaxed figures.  Idle, the thread sleeps on a condition variable: 0 % CPU.
 *
 * Tested by tests/unit/test_server.c and test_fake.c.
 */
#include "engine/step.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define PUBLISH_US		20000
#define MAX_INST		256

struct Step
{
	Link	   *link;
	const Backend *be;
	SettingsBox *box;
	Stats	   *stats;
	Jobs	   *jobs;

	pthread_mutex_t lock;
	pthread_cond_t more;
	bool		poked;			/* under lock */
	Job		   *todo;			/* under lock */
	Job		  **todo_tail;

	pthread_mutex_t dirty_lock; /* held for a few instructions */
	Conv	   *dirty;			/* under dirty_lock */
	Conv	  **dirty_tail;

	/* step thread only */
	Inst	   *inst[MAX_INST];
	int			n_inst;
	bool		unpublished;
	int			sleep_ms;
	_Atomic int64_t inflight;
};

void
step_poke(Step *s)
{
	pthread_mutex_lock(&s->lock);
	s->poked = true;
	pthread_cond_signal(&s->more);
	pthread_mutex_unlock(&s->lock);
}

void
step_run(Step *s, Job *j)
{
	pthread_mutex_lock(&s->lock);
	j->next = NULL;
	*s->todo_tail = j;
	s->todo_tail = &j->next;
	s->poked = true;
	pthread_cond_signal(&s->more);
	pthread_mutex_unlock(&s->lock);
}

_Atomic int64_t *
step_inflight(Step *s)
{
	return &s->inflight;
}

void
step_dirty(Step *s, Conv *c)
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
	Conv	   *c;

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
		Conv	   *next = c->dirty_next;

		c->dirty = false;
		if (c->last_kind < 0)
			conv_drop(c);
		else
			conv_end(c, (WireFrame) c->last_kind, &c->last);
		buf_free(&c->last);
		buf_free(&c->text);
		intvec_free(&c->ids);
		atomic_fetch_sub(&s->inflight, 1);
		/*
		 * The server may free c from here on (partner: server_try_free()).  In one order with watch_ends: who begins to
		 * watch and then finds this one in the core (let_go() in lora.c) is told.
		 */
		atomic_store(&c->in_core, false);
		if (atomic_load(&s->link->watch_ends) > 0)
			link_ring_doorbell(s->link);
		c = next;
	}
	return true;
}

static void
flush(Step *s)
{
	if (send_finals(s))
		s->unpublished = false;
	else if (s->unpublished && clock_us() - stats_when(s->stats) > PUBLISH_US)
	{
		stats_publish(s->stats);
		s->unpublished = false;
	}
}

/* A backend's own thread has called sinks. */
static void
on_events(void *ctx)
{
	send_finals(ctx);
}

/* A long step goes on: it doesn't hang. */
static void
on_progress(void *ctx)
{
	Step	   *s = ctx;

	atomic_fetch_add_explicit(&s->link->hdr->step_counter, 1, memory_order_relaxed);
}

void
step_attach(Step *s, Inst *in)
{
	if (s->n_inst == MAX_INST)
	{
		log_line('P', "too many loaded models");
		exit(1);
	}
	s->inst[s->n_inst++] = in;
	if (s->be->on_events != NULL)
		s->be->on_events(in, on_events, s);
	if (s->be->on_progress != NULL)
		s->be->on_progress(in, on_progress, s);
	stats_attach(s->stats, in);
}

void
step_detach(Step *s, Inst *in)
{
	for (int i = 0; i < s->n_inst; i++)
		if (s->inst[i] == in)
			s->inst[i] = s->inst[--s->n_inst];
	stats_detach(s->stats, in);
	s->be->free(in);
	flush(s);
}

bool
step_check(Step *s, Err *e)
{
	for (int i = 0; i < s->n_inst; i++)
		if (!s->be->check_state(s->inst[i], e))
			return false;
	return true;
}

void
step_reset_prefix_cache(Step *s)
{
	for (int i = 0; i < s->n_inst; i++)
		if (s->be->reset_prefix_cache != NULL)
			s->be->reset_prefix_cache(s->inst[i]);
	if (s->be->unkeep != NULL)
		s->be->unkeep();
	stats_publish(s->stats);
}

void
step_keep(Step *s, int64_t deadline_us)
{
	for (int i = 0; i < s->n_inst; i++)
		s->be->keep(s->inst[i], deadline_us);
}

typedef struct Teller
{
	const Inst *inst;
	void		(*tell) (void *ctx, const Inst *in, const PinInfo *i);
	void	   *ctx;
} Teller;

static void
tell_pin(void *ctx, const PinInfo *i)
{
	const Teller *t = ctx;

	t->tell(t->ctx, t->inst, i);
}

void
step_pins(Step *s, void (*tell) (void *ctx, const Inst *in, const PinInfo *i), void *ctx)
{
	Teller		t = {NULL, tell, ctx};

	for (int i = 0; i < s->n_inst; i++)
	{
		t.inst = s->inst[i];
		if (s->be->pins != NULL)
			s->be->pins(s->inst[i], tell_pin, &t);
	}
}

bool
step_unpin(Step *s, uint64_t id)
{
	bool		done = false;

	for (int i = 0; i < s->n_inst && !done; i++)
		done = s->be->unpin != NULL && s->be->unpin(s->inst[i], id);
	stats_publish(s->stats);
	return done;
}

int64_t
step_live(Step *s)
{
	int64_t		n = 0;

	for (int i = 0; i < s->n_inst; i++)
	{
		CoreStats	cs;

		s->be->stats(s->inst[i], &cs);
		n += cs.live;
	}
	return n;
}

void
step_sleep(Step *s, int ms)
{
	s->sleep_ms = ms;
}

/* One round; the time of the next due step, 0 = at once, INT64_MAX = none. */
static int64_t
round_of_steps(Step *s)
{
	Settings	set;
	int64_t		now = clock_us();
	int64_t		due = INT64_MAX;
	bool		stepped = false;

	for (int i = 0; i < s->n_inst; i++)
	{
		int64_t		d = s->be->next_due(s->inst[i]);

		if (d > now)
		{
			if (d < due)
				due = d;
			continue;
		}
		if (!stepped)
		{
			settings_get(s->box, &set);
			atomic_store_explicit(&s->link->hdr->busy, 1, memory_order_relaxed);
			if (s->sleep_ms > 0)
				usleep((useconds_t) s->sleep_ms * 1000);
			s->sleep_ms = 0;
		}
		stepped = true;
		s->be->step(s->inst[i], &set);
	}
	if (!stepped)
		return due;
	atomic_fetch_add_explicit(&s->link->hdr->step_counter, 1, memory_order_relaxed);
	s->unpublished = true;
	flush(s);
	return 0;
}

/* Sleep until poked or due. */
static void
wait_for_work(Step *s, int64_t due)
{
	struct timespec ts = {.tv_sec = due / 1000000,.tv_nsec = due % 1000000 * 1000};

	atomic_store_explicit(&s->link->hdr->busy, 0, memory_order_relaxed);
	if (s->unpublished)
	{
		stats_publish(s->stats);
		s->unpublished = false;
	}
	pthread_mutex_lock(&s->lock);
	while (!s->poked)
	{
		if (due == INT64_MAX)
			pthread_cond_wait(&s->more, &s->lock);
		else if (pthread_cond_timedwait(&s->more, &s->lock, &ts) != 0)
			break;
	}
	pthread_mutex_unlock(&s->lock);
}

static void
run_jobs(Step *s)
{
	Job		   *j;

	pthread_mutex_lock(&s->lock);
	s->poked = false;
	j = s->todo;
	s->todo = NULL;
	s->todo_tail = &s->todo;
	pthread_mutex_unlock(&s->lock);
	while (j != NULL)
	{
		Job		   *next = j->next;

		j->run(j);
		jobs_post(s->jobs, j);
		j = next;
	}
}

static void *
step_main(void *arg)
{
	Step	   *s = arg;

	for (;;)
	{
		int64_t		due;

		run_jobs(s);
		due = round_of_steps(s);
		if (due != 0)
			wait_for_work(s, due);
	}
	return NULL;
}

Step *
step_new(Link *link, const Backend *be, SettingsBox *box, Stats *stats, Jobs *jobs)
{
	Step	   *s = mem_zalloc(sizeof(Step));
	pthread_condattr_t attr;
	pthread_t	t;

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
	if (pthread_create(&t, NULL, step_main, s) != 0)
	{
		log_line('P', "could not start the step thread");
		exit(1);
	}
	pthread_setname_np(t, "step");
	pthread_detach(t);
	return s;
}
