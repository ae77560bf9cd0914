/*
 * work_class.c
 *	  The class of a request: whether a client waits for it, or it is part of something large.
 *
 * A request's class is set when it is submitted.  Background: the caller has set it.  Latency: its
 * tokens are streamed, or its session has no more than LATENCY_REQUESTS in this model, and had no more
 * in the last second.  All others are throughput: a session with more requests in flight is a statement
 * over many rows, or a client that collects results, and waits for the last of them.  The last second
 * counts because one step may finish all requests that the session has in flight.  The count decides,
 * not a flag of the caller, so that no client can claim the better class for a large statement.  The
 * first requests of a statement arrive before it is known to be large; the scheduler demotes them later
 * (workcounts_demote()).
 *
 * Any thread submits, the step thread removes; the lock is held for a few instructions.  Tested by
 * tests/unit/core/test_work_class.c.
 */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "core/core_state.h"

#define MANY_US		1000000		/* how long a session counts as large after it had many requests */
#define SWEEP_AT	64			/* sessions; beyond it those without requests are freed */

struct SessionCount
{
	int			n;				/* live requests */
	_Atomic int64_t many_us;	/* when it last had more than LATENCY_REQUESTS; 0 = never */
	WorkCounts *all;
};

struct WorkCounts
{
	pthread_mutex_t lock;
	IdMap		sessions;		/* SessionCount by session_key(); protected by lock */
	size_t		sweep_at;		/* at this number of sessions: free those that are not needed */
	atomic_int	n[WORK_CLASSES];	/* live requests by class */
};

WorkCounts *
workcounts_new(void)
{
	WorkCounts *w = mem_zalloc(sizeof(*w));

	pthread_mutex_init(&w->lock, NULL);
	w->sweep_at = SWEEP_AT;
	return w;
}

static bool
has_many(const SessionCount *s, int64_t now_us)
{
	int64_t		many_us = atomic_load(&s->many_us);

	return many_us > 0 && now_us - many_us <= MANY_US;
}

/*
 * Free sessions without requests that did not have many recently; all: those, too.  The caller holds the
 * lock or is the only user.
 */
static void
sweep(WorkCounts *w, bool all)
{
	IdMap		kept = {0};
	int64_t		now = clock_us();

	for (size_t i = 0; i < w->sessions.cap; i++)
	{
		SessionCount *s = w->sessions.slots[i].value;

		if (s == NULL)
			continue;
		if (s->n == 0 && (all || !has_many(s, now)))
			mem_free(s);
		else
			idmap_put(&kept, w->sessions.slots[i].key, s);
	}
	idmap_free(&w->sessions);
	w->sessions = kept;
	w->sweep_at = 2 * kept.n > SWEEP_AT ? 2 * kept.n : SWEEP_AT;
}

void
workcounts_free(WorkCounts *w)
{
	if (w == NULL)
		return;
	sweep(w, true);
	ASSERT(w->sessions.n == 0);
	idmap_free(&w->sessions);
	pthread_mutex_destroy(&w->lock);
	mem_free(w);
}

/*
 * Sessions are numbered within a role.  Two sessions with the same key would be counted together, which
 * only affects their class.
 */
static uint64_t
session_key(const Req *r)
{
	return r->in.session ^ (r->in.by.role * UINT64_C(0x9E3779B97F4A7C15));
}

/* Count a request of its session; returns true if the session has, or recently had, many. */
static bool
session_enter(WorkCounts *w, Req *r)
{
	uint64_t	key = session_key(r);
	int64_t		now = r->in.arrival_us;
	SessionCount *s;
	bool		many;

	pthread_mutex_lock(&w->lock);
	if (w->sessions.n >= w->sweep_at)
		sweep(w, false);
	s = idmap_get(&w->sessions, key);
	if (s == NULL)
	{
		s = mem_zalloc(sizeof(*s));
		s->all = w;
		idmap_put(&w->sessions, key, s);
	}
	if (++s->n > LATENCY_REQUESTS)
		atomic_store(&s->many_us, now);
	r->session_count = s;
	many = has_many(s, now);
	pthread_mutex_unlock(&w->lock);
	return many;
}

static void
session_leave(WorkCounts *w, Req *r)
{
	pthread_mutex_lock(&w->lock);
	ASSERT(r->session_count != NULL && r->session_count->n > 0);
	r->session_count->n--;
	r->session_count = NULL;
	pthread_mutex_unlock(&w->lock);
}

void
workcounts_enter(WorkCounts *w, Req *r)
{
	bool		many = session_enter(w, r);

	if (r->in.by.background)
		r->in.work = WORK_BACKGROUND;
	else
		r->in.work = r->in.stream || !many ? WORK_LATENCY : WORK_THROUGHPUT;
	atomic_fetch_add(&w->n[r->in.work], 1);
}

void
workcounts_leave(WorkCounts *w, Req *r)
{
	int			left = atomic_fetch_sub(&w->n[r->in.work], 1);

	ASSERT(left > 0);
	session_leave(w, r);
}

bool
workcounts_demote(Req *r, int64_t now_us)
{
	SessionCount *s = r->session_count;
	int			left;

	if (s == NULL || r->in.work != WORK_LATENCY || r->in.stream || !has_many(s, now_us))
		return false;
	left = atomic_fetch_sub(&s->all->n[WORK_LATENCY], 1);
	ASSERT(left > 0);
	atomic_fetch_add(&s->all->n[WORK_THROUGHPUT], 1);
	r->in.work = WORK_THROUGHPUT;
	return true;
}

size_t
workcounts_sessions(const WorkCounts *w)
{
	return w->sessions.n;
}

WorkClass
core_work_class(const Core *c)
{
	for (int i = WORK_CLASSES - 1; i > WORK_NONE; i--)
		if (atomic_load(&c->work->n[i]) > 0)
			return (WorkClass) i;
	return WORK_NONE;
}
