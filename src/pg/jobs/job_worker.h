/*
 * job_worker.h
 *	  What the files of the jobs' worker share.
 *
 * A row of the queue that the worker has taken is a JobItem:
 *
 *	CLAIMED		leased (worker_read.c)
 *	READY		its input has been read: something to ask the engine, or nothing
 *	RUNNING		requests are in flight, no transaction is open
 *	DONE		answered, or known to fail, or gone; to be written
 *
 * Three short transactions each serve many items: claim, read, write.
 */
#ifndef VLLM_PG_JOBS_JOB_WORKER_H
#define VLLM_PG_JOBS_JOB_WORKER_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "lib/ilist.h"
#include "storage/lwlock.h"

#include "pg/batch/row_request.h"
#include "pg/jobs/job.h"

typedef enum ItemState
{
	ITEM_CLAIMED = 0, ITEM_READY, ITEM_RUNNING, ITEM_DONE
} ItemState;

/* A row of the source as it is now. */
typedef struct Look
{
	bool		seen;			/* there was room for it */
	bool		found;
	char	   *version;		/* changes with every change of the row */
	bool		isnull;
	char	   *input;			/* if it was asked for, in the item's memory */
	Size		len;			/* of the input */
	uint64		hash[2];
	ErrorData  *error;			/* the input could not be computed */
} Look;

/* What one request is for: the input, or a chunk of it. */
typedef struct Piece
{
	char	   *text;
	int			seq;
	int			tok_start,
				tok_end;		/* -1 = not known */
	BatchRequest *request;
} Piece;

typedef struct JobItem
{
	dlist_node	node;			/* in job->items */
	MemoryContext cxt;
	struct JobRun *job;
	int64		id;
	char	  **key;			/* NULL: the source was truncated */
	int			attempts;		/* that failed before this one */
	ItemState	state;
	Look		look;			/* what is computed; its text is the pieces' */
	Size		bytes;			/* of j->bytes */
	int			n_pieces,
				n_started;
	Piece	   *pieces;
	ErrorData  *error;
	int			crashes;		/* engines that ended with a request of it in flight */
	bool		alone;			/* nothing else is in flight beside it */
	/* the error may have cost something: it counts as an attempt, whose fault it ever is */
	bool		charged;
	int			skips;			/* writes that found the row locked */
	uint32		swept;			/* blocks of the side table, for a source that was truncated */
	uint32		swept_to;		/* when the transaction commits */
	TimestampTz done_at;
	TimestampTz not_before;
} JobItem;

/* The statements on source and target; keys are $n::text, n from the number given. */
typedef struct JobSql
{
	const char *read;			/* keys as arrays from $1: n, found, version, input */
	const char *lock;			/* keys as arrays from $1: n */
	const char *update;			/* $1 value, keys from $2 */
	const char *clear;			/* as update: NULL */
	const char *side_delete;	/* keys from $1 */
	const char *side_insert;	/* keys from $1, then seq, chunk, value, start, end */
	const char *sweep;			/* chunks of rows that are gone, from $1 to before $2 */
	const char *backfill_first; /* key columns, missing; $1 rows */
	const char *backfill_next;	/* keys from $2: behind them */
	const char *chunks;			/* $1 text: seq, chunk, start, end */
} JobSql;

typedef struct JobRun
{
	dlist_node	node;
	MemoryContext cxt;			/* items */
	MemoryContext call_cxt;		/* sql, allowed, uses and call, made anew with each claim */
	JobDef	   *def;
	int			n_key;
	JobSql		sql;
	List	   *allowed;		/* what sql may use beside the input: job_object_add() */
	JobUses		uses;			/* and in the input */
	JobCall    *call;
	dlist_head	items;
	int			n_items;
	int			most;			/* rows in hand */
	Size		bytes;			/* of inputs in hand */
	Size		budget;			/* for them; a single row may be larger */
	bool		full;			/* the next row has no room until another one goes */
	int			batch;			/* rows of a transaction: fewer after one that took too long */
	int64		from_id;		/* the next claim begins here, unless that is long ago */
	TimestampTz from_start;		/* the last one that began at the queue's start */
	bool		look;			/* the queue may have something */
	TimestampTz look_at;		/* then it will have, 0 = not known to */
	bool		backfill;		/* may be running */
	bool		keeps;			/* its model keeps answers (result_cache.h) */
	bool		remote;			/* the remote program answers, as far as is known */
	int			endpoint_backoff;	/* ms; 0 = the last answer was one */
	TimestampTz endpoint_at;	/* no request before then */
	bool		names_missed;	/* the last transaction found no table, column or function of a name */
	int			job_errors;		/* in a row, that are not the row's fault */
	int			backoff;		/* ms */
	TimestampTz not_before;
	bool		failed;			/* it has been put to state failed: forget it */
	/* since when it waits for its owner to have rested: a number; 0 = it does not */
	uint64		passed;
	int			round,			/* of a turn */
				place;			/* in it */
	int			to_start;		/* items that may be started: jobs_share_count() */
} JobRun;

/* Is what was computed for the one job what the other would store? */
bool		jobs_same_work(const JobDef *a, const JobDef *b);

/* Whose fault is an error? */
typedef enum Blame
{
	BLAME_INPUT,				/* the input's: it would fail again */
	BLAME_ROW,					/* may pass */
	BLAME_ENGINE,				/* nobody's: does not count as an attempt */
	BLAME_JOB					/* the job can't work as it is */
} Blame;
Blame		jobs_blame(const ErrorData *e);

/*
 * Rows of the queue, of job $1, with the ids of array $2.  OFFSET 0 keeps the order of the
 * joins: without statistics the planner would rather read the whole queue.
 */
#define QUEUE_ROWS \
	"pg_catalog.unnest($2) i(id) CROSS JOIN LATERAL (SELECT o.ctid, o.id, o.hash, o.key" \
	" FROM vllm.job_queue o WHERE o.job = $1 AND o.id = i.id OFFSET 0) q"

/*
 * Rows of the queue of all jobs, but what others have locked: an owner who is dropping a job keeps nobody
 * else's rows.
 */
#define WHERE_FREE(condition) \
	" WHERE ctid = ANY (ARRAY(SELECT o.ctid FROM vllm.job_queue o WHERE " \
		condition " FOR UPDATE SKIP LOCKED))"

/* ---- worker_crash.c ---- */

/* crashes of workers at a job, within an hour, at which it is set aside */
#define JOBS_CRASHES	2

/* What the worker before this one left is counted. */
void		jobs_crash_open(Oid dbid, LWLock *lock);
void		jobs_crash_close(void);
/* What runs from here on is done for this job; 0 = for none.  Also in a signal handler. */
void		jobs_crash_mark(int32 job);
int			jobs_crash_times(int32 job);
void		jobs_crash_forget(int32 job);

/* ---- worker_session.c ---- */

void		jobs_session_begin(void);
/* Nothing is left of another owner's code. */
void		jobs_session_for(Oid owner);
/* A transaction has ended. */
void		jobs_session_after(bool failed);

/* ---- worker_share.c ---- */

/* Those of higher priority come first. */
void		jobs_share_sort(dlist_head *jobs);
/*
 * As they have their turns: one of each owner, then the next; of one owner those that were put off, then
 * the others in their order.
 */
JobRun	  **jobs_share_order(dlist_head *jobs, int *n);
/* Until when the job's owner rests, while others have something to do; 0 = not now. */
TimestampTz jobs_share_rests(dlist_head *jobs, JobRun *j);
/* Its turn comes before those of jobs that were put off later, or were not. */
void		jobs_share_put_off(JobRun *j);
/* Does its owner rest?  If so, the job is put off. */
bool		jobs_share_passes(dlist_head *jobs, JobRun *j);
/* A transaction of the job began then and has ended. */
void		jobs_share_spent(JobRun *j, TimestampTz start);
/*
 * What is in flight and what may be started; then whose item is the next to be started, NULL = nobody's;
 * and so many were.
 */
void		jobs_share_count(dlist_head *jobs);
JobRun	   *jobs_share_next(dlist_head *jobs);
void		jobs_share_started(JobRun *j, int n);

/* ---- worker_guard.c ---- */

/* Once in a worker. */
void		jobs_guard_begin(void);
/*
 * From here on statements of j->sql are an ERROR if their names stand for anything but what they were made
 * for; NULL: none.
 */
void		jobs_guard(const JobRun *j);
/* In call_cxt. */
void		jobs_allow_type(JobRun *j, Oid type);
void		jobs_allow_columns(JobRun *j, TupleDesc desc);
void		jobs_allow_operator(JobRun *j, Oid operator);
/* One of the extension's. */
void		jobs_allow_function(JobRun *j, const char *name);

/* ---- worker_sql.c ---- */

/* As the job's owner, in call_cxt: ERROR if the tables don't fit the job any more. */
void		jobs_sql_build(JobRun *j);

/* ---- worker_transaction.c ---- */

typedef void (*JobStep) (JobRun *j, void *arg);

/* Errors are copied to cxt, which each transaction ends in. */
void		jobs_transaction_open(MemoryContext cxt);
/*
 * step(j, arg) in a transaction of its own, for the job's owner (j NULL: for none), not longer than
 * vllm.job_transaction_time.  Its error, or NULL.  what: for pg_stat_activity.
 */
ErrorData  *jobs_transaction(JobStep step, JobRun *j, void *arg, const char *what);

/* ---- worker_read.c; each runs in a transaction of the caller's ---- */

/* Run in a subtransaction; its error, or NULL.  Running out of time is thrown. */
ErrorData  *jobs_attempt(JobStep step, JobRun *j, void *arg);

void		jobs_claim(JobRun *j, void *arg);	/* arg: int *, how many at most; how many */
/* up to j->batch items of state CLAIMED; arg: the worker's BatchPool * */
void		jobs_read(JobRun *j, void *arg);
void		jobs_backfill(JobRun *j, void *arg);	/* arg: bool *, is there more? */

void		jobs_item_free(JobItem *it);
/* The item that is tried alone, while nothing else is started; or NULL. */
extern JobItem *jobs_alone;
/* Requests of it are cancelled. */
void		jobs_item_forget_requests(JobItem *it);

/*
 * Which rows of the source are there, with what input.  With `keep` its text is kept, and
 * rows are looked at as far as j->budget allows, at least one if there are none in hand.
 */
void		jobs_look(JobRun *j, JobItem **items, int n, Look *looks, bool keep);
/*
 * Settings for statements on the queue and for keys of the source, until
 * AtEOXact_GUC(level): by index, whatever the statistics or for want of them.
 */
int			jobs_plan_by_index(void);
/* Arrays of keys as parameters of sql.read and sql.lock. */
void		jobs_key_arrays(JobRun *j, JobItem **items, int n, Datum *values, Oid *types);
/*
 * Go on as the job's owner in a restricted context; an error if its tables belong to another, or a
 * partition does.  They are locked, so it remains like that; j->sql is guarded.
 */
void		jobs_as_owner(const JobRun *j, JobRole *role);

/* ---- worker_write.c ---- */

typedef struct WriteResult
{
	JobItem	  **items;
	int			n;
	/* out: what became of each */
	bool	   *finished;		/* its queue row is dealt with: free the item */
	int			done;
	int			failed;			/* for good */
	ErrorData  *last_error;
	bool		job_error;		/* it is the job's */
} WriteResult;
void		jobs_write(JobRun *j, void *arg);	/* arg: WriteResult * */
/* The transaction ran out of time with this item alone in it: count an attempt. */
void		jobs_too_slow(JobRun *j, void *arg);	/* arg: WriteResult * */

#endif
