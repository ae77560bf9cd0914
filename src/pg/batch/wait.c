/*
 * wait.c
 *	  Waiting for requests in flight.
 *
 * There is one latch for everything: batch_pool_wait() polls all requests in flight, of every node,
 * before it sleeps.  A wake costs the engine, the supervisor and this backend more than a poll.  So
 * requests are quiet (wire.h) while the backend is awake.  If many are in flight, a first, short
 * sleep lets only the middle one and the last one wake the backend: most requests finish in order,
 * and taking half of them at once is less work than one by one.  A longer sleep lets all of them do
 * so.  pool->finished counts the requests that were seen to finish, so that a node knows when to look
 * at its rows again.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/timestamp.h"

#include "pg/batch/request_internal.h"
#include "pg/client/slots.h"
#include "pg/vllm_pg.h"

/*
 * ms of a sleep in which only two requests may wake the backend, if at least MANY_REQUESTS are in
 * flight
 */
#define SHORT_SLEEP		2
#define MANY_REQUESTS	16

static void (*prev_drain) (void) = NULL;

/* Poll everything in flight. */
static void
sweep(BatchPool *p)
{
	dlist_mutable_iter i;

	p->more = false;
	dlist_foreach_modify(i, &p->flying)
		(void) batch_request_poll(dlist_container(BatchRequest, node, i.cur));
}

/*
 * Return how long to sleep, in ms; 0 if the due request has exceeded its time and the caller gets
 * NULL for that error.
 */
static long
sleep_for(BatchRequest *due)
{
	long		timeout = 1000;
	ErrorData  *late;
	ClientCall *call;

	if (due == NULL || due->finished || due->needs_fallback)
		return timeout;
	call = due->carrier->call;
	if (vcall_report_loading(call))
		timeout = LOADING_QUIET;
	if (due->timeout_ms > 0 && !due->timed)
	{
		vcall_time_from_now(call, due->timeout_ms);
		due->end = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), due->timeout_ms);
	}
	due->timed = true;
	late = vcall_check_deadline(call);
	if (late != NULL && !on_error_forgives(due->on_error, late))
		ThrowErrorData(late);
	if (late != NULL)
	{
		batch_request_finish(due, NULL, late);
		return 0;
	}
	return Max(vcall_time_left(call, timeout), 1);
}

static void
add_wait(BatchStats *s, instr_time before, instr_time after)
{
	s->waits++;
	INSTR_TIME_ACCUM_DIFF(s->wait_time, after, before);
}

/* Let a request wake the backend; return true if it has finished in the meantime. */
static bool
listen_to(BatchRequest *q)
{
	if (q->finished)
		return true;
	if (!q->quiet)
		return false;
	q->quiet = false;
	vcall_set_polling(q->carrier->call, false);
	vslot_listening();
	return batch_request_poll(q);
}

/*
 * Listen to all requests in flight or, if they are many, to two of them; return false if one has
 * finished.
 */
static bool
listen(BatchPool *p, bool all)
{
	int			step = all || p->stats.in_flight < MANY_REQUESTS ? 1 : p->stats.in_flight / 2;
	int			n = 0;
	dlist_mutable_iter i;

	dlist_foreach_modify(i, &p->flying)
		if (++n % step == 0 && listen_to(dlist_container(BatchRequest, node, i.cur)))
			return false;
	return true;
}

/* A claim of this backend waits for a slot, which one of its own requests may hold. */
static void
drain_for_slot(void)
{
	slist_iter	i;

	if (prev_drain)
		prev_drain();
	slist_foreach(i, &batch_pools)
	{
		BatchPool  *p = slist_container(BatchPool, node, i.cur);

		while (!listen(p, true))
			continue;
		sweep(p);
	}
}

void
batch_pool_wait(BatchPool *p, BatchRequest *due, BatchStats *stats)
{
	static uint32 wait_event = 0;
	uint64		before = p->finished;
	instr_time	start;
	instr_time	end;
	long		timeout;

	vslot_ring_now();
	CHECK_FOR_INTERRUPTS();
	sweep(p);
	if (!dlist_is_empty(&p->needs_fallback))
		batch_pool_reroute(p);
	if (p->finished != before)
		return;
	if (!listen(p, p->patient))
		return;
	timeout = p->more ? 0 : sleep_for(due);
	if (p->finished != before)
		return;
	if (!p->patient && p->stats.in_flight >= MANY_REQUESTS)
		timeout = Min(timeout, SHORT_SLEEP);
	INSTR_TIME_SET_CURRENT(start);
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout,
					 compat_wait_event(&wait_event, "VllmReply"));
	ResetLatch(MyLatch);
	INSTR_TIME_SET_CURRENT(end);
	add_wait(&p->stats, start, end);
	if (stats)
		add_wait(stats, start, end);
	CHECK_FOR_INTERRUPTS();
	sweep(p);
	if (!dlist_is_empty(&p->needs_fallback))
		batch_pool_reroute(p);
	p->patient = p->finished == before;
}

/* ---- start-up ---- */

void
batch_request_init(void)
{
	prev_drain = vslot_drain;
	vslot_drain = drain_for_slot;
}
