/*
 * worker_transaction.c
 *	  The job worker's transactions: short, limited in time, each with its own error.
 *
 * TIME.  A transaction is cancelled when most of vllm.job_transaction_time has passed, and then
 * repeatedly, as code of the job's owner can catch a cancel.  If the transaction has not ended when
 * all of the time has passed, the worker ends itself, which can't be caught, and the next worker
 * stops the job.
 *
 * Tests: tests/t/060_jobs.pl, 065_jobs_hostile.pl.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "pg/jobs/job_launcher.h"
#include "pg/jobs/job_worker.h"
#include "pg/vllm_pg.h"

/* fraction of a transaction's time after which it is cancelled, and ms between further cancels */
#define CANCEL_AFTER	0.8
#define CANCEL_AGAIN	20

static MemoryContext loop;
static TimeoutId watch_timeout;
static TimestampTz watch_end;
static int32 watch_job;

/* Runs in a signal handler. */
static void
watch(void)
{
	if (GetCurrentTimestamp() >= watch_end)
	{
		jobs_worker_stopped_by(watch_job);
		ProcDiePending = true;
	}
	else
		QueryCancelPending = true;
	InterruptPending = true;
	SetLatch(MyLatch);
}

void
jobs_transaction_open(MemoryContext cxt)
{
	if (loop == NULL)
		watch_timeout = RegisterTimeout(USER_TIMEOUT, watch);
	loop = cxt;
}

static void
start_watch(JobRun *j)
{
	TimestampTz now = GetCurrentTimestamp();

	watch_job = j ? j->def->id : 0;
	watch_end = TimestampTzPlusMilliseconds(now, vllm_job_transaction_time);
	enable_timeout_every(watch_timeout,
						 TimestampTzPlusMilliseconds(now, (int) (vllm_job_transaction_time * CANCEL_AFTER)),
						 CANCEL_AGAIN);
}

/* Discard a cancel that has not been processed: it must not hit the next transaction. */
static void
end_watch(void)
{
	disable_timeout(watch_timeout, false);
	QueryCancelPending = false;
}

static void
report(const char *activity)
{
	pgstat_report_activity(activity ? STATE_RUNNING : STATE_IDLE, activity);
}

ErrorData *
jobs_transaction(JobStep step, JobRun *j, void *arg, const char *what)
{
	ErrorData  *volatile err = NULL;
	TimestampTz start = GetCurrentTimestamp();

	report(j ? psprintf("job %s: %s", j->def->name, what) : what);
	jobs_guard(NULL);
	if (j != NULL)
		jobs_session_for(j->def->owner);
	PG_TRY();
	{
		/* makes now() the transaction's start instead of the worker's */
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		start_watch(j);
		PushActiveSnapshot(GetTransactionSnapshot());
		if (SPI_connect() != SPI_OK_CONNECT)
			elog(ERROR, "SPI_connect failed");
		step(j, arg);
		SPI_finish();
		PopActiveSnapshot();
		end_watch();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(loop);
		err = CopyErrorData();
		FlushErrorState();
		job_cut_error(err);
		end_watch();
		AbortCurrentTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(loop);
	jobs_session_after(err != NULL);
	if (j != NULL)
		jobs_share_spent(j, start);
	pgstat_report_stat(false);
	report(NULL);
	return err;
}
