/*
 * worker.c
 *	  The main loop of a database's job worker.
 *
 * Each iteration checks whether jobs have changed, claims rows from the queue while there is space,
 * reads their inputs, starts requests as far as the window of a batch pool allows (row_request.c:
 * like a statement of many rows; few while other sessions have a full batch waiting), polls the
 * requests in flight, and writes results.  Transactions are short, and none is open while the engine
 * computes.
 *
 * LOST ENGINES are not the rows' fault: requests are started again.  But a row may make the engine
 * crash.  So rows that were in flight at SUSPECT crashes are tried alone, and an engine that ends
 * during that counts as an attempt.
 *
 * ERRORS.  An error of a row is settled with the row (worker_write.c).  An error of a job stops the
 * job: its state becomes failed with the reason, or, if the error may pass, it pauses for a time that
 * doubles.  After any other error the worker drops its state, gives its rows back to the queue and
 * starts again.
 *
 * TIME.  worker_transaction.c bounds each transaction.
 *
 * CRASHES.  Before it runs anything for a job, the worker records the job in a place that survives a
 * crash (worker_crash.c).  A job at which workers have crashed repeatedly becomes failed, too.
 *
 * The worker connects without a role of its own.  Code that belongs to users runs as the job's owner
 * in a restricted context (job_role_begin()).
 *
 * Tests: tests/t/060_jobs.pl, 061_jobs_kill.pl, 065_jobs_hostile.pl.
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/assert.h"
#include "pg/jobs/job_launcher.h"
#include "pg/jobs/job_worker.h"
#include "pg/client/client.h"
#include "pg/client/spend.h"
#include "pg/vllm_pg.h"

/* ms that an endpoint gets no requests of a job after it was unreachable or refused one */
#define ENDPOINT_RETRY_MIN	250
#define BUDGET_RETRY		2000	/* ms, for a job whose owner has used up the budget */
#define ENDPOINT_RETRY_MAX	30000
/* ms without work after which the worker exits */
#define IDLE_EXIT		10000
/* results that are written together, and ms that one waits for others */
#define WRITE_ROWS		64
#define WRITE_WAIT		300
/* ms between two renewals of leases (LEASE in worker_read.c) */
#define RENEW			60000
/* crashes after which a row is tried alone, and ms that it waits before that */
#define SUSPECT			3
#define SUSPECT_WAIT	2000
/* ms that a job pauses after an error that may pass */
#define MIN_BACKOFF		1000
#define MAX_BACKOFF		60000
/* ms of an iteration after which it ends if there is something new */
#define LONG_TURN		100
/* consecutive errors of a job after which its state becomes failed */
#define MAX_JOB_ERRORS	3

typedef struct Worker
{
	MemoryContext cxt;			/* all state that is dropped after an error */
	MemoryContext loop;			/* reset in each iteration */
	MemoryContext defs;			/* of the job definitions that were read last */
	BatchPool  *pool;
	dlist_head	jobs;
	JobsGeneration seen;
	bool		loaded;
	bool		to_start;		/* a job has had rows to start in this iteration */
	TimestampTz engine_retry;	/* no request before then */
	TimestampTz renewed;
	TimestampTz idle_since;		/* 0 = busy */
	TimestampTz reported;
} Worker;

static Worker w;

/* ---- jobs ---- */

static JobRun *
find_run(int32 id)
{
	dlist_iter	it;

	dlist_foreach(it, &w.jobs)
	{
		JobRun	   *j = dlist_container(JobRun, node, it.cur);

		if (j->def->id == id)
			return j;
	}
	return NULL;
}

static void
drop_items(JobRun *j)
{
	dlist_mutable_iter it;

	dlist_foreach_modify(it, &j->items)
	{
		JobItem    *item = dlist_container(JobItem, node, it.cur);

		jobs_item_free(item);
	}
	ASSERT(j->n_items == 0 && j->bytes == 0);
}

static int
rows_in_hand(const JobDef *def)
{
	return def->batch_size > 0 ? def->batch_size : vllm_job_batch_size;
}

static void
add_run(JobDef *def)
{
	MemoryContext cxt = AllocSetContextCreate(w.cxt, "job", ALLOCSET_DEFAULT_SIZES);
	JobRun	   *j = MemoryContextAllocZero(cxt, sizeof(JobRun));

	ASSERT(find_run(def->id) == NULL);
	j->cxt = cxt;
	j->call_cxt = AllocSetContextCreate(cxt, "job call", ALLOCSET_DEFAULT_SIZES);
	j->def = def;
	j->n_key = list_length(def->key);
	dlist_init(&j->items);
	j->most = j->batch = rows_in_hand(def);
	dlist_push_tail(&w.jobs, &j->node);
}

static bool
is_active(const JobDef *def)
{
	return strcmp(def->state, "active") == 0;
}

static void
load_step(JobRun *unused, void *arg)
{
	List	  **defs = arg;
	MemoryContext old = MemoryContextSwitchTo(w.defs);

	*defs = job_installed() ? job_list() : NIL;
	MemoryContextSwitchTo(old);
}

static void
release_step(JobRun *j, void *arg)
{
	Oid			types[1] = {INT4OID};
	Datum		v[1] = {Int32GetDatum(j ? j->def->id : 0)};

	if (!job_installed())
		return;
	if (SPI_execute_with_args(j ? "UPDATE vllm.job_queue SET worker = NULL, lease_until = NULL"
							  WHERE_FREE("job = $1 AND worker IS NOT NULL") :
							  "UPDATE vllm.job_queue SET worker = NULL, lease_until = NULL"
							  WHERE_FREE("worker IS NOT NULL"), j ? 1 : 0, types, v, NULL, false,
							  0) != SPI_OK_UPDATE)
		elog(ERROR, "could not give rows back");
}

/* Delete rows that no worker can claim any more: those of a job that was dropped meanwhile. */
static void
clean_step(JobRun *unused, void *arg)
{
	release_step(NULL, NULL);
	if (job_installed() &&
		SPI_execute("DELETE FROM vllm.job_queue q WHERE NOT EXISTS (SELECT 1 FROM vllm.job j WHERE j.id = "
					"q.job)", false, 0) < 0)
		elog(ERROR, "could not clean the queue");
}

/* Give the job's rows back to the queue. */
static void
release_job(JobRun *j)
{
	bool		any = j->n_items > 0;

	drop_items(j);
	if (!any)
		return;
	(void) jobs_transaction(release_step, j, NULL, "give rows back");
	/* no event wakes the worker for these rows, for example if a schema was renamed */
	j->look = true;
}

/* Read the job definitions; jobs that go on keep their rows in hand. */
static bool
load_jobs(void)
{
	MemoryContext before = w.defs;
	List	   *defs = NIL;
	ListCell   *lc;
	dlist_mutable_iter it;

	w.defs = AllocSetContextCreate(w.cxt, "jobs", ALLOCSET_DEFAULT_SIZES);
	if (jobs_transaction(load_step, NULL, &defs, "read jobs") != NULL)
	{
		MemoryContextDelete(w.defs);
		w.defs = before;
		w.loaded = false;
		return false;
	}
	foreach(lc, defs)
	{
		JobDef	   *def = lfirst(lc);
		JobRun	   *j = find_run(def->id);

		if (j != NULL)
		{
			/* the rows in hand were read, or asked, by the old definition */
			if (!jobs_same_work(j->def, def))
				release_job(j);
			j->def = def;
		}
		else if (is_active(def))
			add_run(def);
	}
	dlist_foreach_modify(it, &w.jobs)
	{
		JobRun	   *j = dlist_container(JobRun, node, it.cur);

		j->look = true;
		j->backfill = true;
		j->look_at = 0;
		/* the change may be what the job waits for; but tables are created all the time */
		j->not_before = Min(j->not_before, TimestampTzPlusMilliseconds(GetCurrentTimestamp(), MIN_BACKOFF));
		if (list_member_ptr(defs, j->def) && is_active(j->def))
			continue;
		release_job(j);
		dlist_delete(&j->node);
		MemoryContextDelete(j->cxt);
	}
	if (before)
		MemoryContextDelete(before);
	jobs_share_sort(&w.jobs);
	w.loaded = true;
	return true;
}

typedef struct Failure
{
	const char *reason;
} Failure;

static void
note_step(JobRun *j, void *arg)
{
	Failure    *f = arg;
	Oid			types[2] = {INT4OID, TEXTOID};
	Datum		v[2] = {Int32GetDatum(j->def->id), CStringGetTextDatum(f->reason)};

	if (SPI_execute_with_args("UPDATE vllm.job_stat SET last_error = $2, last_error_at = "
							  "pg_catalog.clock_timestamp() WHERE job = $1", 2, types, v, NULL, false, 0) < 0)
		elog(ERROR, "could not store the job's error");
}

static void
fail_step(JobRun *j, void *arg)
{
	Failure    *f = arg;
	Oid			types[2] = {INT4OID, TEXTOID};
	Datum		v[2] = {Int32GetDatum(j->def->id), CStringGetTextDatum(f->reason)};

	release_step(j, NULL);
	if (SPI_execute_with_args("UPDATE vllm.job SET state = 'failed', reason = $2 WHERE id = $1 AND state = "
							  "'active'", 2, types, v, NULL, false, 0) < 0)
		elog(ERROR, "could not store the job's state");
	job_follow_owners();
	note_step(j, arg);
}

static char *
error_text(const ErrorData *e)
{
	return psprintf("%s: %s", unpack_sql_state(e->sqlerrcode), e->message ? e->message : "unknown error");
}

static void
pause_job(JobRun *j)
{
	j->backoff = Min(Max(j->backoff * 2, MIN_BACKOFF), MAX_BACKOFF);
	j->not_before = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), j->backoff);
}

static void
fail_job(JobRun *j, const ErrorData *e)
{
	Failure		f = {error_text(e)};

	drop_items(j);
	ereport(LOG,
			(errmsg("LLM job \"%s\" has failed", j->def->name),
			 errdetail("%s", f.reason),
			 errhint("Correct the cause, then call llm_resume_job().")));
	if (jobs_transaction(fail_step, j, &f, "fail") == NULL)
		j->failed = true;
	else
		pause_job(j);
}

static bool
is_name_missing(const ErrorData *e)
{
	return e->sqlerrcode == ERRCODE_UNDEFINED_TABLE || e->sqlerrcode == ERRCODE_UNDEFINED_COLUMN ||
		e->sqlerrcode == ERRCODE_UNDEFINED_FUNCTION || e->sqlerrcode == ERRCODE_UNDEFINED_OBJECT ||
		e->sqlerrcode == ERRCODE_UNDEFINED_SCHEMA;
}

/* A transaction of the job failed as a whole. */
static void
job_error(JobRun *j, const ErrorData *e)
{
	Blame		blame = jobs_blame(e);
	Failure		f;

	/*
	 * if an object that our statements name was renamed, or the job has a new definition, the next
	 * claim makes the statements with the new names
	 */
	if (is_name_missing(e) && !j->names_missed)
		j->names_missed = true;
	else if (jobs_worker_generation().changes != w.seen.changes)
		j->look = true;
	else if (blame == BLAME_JOB || blame == BLAME_INPUT)
	{
		fail_job(j, e);
		return;
	}
	pause_job(j);
	f.reason = error_text(e);
	(void) jobs_transaction(note_step, j, &f, "note an error");
	ereport(j->backoff == MIN_BACKOFF && e->sqlerrcode != ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE
			? LOG : DEBUG1, (errmsg("LLM job \"%s\" pauses for %d ms", j->def->name, j->backoff),
			 errdetail("%s", f.reason)));
}

/* Fail the job that made the previous worker exit. */
static void
stop_job(void)
{
	int32		id = jobs_worker_take_stopped();
	JobRun	   *j = id != 0 ? find_run(id) : NULL;
	ErrorData	e = {.elevel = ERROR,.sqlerrcode = ERRCODE_QUERY_CANCELED};

	if (j == NULL)
		return;
	e.message = "a transaction of the job went on although it was cancelled";
	fail_job(j, &e);
}

/* Fail jobs at which workers have crashed; each crash restarted PostgreSQL. */
static void
set_aside(void)
{
	dlist_iter	it;

	dlist_foreach(it, &w.jobs)
	{
		JobRun	   *j = dlist_container(JobRun, node, it.cur);
		ErrorData	e = {.elevel = ERROR,.sqlerrcode = ERRCODE_CRASH_SHUTDOWN};
		int			times = jobs_crash_times(j->def->id);

		if (times < JOBS_CRASHES || j->failed)
			continue;
		e.message = psprintf("the worker has crashed %d times while it processed the job", times);
		fail_job(j, &e);
		if (j->failed)
			jobs_crash_forget(j->def->id);
	}
}

/* ---- claim and read ---- */

static void
claim(JobRun *j)
{
	int			n = j->most - j->n_items;
	ErrorData  *e;

	e = jobs_transaction(jobs_claim, j, &n, "claim");
	if (e != NULL)
	{
		/* which rows were leased and folded is not known any more */
		j->from_id = 0;
		job_error(j, e);
		if (!j->failed)
			release_job(j);
		return;
	}
	/* the claim has made the statements anew */
	j->names_missed = false;
	j->look = n > 0;
	if (n == 0 && j->backfill)
	{
		bool		more = false;

		e = jobs_transaction(jobs_backfill, j, &more, "back-fill");
		if (e == NULL)
		{
			j->look = true;
			j->backfill = more;
			return;
		}
		if (e->sqlerrcode == ERRCODE_QUERY_CANCELED && j->batch > 1)
			j->batch = Max(j->batch / 4, 1);
		else
			job_error(j, e);
		/* the statements and the call that the rows in hand need may have been freed */
		if (!j->failed)
			release_job(j);
	}
}

static int
count_state(JobRun *j, ItemState state)
{
	int			n = 0;
	dlist_iter	it;

	dlist_foreach(it, &j->items)
		n += dlist_container(JobItem, node, it.cur)->state == state;
	return n;
}

static JobItem *
first_of(JobRun *j, ItemState state)
{
	dlist_iter	it;

	dlist_foreach(it, &j->items)
	{
		JobItem    *item = dlist_container(JobItem, node, it.cur);

		if (item->state == state)
			return item;
	}
	return NULL;
}

/* A transaction with only this item took too long. */
static void
too_slow(JobRun *j, JobItem *it, ErrorData *e)
{
	bool		finished = false;
	WriteResult r = {.items = &it,.n = 1,.finished = &finished,.last_error = e};

	if (jobs_transaction(jobs_too_slow, j, &r, "give up a row") != NULL)
		pause_job(j);
	else
		jobs_item_free(it);
}

static void
read_inputs(JobRun *j)
{
	ErrorData  *e = jobs_transaction(jobs_read, j, w.pool, "read");
	JobItem    *claimed = first_of(j, ITEM_CLAIMED);

	if (e == NULL)
	{
		j->batch = Min(j->batch * 2, j->most);
		return;
	}
	j->full = false;
	/* items read before the error are either unchanged (CLAIMED) or valid */
	if (e->sqlerrcode != ERRCODE_QUERY_CANCELED)
	{
		job_error(j, e);
		release_job(j);
	}
	else if (j->batch > 1)
		j->batch = Max(j->batch / 4, 1);
	/* NULL: it was the queue row of a TRUNCATE, which has nothing to read */
	else if (claimed != NULL)
		too_slow(j, claimed, e);
}

/* ---- requests ---- */

/* Return true if the engine or the remote program is ready.  A job whose model is not served rests. */
static bool
engine_ready(void)
{
	return vclient_is_ready(false) || vclient_is_ready(true);
}

static void
item_failed(JobItem *it, const ErrorData *e)
{
	MemoryContext old = MemoryContextSwitchTo(it->cxt);

	it->error = palloc0(sizeof(ErrorData));
	it->error->elevel = ERROR;
	it->error->sqlerrcode = e->sqlerrcode;
	it->error->message = pstrdup(e->message ? e->message : "unknown error");
	it->error->assoc_context = it->cxt;
	MemoryContextSwitchTo(old);
	jobs_item_forget_requests(it);
	it->state = ITEM_DONE;
	it->done_at = GetCurrentTimestamp();
}

/* Start the remaining requests of an item; return false if no more can start now. */
static bool
start_item(JobRun *j, JobItem *it)
{
	while (it->n_started < it->n_pieces)
	{
		Piece	   *p = &it->pieces[it->n_started];
		ErrorData  *refused;

		if (p->request != NULL) /* its result is cached */
		{
			it->n_started++;
			continue;
		}
		j->remote = batch_pool_aim(w.pool, &j->call->request);
		if (batch_pool_room(w.pool) <= 0)
			return false;
		refused = job_call_request(j->call, p->text);
		if (refused != NULL)
		{
			item_failed(it, refused);
			return true;
		}
		p->request = batch_request_start(w.pool, j->call->func, &j->call->request, NULL, false);
		if (p->request == NULL)
			return false;
		it->n_started++;
		it->state = ITEM_RUNNING;
	}
	return true;
}

/* Start at most `most` items of a job, as its owner, whom llm_requests shows. */
static bool
start_items(JobRun *j, int most)
{
	Oid			user;
	int			sec_context;
	bool		go_on = true;
	int			n = 0;
	dlist_iter	it;

	if (j->call == NULL || j->failed || j->endpoint_at > GetCurrentTimestamp())
	{
		jobs_share_started(j, 0);
		return true;
	}
	jobs_crash_mark(j->def->id);
	GetUserIdAndSecContext(&user, &sec_context);
	SetUserIdAndSecContext(j->def->owner, sec_context | SECURITY_LOCAL_USERID_CHANGE);
	dlist_foreach(it, &j->items)
	{
		JobItem    *item = dlist_container(JobItem, node, it.cur);

		if ((item->state != ITEM_READY && item->state != ITEM_RUNNING) || item->n_started == item->n_pieces ||
			(item->crashes >= SUSPECT && item != jobs_alone))
			continue;
		go_on = start_item(j, item);
		if (!go_on || ++n == most)
			break;
	}
	jobs_share_started(j, n);
	/* other jobs may use the other program */
	if (!go_on && !vclient_is_ready(j->remote))
		go_on = true;
	/* and other jobs have other budgets */
	if (!go_on && cost_refused())
	{
		j->endpoint_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), BUDGET_RETRY);
		go_on = true;
	}
	SetUserIdAndSecContext(user, sec_context);
	jobs_crash_mark(0);
	/* the next job's endpoint may have room */
	return go_on || j->remote;
}

/* Return the first row that is to be tried alone and may be started now. */
static JobItem *
find_suspect(void)
{
	TimestampTz now = GetCurrentTimestamp();
	dlist_iter	i;
	dlist_iter	k;

	dlist_foreach(i, &w.jobs)
		dlist_foreach(k, &dlist_container(JobRun, node, i.cur)->items)
	{
		JobItem    *it = dlist_container(JobItem, node, k.cur);

		if (it->state == ITEM_READY && it->crashes >= SUSPECT && it->not_before <= now &&
			vclient_is_ready(it->job->remote))
			return it;
	}
	return NULL;
}

static void
start_requests(void)
{
	JobItem    *suspect;
	JobRun	   *next;

	if (!engine_ready() || w.engine_retry > GetCurrentTimestamp())
		return;
	if (jobs_alone != NULL && jobs_alone->state == ITEM_READY && !vclient_is_ready(jobs_alone->job->remote))
	{
		jobs_alone->alone = false;
		jobs_alone = NULL;
	}
	suspect = jobs_alone == NULL ? find_suspect() : NULL;
	if (jobs_alone != NULL || suspect != NULL)
	{
		/* requests in flight have to end first */
		if (jobs_alone == NULL && batch_pool_stats(w.pool)->in_flight > 0)
			return;
		if (jobs_alone == NULL)
		{
			jobs_alone = suspect;
			suspect->alone = true;
		}
		(void) start_items(jobs_alone->job, INT_MAX);
		return;
	}
	jobs_share_count(&w.jobs);
	while ((next = jobs_share_next(&w.jobs)) != NULL)
		if (!start_items(next, 1))
			break;
}

/* ---- results ---- */

/*
 * An endpoint is unreachable, or refuses more requests: other jobs go on, and this one asks at
 * growing intervals.
 */
static void
endpoint_failed(JobRun *j, TimestampTz now)
{
	/* the job's other requests in flight failed for the same reason */
	if (j->endpoint_at > now)
		return;
	j->endpoint_backoff = Min(Max(j->endpoint_backoff * 2, ENDPOINT_RETRY_MIN), ENDPOINT_RETRY_MAX);
	j->endpoint_at = TimestampTzPlusMilliseconds(now, j->endpoint_backoff);
}

/* The engine ended, or had no room: start the item again, if that may help. */
static void
retry_item(JobItem *it, const ErrorData *e)
{
	TimestampTz now = GetCurrentTimestamp();

	ASSERT(it->state == ITEM_RUNNING);
	/* the budget of another role, at a fallback model */
	if (e->sqlerrcode == ERRCODE_CONFIGURATION_LIMIT_EXCEEDED)
		it->job->endpoint_at = TimestampTzPlusMilliseconds(now, BUDGET_RETRY);
	else if (it->job->remote)
		endpoint_failed(it->job, now);
	else
		w.engine_retry = TimestampTzPlusMilliseconds(now, 100);
	if (e->sqlerrcode == ERRCODE_SYSTEM_ERROR)
		it->crashes++;
	if (it->alone && e->sqlerrcode == ERRCODE_SYSTEM_ERROR)
	{
		item_failed(it, e);
		return;
	}
	it->alone = false;
	jobs_item_forget_requests(it);
	it->state = ITEM_READY;
	if (it->crashes >= SUSPECT)
		it->not_before = TimestampTzPlusMilliseconds(now, SUSPECT_WAIT);
}

static void
look_at_answers(JobItem *it)
{
	ErrorData  *error = NULL;

	for (int i = 0; i < it->n_started; i++)
	{
		ASSERT(it->pieces[i].request != NULL);
		if (!batch_request_poll(it->pieces[i].request))
			return;
		if (error == NULL)
			error = batch_request_error(it->pieces[i].request);
		it->charged |= batch_request_charged(it->pieces[i].request);
	}
	if (error != NULL)
	{
		if (jobs_blame(error) == BLAME_ENGINE && !it->charged)
			retry_item(it, error);
		else
			item_failed(it, error);
	}
	else if (it->n_started < it->n_pieces)
		return;
	else
	{
		it->job->endpoint_backoff = 0;
		it->state = ITEM_DONE;
		it->done_at = GetCurrentTimestamp();
	}
	if (jobs_alone == it)
		jobs_alone = NULL;
}

static void
collect(JobRun *j)
{
	dlist_iter	it;

	dlist_foreach(it, &j->items)
	{
		JobItem    *item = dlist_container(JobItem, node, it.cur);

		if (item->state == ITEM_RUNNING)
			look_at_answers(item);
	}
}

/* ---- writing ---- */

/* Return the number of items to be written now; 0 if it is not time yet. */
static int
due_for_writing(JobRun *j, JobItem **items)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		waiting = false;
	bool		others = false;
	int			n = 0;
	dlist_iter	it;

	dlist_foreach(it, &j->items)
	{
		JobItem    *item = dlist_container(JobItem, node, it.cur);

		if (item->state != ITEM_DONE)
			others = true;
		else if (item->not_before <= now && n < j->batch)
		{
			items[n++] = item;
			waiting = waiting || TimestampDifferenceExceeds(item->done_at, now, WRITE_WAIT);
		}
	}
	return n >= Min(WRITE_ROWS, j->batch) || waiting || !others ? n : 0;
}

static void
log_failures(JobRun *j, const WriteResult *r)
{
	static TimestampTz logged = 0;
	TimestampTz now = GetCurrentTimestamp();

	if (r->failed == 0 || (logged != 0 && !TimestampDifferenceExceeds(logged, now, 10000)))
		return;
	logged = now;
	ereport(LOG,
			(errmsg("LLM job \"%s\" has given up rows", j->def->name),
			 errdetail("The last error: %s", error_text(r->last_error)),
			 errhint("The view llm_job_failures lists them; llm_retry_job() queues them again.")));
}

static void
write_answers(JobRun *j)
{
	WriteResult r = {.items = palloc(sizeof(JobItem *) * (j->n_items + 1))};
	ErrorData  *e;

	r.n = due_for_writing(j, r.items);
	if (r.n == 0)
		return;
	r.finished = palloc0(sizeof(bool) * r.n);
	/* errors of rows are reported after the transaction's memory was freed */
	e = jobs_transaction(jobs_write, j, &r, "write");
	if (e != NULL && e->sqlerrcode == ERRCODE_QUERY_CANCELED)
	{
		if (r.n > 1)
			j->batch = Max(r.n / 4, 1);
		else
			too_slow(j, r.items[0], e);
		return;
	}
	if (e != NULL)
	{
		job_error(j, e);
		if (!j->failed)
			release_job(j);
		return;
	}
	log_failures(j, &r);
	for (int i = 0; i < r.n; i++)
	{
		r.items[i]->swept = r.items[i]->swept_to;
		if (r.finished[i])
			jobs_item_free(r.items[i]);
	}
	if (r.done > 0)
		j->job_errors = j->backoff = 0;
	else if (r.job_error && ++j->job_errors >= MAX_JOB_ERRORS)
		fail_job(j, r.last_error);
	/* some rows have returned to the queue */
	j->look = true;
}

/* ---- the loop ---- */

static void
renew_step(JobRun *unused, void *arg)
{
	Oid			types[1] = {INT4OID};
	Datum		v[1] = {Int32GetDatum(MyProcPid)};

	if (job_installed() &&
		SPI_execute_with_args("UPDATE vllm.job_queue SET lease_until = pg_catalog.clock_timestamp() + "
							  "interval '5 min'" WHERE_FREE("worker = $1"), 1, types, v, NULL, false,
							  0) != SPI_OK_UPDATE)
		elog(ERROR, "could not renew leases");
}

static int
items_in_hand(void)
{
	int			n = 0;
	dlist_iter	it;

	dlist_foreach(it, &w.jobs)
		n += dlist_container(JobRun, node, it.cur)->n_items;
	return n;
}

/* Return true if the job may claim more rows. */
static bool
has_room(const JobRun *j)
{
	return !j->full && j->n_items <= j->most / 2;
}

/* Return the job's share of the memory. */
static Size
budget(void)
{
	int			n = 0;
	dlist_iter	it;

	dlist_foreach(it, &w.jobs)
		n++;
	return (Size) vllm_job_memory * 1024 / Max(n, 1);
}

/* Serve one job in an iteration. */
static void
serve(JobRun *j)
{
	TimestampTz now = GetCurrentTimestamp();

	if (j->failed || j->not_before > now || jobs_share_passes(&w.jobs, j))
		return;
	jobs_crash_mark(j->def->id);
	j->budget = budget();
	j->most = rows_in_hand(j->def);
	if (j->look_at != 0 && j->look_at <= now)
	{
		j->look = true;
		j->look_at = 0;
	}
	if ((j->look || j->backfill) && has_room(j) && job_is_time(j->def))
		claim(j);
	/* read only one batch per iteration: inputs may take long, and other jobs wait */
	if (!j->failed && j->not_before <= now && !j->full && count_state(j, ITEM_CLAIMED) > 0 &&
		!jobs_share_passes(&w.jobs, j))
		read_inputs(j);
	/*
	 * not after an error: a second error for the same reason (a column just renamed) would fail the
	 * job
	 */
	if (j->n_items > 0 && !j->failed && j->not_before <= now && !jobs_share_passes(&w.jobs, j))
	{
		collect(j);
		write_answers(j);
	}
	jobs_crash_mark(0);
}

/* Return the ms until something is due without a wake.  *idle: there is nothing to do at all. */
static long
next_nap(bool *idle)
{
	TimestampTz now = GetCurrentTimestamp();
	long		nap = 1000;
	dlist_iter	it;

	*idle = true;
	dlist_foreach(it, &w.jobs)
	{
		JobRun	   *j = dlist_container(JobRun, node, it.cur);
		TimestampTz at = j->look_at;
		TimestampTz rests;

		if (j->failed)
			continue;
		rests = jobs_share_rests(&w.jobs, j);
		if (j->look || j->backfill || j->n_items > 0 || at != 0)
			*idle = false;
		if (j->not_before > now || rests != 0)
			at = Max(j->not_before, rests);
		else if (j->look || j->backfill)
			at = has_room(j) && job_is_time(j->def) ? now : 0;
		if (at != 0)
			nap = Min(nap, Max(TimestampDifferenceMilliseconds(now, at), 0));
		if (j->n_items > 0)
			nap = Min(nap, j->not_before <= now && rests == 0 && !j->full && count_state(j, ITEM_CLAIMED) > 0
					  ? 0 : 50);
	}
	return nap;
}

/* Sleep until something may have changed. */
static void
rest(void)
{
	static uint32 wait_event = 0;
	bool		idle;
	long		nap = next_nap(&idle);

	if (!idle)
		w.idle_since = 0;
	else if (w.idle_since == 0)
		w.idle_since = GetCurrentTimestamp();
	batch_pool_flush();
	if (nap == 0)
		return;
	if (batch_pool_stats(w.pool)->in_flight > 0 || batch_pool_needs_fallback(w.pool))
		batch_pool_wait(w.pool, NULL, NULL);
	else
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, nap,
						 compat_wait_event(&wait_event, "VllmJobWorker"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Report the state for pg_stat_activity. */
static void
progress(void)
{
	TimestampTz now = GetCurrentTimestamp();
	StringInfoData s;
	dlist_iter	it;

	if (!TimestampDifferenceExceeds(w.reported, now, 1000))
		return;
	w.reported = now;
	initStringInfo(&s);
	appendStringInfo(&s, "%d requests in flight", batch_pool_stats(w.pool)->in_flight);
	dlist_foreach(it, &w.jobs)
	{
		JobRun	   *j = dlist_container(JobRun, node, it.cur);

		appendStringInfo(&s, "; job %s: %d rows in hand, %d of them answered", j->def->name, j->n_items,
						 count_state(j, ITEM_DONE));
	}
	pgstat_report_activity(STATE_IDLE, s.data);
}

/*
 * During a long iteration, put the jobs from order[i] on off, so that rows read or written so far
 * need not wait for them.  Return false if the iteration is not long.
 */
static bool
put_off(TimestampTz start, JobRun **order, int i, int n)
{
	JobsGeneration now = jobs_worker_generation();

	w.to_start = i > 0 && (w.to_start || count_state(order[i - 1], ITEM_READY) > 0);
	if (!TimestampDifferenceExceeds(start, GetCurrentTimestamp(), LONG_TURN))
		return false;
	if (!w.to_start && now.changes == w.seen.changes && now.wakes == w.seen.wakes)
		return false;
	for (; i < n; i++)
		jobs_share_put_off(order[i]);
	return true;
}

static void
iterate(void)
{
	JobsGeneration now = jobs_worker_generation();
	dlist_iter	it;
	TimestampTz start = GetCurrentTimestamp();
	JobRun	  **order;
	int			n;

	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	if (!w.loaded || now.changes != w.seen.changes)
	{
		if (!load_jobs())
			pg_usleep(100000);
		else
		{
			set_aside();
			stop_job();
		}
	}
	else if (now.wakes != w.seen.wakes)
		dlist_foreach(it, &w.jobs)
			dlist_container(JobRun, node, it.cur)->look = true;
	w.seen = now;
	order = jobs_share_order(&w.jobs, &n);
	for (int i = 0; i < n && !put_off(start, order, i, n); i++)
		serve(order[i]);
	if (items_in_hand() > 0 && TimestampDifferenceExceeds(w.renewed, GetCurrentTimestamp(), RENEW))
	{
		w.renewed = GetCurrentTimestamp();
		(void) jobs_transaction(renew_step, NULL, NULL, "renew leases");
	}
	start_requests();
	progress();
	rest();
}

static void
begin_loop(void)
{
	if (w.cxt)
		MemoryContextDelete(w.cxt);
	memset(&w, 0, sizeof(w));
	jobs_alone = NULL;
	w.cxt = AllocSetContextCreate(TopMemoryContext, "vllm_pg jobs", ALLOCSET_DEFAULT_SIZES);
	w.loop = AllocSetContextCreate(w.cxt, "vllm_pg jobs turn", ALLOCSET_DEFAULT_SIZES);
	jobs_transaction_open(w.loop);
	w.pool = batch_pool_create(w.cxt);
	dlist_init(&w.jobs);
	w.renewed = GetCurrentTimestamp();
	MemoryContextSwitchTo(w.loop);
	/*
	 * give back rows of an earlier worker, or of this one before an error: a database has only one
	 * worker
	 */
	(void) jobs_transaction(clean_step, NULL, NULL, "give rows back");
}

/* Run iterate() and recover from any error. */
static void
iterate_safely(void)
{
	bool		failed = false;

	MemoryContextSwitchTo(w.loop);
	PG_TRY();
	{
		iterate();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(TopMemoryContext);
		jobs_crash_mark(0);
		LWLockReleaseAll();
		ConditionVariableCancelSleep();
		SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID, 0);
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		jobs_session_after(true);
		failed = true;
	}
	PG_END_TRY();
	if (failed)
	{
		begin_loop();
		pg_usleep(1000000);
	}
	MemoryContextReset(w.loop);
}

void
vllm_jobs_worker_main(Datum arg)
{
	Oid			dbid = DatumGetObjectId(arg);

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	if (!jobs_worker_enter(dbid))
		proc_exit(0);
	BackgroundWorkerInitializeConnectionByOid(dbid, InvalidOid, 0);
	vclient_set_background();
	pgstat_report_appname("vllm_pg job worker");
	jobs_session_begin();
	jobs_guard_begin();
	begin_loop();
	for (;;)
	{
		iterate_safely();
		CHECK_FOR_INTERRUPTS();
		if (jobs_worker_must_leave())
		{
			jobs_worker_leaves(w.seen, items_in_hand() > 0 || w.idle_since == 0);
			break;
		}
		if (w.idle_since != 0 && TimestampDifferenceExceeds(w.idle_since, GetCurrentTimestamp(), IDLE_EXIT))
		{
			jobs_worker_leaves(w.seen, false);
			break;
		}
	}
	proc_exit(0);
}
