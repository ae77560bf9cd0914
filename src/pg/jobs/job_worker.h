/*
 * job_worker.h
 *	  Declarations that the files of the job worker share.
 *
 * A queue row that the worker has claimed is a JobItem:
 *
 *	CLAIMED		leased (worker_read.c)
 *	READY		its input has been read; requests may be needed
 *	RUNNING		requests are in flight, no transaction is open
 *	DONE		has results, or an error, or its source row is deleted; to be written
 *
 * There are three kinds of short transactions, each of which serves many items: claim, read, write.
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

/* The current state of a source row. */
typedef struct Look
{
	bool		seen;			/* the row was read; false: there was no room for its input */
	bool		found;
	char	   *version;		/* changes with every change of the row */
	bool		isnull;
	char	   *input;			/* if it was to be kept, in the item's memory */
	Size		len;			/* of the input */
	uint64		hash[2];
	ErrorData  *error;			/* the error of computing the input */
} Look;

/* The text of one request: the input, or a chunk of it. */
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
	int			attempts;		/* failed attempts before this one */
	ItemState	state;
	Look		look;			/* the row that is computed; its input has moved to the pieces */
	Size		bytes;			/* its part of j->bytes */
	int			n_pieces,
				n_started;
	Piece	   *pieces;
	ErrorData  *error;
	int			crashes;		/* engines that ended while a request of the item was in flight */
	bool		alone;			/* no other request is in flight together with it */
	/* the error may have cost something: it counts as an attempt, whatever its cause */
	bool		charged;
	int			skips;			/* writes that found the row locked */
	uint32		swept;			/* blocks of the side table that are swept, for a source that was
								 * truncated */
	uint32		swept_to;		/* value of swept once the transaction has committed */
	TimestampTz done_at;
	TimestampTz not_before;
} JobItem;

/* The statements on source and target.  Keys are $n::text, with n from the number given. */
typedef struct JobSql
{
	const char *read;			/* keys as arrays from $1: n, found, version, input */
	const char *lock;			/* keys as arrays from $1: n */
	const char *update;			/* $1 value, keys from $2 */
	const char *clear;			/* like update, but sets NULL */
	const char *side_delete;	/* keys from $1 */
	const char *side_insert;	/* keys from $1, then seq, chunk, value, start, end */
	const char *sweep;			/* deletes chunks of deleted rows, in the blocks from $1 to before $2 */
	const char *backfill_first; /* returns key columns, missing; $1 rows */
	const char *backfill_next;	/* keys from $2: continues after that key */
	const char *chunks;			/* $1 text: seq, chunk, start, end */
} JobSql;

typedef struct JobRun
{
	dlist_node	node;
	MemoryContext cxt;			/* of the items */
	MemoryContext call_cxt;		/* of sql, allowed, uses and call, which each claim makes anew */
	JobDef	   *def;
	int			n_key;
	JobSql		sql;
	List	   *allowed;		/* objects that sql may use outside of the input: job_object_add() */
	JobUses		uses;			/* objects that the input may use */
	JobCall    *call;
	dlist_head	items;
	int			n_items;
	int			most;			/* the most rows in hand */
	Size		bytes;			/* of the inputs in hand */
	Size		budget;			/* limit of bytes; a single row may exceed it */
	bool		full;			/* the next row has no room until another one is freed */
	int			batch;			/* rows per transaction: reduced after one that took too long */
	int64		from_id;		/* the next claim starts at this id, unless from_start is too long ago */
	TimestampTz from_start;		/* time of the last claim that started at the queue's start */
	bool		look;			/* the queue may have rows */
	TimestampTz look_at;		/* when the queue will have rows, 0 = not known */
	bool		backfill;		/* a back-fill may be running */
	bool		keeps;			/* its model's results are cached (result_cache.h) */
	bool		remote;			/* the remote program serves its model, as far as is known */
	int			endpoint_backoff;	/* ms; 0 = the last request succeeded */
	TimestampTz endpoint_at;	/* no request before this time */
	bool		names_missed;	/* in the last transaction, a table, column or function was missing */
	int			job_errors;		/* consecutive errors that are the job's fault */
	int			backoff;		/* ms */
	TimestampTz not_before;
	bool		failed;			/* its state was set to failed: ignore it */
	/* number of the time at which it was put off because its owner rests; 0 = it was not */
	uint64		passed;
	int			round,			/* place in an iteration: the round of its owner's jobs, */
				place;			/* and the order within */
	int			to_start;		/* items that may be started (jobs_share_count()) */
} JobRun;

/*
 * Return true if both definitions compute the same values, so that results for one may be stored for
 * the other.
 */
bool		jobs_same_work(const JobDef *a, const JobDef *b);

/* The cause of an error. */
typedef enum Blame
{
	BLAME_INPUT,				/* the input: it would fail again */
	BLAME_ROW,					/* the row, or unknown: it may pass */
	BLAME_ENGINE,				/* the engine or the environment: does not count as an attempt */
	BLAME_JOB					/* the job's definition: it can't work as it is */
} Blame;
Blame		jobs_blame(const ErrorData *e);

/*
 * Queue rows of job $1 with the ids in array $2.  OFFSET 0 keeps the order of the joins: without
 * statistics the planner would prefer to read the whole queue.
 */
#define QUEUE_ROWS \
	"pg_catalog.unnest($2) i(id) CROSS JOIN LATERAL (SELECT o.ctid, o.id, o.hash, o.key" \
	" FROM vllm.job_queue o WHERE o.job = $1 AND o.id = i.id OFFSET 0) q"

/*
 * Queue rows of all jobs, except those that others have locked: while one owner drops a job, the rows
 * of other owners must not wait.
 */
#define WHERE_FREE(condition) \
	" WHERE ctid = ANY (ARRAY(SELECT o.ctid FROM vllm.job_queue o WHERE " \
		condition " FOR UPDATE SKIP LOCKED))"

/* ---- worker_crash.c ---- */

/* number of worker crashes at a job, within an hour, that set the job aside */
#define JOBS_CRASHES	2

/* Map the file, and count a crash that the previous worker left there. */
void		jobs_crash_open(Oid dbid, LWLock *lock);
void		jobs_crash_close(void);
/*
 * Record that the code from here on runs for this job; 0 = for none.  May be called in a signal
 * handler.
 */
void		jobs_crash_mark(int32 job);
int			jobs_crash_times(int32 job);
void		jobs_crash_forget(int32 job);

/* ---- worker_session.c ---- */

void		jobs_session_begin(void);
/* Reset the session if it has run code of another owner. */
void		jobs_session_for(Oid owner);
/* Clean up after a transaction. */
void		jobs_session_after(bool failed);

/* ---- worker_share.c ---- */

/* Sort jobs by priority, the highest first. */
void		jobs_share_sort(dlist_head *jobs);
/*
 * Return the jobs in the order of the next iteration: one of each owner, then the second of each, and
 * so on; of one owner, jobs that were put off come first.
 */
JobRun	  **jobs_share_order(dlist_head *jobs, int *n);
/* Return until when the job's owner rests, while others have something to do; 0 = not now. */
TimestampTz jobs_share_rests(dlist_head *jobs, JobRun *j);
/* Put the job off: it comes before its owner's jobs that were put off later or not at all. */
void		jobs_share_put_off(JobRun *j);
/* Return true if the job's owner rests; then the job is put off. */
bool		jobs_share_passes(dlist_head *jobs, JobRun *j);
/* Charge the owner for a transaction of the job that began at start. */
void		jobs_share_spent(JobRun *j, TimestampTz start);
/*
 * jobs_share_count(): count the items in flight and those that may be started.  jobs_share_next():
 * return the job whose item is to be started next, NULL = none.  jobs_share_started(): n items of the
 * job were started.
 */
void		jobs_share_count(dlist_head *jobs);
JobRun	   *jobs_share_next(dlist_head *jobs);
void		jobs_share_started(JobRun *j, int n);

/* ---- worker_guard.c ---- */

/* Called once in a worker. */
void		jobs_guard_begin(void);
/*
 * From now on, raise an ERROR for a statement of j->sql if its names don't refer to the objects that
 * it was made for; NULL: check no statements.
 */
void		jobs_guard(const JobRun *j);
/* Called in call_cxt. */
void		jobs_allow_type(JobRun *j, Oid type);
void		jobs_allow_columns(JobRun *j, TupleDesc desc);
void		jobs_allow_operator(JobRun *j, Oid operator);
/* Allow a function of the extension. */
void		jobs_allow_function(JobRun *j, const char *name);

/* ---- worker_sql.c ---- */

/* Make the statements as the job's owner, in call_cxt; ERROR if the tables don't fit the job any more. */
void		jobs_sql_build(JobRun *j);

/* ---- worker_transaction.c ---- */

typedef void (*JobStep) (JobRun *j, void *arg);

/* Each transaction ends in cxt, and its error is copied there. */
void		jobs_transaction_open(MemoryContext cxt);
/*
 * Run step(j, arg) in a transaction of its own, for the job's owner (j NULL: for none), limited to
 * vllm.job_transaction_time.  Return its error, or NULL.  what: for pg_stat_activity.
 */
ErrorData  *jobs_transaction(JobStep step, JobRun *j, void *arg, const char *what);

/* ---- worker_read.c; each function runs in a transaction of the caller ---- */

/* Run the step in a subtransaction; return its error, or NULL.  A timeout is thrown. */
ErrorData  *jobs_attempt(JobStep step, JobRun *j, void *arg);

void		jobs_claim(JobRun *j, void *arg);	/* arg: int *, the most rows; number of rows claimed */
/* Read up to j->batch items of state CLAIMED.  arg: the worker's BatchPool * */
void		jobs_read(JobRun *j, void *arg);
void		jobs_backfill(JobRun *j, void *arg);	/* arg: bool *, set if there is more */

void		jobs_item_free(JobItem *it);
/* The item that is tried alone, while no other item is started; or NULL. */
extern JobItem *jobs_alone;
/* Cancel the item's requests. */
void		jobs_item_forget_requests(JobItem *it);

/*
 * Look which rows of the source exist, and compute their inputs.  With `keep`, keep the inputs'
 * texts, and stop when j->budget is used up; if no rows are in hand, at least one row is read.
 */
void		jobs_look(JobRun *j, JobItem **items, int n, Look *looks, bool keep);
/*
 * Set planner settings that make statements on the queue and on keys of the source use indexes, with
 * any statistics or none, until AtEOXact_GUC(level).
 */
int			jobs_plan_by_index(void);
/* Make the key arrays that are parameters of sql.read and sql.lock. */
void		jobs_key_arrays(JobRun *j, JobItem **items, int n, Datum *values, Oid *types);
/*
 * Switch to the job's owner in a restricted context.  ERROR if a table of the job, or a partition,
 * belongs to another role; the tables are locked, so that stays true.  The statements of j->sql are
 * guarded.
 */
void		jobs_as_owner(const JobRun *j, JobRole *role);

/* ---- worker_write.c ---- */

typedef struct WriteResult
{
	JobItem	  **items;
	int			n;
	/* results */
	bool	   *finished;		/* the item's queue row is settled: the caller frees the item */
	int			done;
	int			failed;			/* rows given up for good */
	ErrorData  *last_error;
	bool		job_error;		/* the last error is the job's fault */
} WriteResult;
void		jobs_write(JobRun *j, void *arg);	/* arg: WriteResult * */
/* The transaction took too long with only this item in it: count an attempt. */
void		jobs_too_slow(JobRun *j, void *arg);	/* arg: WriteResult * */

#endif
