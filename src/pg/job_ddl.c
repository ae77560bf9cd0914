/*
 * job_ddl.c
 *	  What becomes of jobs when tables change: event triggers, and columns that are renamed.
 *
 *	what happens			what is done
 *	source dropped			the job goes
 *	partition made			it gets the job's triggers
 *	partition detached		it loses them
 *	partition gone			its chunks are swept from the side table: the triggers that go
 *							with it tell
 *	column renamed			input, key and target are written anew (ProcessUtility_hook)
 *	owner changed			the job is the new owner's, and rests until he resumes it: its
 *							expression is not his
 *
 * Tables and constraints are known by OID, so that their names don't matter.
 *
 * Tests: tests/sql/23_jobs_alter.sql.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/event_trigger.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parse_func.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "bgworker/jobs.h"
#include "pg/compat.h"
#include "pg/job_new.h"

PG_FUNCTION_INFO_V1(llm_job_ddl);

/* Jobs go with their source. */
static void
drop_orphans(void)
{
	if (SPI_execute("DELETE FROM vllm.job j WHERE NOT EXISTS"
					" (SELECT 1 FROM pg_catalog.pg_class c WHERE c.oid = j.source)", false, 0) < 0 ||
		(SPI_processed > 0 &&
		 (SPI_execute("DELETE FROM vllm.job_queue q WHERE NOT EXISTS (SELECT 1 FROM vllm.job j WHERE j.id = q.job)", false, 0) < 0 ||
		  SPI_execute("DELETE FROM vllm.job_failure f WHERE NOT EXISTS (SELECT 1 FROM vllm.job j WHERE j.id = f.job)", false, 0) < 0 ||
		  SPI_execute("DELETE FROM vllm.job_stat s WHERE NOT EXISTS (SELECT 1 FROM vllm.job j WHERE j.id = s.job)", false, 0) < 0)))
		elog(ERROR, "could not remove jobs of dropped tables");
}

/* ---- triggers ---- */

static const struct
{
	const char *name;
	int16		event;
	bool		old_rows;
	bool		new_rows;
	bool		of_column;		/* has a job with a target column it, too? */
}			job_events[] = {
	{"insert", TRIGGER_TYPE_INSERT, false, true, true},
	{"update", TRIGGER_TYPE_UPDATE, true, true, true},
	{"delete", TRIGGER_TYPE_DELETE, true, false, false},
	{"truncate", TRIGGER_TYPE_TRUNCATE, false, false, false}
};

static List *
transition(List *rels, const char *name, bool is_new)
{
	TriggerTransition *t = makeNode(TriggerTransition);

	t->name = pstrdup(name);
	t->isNew = is_new;
	t->isTable = true;
	return lappend(rels, t);
}

/*
 * Not as statements: those would run event triggers, of which the functions would find
 * themselves with the rights of the extension's owner beside a caller's temporary tables.
 */
void
job_create_triggers(const JobDef *job, Oid relid)
{
	char		kind = get_rel_relkind(relid);
	JobRole		role;
	Oid			function;

	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		return;
	job_role_internal(&role);
	function = LookupFuncName(list_make2(makeString("vllm"), makeString("job_changed")), 0, NULL, false);
	for (int i = 0; i < (int) lengthof(job_events); i++)
	{
		CreateTrigStmt *s = makeNode(CreateTrigStmt);

		s->trigname = psprintf("vllm_job_%d_%s", job->id, job_events[i].name);
		if ((!job_events[i].of_column && !OidIsValid(job->target_table)) || OidIsValid(get_trigger_oid(relid, s->trigname, true)))
			continue;
		s->args = list_make1(makeString(job->name));
		s->timing = TRIGGER_TYPE_AFTER;
		s->events = job_events[i].event;
		if (job_events[i].old_rows)
			s->transitionRels = transition(s->transitionRels, "old_rows", false);
		if (job_events[i].new_rows)
			s->transitionRels = transition(s->transitionRels, "new_rows", true);
		(void) CreateTrigger(s, NULL, relid, InvalidOid, InvalidOid, InvalidOid, function, InvalidOid, NULL, false, false);
		CommandCounterIncrement();
	}
	job_role_end(&role);
}

/* Partitions that are new get the triggers that their source has. */
static void
add_partition_triggers(void)
{
	ListCell   *j;
	ListCell   *p;

	foreach(j, job_list())
	{
		const JobDef *job = lfirst(j);

		if (get_rel_relkind(job->source) != RELKIND_PARTITIONED_TABLE)
			continue;
		foreach(p, find_all_inheritors(job->source, NoLock, NULL))
			if (lfirst_oid(p) != job->source)
				job_create_triggers(job, lfirst_oid(p));
	}
}

/* The side table is looked through for rows that are gone. */
static void
queue_sweep(int32 job)
{
	JobQueue   *q = job_queue_open(job);

	job_queue_add_truncate(q);
	(void) job_queue_close(q);
}

/* A partition that is not one any more keeps no triggers of the job; without statements, as above. */
static void
drop_stale_triggers(void)
{
	SPITupleTable *rows;
	uint64		n;

	if (SPI_execute("SELECT t.oid, j.id, j.target_table IS NOT NULL AND t.tgname = 'vllm_job_' || j.id || '_delete'"
					" FROM vllm.job j JOIN pg_catalog.pg_trigger t ON t.tgname::text ~ ('^vllm_job_' || j.id || '_(insert|update|delete|truncate)$')"
					" WHERE t.tgfoid = 'vllm.job_changed'::regproc AND t.tgrelid <> j.source::oid"
					" AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_partition_tree(j.source) p WHERE p.relid = t.tgrelid)", false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not look for triggers of jobs");
	rows = SPI_tuptable;
	n = SPI_processed;
	for (uint64 i = 0; i < n; i++)
	{
		bool		isnull;
		ObjectAddress trigger;

		ObjectAddressSet(trigger, TriggerRelationId, DatumGetObjectId(SPI_getbinval(rows->vals[i], rows->tupdesc, 1, &isnull)));
		performDeletion(&trigger, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
		if (DatumGetBool(SPI_getbinval(rows->vals[i], rows->tupdesc, 3, &isnull)))
			queue_sweep(DatumGetInt32(SPI_getbinval(rows->vals[i], rows->tupdesc, 2, &isnull)));
	}
}

/* With its triggers a table has gone from a job's source: so have its rows. */
static void
queue_sweeps(void)
{
	SPITupleTable *rows;

	if (SPI_execute("SELECT DISTINCT j.id FROM vllm.job j JOIN pg_catalog.pg_event_trigger_dropped_objects() d"
					" ON d.object_type = 'trigger' AND d.address_names[pg_catalog.array_upper(d.address_names, 1)] = 'vllm_job_' || j.id || '_delete'"
					" WHERE j.target_table IS NOT NULL", false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not look at what was dropped");
	rows = SPI_tuptable;
	for (uint64 i = 0, n = SPI_processed; i < n; i++)
	{
		bool		isnull;

		queue_sweep(DatumGetInt32(SPI_getbinval(rows->vals[i], rows->tupdesc, 1, &isnull)));
	}
}

/* A dump has the triggers of partitions that were there: they come by themselves. */
static bool
makes_partition(const Node *statement)
{
	ListCell   *lc;

	if (IsA(statement, CreateStmt))
		return ((const CreateStmt *) statement)->partbound != NULL;
	if (IsA(statement, AlterTableStmt))
		foreach(lc, ((const AlterTableStmt *) statement)->cmds)
			if (lfirst_node(AlterTableCmd, lc)->subtype == AT_AttachPartition)
				return true;
	return false;
}

static void
follow_owners(void)
{
	if (SPI_execute("UPDATE vllm.job j SET owner = c.relowner, state = CASE j.state WHEN 'active' THEN 'failed' ELSE j.state END,"
					" reason = 'the source has a new owner, as whom the job will run: look at its input, then call llm_resume_job()'"
					" FROM pg_catalog.pg_class c WHERE c.oid = j.source AND c.relowner <> j.owner::oid", false, 0) != SPI_OK_UPDATE)
		elog(ERROR, "could not look at the owners of jobs");
}

void
job_follow_owners(void)
{
	JobRole		role;

	if (!job_installed() || job_list() == NIL)
		return;
	SPI_connect();
	job_role_internal(&role);
	follow_owners();
	job_role_end(&role);
	SPI_finish();
}

/* ddl_command_end of tables and triggers, sql_drop of anything */
Datum
llm_job_ddl(PG_FUNCTION_ARGS)
{
	EventTriggerData *e;
	JobRole		role;
	bool		drop;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" was not called by event trigger manager", "vllm.job_ddl")));
	e = (EventTriggerData *) fcinfo->context;
	drop = strcmp(e->event, "sql_drop") == 0;
	if (!drop && strcmp(e->event, "ddl_command_end") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" can't be an event trigger on %s", "vllm.job_ddl", e->event)));
	/* the extension itself may be on its way in or out */
	if (!job_installed() || job_list() == NIL)
		return (Datum) 0;
	jobs_wake_at_commit(true);
	/* the worker waits for a job's triggers */
	if (strcmp(GetCommandTagName(e->tag), "CREATE TRIGGER") == 0)
		return (Datum) 0;
	job_role_internal(&role);
	SPI_connect();
	if (drop)
	{
		queue_sweeps();
		drop_orphans();
	}
	else
	{
		if (makes_partition(e->parsetree))
			add_partition_triggers();
		drop_stale_triggers();
		follow_owners();
	}
	SPI_finish();
	job_role_end(&role);
	return (Datum) 0;
}

/* ---- columns that are renamed ---- */

typedef struct Renamed
{
	JobDef	   *job;
	Node	   *input;			/* NULL: it can't be read, the job has failed already */
} Renamed;

typedef struct Reading
{
	Relation	rel;
	const JobDef *job;
	Node	   *node;
} Reading;

static void
read_step(void *arg)
{
	Reading    *r = arg;

	r->node = job_expression_read(r->rel, r->job->owner, r->job->input);
}

/*
 * What is wrong with a job must not keep its table from being altered.  The expression is
 * the job's owner's: it is read as him, also when the table has another owner by now, who is
 * to look at it before the job goes on (follow_owners()).
 */
static Node *
read_input(Relation rel, const JobDef *job)
{
	Reading		r = {.rel = rel,.job = job};

	return job_attempt(read_step, &r) == NULL ? r.node : NULL;
}

/* Jobs whose columns a RENAME COLUMN of relid renames: of partitions and children, too. */
static List *
jobs_of(Oid relid, LOCKMODE lockmode)
{
	List	   *tables = find_all_inheritors(relid, lockmode, NULL);
	List	   *jobs = NIL;
	ListCell   *lc;

	foreach(lc, job_list())
		if (list_member_oid(tables, ((JobDef *) lfirst(lc))->source))
			jobs = lappend(jobs, lfirst(lc));
	return jobs;
}

List *
job_rename_begin(RenameStmt *statement)
{
	List	   *renames = NIL;
	Oid			relid;
	ListCell   *lc;

	if (statement->renameType != OBJECT_COLUMN || statement->relation == NULL || !job_installed())
		return NIL;
	relid = RangeVarGetRelid(statement->relation, NoLock, true);
	/* who may not rename gets PostgreSQL's error, and no lock */
	if (!OidIsValid(relid) || !compat_owns_relation(relid, GetUserId()) || jobs_of(relid, NoLock) == NIL)
		return NIL;
	/* the lock of the statement: a job that is being altered is read when that is done */
	LockRelationOid(relid, AccessExclusiveLock);
	foreach(lc, jobs_of(relid, AccessExclusiveLock))
	{
		JobDef	   *job = lfirst(lc);
		Renamed    *r = palloc0(sizeof(Renamed));
		Relation	rel = table_open(job->source, NoLock);

		r->job = job;
		r->input = read_input(rel, job);
		table_close(rel, NoLock);
		renames = lappend(renames, r);
	}
	return renames;
}

static List *
renamed(List *names, const RenameStmt *statement)
{
	ListCell   *lc;

	foreach(lc, names)
		if (strcmp(lfirst(lc), statement->subname) == 0)
			lfirst(lc) = statement->newname;
	return names;
}

void
job_rename_end(List *renames, RenameStmt *statement)
{
	ListCell   *lc;

	foreach(lc, renames)
	{
		Renamed    *r = lfirst(lc);
		JobDef	   *job = r->job;
		Relation	rel = table_open(job->source, AccessShareLock);
		Oid			types[5] = {INT4OID, TEXTOID, NAMEARRAYOID, NAMEARRAYOID, TEXTOID};
		char	   *target = job->target_column;
		Datum		v[5] = {Int32GetDatum(job->id)};
		char		nulls[5] = {' ', ' ', ' ', ' ', ' '};
		JobRole		role;

		v[1] = CStringGetTextDatum(r->input ? job_expression_write(rel, job->owner, r->input) : job->input);
		v[2] = job_names_datum(renamed(job->key, statement));
		v[3] = job_names_datum(renamed(job->inputs, statement));
		if (target && strcmp(target, statement->subname) == 0)
			target = statement->newname;
		nulls[4] = target ? ' ' : 'n';
		v[4] = target ? CStringGetTextDatum(target) : (Datum) 0;
		SPI_connect();
		job_role_internal(&role);
		if (SPI_execute_with_args("UPDATE vllm.job SET input = $2, key_columns = $3, input_columns = $4, target_column = $5::name WHERE id = $1",
								  5, types, v, nulls, false, 0) != SPI_OK_UPDATE)
			elog(ERROR, "could not rename a column of job \"%s\"", job->name);
		job_role_end(&role);
		SPI_finish();
		table_close(rel, NoLock);
	}
}
