/*
 * worker_read.c
 *	  Claiming rows from the queue, reading rows of the source, and the back-fill.
 *
 * Each function runs in a short transaction of the worker's loop (worker.c).  Statements on vllm's
 * tables run with the worker's own rights.  Those on source and target, which run code of users, run
 * as the job's owner in a restricted context.
 *
 * An expression that fails for one row must not hold up the others: statements run for many rows at
 * once, and if that fails, for one row after the other.
 *
 * MEMORY.  Inputs may be of any size.  A cursor returns them one at a time.  Inputs that are to be
 * computed are kept as far as j->budget allows; of inputs that are only compared, a hash is kept.
 * Rows without room stay claimed.
 *
 * Tests: tests/t/060_jobs.pl, 061_jobs_kill.pl.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/assert.h"
#include "pg/jobs/job_worker.h"
#include "pg/call/result_cache.h"
#include "pg/vllm_pg.h"

/* how long a row belongs to a worker that does not renew its lease */
#define LEASE	"interval '5 min'"
/*
 * ms until the queue is read from its start again, for rows that were given back or were committed
 * late
 */
#define FROM_START	10000
/* memory of a piece besides its text: the result, the request's structures */
#define PIECE_BYTES	4096

JobItem    *jobs_alone = NULL;

/* ---- owners ---- */

/*
 * Code on a table belongs to the table's owner, but runs as the job's; the same holds for a partition
 * or, for a side table, a child.  The locks prevent a change of owner until the transaction ends.
 */
static void
check_owner(const JobRun *j, Oid relid)
{
	List	   *tables;
	ListCell   *lc;

	LockRelationOid(relid, AccessShareLock);
	if (!OidIsValid(job_relation_owner(relid)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("a table of the job has been dropped")));
	/* children of a source are not read, because of ONLY */
	tables = relid == j->def->source && get_rel_relkind(relid) == RELKIND_RELATION ?
		list_make1_oid(relid) : find_all_inheritors(relid, AccessShareLock, NULL);
	foreach(lc, tables)
	{
		if (job_relation_owner(lfirst_oid(lc)) == j->def->owner)
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 lfirst_oid(lc) == relid ?
				 errmsg("relation \"%s\" has another owner than the job", get_rel_name(relid)) :
				 errmsg("partition \"%s\" of relation \"%s\" has another owner than the job",
						get_rel_name(lfirst_oid(lc)), get_rel_name(relid)),
				 errhint("Use ALTER TABLE ... OWNER TO, then llm_resume_job().")));
	}
	job_refuse_rls(relid, j->def->owner);
}

void
jobs_as_owner(const JobRun *j, JobRole *role)
{
	check_owner(j, j->def->source);
	if (OidIsValid(j->def->target_table))
		check_owner(j, j->def->target_table);
	jobs_guard(j);
	job_role_owner(role, j->def->owner);
}

/* ---- the job ---- */

static bool
same_name(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool
jobs_same_work(const JobDef *a, const JobDef *b)
{
	return strcmp(a->input, b->input) == 0 && strcmp(a->arguments, b->arguments) == 0 &&
		strcmp(a->chunking, b->chunking) == 0 && a->chunk_size == b->chunk_size &&
		a->chunk_overlap == b->chunk_overlap && a->owner == b->owner &&
		same_name(a->target_column, b->target_column) && job_uses_same(&a->uses, &b->uses);
}

/* ---- errors ---- */

Blame
jobs_blame(const ErrorData *e)
{
	int			category = ERRCODE_TO_CATEGORY(e->sqlerrcode);

	switch (e->sqlerrcode)
	{
		case ERRCODE_QUERY_CANCELED:
			return BLAME_ROW;
		case ERRCODE_LOCK_NOT_AVAILABLE:
		case ERRCODE_READ_ONLY_SQL_TRANSACTION:
			return BLAME_ENGINE;
		case ERRCODE_UNDEFINED_FILE:
		case ERRCODE_FEATURE_NOT_SUPPORTED:
			return BLAME_JOB;
		default:
			break;
	}
	if (category == ERRCODE_DATA_EXCEPTION || category == ERRCODE_PROGRAM_LIMIT_EXCEEDED ||
		category == ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION)
		return BLAME_INPUT;
	if (category == ERRCODE_INSUFFICIENT_RESOURCES || category == ERRCODE_OPERATOR_INTERVENTION ||
		category == ERRCODE_SYSTEM_ERROR || category == ERRCODE_CONNECTION_EXCEPTION ||
		category == ERRCODE_TRANSACTION_ROLLBACK)
		return BLAME_ENGINE;
	/* an endpoint's refusal of the model's secret */
	if (category == ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION)
		return BLAME_JOB;
	if (category == ERRCODE_TO_CATEGORY(ERRCODE_SYNTAX_ERROR) || category == ERRCODE_CONFIG_FILE_ERROR)
		return BLAME_JOB;
	return BLAME_ROW;
}

typedef struct Attempt
{
	JobStep		step;
	JobRun	   *j;
	void	   *arg;
} Attempt;

static void
attempt_step(void *arg)
{
	Attempt    *a = arg;

	a->step(a->j, a->arg);
}

ErrorData *
jobs_attempt(JobStep step, JobRun *j, void *arg)
{
	Attempt		a = {step, j, arg};

	return job_attempt(attempt_step, &a);
}

/* ---- items ---- */

static JobItem *
jobs_item_new(JobRun *j, int64 id)
{
	MemoryContext cxt = AllocSetContextCreate(j->cxt, "job item", ALLOCSET_SMALL_SIZES);
	JobItem    *it = MemoryContextAllocZero(cxt, sizeof(JobItem));

	it->cxt = cxt;
	it->job = j;
	it->id = id;
	dlist_push_tail(&j->items, &it->node);
	j->n_items++;
	return it;
}

void
jobs_item_forget_requests(JobItem *it)
{
	for (int i = 0; i < it->n_pieces; i++)
	{
		if (it->pieces[i].request)
			batch_request_release(it->pieces[i].request);
		it->pieces[i].request = NULL;
	}
	it->n_started = 0;
}

void
jobs_item_free(JobItem *it)
{
	ASSERT(it->job->n_items > 0 && it->job->bytes >= it->bytes);
	if (jobs_alone == it)
		jobs_alone = NULL;
	jobs_item_forget_requests(it);
	dlist_delete(&it->node);
	it->job->n_items--;
	it->job->bytes -= it->bytes;
	/* other rows may have room now */
	it->job->full = it->job->full && it->job->bytes > 0 && it->bytes == 0;
	MemoryContextDelete(it->cxt);
}

/* ---- plans ---- */

int
jobs_plan_by_index(void)
{
	static const char *const off[] = {"enable_seqscan", "enable_bitmapscan", "enable_hashjoin",
									  "enable_mergejoin", "enable_sort"};
	int			level = NewGUCNestLevel();

	for (int i = 0; i < (int) lengthof(off); i++)
		(void) set_config_option(off[i], "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	return level;
}

/* ---- claim ---- */

static void
read_key(JobItem *it, Datum array)
{
	MemoryContext old = MemoryContextSwitchTo(it->cxt);
	Datum	   *elems;
	int			n;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &elems, NULL, &n);
	if (n != it->job->n_key)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("the primary key of the job's source has changed")));
	it->key = palloc(sizeof(char *) * n);
	for (int i = 0; i < n; i++)
		it->key[i] = TextDatumGetCString(elems[i]);
	MemoryContextSwitchTo(old);
}

/* Delete older queue rows with the key of a claimed one; if they are in hand, drop them here, too. */
static void
fold(JobRun *j, Datum ids)
{
	Oid			types[2] = {INT4OID, INT8ARRAYOID};
	Datum		v[2] = {Int32GetDatum(j->def->id), ids};

	if (SPI_execute_with_args("DELETE FROM vllm.job_queue WHERE ctid = ANY (ARRAY(SELECT d.ctid FROM "
							  QUEUE_ROWS
							  " CROSS JOIN LATERAL (SELECT x.ctid FROM vllm.job_queue x WHERE x.job = $1 AND "
							  "x.hash = q.hash AND x.key = q.key AND x.id < q.id OFFSET 0) d)) RETURNING id",
							  2, types, v, NULL, false, 0) != SPI_OK_DELETE_RETURNING)
		elog(ERROR, "could not fold the queue");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		int64		id = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1,
													 &isnull));
		dlist_mutable_iter it;

		dlist_foreach_modify(it, &j->items)
		{
			JobItem    *item = dlist_container(JobItem, node, it.cur);

			if (item->id == id)
				jobs_item_free(item);
		}
	}
}

/* Return when the next row that is not leased falls due; 0 if there is none. */
static TimestampTz
next_due(JobRun *j)
{
	Oid			types[1] = {INT4OID};
	Datum		v[1] = {Int32GetDatum(j->def->id)};
	Datum		d;
	bool		isnull;

	if (SPI_execute_with_args("SELECT pg_catalog.min(due) FROM vllm.job_queue WHERE job = $1 AND worker IS "
							  "NULL", 1, types, v, NULL, true, 0) != SPI_OK_SELECT || SPI_processed != 1)
		elog(ERROR, "could not read the queue");
	d = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	return isnull ? 0 : DatumGetTimestampTz(d);
}

static void
add_claimed(JobRun *j, uint64 n)
{
	SPITupleTable *rows = SPI_tuptable;
	Datum	   *ids = palloc(sizeof(Datum) * Max(n, 1));

	for (uint64 i = 0; i < n; i++)
	{
		bool		isnull;
		JobItem    *it;
		Datum		key;

		ids[i] = SPI_getbinval(rows->vals[i], rows->tupdesc, 1, &isnull);
		it = jobs_item_new(j, DatumGetInt64(ids[i]));
		j->from_id = Max(j->from_id, it->id + 1);
		key = SPI_getbinval(rows->vals[i], rows->tupdesc, 2, &isnull);
		if (!isnull)
			read_key(it, key);
		it->attempts = DatumGetInt32(SPI_getbinval(rows->vals[i], rows->tupdesc, 3, &isnull));
	}
	fold(j, PointerGetDatum(construct_array(ids, n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL,
											TYPALIGN_DOUBLE)));
}

/* ERROR if a column or function of the statement does not exist any more. */
static void
check_statement(const char *sql, int n, Oid *types)
{
	if (sql != NULL && SPI_prepare(sql, n, types) == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", sql, SPI_result_code_string(SPI_result));
}

/* Check that the names in the input refer to the recorded objects, before any part of it is evaluated. */
static void
check_read(JobRun *j)
{
	Oid			types[INDEX_MAX_KEYS];

	for (int i = 0; i < j->n_key; i++)
		types[i] = TEXTARRAYOID;
	job_uses_check_types(&j->uses, j->def->input, j->def->owner);
	check_statement(j->sql.read, j->n_key, types);
}

static void
check_statements(JobRun *j)
{
	Oid			types[INDEX_MAX_KEYS + 1];

	check_read(j);
	for (int i = 0; i <= j->n_key; i++)
		types[i] = TEXTOID;
	check_statement(j->sql.side_delete, j->n_key, types);
	types[0] = j->call->rettype;
	check_statement(j->sql.update, j->n_key + 1, types);
}

/* Return the objects that the input uses now, for a job that was created before these were recorded. */
static JobUses
read_uses(const JobDef *def)
{
	Relation	rel = table_open(def->source, AccessShareLock);
	JobUses		uses = job_uses_of(job_expression_read(rel, def->owner, def->input, &def->uses), def->owner);

	table_close(rel, NoLock);
	return uses;
}

/*
 * Make the statements and the call, as the owner.  This finds out whether the job still fits its
 * tables, and whether its owner may still use the model.
 */
static void
prepare(JobRun *j)
{
	MemoryContext old;
	CacheKey	kept;
	JobRole		role;

	memset(&j->sql, 0, sizeof(JobSql));
	memset(&j->uses, 0, sizeof(JobUses));
	j->allowed = NIL;
	j->call = NULL;
	MemoryContextReset(j->call_cxt);
	jobs_as_owner(j, &role);
	old = MemoryContextSwitchTo(j->call_cxt);
	jobs_sql_build(j);
	j->uses = j->def->uses.known ? job_uses_copy(&j->def->uses) : read_uses(j->def);
	j->call = job_call_make(j->def->function, j->def->arguments);
	result_cache_key(&kept, j->call->request.kind, &j->call->request.body, j->call->request.model,
					 j->call->request.deterministic);
	j->keeps = kept.on;
	MemoryContextSwitchTo(old);
	check_statements(j);
	job_role_end(&role);
	if (!j->def->uses.known)
	{
		JobDef		def = *j->def;

		def.uses = j->uses;
		job_uses_record(&def);
	}
}

/*
 * Lease up to n rows; return their number.  Index entries of deleted rows remain as long as any
 * session has an old snapshot, so the index is not read from its start each time.
 */
static int
lease(JobRun *j, int n)
{
	Oid			types[4] = {INT4OID, INT4OID, INT4OID, INT8OID};
	Datum		v[4] = {Int32GetDatum(j->def->id), Int32GetDatum(n), Int32GetDatum(MyProcPid)};
	TimestampTz now = GetCurrentTimestamp();

	if (TimestampDifferenceExceeds(j->from_start, now, FROM_START))
		j->from_id = 0;
	if (j->from_id == 0)
		j->from_start = now;
	v[3] = Int64GetDatum(j->from_id);
	/*
	 * also checks whether the job is paused: rows may have been added after that, and the worker may
	 * not have noticed it yet
	 */
	if (SPI_execute_with_args("WITH c AS (SELECT id FROM vllm.job_queue WHERE job = $1 AND id >= $4"
							  " AND EXISTS (SELECT FROM vllm.job j WHERE j.id = $1 AND j.state = 'active')"
							  " AND (worker IS NULL OR lease_until < pg_catalog.clock_timestamp())"
							  " AND (due IS NULL OR due <= pg_catalog.clock_timestamp())"
							  " ORDER BY job, id LIMIT $2 FOR UPDATE SKIP LOCKED)"
							  " UPDATE vllm.job_queue q SET worker = $3, lease_until = "
							  "pg_catalog.clock_timestamp() + " LEASE
							  " FROM c WHERE q.job = $1 AND q.id = c.id RETURNING q.id, q.key, q.attempts",
							  4, types, v, NULL, false, 0) != SPI_OK_UPDATE_RETURNING)
		elog(ERROR, "could not read the queue");
	if (SPI_processed == 0 && j->from_id > 0)
	{
		j->from_id = 0;
		return lease(j, n);
	}
	return (int) SPI_processed;
}

void
jobs_claim(JobRun *j, void *arg)
{
	int		   *n = arg;
	Oid			types[2] = {INT4OID, INT4OID};
	Datum		v[2] = {Int32GetDatum(j->def->id)};
	int			plans;

	prepare(j);
	plans = jobs_plan_by_index();
	*n = lease(j, *n);
	if (*n == 0)
		j->look_at = next_due(j);
	else
	{
		v[1] = Int32GetDatum(*n);
		add_claimed(j, SPI_processed);
		if (SPI_execute_with_args("UPDATE vllm.job_stat SET claimed = claimed + $2 WHERE job = $1",
								  2, types, v, NULL, false, 0) != SPI_OK_UPDATE)
			elog(ERROR, "could not count");
	}
	AtEOXact_GUC(false, plans);
}

/* ---- looking at rows ---- */

void
jobs_key_arrays(JobRun *j, JobItem **items, int n, Datum *values, Oid *types)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));

	for (int k = 0; k < j->n_key; k++)
	{
		for (int i = 0; i < n; i++)
		{
			/* an item without a key is no row of the source */
			ASSERT(items[i]->key != NULL);
			elems[i] = CStringGetTextDatum(items[i]->key[k]);
		}
		values[k] = PointerGetDatum(construct_array(elems, n, TEXTOID, -1, false, TYPALIGN_INT));
		types[k] = TEXTARRAYOID;
	}
}

typedef struct LookArgs
{
	JobItem   **items;
	int			n;
	Look	   *looks;
	bool		keep;
	Size		bytes;			/* kept bytes of this job */
	MemoryContext cxt;			/* memory that is not the items' */
} LookArgs;

/* Return false if the input is to be kept and there is no room. */
static bool
take_input(JobRun *j, LookArgs *a, JobItem *it, Look *l, Datum d)
{
	text	   *t = DatumGetTextPP(d);
	Size		bytes;

	l->len = VARSIZE_ANY_EXHDR(t);
	bytes = l->len + PIECE_BYTES;
	if (a->keep && a->bytes > 0 && a->bytes + bytes > j->budget)
		return false;
	for (int i = 0; i < (int) lengthof(l->hash); i++)
		l->hash[i] = hash_bytes_extended((unsigned char *) VARDATA_ANY(t), (int) l->len, i);
	if (a->keep)
	{
		l->input = MemoryContextAlloc(it->cxt, l->len + 1);
		memcpy(l->input, VARDATA_ANY(t), l->len);
		l->input[l->len] = '\0';
		a->bytes += bytes;
	}
	if (PointerGetDatum(t) != d)
		pfree(t);
	return true;
}

/* Take the cursor's current row; return false if it has no room. */
static bool
take_row(JobRun *j, LookArgs *a)
{
	HeapTuple	row = SPI_tuptable->vals[0];
	TupleDesc	desc = SPI_tuptable->tupdesc;
	bool		isnull;
	int64		n = DatumGetInt64(SPI_getbinval(row, desc, 1, &isnull));
	Look	   *l = &a->looks[n - 1];
	Datum		d;

	(void) SPI_getbinval(row, desc, 2, &isnull);
	l->found = !isnull;
	if (l->found)
	{
		MemoryContext old = MemoryContextSwitchTo(a->cxt);

		l->version = SPI_getvalue(row, desc, 3);
		MemoryContextSwitchTo(old);
	}
	d = SPI_getbinval(row, desc, 4, &l->isnull);
	l->seen = l->isnull || take_input(j, a, a->items[n - 1], l, d);
	return l->seen;
}

/* The subtransaction frees SPI's memory. */
static void
look_step(JobRun *j, void *arg)
{
	LookArgs   *a = arg;
	Datum		values[INDEX_MAX_KEYS];
	Oid			types[INDEX_MAX_KEYS];
	int			plans = jobs_plan_by_index();
	Portal		portal;
	bool		room = true;

	jobs_key_arrays(j, a->items, a->n, values, types);
	portal = SPI_cursor_open_with_args(NULL, j->sql.read, j->n_key, types, values, NULL, false, 0);
	while (room)
	{
		SPI_cursor_fetch(portal, true, 1);
		if (SPI_processed == 0)
			break;
		room = take_row(j, a);
		SPI_freetuptable(SPI_tuptable);
	}
	SPI_cursor_close(portal);
	AtEOXact_GUC(false, plans);
	j->full = j->full || !room;
}

static void
forget_look(Look *l)
{
	if (l->input)
		pfree(l->input);
	memset(l, 0, sizeof(Look));
}

void
jobs_look(JobRun *j, JobItem **items, int n, Look *looks, bool keep)
{
	LookArgs	all = {items, n, looks, keep, j->bytes, CurrentMemoryContext};
	Size		bytes = j->bytes;

	memset(looks, 0, sizeof(Look) * n);
	if (n == 0)
		return;
	/* an error here is not a single row's fault */
	check_read(j);
	if (jobs_attempt(look_step, j, &all) == NULL)
		return;
	for (int i = 0; i < n; i++)
		forget_look(&looks[i]);
	for (int i = 0; i < n && (i == 0 || !j->full); i++)
	{
		LookArgs	one = {&items[i], 1, &looks[i], keep, bytes, CurrentMemoryContext};
		ErrorData  *e;

		/* each row's statement is analysed again */
		job_uses_check_types(&j->uses, j->def->input, j->def->owner);
		e = jobs_attempt(look_step, j, &one);
		if (e != NULL)
		{
			forget_look(&looks[i]);
			looks[i].seen = true;
			looks[i].error = e;
		}
		bytes = one.bytes;
	}
}

/* ---- read ---- */

static void
one_piece(JobItem *it)
{
	it->n_pieces = 1;
	it->pieces = MemoryContextAllocZero(it->cxt, sizeof(Piece));
	it->pieces[0].text = it->look.input;
	it->look.input = NULL;
	it->pieces[0].seq = 1;
	it->pieces[0].tok_start = it->pieces[0].tok_end = -1;
}

static int
int_column(HeapTuple row, TupleDesc desc, int column, int missing)
{
	bool		isnull;
	Datum		d = SPI_getbinval(row, desc, column, &isnull);

	return isnull ? missing : DatumGetInt32(d);
}

static void
chunk_step(JobRun *j, void *arg)
{
	JobItem    *it = arg;
	Oid			types[1] = {TEXTOID};
	Datum		v[1] = {CStringGetTextDatum(it->look.input)};

	if (SPI_execute_with_args(j->sql.chunks, 1, types, v, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not chunk");
	it->n_pieces = 0;
	it->pieces = MemoryContextAllocZero(it->cxt, sizeof(Piece) * Max(SPI_processed, 1));
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		MemoryContext old = MemoryContextSwitchTo(it->cxt);

		it->pieces[i].text = SPI_getvalue(row, desc, 2);
		MemoryContextSwitchTo(old);
		it->pieces[i].seq = int_column(row, desc, 1, (int) i + 1);
		it->pieces[i].tok_start = int_column(row, desc, 3, -1);
		it->pieces[i].tok_end = int_column(row, desc, 4, -1);
	}
	it->n_pieces = (int) SPI_processed;
	SPI_freetuptable(SPI_tuptable);
	pfree(DatumGetPointer(v[0]));
	pfree(it->look.input);
	it->look.input = NULL;
}

static ErrorData *
keep_error(JobItem *it, const ErrorData *e)
{
	MemoryContext old = MemoryContextSwitchTo(it->cxt);
	ErrorData  *copy = palloc0(sizeof(ErrorData));

	copy->elevel = ERROR;
	copy->sqlerrcode = e->sqlerrcode;
	copy->message = pstrdup(e->message ? e->message : "unknown error");
	copy->detail = e->detail ? pstrdup(e->detail) : NULL;
	copy->assoc_context = it->cxt;
	MemoryContextSwitchTo(old);
	return copy;
}

/*
 * Take the results of pieces that are cached, so that they need no request; return true if that is
 * all of them.
 */
static bool
find_kept(JobRun *j, JobItem *it, BatchPool *pool)
{
	int			known = 0;

	for (int i = 0; i < it->n_pieces && j->keeps; i++)
	{
		Piece	   *p = &it->pieces[i];

		if (job_call_request(j->call, p->text) == NULL)
			p->request = batch_request_known(pool, j->call->func, &j->call->request);
		known += p->request != NULL;
	}
	return known == it->n_pieces;
}

/* Set the item's state from what was read: there are requests to start, or something to write at once. */
static void
take_look(JobRun *j, JobItem *it, const Look *l, BatchPool *pool)
{
	ASSERT(it->state == ITEM_CLAIMED);
	/* what a read left that was cancelled */
	jobs_item_forget_requests(it);
	it->n_pieces = 0;
	it->look = *l;
	it->look.version = l->version ? MemoryContextStrdup(it->cxt, l->version) : NULL;
	it->error = l->error ? keep_error(it, l->error) : NULL;
	it->look.error = NULL;
	it->bytes = 0;
	if (it->look.input != NULL && it->error == NULL)
	{
		if (j->sql.chunks)
		{
			ErrorData  *e = jobs_attempt(chunk_step, j, it);

			if (e != NULL)
				it->error = keep_error(it, e);
		}
		else
			one_piece(it);
	}
	/* last, since a cancel leaves this function, and the item must be read again then */
	it->state = it->error == NULL && it->n_pieces > 0 && !find_kept(j, it, pool) ? ITEM_READY : ITEM_DONE;
	it->done_at = GetCurrentTimestamp();
	for (int i = 0; i < it->n_pieces; i++)
		it->bytes += strlen(it->pieces[i].text) + PIECE_BYTES;
	j->bytes += it->bytes;
}

void
jobs_read(JobRun *j, void *arg)
{
	JobItem   **items = palloc(sizeof(JobItem *) * j->n_items);
	Look	   *looks;
	int			n = 0;
	dlist_iter	it;
	JobRole		role;

	dlist_foreach(it, &j->items)
	{
		JobItem    *item = dlist_container(JobItem, node, it.cur);

		if (item->state != ITEM_CLAIMED || n == j->batch)
			continue;
		if (item->key == NULL)
			item->state = ITEM_DONE;
		else
			items[n++] = item;
	}
	looks = palloc(sizeof(Look) * Max(n, 1));
	jobs_as_owner(j, &role);
	jobs_look(j, items, n, looks, true);
	for (int i = 0; i < n; i++)
		if (looks[i].seen)
			take_look(j, items[i], &looks[i], arg);
	job_role_end(&role);
}

/* ---- back-fill ---- */

typedef struct BackfillState
{
	bool		missing;		/* only rows without a value */
	int			n_key;			/* 0: at the beginning */
	char	   *key[INDEX_MAX_KEYS];
} BackfillState;

/* Return false if no back-fill is running. */
static bool
read_backfill(JobRun *j, BackfillState *b)
{
	Oid			types[1] = {INT4OID};
	Datum		v[1] = {Int32GetDatum(j->def->id)};
	char	   *mode;
	Datum		key;
	bool		isnull;

	if (SPI_execute_with_args("SELECT backfill, backfill_key FROM vllm.job_stat WHERE job = $1 FOR UPDATE",
							  1, types, v, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read the back-fill's state");
	mode = SPI_processed == 1 ? SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1) : NULL;
	if (mode == NULL)
		return false;
	b->missing = strcmp(mode, "missing") == 0;
	b->n_key = 0;
	key = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2, &isnull);
	if (!isnull)
	{
		Datum	   *elems;

		deconstruct_array(DatumGetArrayTypeP(key), TEXTOID, -1, false, TYPALIGN_INT, &elems, NULL, &b->n_key);
		for (int i = 0; i < b->n_key && i < INDEX_MAX_KEYS; i++)
			b->key[i] = TextDatumGetCString(elems[i]);
	}
	return true;
}

static void
read_source_keys(JobRun *j, const BackfillState *b, int limit)
{
	Oid			types[INDEX_MAX_KEYS + 1] = {INT4OID};
	Datum		v[INDEX_MAX_KEYS + 1] = {Int32GetDatum(limit)};
	bool		first = b->n_key != j->n_key;

	for (int i = 0; i < b->n_key && !first; i++)
	{
		types[i + 1] = TEXTOID;
		v[i + 1] = CStringGetTextDatum(b->key[i]);
	}
	if (SPI_execute_with_args(first ? j->sql.backfill_first : j->sql.backfill_next, first ? 1 : j->n_key + 1,
							  types, v, NULL, true, limit) != SPI_OK_SELECT)
		elog(ERROR, "could not read the source");
}

static void
write_backfill(JobRun *j, Datum key, int rows, bool more)
{
	Oid			types[3] = {INT4OID, TEXTARRAYOID, INT4OID};
	Datum		v[3] = {Int32GetDatum(j->def->id), key, Int32GetDatum(rows)};
	char		nulls[3] = {' ', key ? ' ' : 'n', ' '};

	if (SPI_execute_with_args(more ?
							  "UPDATE vllm.job_stat SET backfill_key = $2, backfill_rows = backfill_rows + "
							  "$3 WHERE job = $1" :
							  "UPDATE vllm.job_stat SET backfill = NULL, backfill_key = NULL, backfill_rows "
							  "= backfill_rows + $3 WHERE job = $1", 3, types, v, nulls, false,
							  0) != SPI_OK_UPDATE)
		elog(ERROR, "could not store the back-fill's state");
}

/* Queue the next rows in the order of their keys. */
void
jobs_backfill(JobRun *j, void *arg)
{
	bool	   *more = arg;
	int			limit = Min(j->batch, j->most);
	BackfillState b;
	SPITupleTable *rows;
	int			n;
	JobRole		role;
	JobQueue   *queue;
	Datum		last = (Datum) 0;
	int			plans;
	int			format;

	prepare(j);
	*more = read_backfill(j, &b);
	if (!*more)
		return;
	jobs_as_owner(j, &role);
	plans = jobs_plan_by_index();
	read_source_keys(j, &b, limit);
	AtEOXact_GUC(false, plans);
	format = job_key_format();
	rows = SPI_tuptable;
	n = (int) SPI_processed;
	queue = job_queue_open(j->def->id);
	for (int i = 0; i < n; i++)
	{
		char	   *key[INDEX_MAX_KEYS];
		bool		isnull;
		bool		missing = DatumGetBool(SPI_getbinval(rows->vals[i], rows->tupdesc, j->n_key + 1,
														 &isnull));

		for (int k = 0; k < j->n_key; k++)
			key[k] = SPI_getvalue(rows->vals[i], rows->tupdesc, k + 1);
		if (missing || !b.missing)
			job_queue_add(queue, key, j->n_key, false);
		if (i == n - 1)
			last = job_key_datum(key, j->n_key);
	}
	(void) job_queue_close(queue);
	AtEOXact_GUC(false, format);
	job_role_end(&role);
	*more = n == limit;
	write_backfill(j, last, n, *more);
}
