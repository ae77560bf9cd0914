/*
 * work_class.c
 *	  Which requests somebody waits for, and which are part of something large.
 *
 * A request's class is set when it is submitted.  Background: the caller says so.  Latency: its tokens are
 * streamed, or its session has no more than LATENCY_REQUESTS in this model.  All others are throughput: a
 * session that has more in flight is a statement over many rows, or a client that collects answers, and waits
 * for the last of them.  The count decides, and no flag of the caller's, so that nobody can claim the better
 * class for a large statement; its first rows have it, and are soon answered.
 *
 * Any thread submits, the step thread takes away; the lock is held for a few instructions.  Tested by
 * tests/unit/core/test_work_class.c.
 */
#include "base/alloc.h"
#include "base/assert.h"
#include "core/core_state.h"

#define LATENCY_REQUESTS 8

struct WorkCounts
{
	pthread_mutex_t lock;
	IdMap		sessions;		/* live requests by session_key(), as pointers; under lock */
	atomic_int	n[WORK_CLASSES];	/* live requests by class */
};

WorkCounts *
workcounts_new(void)
{
	WorkCounts *w = mem_zalloc(sizeof(*w));

	pthread_mutex_init(&w->lock, NULL);
	return w;
}

void
workcounts_free(WorkCounts *w)
{
	if (w == NULL)
		return;
	idmap_free(&w->sessions);
	pthread_mutex_destroy(&w->lock);
	mem_free(w);
}

/* Sessions are numbered within a role.  Two with one key would count together, which changes their class. */
static uint64_t
session_key(const Req *r)
{
	return r->in.session ^ (r->in.by.role * UINT64_C(0x9E3779B97F4A7C15));
}

/* The session's count, by so much more. */
static intptr_t
count_session(WorkCounts *w, const Req *r, int by)
{
	uint64_t	key = session_key(r);
	intptr_t	n;

	pthread_mutex_lock(&w->lock);
	n = (intptr_t) idmap_get(&w->sessions, key) + by;
	ASSERT(n >= 0);
	if (n > 0)
		idmap_put(&w->sessions, key, (void *) n);
	else
		idmap_del(&w->sessions, key);
	pthread_mutex_unlock(&w->lock);
	return n;
}

void
workcounts_enter(WorkCounts *w, Req *r)
{
	intptr_t	n = count_session(w, r, 1);

	if (r->in.by.background)
		r->in.work = WORK_BACKGROUND;
	else
		r->in.work = r->in.watched || n <= LATENCY_REQUESTS ? WORK_LATENCY : WORK_THROUGHPUT;
	atomic_fetch_add(&w->n[r->in.work], 1);
}

void
workcounts_leave(WorkCounts *w, const Req *r)
{
	int			left = atomic_fetch_sub(&w->n[r->in.work], 1);

	ASSERT(left > 0);
	count_session(w, r, -1);
}

WorkClass
core_work_class(const Core *c)
{
	for (int i = WORK_CLASSES - 1; i > WORK_NONE; i--)
		if (atomic_load(&c->work->n[i]) > 0)
			return (WorkClass) i;
	return WORK_NONE;
}
