/*
 * job_ddl.c
 *	  Jobs follow changes of tables: event triggers, and a hook for renamed columns.
 *
 *	event					action
 *	source dropped			the job is dropped
 *	partition created		it gets the job's triggers
 *	partition detached		it loses them
 *	partition dropped		its chunks are swept from the side table
 *	column renamed			input, key and target are rewritten (ProcessUtility_hook)
 *	owner changed			the job has no owner, and rests until the new owner resumes it: its
 *							expression was written by another role, so it is not read before
 *
 * Tables and constraints are identified by OID, so their names don't matter.
 *
 * STATEMENTS OF OTHER ROLES.  The event triggers run with statements of all roles.  So only the
 * relations of the statement are looked at, by indexes, and the triggers never wait for a lock that
 * the statement does not take itself: a table that another transaction has locked is left to the next
 * time.
 *
 * Tests: tests/sql/23_jobs_alter.sql.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
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
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "pg/jobs/job_launcher.h"
#include "pg/catalog/lora_catalog.h"
#include "pg/catalog/model_catalog.h"
#include "pg/compat.h"
#include "pg/jobs/job_new.h"
#include "pg/util/own_call.h"

PG_FUNCTION_INFO_V1(llm_job_ddl);

/* ---- triggers ---- */

static const struct
{
	const char *name;
	int16		event;
	bool		old_rows;
	bool		new_rows;
	bool		of_column;		/* created also for a job with a target column */
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

static char *
trigger_name(const JobDef *job, int event)
{
	return psprintf("vllm_job_%d_%s", job->id, job_events[event].name);
}

/* Return true if the trigger exists or the job needs none for the event. */
static bool
has_trigger(const JobDef *job, Oid relid, int event)
{
	return (!job_events[event].of_column && !OidIsValid(job->target_table)) ||
		OidIsValid(get_trigger_oid(relid, trigger_name(job, event), true));
}

static bool
has_triggers(const JobDef *job, Oid relid)
{
	for (int i = 0; i < (int) lengthof(job_events); i++)
		if (!has_trigger(job, relid, i))
			return false;
	return true;
}

/*
 * The triggers are not created by SQL statements: those would fire event triggers, whose functions
 * would run with the rights of the extension's owner and see a caller's temporary tables.
 */
void
job_create_triggers(const JobDef *job, Oid relid)
{
	char		kind = get_rel_relkind(relid);
	JobRole		role;
	Oid			function;

	if ((kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE) || has_triggers(job, relid) ||
		!ConditionalLockRelationOid(relid, ShareRowExclusiveLock) ||
		!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		return;
	job_role_internal(&role);
	function = LookupFuncName(list_make2(makeString("vllm"), makeString("job_changed")), 0, NULL, false);
	for (int i = 0; i < (int) lengthof(job_events); i++)
	{
		CreateTrigStmt *s = makeNode(CreateTrigStmt);

		if (has_trigger(job, relid, i))
			continue;
		s->trigname = trigger_name(job, i);
		s->args = list_make1(makeString(job->name));
		s->timing = TRIGGER_TYPE_AFTER;
		s->events = job_events[i].event;
		if (job_events[i].old_rows)
			s->transitionRels = transition(s->transitionRels, "old_rows", false);
		if (job_events[i].new_rows)
			s->transitionRels = transition(s->transitionRels, "new_rows", true);
		(void) CreateTrigger(s, NULL, relid, InvalidOid, InvalidOid, InvalidOid, function, InvalidOid, NULL,
							 false, false);
		CommandCounterIncrement();
	}
	job_role_end(&role);
}

/*
 * Return the name of a trigger's job, found by function and argument, whatever the trigger's name;
 * NULL if it is not a job's trigger.
 */
static char *
name_of_job(HeapTuple tuple, Relation pg_trigger, Oid function)
{
	Form_pg_trigger form = (Form_pg_trigger) GETSTRUCT(tuple);
	Datum		args;
	bool		isnull;

	if (form->tgfoid != function || form->tgisinternal || form->tgnargs != 1)
		return NULL;
	args = heap_getattr(tuple, Anum_pg_trigger_tgargs, RelationGetDescr(pg_trigger), &isnull);
	return isnull ? NULL : pstrdup(VARDATA_ANY(DatumGetByteaPP(args)));
}

typedef struct JobTrigger
{
	Oid			oid;
	char	   *name;
	char	   *job;
} JobTrigger;

static List *
triggers_of(Oid relid)
{
	Oid			function = LookupFuncName(list_make2(makeString("vllm"), makeString("job_changed")), 0, NULL,
										  false);
	Relation	rel = table_open(TriggerRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	List	   *triggers = NIL;

	ScanKeyInit(&key, Anum_pg_trigger_tgrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, TriggerRelidNameIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		char	   *job = name_of_job(tuple, rel, function);
		JobTrigger *t;

		if (job == NULL)
			continue;
		t = palloc(sizeof(JobTrigger));
		t->oid = ((Form_pg_trigger) GETSTRUCT(tuple))->oid;
		t->name = pstrdup(NameStr(((Form_pg_trigger) GETSTRUCT(tuple))->tgname));
		t->job = job;
		triggers = lappend(triggers, t);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return triggers;
}

List *
job_trigger_names(const JobDef *job, Oid relid)
{
	List	   *names = NIL;
	ListCell   *lc;

	foreach(lc, triggers_of(relid))
	{
		JobTrigger *t = lfirst(lc);

		if (strcmp(t->job, job->name) == 0)
			names = lappend(names, t->name);
	}
	return names;
}

/* Return the jobs of the tables that relid is a partition of. */
static List *
jobs_above(Oid relid)
{
	List	   *jobs = NIL;
	ListCell   *lc;

	if (get_rel_relispartition(relid))
		foreach(lc, get_partition_ancestors(relid))
			jobs = list_concat(jobs, job_list_of(lfirst_oid(lc)));
	return jobs;
}

static void
create_triggers(List *jobs, Oid relid)
{
	ListCell   *lc;

	foreach(lc, jobs)
		job_create_triggers(lfirst(lc), relid);
}

/* Queue sweeps of the jobs' side tables for chunks of deleted rows. */
static void
queue_sweeps(List *jobs)
{
	ListCell   *lc;

	foreach(lc, jobs)
	{
		const JobDef *job = lfirst(lc);
		JobQueue   *q;

		if (!OidIsValid(job->target_table))
			continue;
		q = job_queue_open(job->id);
		job_queue_add_truncate(q);
		(void) job_queue_close(q);
	}
}

/* Return the job triggers of a table that is not (any more) part of the job's source. */
static List *
stale_triggers(Oid relid)
{
	List	   *above = get_rel_relispartition(relid) ? get_partition_ancestors(relid) : NIL;
	List	   *stale = NIL;
	ListCell   *lc;

	foreach(lc, triggers_of(relid))
	{
		JobTrigger *t = lfirst(lc);
		JobDef	   *job = job_find(t->job);

		if (job != NULL && strcmp(job->name, t->job) == 0 && job->source != relid &&
			!list_member_oid(above, job->source))
			stale = lappend_oid(stale, t->oid);
	}
	return stale;
}

/*
 * Drop the job's triggers of a former partition; without SQL statements, like job_create_triggers().
 * If another transaction has locked the table, the triggers stay until the table is altered again;
 * they do nothing.
 */
static void
drop_stale_triggers(Oid relid)
{
	ListCell   *lc;

	if (stale_triggers(relid) == NIL || !ConditionalLockRelationOid(relid, AccessExclusiveLock))
		return;
	/* with the lock, the table can't be dropped any more */
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		return;
	foreach(lc, stale_triggers(relid))
	{
		ObjectAddress trigger;

		ObjectAddressSet(trigger, TriggerRelationId, lfirst_oid(lc));
		performDeletion(&trigger, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	}
}

/* ---- dropped objects ---- */

/* Drop the job with its source.  The worker removes rows that are added to the queue meanwhile. */
static void
drop_job(const JobDef *job)
{
	static const char *const statements[] = {
		"DELETE FROM vllm.job WHERE id = $1", "DELETE FROM vllm.job_queue WHERE job = $1",
		"DELETE FROM vllm.job_failure WHERE job = $1", "DELETE FROM vllm.job_stat WHERE job = $1"
	};
	Oid			types[1] = {INT4OID};
	Datum		v[1] = {Int32GetDatum(job->id)};

	for (int i = 0; i < (int) lengthof(statements); i++)
		if (SPI_execute_with_args(statements[i], 1, types, v, NULL, false, 0) != SPI_OK_DELETE)
			elog(ERROR, "could not remove the job of a dropped table");
}

/* Drop the triggers without SQL statements: the caller need not have any rights on the source. */
static void
drop_triggers_of(const JobDef *job)
{
	ListCell   *lc;
	ListCell   *t;

	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(job->source)))
		return;
	foreach(lc, find_all_inheritors(job->source, AccessExclusiveLock, NULL))
		foreach(t, triggers_of(lfirst_oid(lc)))
		{
			ObjectAddress trigger;

			if (strcmp(((JobTrigger *) lfirst(t))->job, job->name) != 0)
				continue;
			ObjectAddressSet(trigger, TriggerRelationId, ((JobTrigger *) lfirst(t))->oid);
			performDeletion(&trigger, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
		}
}

bool
job_drop_of_model(const char *name, const char *model)
{
	const JobDef *job = job_find(name);
	JobRole		role;

	if (job == NULL)
		return false;
	LockRelationOid(job->source, AccessExclusiveLock);
	job = job_find(name);
	if (job == NULL || strcmp(job->model, model) != 0)
		return false;
	SPI_connect();
	job_role_internal(&role);
	drop_triggers_of(job);
	drop_job(job);
	job_role_end(&role);
	SPI_finish();
	return true;
}

/*
 * A trigger that is being created names a model: lock its use, so that the model can't be dropped
 * before the trigger is visible.  A trigger that would not count as a use of the model
 * (model_depend.c) takes no lock: else any user could block the model's removal.
 */
static void
lock_model_of(const Node *statement)
{
	const CreateTrigStmt *s;
	const char *model;
	ListCell   *lc;

	if (IsA(statement, CreateSchemaStmt))
	{
		foreach(lc, ((const CreateSchemaStmt *) statement)->schemaElts)
			lock_model_of(lfirst(lc));
		return;
	}
	if (!IsA(statement, CreateTrigStmt))
		return;
	s = (const CreateTrigStmt *) statement;
	if (list_length(s->args) < 3 || strcmp(strVal(llast(s->funcname)), "llm_embed_trigger") != 0 ||
		LookupFuncName(s->funcname, 0, NULL, true) != own_function("llm_embed_trigger", InvalidOid))
		return;
	model = strVal(list_nth(s->args, 2));
	if (lora_or_model_may_use(model, job_relation_owner(RangeVarGetRelid(s->relation, NoLock, true))))
		catalog_lock_use(model);
}

/* Return the parent that a table had when the transaction began, or InvalidOid. */
static Oid
parent_before(Relation pg_inherits, Oid relid, Snapshot before)
{
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			parent = InvalidOid;

	ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(pg_inherits, InheritsRelidSeqnoIndexId, true, before, 1, &key);
	if (HeapTupleIsValid(tuple = systable_getnext(scan)))
		parent = ((Form_pg_inherits) GETSTRUCT(tuple))->inhparent;
	systable_endscan(scan);
	return parent;
}

/*
 * Return the jobs whose source had the dropped table as a partition.  The catalog does not show that
 * any more, so it is read as of the transaction's begin; a partition created since then has no
 * chunks.
 */
static List *
jobs_above_before(Oid relid)
{
	Relation	rel = table_open(InheritsRelationId, AccessShareLock);
	Snapshot	before = RegisterSnapshot(GetLatestSnapshot());
	List	   *jobs = NIL;

	before->curcid = FirstCommandId;
	while (OidIsValid(relid = parent_before(rel, relid, before)))
		jobs = list_concat(jobs, job_list_of(relid));
	UnregisterSnapshot(before);
	table_close(rel, AccessShareLock);
	return jobs;
}

/* Return the OIDs of relations from a function for event triggers. */
static List *
relations(const char *function)
{
	Oid			types[1] = {OIDOID};
	Datum		v[1] = {ObjectIdGetDatum(RelationRelationId)};
	List	   *oids = NIL;

	if (SPI_execute_with_args(psprintf("SELECT DISTINCT objid FROM pg_catalog.%s() WHERE classid = $1 AND "
									   "objsubid = 0", function),
							  1, types, v, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not look at what was done");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;

		oids = lappend_oid(oids,
						   DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1,
														  &isnull)));
	}
	return oids;
}

static void
after_drop(void)
{
	List	   *dropped = relations("pg_event_trigger_dropped_objects");
	ListCell   *lc;
	ListCell   *job;

	foreach(lc, dropped)
		foreach(job, job_list_of(lfirst_oid(lc)))
			drop_job(lfirst(job));
	foreach(lc, dropped)
		queue_sweeps(jobs_above_before(lfirst_oid(lc)));
}

/* ---- created and altered objects ---- */

/* A dump restores the triggers of existing partitions itself, so only ATTACH PARTITION creates them. */
static bool
attaches_partition(const Node *statement)
{
	ListCell   *lc;

	if (IsA(statement, AlterTableStmt))
		foreach(lc, ((const AlterTableStmt *) statement)->cmds)
			if (lfirst_node(AlterTableCmd, lc)->subtype == AT_AttachPartition)
				return true;
	return false;
}

/* Look the partition up as the statement did: with the caller's search_path. */
static Oid
detached_partition(const Node *statement)
{
	ListCell   *lc;

	if (IsA(statement, AlterTableStmt))
		foreach(lc, ((const AlterTableStmt *) statement)->cmds)
		{
			const AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

			if (cmd->subtype == AT_DetachPartition || cmd->subtype == AT_DetachPartitionFinalize)
				return RangeVarGetRelid(castNode(PartitionCmd, cmd->def)->name, NoLock, true);
		}
	return InvalidOid;
}

/*
 * Stop the jobs of one relation, or of all (InvalidOid), whose sources have new owners.  Jobs that
 * another transaction is changing are skipped: the worker checks owners, too.
 */
static void
follow_owners(Oid relid)
{
	Oid			types[1] = {OIDOID};
	Datum		v[1] = {ObjectIdGetDatum(relid)};

	if (SPI_execute_with_args(psprintf("UPDATE vllm.job SET owner = 0::oid, state = CASE state WHEN 'active' "
									   "THEN 'failed' ELSE state END, reason = 'the source has a new owner, "
									   "as whom the job will run: look at its input, then call "
									   "llm_resume_job()' WHERE id IN (SELECT j.id FROM vllm.job j JOIN "
									   "pg_catalog.pg_class c ON c.oid = j.source WHERE c.relowner <> "
									   "j.owner::oid AND (j.owner::oid <> 0 OR j.state = 'active')%s FOR "
									   "UPDATE OF j SKIP LOCKED)", OidIsValid(relid) ? " AND j.source = $1" :
									   ""),
							  OidIsValid(relid) ? 1 : 0, types, v, NULL, false, 0) != SPI_OK_UPDATE)
		elog(ERROR, "could not look at the owners of jobs");
}

void
job_follow_owners(void)
{
	JobRole		role;

	if (!job_installed() || !job_any())
		return;
	SPI_connect();
	job_role_internal(&role);
	follow_owners(InvalidOid);
	job_role_end(&role);
	SPI_finish();
}

static void
after_alter(Oid relid, bool attaches)
{
	List	   *jobs = job_list_of(relid);
	ListCell   *lc;

	if (jobs != NIL)
		follow_owners(relid);
	drop_stale_triggers(relid);
	if (!attaches || get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return;
	jobs = list_concat(jobs, jobs_above(relid));
	if (jobs == NIL)
		return;
	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
		if (lfirst_oid(lc) != relid)
			create_triggers(jobs, lfirst_oid(lc));
}

static void
after_ddl(const EventTriggerData *e, Oid detached)
{
	bool		create = strcmp(GetCommandTagName(e->tag), "ALTER TABLE") != 0;
	ListCell   *lc;
	ListCell   *p;

	foreach(lc, relations("pg_event_trigger_ddl_commands"))
	{
		Oid			relid = lfirst_oid(lc);

		if (create)
		{
			create_triggers(jobs_above(relid), relid);
			continue;
		}
		after_alter(relid, attaches_partition(e->parsetree));
		if (!OidIsValid(detached))
			continue;
		queue_sweeps(list_concat(job_list_of(relid), jobs_above(relid)));
		foreach(p, find_all_inheritors(detached, NoLock, NULL))
			drop_stale_triggers(lfirst_oid(p));
	}
}

/* ddl_command_end of tables, schemas with tables and triggers; sql_drop of anything */
Datum
llm_job_ddl(PG_FUNCTION_ARGS)
{
	EventTriggerData *e;
	JobRole		role;
	bool		drop;
	Oid			detached;

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
	/* the extension itself may be being created or dropped */
	if (!drop && job_installed())
		lock_model_of(e->parsetree);
	if (!job_installed() || !job_any())
		return (Datum) 0;
	jobs_wake_at_commit(true);
	/* only wake the worker, which waits for a job's triggers */
	if (strcmp(GetCommandTagName(e->tag), "CREATE TRIGGER") == 0)
		return (Datum) 0;
	detached = drop ? InvalidOid : detached_partition(e->parsetree);
	job_role_internal(&role);
	SPI_connect();
	if (drop)
		after_drop();
	else
		after_ddl(e, detached);
	SPI_finish();
	job_role_end(&role);
	return (Datum) 0;
}

/* ---- columns that are renamed ---- */

typedef struct Renamed
{
	JobDef	   *job;
	Node	   *input;			/* NULL: it can't be read, or must not be; the job's state is failed
								 * already */
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

	r->node = job_expression_read(r->rel, r->job->owner, r->job->input, &r->job->uses);
}

/*
 * An error in a job must not prevent its table from being altered.  The expression is read as the
 * owner of the job and its table.  If the table has another owner by now, the expression is not read
 * at all: that could run code of the former owner as the new one.
 */
static Node *
read_input(Relation rel, const JobDef *job)
{
	Reading		r = {.rel = rel,.job = job};

	if (rel->rd_rel->relowner != job->owner)
		return NULL;
	return job_attempt(read_step, &r) == NULL ? r.node : NULL;
}

/* Return the jobs that a RENAME COLUMN of relid affects, those of partitions and children included. */
static List *
jobs_of(Oid relid, LOCKMODE lockmode)
{
	List	   *jobs = NIL;
	ListCell   *lc;

	foreach(lc, find_all_inheritors(relid, lockmode, NULL))
		jobs = list_concat(jobs, job_list_of(lfirst_oid(lc)));
	return jobs;
}

/* Check the owner before the lock is taken, as PostgreSQL does. */
static void
check_owner(const RangeVar *relation, Oid relid, Oid old_relid, void *arg)
{
	if (OidIsValid(relid) && !compat_owns_relation(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)), relation->relname);
}

List *
job_rename_begin(RenameStmt *statement)
{
	List	   *renames = NIL;
	Oid			relid;
	ListCell   *lc;

	if (statement->renameType != OBJECT_COLUMN || statement->relation == NULL || !job_installed() ||
		!job_any())
		return NIL;
	relid = RangeVarGetRelid(statement->relation, NoLock, true);
	/* a user who may not rename the column gets PostgreSQL's error, and no lock */
	if (!OidIsValid(relid) || !compat_owns_relation(relid, GetUserId()) || jobs_of(relid, NoLock) == NIL)
		return NIL;
	/* take the statement's own lock: a job that is being altered is read after that */
	relid = RangeVarGetRelidExtended(statement->relation, AccessExclusiveLock, RVR_MISSING_OK, check_owner,
									 NULL);
	if (!OidIsValid(relid))
		return NIL;
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
		if (SPI_execute_with_args("UPDATE vllm.job SET input = $2, key_columns = $3, input_columns = $4, "
								  "target_column = $5::name WHERE id = $1", 5, types, v, nulls, false,
								  0) != SPI_OK_UPDATE)
			elog(ERROR, "could not rename a column of job \"%s\"", job->name);
		job_role_end(&role);
		SPI_finish();
		table_close(rel, NoLock);
	}
}
