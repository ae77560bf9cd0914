/*
 * worker_write.c
 *	  Writing results to the target.
 *
 * One short transaction for many items locks those source rows that no other transaction has locked,
 * computes their inputs again, stores the results of those whose input is unchanged, and settles
 * their queue rows.  A row that another transaction is changing is left for later, so this never
 * waits for a row lock and can't be part of a deadlock; job.h says why a queue row may be removed
 * only under the lock.
 *
 *	found	input		result		the queue row
 *	no		-			-			is removed, and the row's chunks
 *	yes		different	-			stays, due at once; an attempt if the row is unchanged
 *	yes		the same	a value		is removed
 *	yes		the same	an error	stays with one attempt more, due later; or becomes a failure
 *	yes, but locked					stays with the worker, tried again
 *
 * A queue row without a key stands for a TRUNCATE: the side table is swept, part by part, for chunks
 * without a row.
 *
 * Tests: tests/t/060_jobs.pl, 061_jobs_kill.pl.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/async.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/assert.h"
#include "pg/jobs/job_worker.h"
#include "pg/vllm_pg.h"

/* ms between writes that find the row locked; after MAX_SKIPS writes it is given back */
#define LOCKED_RETRY	200
#define MAX_SKIPS		25
/* blocks of a side table that one statement sweeps */
#define SWEEP_BLOCKS	64
/* s until a row that was given back is due */
#define GIVEN_BACK		5
/* s of the longest back-off */
#define MAX_BACKOFF		600

/* channel of notifications (docs/user/jobs.md) */
#define CHANNEL			"llm_job"
/* fraction of PostgreSQL's queue of notifications above which none is sent */
#define CHANNEL_FULL	0.5

typedef enum Outcome
{
	OUT_LATER = 0,				/* locked: stays with the worker */
	OUT_DONE,
	OUT_AGAIN,					/* due at once */
	OUT_GIVE_BACK,				/* due in GIVEN_BACK s, not an attempt */
	OUT_RETRY,					/* counts as an attempt, due after back-off */
	OUT_FAILED
} Outcome;

typedef struct Write
{
	JobRun	   *job;
	WriteResult *r;
	bool	   *locked;
	Look	   *looks;
	Outcome    *out;
	ErrorData **error;
	SPIPlanPtr	update,
				clear,
				side_delete,
				side_insert;
} Write;

/* The items that a step in a subtransaction works on. */
typedef struct WriteStep
{
	Write	   *w;
	int			from,
				to;
} WriteStep;

/* ---- decisions ---- */

static void
lock_rows(Write *w, JobItem **items, const int *index, int n)
{
	JobRun	   *j = w->job;
	Datum		values[INDEX_MAX_KEYS];
	Oid			types[INDEX_MAX_KEYS];
	int			plans;

	if (n == 0)
		return;
	jobs_key_arrays(j, items, n, values, types);
	plans = jobs_plan_by_index();
	if (SPI_execute_with_args(j->sql.lock, j->n_key, types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not lock rows of the source");
	AtEOXact_GUC(false, plans);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		int64		k = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1,
													&isnull));

		w->locked[index[k - 1]] = true;
	}
	SPI_freetuptable(SPI_tuptable);
}

static bool
same_input(const Look *a, const Look *b)
{
	if (a->isnull || b->isnull)
		return a->isnull && b->isnull;
	return a->len == b->len && memcmp(a->hash, b->hash, sizeof(a->hash)) == 0;
}

static ErrorData *
own_error(int sqlstate, const char *message)
{
	ErrorData  *e = palloc0(sizeof(ErrorData));

	e->elevel = ERROR;
	e->sqlerrcode = sqlstate;
	e->message = pstrdup(message);
	e->assoc_context = CurrentMemoryContext;
	return e;
}

static Outcome
outcome_of_error(Write *w, int i, ErrorData *e)
{
	JobItem    *it = w->r->items[i];

	w->error[i] = e;
	switch (jobs_blame(e))
	{
		case BLAME_INPUT:
			return OUT_FAILED;
		case BLAME_ENGINE:
			/*
			 * an engine that ended with this row alone counts as an attempt, and so does an error
			 * that may have cost something, which must not be repeated for ever
			 */
			if (!it->alone && !it->charged)
				return OUT_GIVE_BACK;
			break;
		case BLAME_JOB:
			w->r->job_error = true;
			break;
		default:
			break;
	}
	return it->attempts + 1 >= w->job->def->max_attempts ? OUT_FAILED : OUT_RETRY;
}

/* Decide about an item.  OUT_DONE: its result, NULL or removal is to be stored. */
static Outcome
decide(Write *w, int i)
{
	JobItem    *it = w->r->items[i];
	const Look *l = &w->looks[i];

	if (it->key == NULL)
		return OUT_DONE;
	if (l->error)
		return outcome_of_error(w, i, l->error);
	if (l->found && !w->locked[i])
		return it->skips >= MAX_SKIPS ? OUT_GIVE_BACK : OUT_LATER;
	if (l->found != it->look.found || !same_input(l, &it->look))
	{
		if (it->error == NULL && l->found && it->look.found && strcmp(l->version, it->look.version) == 0)
			return outcome_of_error(w, i, own_error(ERRCODE_INVALID_FUNCTION_DEFINITION,
													"the input of the row has changed although the row has "
													"not"));
		return OUT_AGAIN;
	}
	if (it->error)
		return outcome_of_error(w, i, it->error);
	return OUT_DONE;
}

/* ---- storing ---- */

static SPIPlanPtr
plan(const char *sql, int n, Oid *types)
{
	SPIPlanPtr	p = sql ? SPI_prepare(sql, n, types) : NULL;

	if (sql && p == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", sql, SPI_result_code_string(SPI_result));
	return p;
}

static void
prepare_plans(Write *w)
{
	JobRun	   *j = w->job;
	Oid			types[INDEX_MAX_KEYS + 5];

	for (int i = 0; i < j->n_key + 5; i++)
		types[i] = TEXTOID;
	w->side_delete = plan(j->sql.side_delete, j->n_key, types);
	types[j->n_key] = types[j->n_key + 3] = types[j->n_key + 4] = INT4OID;
	types[j->n_key + 2] = j->call->rettype;
	w->side_insert = plan(j->sql.side_insert, j->n_key + 5, types);
	for (int i = 1; i <= j->n_key; i++)
		types[i] = TEXTOID;
	types[0] = j->call->rettype;
	w->update = plan(j->sql.update, j->n_key + 1, types);
	w->clear = plan(j->sql.clear, j->n_key + 1, types);
}

static void
run(SPIPlanPtr p, Datum *values, const char *nulls)
{
	int			rc = SPI_execute_plan(p, values, nulls, false, 0);

	if (rc < 0)
		elog(ERROR, "could not write to the job's target: %s", SPI_result_code_string(rc));
}

static void
put_keys(const JobItem *it, Datum *values)
{
	for (int i = 0; i < it->job->n_key; i++)
		values[i] = CStringGetTextDatum(it->key[i]);
}

static void
store_column(Write *w, JobItem *it)
{
	Datum		values[INDEX_MAX_KEYS + 1] = {0};
	char		nulls[INDEX_MAX_KEYS + 2];
	bool		isnull = true;

	memset(nulls, ' ', sizeof(nulls));
	ASSERT(it->n_pieces == 0 || (it->n_pieces == 1 && it->pieces[0].request != NULL));
	if (it->n_pieces > 0)
		values[0] = batch_request_value(it->pieces[0].request, w->job->call->rettype, &isnull);
	nulls[0] = isnull ? 'n' : ' ';
	put_keys(it, values + 1);
	run(isnull ? w->clear : w->update, values, nulls);
}

static void
store_chunks(Write *w, JobItem *it)
{
	int			k = w->job->n_key;
	Datum		values[INDEX_MAX_KEYS + 5];
	char		nulls[INDEX_MAX_KEYS + 5];

	memset(nulls, ' ', sizeof(nulls));
	put_keys(it, values);
	run(w->side_delete, values, nulls);
	for (int i = 0; i < it->n_pieces; i++)
	{
		const Piece *p = &it->pieces[i];
		bool		isnull;

		ASSERT(p->request != NULL);
		values[k] = Int32GetDatum(p->seq);
		values[k + 1] = CStringGetTextDatum(p->text);
		values[k + 2] = batch_request_value(p->request, w->job->call->rettype, &isnull);
		nulls[k + 2] = isnull ? 'n' : ' ';
		values[k + 3] = Int32GetDatum(p->tok_start);
		nulls[k + 3] = p->tok_start < 0 ? 'n' : ' ';
		values[k + 4] = Int32GetDatum(p->tok_end);
		nulls[k + 4] = p->tok_end < 0 ? 'n' : ' ';
		run(w->side_insert, values, nulls);
	}
}

/*
 * Delete chunks of deleted rows, after a TRUNCATE or for a dropped partition; return false if blocks
 * are left.
 */
static bool
sweep(JobRun *j, JobItem *it)
{
	TimestampTz start = GetCurrentTimestamp();
	Relation	rel = try_table_open(j->def->target_table, AccessShareLock);
	BlockNumber blocks = rel ? RelationGetNumberOfBlocks(rel) : 0;
	Oid			types[2] = {TIDOID, TIDOID};
	int			plans;

	/* the table has been dropped with its chunks */
	if (rel == NULL)
		return true;
	plans = jobs_plan_by_index();
	table_close(rel, NoLock);
	it->swept_to = it->swept;
	while (it->swept_to < blocks && !TimestampDifferenceExceeds(start, GetCurrentTimestamp(),
																vllm_job_transaction_time / 4))
	{
		ItemPointerData from;
		ItemPointerData to;
		Datum		v[2] = {PointerGetDatum(&from), PointerGetDatum(&to)};

		ItemPointerSet(&from, it->swept_to, 0);
		it->swept_to = Min(it->swept_to + SWEEP_BLOCKS, blocks);
		ItemPointerSet(&to, it->swept_to, 0);
		if (SPI_execute_with_args(j->sql.sweep, 2, types, v, NULL, false, 0) != SPI_OK_DELETE)
			elog(ERROR, "could not remove chunks");
	}
	AtEOXact_GUC(false, plans);
	return it->swept_to >= blocks;
}

static void
store_step(JobRun *j, void *arg)
{
	WriteStep  *s = arg;
	MemoryContext tmp = AllocSetContextCreate(CurrentMemoryContext, "job write", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(tmp);

	for (int i = s->from; i < s->to; i++)
	{
		JobItem    *it = s->w->r->items[i];

		if (s->w->out[i] != OUT_DONE)
			continue;
		/* memory for texts and results of one row at a time */
		MemoryContextReset(tmp);
		if (it->key == NULL)
			s->w->out[i] = OidIsValid(j->def->target_table) && !sweep(j, it) ? OUT_LATER : OUT_DONE;
		else if (OidIsValid(j->def->target_table))
			store_chunks(s->w, it);
		else if (it->look.found)
			store_column(s->w, it);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(tmp);
}

static void
store(Write *w)
{
	WriteStep	all = {w, 0, w->r->n};

	if (jobs_attempt(store_step, w->job, &all) == NULL)
		return;
	for (int i = 0; i < w->r->n; i++)
	{
		WriteStep	one = {w, i, i + 1};
		ErrorData  *e = jobs_attempt(store_step, w->job, &one);

		if (e == NULL)
			continue;
		w->out[i] = outcome_of_error(w, i, e);
		/* an error of this transaction, not of the engine: for example a lock */
		if (w->out[i] == OUT_GIVE_BACK && w->r->items[i]->skips < MAX_SKIPS)
			w->out[i] = OUT_LATER;
	}
}

/*
 * Store results in the result cache, if the model's results are cached, whatever became of their
 * rows, as they were paid for.  Runs in a subtransaction: if it fails, the rows are settled all the
 * same.
 */
static void
keep_step(JobRun *j, void *arg)
{
	const WriteResult *r = arg;

	for (int i = 0; i < r->n; i++)
		for (int k = 0; k < r->items[i]->n_pieces && r->items[i]->error == NULL; k++)
			batch_request_keep(r->items[i]->pieces[k].request);
}

/* ---- the queue ---- */

static Datum
ids_of(const Write *w, Outcome out, int *n)
{
	Datum	   *ids = palloc(sizeof(Datum) * Max(w->r->n, 1));

	*n = 0;
	for (int i = 0; i < w->r->n; i++)
		if (w->out[i] == out)
			ids[(*n)++] = Int64GetDatum(w->r->items[i]->id);
	return PointerGetDatum(construct_array(ids, *n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL,
										   TYPALIGN_DOUBLE));
}

/* Run a statement over QUEUE_ROWS: $1 job, $2 ids. */
static void
settle(JobRun *j, const char *sql, Datum ids)
{
	Oid			types[2] = {INT4OID, INT8ARRAYOID};
	Datum		v[2] = {Int32GetDatum(j->def->id), ids};

	if (SPI_execute_with_args(sql, 2, types, v, NULL, false, 0) < 0)
		elog(ERROR, "could not change the queue");
}

static void
settle_error(JobRun *j, const JobItem *it, const ErrorData *e, bool failed)
{
	Oid			types[6] = {INT4OID, INT8OID, INT4OID, TEXTOID, TEXTOID, FLOAT8OID};
	double		delay = Min(1 << Min(it->attempts, 16), MAX_BACKOFF);
	Datum		v[6] = {
		Int32GetDatum(j->def->id), Int64GetDatum(it->id), Int32GetDatum(it->attempts + 1),
		CStringGetTextDatum(unpack_sql_state(e->sqlerrcode)),
		CStringGetTextDatum(e->message ? e->message : "unknown error"), Float8GetDatum(delay)
	};
	const char *sql = failed ?
		"WITH q AS (DELETE FROM vllm.job_queue WHERE job = $1 AND id = $2 RETURNING job, hash, key)"
		" INSERT INTO vllm.job_failure SELECT job, hash, key, $3, $4, $5, pg_catalog.clock_timestamp() FROM "
		"q WHERE key IS NOT NULL ON CONFLICT (job, hash, key) DO UPDATE SET attempts = excluded.attempts, "
		"sqlstate = excluded.sqlstate, message = excluded.message, failed = excluded.failed" :
		"UPDATE vllm.job_queue SET worker = NULL, lease_until = NULL, attempts = $3,"
		" due = pg_catalog.clock_timestamp() + pg_catalog.make_interval(secs => $6) WHERE job = $1 AND id = "
		"$2";

	if (SPI_execute_with_args(sql, 6, types, v, NULL, false, 0) < 0)
		elog(ERROR, "could not change the queue");
}

static void
note_stats(JobRun *j, int done, const ErrorData *last)
{
	Oid			types[3] = {INT4OID, INT4OID, TEXTOID};
	Datum		v[3] = {Int32GetDatum(j->def->id), Int32GetDatum(done), (Datum) 0};
	char		nulls[3] = {' ', ' ', last ? ' ' : 'n'};

	if (last)
		v[2] = CStringGetTextDatum(psprintf("%s: %s", unpack_sql_state(last->sqlerrcode), last->message));
	if (done > 0 &&
		SPI_execute_with_args("UPDATE vllm.job_stat SET done = done + $2, last_done = "
							  "pg_catalog.clock_timestamp(), last_error = NULL, last_error_at = NULL, rate = "
							  "rate * pg_catalog.exp(-least(coalesce(extract(epoch FROM "
							  "pg_catalog.clock_timestamp() - last_done)::float8, 0) / 10, 700)) + $2 / 10.0 "
							  "WHERE job = $1", 2, types, v, nulls, false, 0) != SPI_OK_UPDATE)
		elog(ERROR, "could not count");
	if (last &&
		SPI_execute_with_args("UPDATE vllm.job_stat SET last_error = $3, last_error_at = "
							  "pg_catalog.clock_timestamp() WHERE job = $1", 3, types, v, nulls, false,
							  0) != SPI_OK_UPDATE)
		elog(ERROR, "could not count");
}

static void
notify(JobRun *j, int done, int failed)
{
	StringInfoData s;

	/*
	 * a session that listens and does not end its transaction lets the queue fill up, and when it is
	 * full no transaction can commit
	 */
	if (done + failed == 0 || DatumGetFloat8(OidFunctionCall0(F_PG_NOTIFICATION_QUEUE_USAGE)) > CHANNEL_FULL)
		return;
	initStringInfo(&s);
	appendStringInfoString(&s, "{\"job\": ");
	escape_json(&s, j->def->name);
	appendStringInfo(&s, ", \"done\": %d, \"failed\": %d}", done, failed);
	Async_Notify(CHANNEL, s.data);
}

static void
settle_all(Write *w)
{
	JobRun	   *j = w->job;
	WriteResult *r = w->r;
	Datum		ids;
	int			n;

	ids = ids_of(w, OUT_DONE, &r->done);
	if (r->done > 0)
	{
		settle(j, "DELETE FROM vllm.job_failure WHERE ctid = ANY (ARRAY(SELECT f.ctid FROM " QUEUE_ROWS
			   " CROSS JOIN LATERAL (SELECT x.ctid FROM vllm.job_failure x WHERE x.job = $1 AND x.hash = "
			   "q.hash AND x.key = q.key OFFSET 0) f))", ids);
		settle(j, "DELETE FROM vllm.job_queue WHERE ctid = ANY (ARRAY(SELECT q.ctid FROM " QUEUE_ROWS "))",
			   ids);
	}
	ids = ids_of(w, OUT_AGAIN, &n);
	if (n > 0)
		settle(j, "UPDATE vllm.job_queue SET worker = NULL, lease_until = NULL, due = NULL"
			   " WHERE ctid = ANY (ARRAY(SELECT q.ctid FROM " QUEUE_ROWS "))", ids);
	ids = ids_of(w, OUT_GIVE_BACK, &n);
	if (n > 0)
		settle(j, psprintf("UPDATE vllm.job_queue SET worker = NULL, lease_until = NULL,"
						   " due = pg_catalog.clock_timestamp() + pg_catalog.make_interval(secs => %d)"
						   " WHERE ctid = ANY (ARRAY(SELECT q.ctid FROM " QUEUE_ROWS "))", GIVEN_BACK), ids);
	for (int i = 0; i < r->n; i++)
	{
		ASSERT(w->error[i] != NULL || (w->out[i] != OUT_RETRY && w->out[i] != OUT_FAILED));
		if (w->out[i] == OUT_RETRY || w->out[i] == OUT_FAILED)
			settle_error(j, r->items[i], w->error[i], w->out[i] == OUT_FAILED);
		if (w->error[i])
			r->last_error = w->error[i];
		r->failed += w->out[i] == OUT_FAILED;
		r->finished[i] = w->out[i] != OUT_LATER;
	}
	note_stats(j, r->done, r->last_error);
	notify(j, r->done, r->failed);
}

void
jobs_write(JobRun *j, void *arg)
{
	WriteResult *r = arg;
	Write		w = {.job = j,.r = r};
	JobItem   **items = palloc(sizeof(JobItem *) * r->n);
	int		   *index = palloc(sizeof(int) * r->n);
	Look	   *looks = palloc0(sizeof(Look) * r->n);
	int			n = 0;
	int			plans;
	JobDef	   *now;
	bool		changed;
	JobRole		role;

	w.locked = palloc0(sizeof(bool) * r->n);
	w.looks = palloc0(sizeof(Look) * r->n);
	w.out = palloc0(sizeof(Outcome) * r->n);
	w.error = palloc0(sizeof(ErrorData *) * r->n);
	for (int i = 0; i < r->n; i++)
		if (r->items[i]->key != NULL)
		{
			index[n] = i;
			items[n++] = r->items[i];
		}
	jobs_as_owner(j, &role);
	/* deferred constraints would run at commit, with other rights */
	(void) SPI_execute("SET CONSTRAINTS ALL IMMEDIATE", false, 0);
	lock_rows(&w, items, index, n);
	jobs_look(j, items, n, looks, false);
	for (int i = 0; i < n; i++)
		w.looks[index[i]] = looks[i];
	/* read with the rows locked, so that no column can be renamed any more */
	now = job_find(j->def->name);
	changed = now == NULL || !jobs_same_work(now, j->def);
	for (int i = 0; i < r->n; i++)
		w.out[i] = changed ? OUT_AGAIN : decide(&w, i);
	if (!changed)
	{
		prepare_plans(&w);
		store(&w);
	}
	if (j->keeps)
		(void) jobs_attempt(keep_step, j, r);
	job_role_end(&role);
	plans = jobs_plan_by_index();
	settle_all(&w);
	AtEOXact_GUC(false, plans);
	for (int i = 0; i < r->n; i++)
		if (w.out[i] == OUT_LATER && r->items[i]->key != NULL)
		{
			r->items[i]->skips++;
			r->items[i]->not_before = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), LOCKED_RETRY);
		}
}

void
jobs_too_slow(JobRun *j, void *arg)
{
	WriteResult *r = arg;
	JobItem    *it = r->items[0];
	Write		w = {.job = j,.r = r};
	bool		locked = false;
	int			index = 0;
	JobRole		role;

	w.locked = &locked;
	if (it->key != NULL)
	{
		jobs_as_owner(j, &role);
		lock_rows(&w, &it, &index, 1);
		job_role_end(&role);
	}
	/* if another transaction is changing the row, this is not its last attempt, whatever their number */
	r->failed = locked && it->attempts + 1 >= j->def->max_attempts;
	settle_error(j, it, r->last_error, r->failed > 0);
	note_stats(j, 0, r->last_error);
	notify(j, 0, r->failed);
	r->finished[0] = true;
}
