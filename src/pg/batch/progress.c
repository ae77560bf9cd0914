/*
 * progress.c
 *	  Progress of statements with batched calls: the view llm_progress, and the
 *	  NOTICEs of vllm.progress_interval.
 *
 * Each backend has one entry, in shared memory, indexed by its procno.  It belongs to the outermost
 * pool that has requests: a statement inside a function does not disturb the counters of the calling
 * statement.  Only the backend writes it, without a lock.  `changes` is odd during a write (as in
 * pg_stat_activity); readers copy the entry until they have got a consistent copy.
 *
 * The end of the pool clears the entry, on every path (row_request.c), and so does the backend's
 * exit.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "commands/dbcommands.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/assert.h"
#include "pg/batch/batch.h"
#include "pg/batch/progress.h"
#include "pg/compat.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_progress_list);

typedef struct ProgressEntry
{
	int			changes;
	int			pid;			/* 0 = unused */
	Oid			dbid;
	Oid			roleid;
	TimestampTz started;
	int			in_flight;
	int64		rows;
	int64		requests;
	int64		deduplicated;
	int64		prompt_tokens;
	int64		output_tokens;
} ProgressEntry;

static ProgressEntry *entries = NULL;
static const BatchPool *owner = NULL;

/* ---- start-up ---- */

Size
batch_progress_shared_size(void)
{
	return mul_size(MaxBackends, sizeof(ProgressEntry));
}

void
batch_progress_shared_init(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	entries = ShmemInitStruct("vllm_pg progress", batch_progress_shared_size(), &found);
	if (!found)
		memset(entries, 0, batch_progress_shared_size());
	LWLockRelease(AddinShmemInitLock);
}

/* ---- writing ---- */

static inline ProgressEntry *
change_begin(void)
{
	ProgressEntry *e = &entries[compat_my_procno()];

	/* readers would take a half-written entry for a complete one */
	ASSERT((e->changes & 1) == 0);
	e->changes++;
	pg_write_barrier();
	return e;
}

static inline void
change_end(ProgressEntry *e)
{
	pg_write_barrier();
	e->changes++;
}

static void
clear_entry(void)
{
	ProgressEntry *e = change_begin();

	ASSERT(owner != NULL && e->pid == MyProcPid);
	e->pid = 0;
	change_end(e);
	owner = NULL;
}

static void
at_exit(int code, Datum arg)
{
	if (owner != NULL)
		clear_entry();
}

void
batch_progress_begin(const BatchPool *p)
{
	static bool registered = false;
	ProgressEntry *e;

	if (owner != NULL || entries == NULL || compat_my_procno() >= MaxBackends)
		return;
	if (!registered)
		before_shmem_exit(at_exit, (Datum) 0);
	registered = true;
	owner = p;
	e = change_begin();
	e->dbid = MyDatabaseId;
	e->roleid = GetUserId();
	e->started = GetCurrentTimestamp();
	e->rows = 0;
	e->in_flight = 0;
	e->requests = e->deduplicated = e->prompt_tokens = e->output_tokens = 0;
	e->pid = MyProcPid;
	change_end(e);
}

void
batch_progress_update(const BatchPool *p)
{
	const BatchStats *s;
	ProgressEntry *e;

	if (owner != p)
		return;
	s = batch_pool_stats(p);
	e = change_begin();
	e->in_flight = s->in_flight;
	e->requests = s->calls;
	e->deduplicated = s->deduplicated;
	e->prompt_tokens = s->prompt_tokens;
	e->output_tokens = s->output_tokens;
	change_end(e);
}

void
batch_progress_row(const BatchPool *p, int64 rows)
{
	ProgressEntry *e;

	if (owner != p)
		return;
	e = change_begin();
	e->rows = rows;
	e->deduplicated = batch_pool_stats(p)->deduplicated;
	change_end(e);
}

void
batch_progress_end(const BatchPool *p)
{
	if (owner == p)
		clear_entry();
}

void
batch_progress_notice(const BatchPool *p, int64 rows)
{
	const BatchStats *s = batch_pool_stats(p);

	ereport(NOTICE,
			(errmsg("LLM batch: " INT64_FORMAT " rows done, %d requests in flight, "
					INT64_FORMAT " output tokens",
					rows, s->in_flight, s->output_tokens)));
}

/* ---- reading ---- */

/* Copy an entry.  Return false if it is unused, or if no consistent copy could be read. */
static bool
read_entry(int i, ProgressEntry *copy)
{
	volatile ProgressEntry *e = &entries[i];

	for (int tries = 0; tries < 1000; tries++)
	{
		int			before = e->changes;

		if (e->pid == 0)
			return false;
		pg_read_barrier();
		memcpy(copy, (ProgressEntry *) e, sizeof(ProgressEntry));
		pg_read_barrier();
		if ((before & 1) == 0 && before == e->changes)
			return copy->pid != 0;
		CHECK_FOR_INTERRUPTS();
	}
	return false;
}

static void
emit_entry(const ProgressEntry *e, ReturnSetInfo *rsinfo)
{
	Datum		values[12];
	bool		nulls[12] = {0};
	double		seconds = (GetCurrentTimestamp() - e->started) / 1e6;
	char	   *database = get_database_name(e->dbid);
	char	   *role = GetUserNameFromId(e->roleid, true);

	values[0] = Int32GetDatum(e->pid);
	nulls[1] = database == NULL;
	values[1] = database ? CStringGetTextDatum(database) : (Datum) 0;
	values[2] = CStringGetTextDatum(role ? role : psprintf("%u", e->roleid));
	values[3] = TimestampTzGetDatum(e->started);
	values[4] = Int64GetDatum(e->rows);
	values[5] = Int32GetDatum(e->in_flight);
	values[6] = Int64GetDatum(e->requests);
	values[7] = Int64GetDatum(e->deduplicated);
	values[8] = Int64GetDatum(e->prompt_tokens);
	values[9] = Int64GetDatum(e->output_tokens);
	values[10] = Float8GetDatum(seconds > 0 ? e->rows / seconds : 0);
	/* rate of generated tokens, or of prompt tokens if the calls generate none */
		values[11] = Float8GetDatum(seconds > 0
									? (e->output_tokens > 0 ? e->output_tokens : e->prompt_tokens) / seconds :
									0);
	if (rsinfo->setDesc->natts != lengthof(values))
		elog(ERROR, "row has %d columns, expected %d", (int) lengthof(values), rsinfo->setDesc->natts);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

Datum
llm_progress_list(PG_FUNCTION_ARGS)
{
	bool		all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	ProgressEntry e;

	InitMaterializedSRF(fcinfo, 0);
	if (entries == NULL)
		return (Datum) 0;
	for (int i = 0; i < MaxBackends; i++)
		if (read_entry(i, &e) && (all || has_privs_of_role(GetUserId(), e.roleid)))
			emit_entry(&e, (ReturnSetInfo *) fcinfo->resultinfo);
	return (Datum) 0;
}
