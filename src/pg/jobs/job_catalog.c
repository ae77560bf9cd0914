/*
 * job_catalog.c
 *	  The table vllm.job, and the switches to other roles.
 *
 * Users see jobs through views and change them through functions.  The code here and in
 * job_functions.c reads and writes the tables with the rights of their owner, and only by its own
 * statements.  Code that belongs to users (expressions, triggers and types of the source) never runs
 * with those rights: job_role_begin().
 *
 * Tests: tests/sql/23_jobs.sql, tests/t/060_jobs.pl.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/rls.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "pg/catalog/model_catalog.h"
#include "pg/jobs/job.h"

/* bytes that are kept of each text of an error, as code of a job's owner may make texts of any length */
#define ERROR_TEXT	2048

static Oid
find_relation(const char *name)
{
	return catalog_own_relation(name);
}

Oid
job_relation(const char *name)
{
	Oid			relid = find_relation(name);

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"vllm_pg\" of this database has no jobs"),
				 errhint("Use ALTER EXTENSION vllm_pg UPDATE.")));
	return relid;
}

bool
job_installed(void)
{
	return OidIsValid(find_relation("job")) && OidIsValid(find_relation("job_stat"));
}

char *
job_extension_schema(void)
{
	Oid			extension = get_extension_oid("vllm_pg", false);
	Relation	rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	char	   *schema = NULL;

	ScanKeyInit(&key, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(extension));
	scan = systable_beginscan(rel, ExtensionOidIndexId, true, NULL, 1, &key);
	if (HeapTupleIsValid(tuple = systable_getnext(scan)))
		schema = get_namespace_name(((Form_pg_extension) GETSTRUCT(tuple))->extnamespace);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	if (schema == NULL)
		elog(ERROR, "extension vllm_pg has no schema");
	return schema;
}

/* ---- rows ---- */

static List *
name_list(Datum array)
{
	Datum	   *elems;
	int			n;
	List	   *names = NIL;

	deconstruct_array(DatumGetArrayTypeP(array), NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR,
					  &elems, NULL, &n);
	for (int i = 0; i < n; i++)
		names = lappend(names, pstrdup(NameStr(*DatumGetName(elems[i]))));
	return names;
}

static JobDef *
job_from_tuple(HeapTuple tuple, TupleDesc desc)
{
	Datum		v[JOB_COLS];
	bool		null[JOB_COLS];
	JobDef	   *j = palloc0(sizeof(JobDef));

	/* an extension that has not been updated has no column uses */
	null[JOB_USES - 1] = true;
	if (desc->natts != JOB_COLS && desc->natts != JOB_USES - 1)
		elog(ERROR, "vllm.job has %d columns, expected %d", desc->natts, JOB_COLS);
	heap_deform_tuple(tuple, desc, v, null);
	j->id = DatumGetInt32(v[JOB_ID - 1]);
	j->name = pstrdup(NameStr(*DatumGetName(v[JOB_NAME - 1])));
	j->kind = TextDatumGetCString(v[JOB_KIND - 1]);
	j->owner = DatumGetObjectId(v[JOB_OWNER - 1]);
	j->source = DatumGetObjectId(v[JOB_SOURCE - 1]);
	j->key = name_list(v[JOB_KEY_COLUMNS - 1]);
	j->inputs = name_list(v[JOB_INPUT_COLUMNS - 1]);
	j->input = TextDatumGetCString(v[JOB_INPUT - 1]);
	if (!null[JOB_TARGET_COLUMN - 1])
		j->target_column = pstrdup(NameStr(*DatumGetName(v[JOB_TARGET_COLUMN - 1])));
	if (!null[JOB_TARGET_TABLE - 1])
		j->target_table = DatumGetObjectId(v[JOB_TARGET_TABLE - 1]);
	j->model = TextDatumGetCString(v[JOB_MODEL - 1]);
	j->function = TextDatumGetCString(v[JOB_FUNCTION - 1]);
	j->arguments = TextDatumGetCString(v[JOB_ARGUMENTS - 1]);
	j->chunking = TextDatumGetCString(v[JOB_CHUNKING - 1]);
	j->chunk_size = null[JOB_CHUNK_SIZE - 1] ? 0 : DatumGetInt32(v[JOB_CHUNK_SIZE - 1]);
	j->chunk_overlap = null[JOB_CHUNK_OVERLAP - 1] ? -1 : DatumGetInt32(v[JOB_CHUNK_OVERLAP - 1]);
	j->max_attempts = DatumGetInt32(v[JOB_MAX_ATTEMPTS - 1]);
	j->priority = DatumGetInt32(v[JOB_PRIORITY - 1]);
	j->batch_size = null[JOB_BATCH_SIZE - 1] ? 0 : DatumGetInt32(v[JOB_BATCH_SIZE - 1]);
	if (!null[JOB_SCHEDULE - 1])
		j->schedule = TextDatumGetCString(v[JOB_SCHEDULE - 1]);
	j->state = TextDatumGetCString(v[JOB_STATE - 1]);
	if (!null[JOB_REASON - 1])
		j->reason = TextDatumGetCString(v[JOB_REASON - 1]);
	j->uses = job_uses_read(v[JOB_USES - 1], null[JOB_USES - 1]);
	return j;
}

JobDef *
job_find(const char *name)
{
	Relation	rel = table_open(job_relation("job"), AccessShareLock);
	NameData	key_name;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	JobDef	   *j = NULL;

	namestrcpy(&key_name, name);
	ScanKeyInit(&key, JOB_NAME, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(&key_name));
	scan = systable_beginscan(rel, job_relation("job_name_key"), true, NULL, 1, &key);
	if (HeapTupleIsValid(tuple = systable_getnext(scan)))
		j = job_from_tuple(tuple, RelationGetDescr(rel));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return j;
}

bool
job_schedule(const char *schedule, int *from, int *until)
{
	int			v[4];
	int			n = 0;

	if (sscanf(schedule, "%2d:%2d-%2d:%2d%n", &v[0], &v[1], &v[2], &v[3], &n) != 4 || schedule[n] != '\0' ||
		strspn(schedule, "0123456789:-") != strlen(schedule) ||
		v[0] < 0 || v[0] > 23 || v[1] < 0 || v[1] > 59 || v[2] < 0 || v[2] > 24 || v[3] < 0 || v[3] > 59)
		return false;
	*from = v[0] * 60 + v[1];
	*until = v[2] * 60 + v[3];
	return *from != *until && *until <= 24 * 60;
}

bool
job_is_time(const JobDef *def)
{
	int			from;
	int			until;
	int			now;
	int			tz;
	struct pg_tm tm;
	fsec_t		fsec;

	if (def->schedule == NULL || !job_schedule(def->schedule, &from, &until) ||
		timestamp2tm(GetCurrentTimestamp(), &tz, &tm, &fsec, NULL, NULL) != 0)
		return true;
	now = tm.tm_hour * 60 + tm.tm_min;
	return from < until ? now >= from && now < until : now >= from || now < until;
}

static int
by_id(const ListCell *a, const ListCell *b)
{
	int32		x = ((JobDef *) lfirst(a))->id;
	int32		y = ((JobDef *) lfirst(b))->id;

	return x < y ? -1 : x > y;
}

bool
job_any(void)
{
	Relation	rel = table_open(job_relation("job"), AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	bool		any = HeapTupleIsValid(systable_getnext(scan));

	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return any;
}

List *
job_list_of(Oid source)
{
	Relation	rel = table_open(job_relation("job"), AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	List	   *jobs = NIL;

	ScanKeyInit(&key, JOB_SOURCE, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(source));
	scan = systable_beginscan(rel, job_relation("job_source_target_column_key"), true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		jobs = lappend(jobs, job_from_tuple(tuple, RelationGetDescr(rel)));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return jobs;
}

List *
job_list(void)
{
	Relation	rel = table_open(job_relation("job"), AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;
	List	   *jobs = NIL;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		jobs = lappend(jobs, job_from_tuple(tuple, RelationGetDescr(rel)));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	list_sort(jobs, by_id);
	return jobs;
}

size_t
job_size_of_others(Oid owner, int32 id)
{
	Relation	rel = table_open(job_relation("job"), AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;
	size_t		size = 0;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Datum		v[JOB_COLS];
		bool		null[JOB_COLS];

		heap_deform_tuple(tuple, RelationGetDescr(rel), v, null);
		/* a job without an owner counts for the source's owner */
		if (DatumGetInt32(v[JOB_ID - 1]) != id &&
			job_relation_owner(DatumGetObjectId(v[JOB_SOURCE - 1])) == owner)
			size += toast_raw_datum_size(v[JOB_INPUT - 1]) + toast_raw_datum_size(v[JOB_ARGUMENTS - 1]);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return size;
}

/* ---- roles ---- */

#define OWNER_CONTEXT	(SECURITY_RESTRICTED_OPERATION | SECURITY_LOCAL_USERID_CHANGE | JOB_SECURITY_CONTEXT)

/*
 * The owner of the job in whose context the code runs.  Within a nested job context it is the outer
 * job's owner, also after an error in the nested one.
 */
static Oid	running_for = InvalidOid;

static void
be(JobRole *r, Oid user, int sec_context)
{
	GetUserIdAndSecContext(&r->user, &r->sec_context);
	if ((sec_context & ~r->sec_context & JOB_SECURITY_CONTEXT) != 0)
		running_for = user;
	r->guc_level = NewGUCNestLevel();
	SetUserIdAndSecContext(user, r->sec_context | sec_context);
	/* names are compared as texts (job_uses.c) */
	(void) set_config_option("quote_all_identifiers", "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

static void
job_role_begin(JobRole *r, Oid user, int sec_context)
{
	be(r, user, sec_context);
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

void
job_role_owner(JobRole *r, Oid owner)
{
	job_role_begin(r, owner, OWNER_CONTEXT);
}

void
job_role_owner_here(JobRole *r, Oid owner)
{
	be(r, owner, OWNER_CONTEXT);
}

void
job_role_end(const JobRole *r)
{
	AtEOXact_GUC(false, r->guc_level);
	SetUserIdAndSecContext(r->user, r->sec_context);
}

Oid
job_running_for(void)
{
	return running_for;
}

void
job_role_internal(JobRole *r)
{
	Relation	rel = table_open(job_relation("job"), AccessShareLock);
	Oid			owner = rel->rd_rel->relowner;

	table_close(rel, AccessShareLock);
	job_role_begin(r, owner, SECURITY_LOCAL_USERID_CHANGE);
}

Oid
job_relation_owner(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
		ReleaseSysCache(tuple);
	}
	return owner;
}

void
job_refuse_rls(Oid relid, Oid owner)
{
	if (check_enable_rls(relid, owner, true) != RLS_ENABLED)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("row-level security of relation \"%s\" applies to its owner, as whom the job runs",
					get_rel_name(relid)),
			 errdetail("The job would treat rows that a policy hides as deleted."),
			 errhint("Use ALTER TABLE ... NO FORCE ROW LEVEL SECURITY, or give the owner BYPASSRLS.")));
}

/* Truncate a text that was allocated in the current context. */
static void
cut_text(char **text)
{
	char	   *whole = *text;
	size_t		n = whole != NULL ? strlen(whole) : 0;

	if (n <= ERROR_TEXT)
		return;
	*text = pnstrdup(whole, pg_mbcliplen(whole, (int) n, ERROR_TEXT));
	pfree(whole);
}

void
job_cut_error(ErrorData *e)
{
	char	  **texts[] = {&e->message, &e->detail, &e->detail_log, &e->hint, &e->context, &e->internalquery,
						   &e->schema_name, &e->table_name, &e->column_name, &e->datatype_name,
						   &e->constraint_name};

	for (int i = 0; i < (int) lengthof(texts); i++)
		cut_text(texts[i]);
}

ErrorData *
job_attempt(void (*step) (void *arg), void *arg)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile err = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		step(arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		err = CopyErrorData();
		FlushErrorState();
		job_cut_error(err);
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	if (err != NULL && err->sqlerrcode == ERRCODE_QUERY_CANCELED)
		ReThrowError(err);
	return err;
}
