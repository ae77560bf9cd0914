/*
 * job_functions.c
 *	  llm_create_embedding_job, llm_create_completion_job, llm_alter_job, llm_drop_job,
 *	  llm_pause_job, llm_resume_job, llm_retry_job, llm_backfill_job.
 *
 * The creator of a job must have the rights of the source table's owner and may use the model; the
 * job runs with the rights of the table's owner.  If the table gets another owner, no part of the job
 * is read or run until that owner, or a superuser, calls llm_resume_job() or gives llm_alter_job()
 * something to compute.  The side table is created by a statement that runs as the caller, so that
 * PostgreSQL's own checks apply.  The job's rows are written, and its triggers created, with the
 * rights of the extension's owner.
 *
 * All errors in a job's definition are found here, not by the worker (job_check.c).
 *
 * Tests: tests/sql/23_jobs.sql.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "executor/spi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "pg/catalog/model_catalog.h"
#include "pg/catalog/model_kind.h"
#include "pg/compat.h"
#include "pg/jobs/job_new.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_create_embedding_job);
PG_FUNCTION_INFO_V1(llm_create_completion_job);
PG_FUNCTION_INFO_V1(llm_alter_job);
PG_FUNCTION_INFO_V1(llm_drop_job);
PG_FUNCTION_INFO_V1(llm_pause_job);
PG_FUNCTION_INFO_V1(llm_resume_job);
PG_FUNCTION_INFO_V1(llm_retry_job);
PG_FUNCTION_INFO_V1(llm_backfill_job);

static char *
text_arg(FunctionCallInfo fcinfo, int arg)
{
	return PG_ARGISNULL(arg) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(arg));
}

static char *
name_arg(FunctionCallInfo fcinfo, int arg)
{
	return PG_ARGISNULL(arg) ? NULL : pstrdup(NameStr(*PG_GETARG_NAME(arg)));
}

/* Return the argument, at least `least`; or `missing` if it is NULL. */
static int
positive_arg(FunctionCallInfo fcinfo, int arg, const char *name, int least, int missing)
{
	if (PG_ARGISNULL(arg))
		return missing;
	if (PG_GETARG_INT32(arg) < least)
		job_bad_value(name, psprintf("%d", PG_GETARG_INT32(arg)), psprintf("It must be at least %d.", least));
	return PG_GETARG_INT32(arg);
}

/* ---- the call ---- */

static void
set_int_argument(NewJob *n, FunctionCallInfo fcinfo, const char *name, int arg)
{
	if (!PG_ARGISNULL(arg))
		job_set_argument(n, name, psprintf("%d", PG_GETARG_INT32(arg)));
}

static void
set_text_argument(NewJob *n, FunctionCallInfo fcinfo, const char *name, int arg)
{
	if (!PG_ARGISNULL(arg))
		job_set_argument(n, name, text_arg(fcinfo, arg));
}

/* Set an argument that only some functions have. */
static void
set_own_argument(NewJob *n, FunctionCallInfo fcinfo, const char *name, int arg, bool is_int)
{
	if (PG_ARGISNULL(arg))
		return;
	if (!job_has_argument(n, name))
		job_bad_value(name, is_int ? psprintf("%d", PG_GETARG_INT32(arg)) : text_arg(fcinfo, arg),
					  psprintf("It is no parameter of %s().", n->def.function));
	if (is_int)
		set_int_argument(n, fcinfo, name, arg);
	else
		set_text_argument(n, fcinfo, name, arg);
}

/* options json: further arguments of the function by name; null removes one */
static void
set_options(NewJob *n, FunctionCallInfo fcinfo, int arg)
{
	Oid			types[1] = {JSONOID};
	Datum		values[1];
	SPITupleTable *rows;

	if (PG_ARGISNULL(arg))
		return;
	values[0] = PG_GETARG_DATUM(arg);
	if (SPI_execute_with_args("SELECT key, value FROM pg_catalog.json_each_text($1)", 1, types, values, NULL,
							  true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read options");
	rows = SPI_tuptable;
	for (uint64 i = 0, count = SPI_processed; i < count; i++)
		job_set_option(n, SPI_getvalue(rows->vals[i], rows->tupdesc, 1),
					   SPI_getvalue(rows->vals[i], rows->tupdesc, 2));
}

/*
 * NULL: the current default.  The job stores the name, so its calls name the model explicitly; the
 * check that the model is made for embedding is done here.
 */
static void
set_model(NewJob *n, FunctionCallInfo fcinfo, int arg)
{
	bool		embeds = strcmp(n->def.kind, "embedding") == 0;
	bool		by_default;
	ModelRow   *m;

	m = catalog_for_use_as(embeds ? USE_EMBED : USE_ANY, text_arg(fcinfo, arg), NULL, &by_default);
	if (by_default && model_only_generates(m))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the default model generates text and was not made to embed texts"),
				 errdetail("The default model is \"%s\".", m->name),
				 errhint("Name an embedding model in the setting vllm.embedding_model or in the call. A "
						 "model that is named is used, whatever it was made for.")));
	n->def.model = pstrdup(catalog_called(m));
	/*
	 * the model may have been dropped before the lock; after it, the model can't be dropped until the
	 * job is visible
	 */
	catalog_lock_use(n->def.model);
	(void) catalog_model_for_use(n->def.model);
	job_set_argument(n, "model", n->def.model);
}

/* ---- rows of the job ---- */


/* Return false if the id is taken: a member of pg_write_all_data may set the sequence back. */
static bool
try_insert_job(const NewJob *n)
{
	const JobDef *j = &n->def;
	JobRole		role;
	Oid			types[] = {INT4OID, NAMEOID, TEXTOID, OIDOID, OIDOID, NAMEARRAYOID, NAMEARRAYOID, TEXTOID,
						   NAMEOID, OIDOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT4OID, INT4OID, INT4OID,
						   TEXTOID};
	Datum		v[lengthof(types)];
	char		nulls[lengthof(types)];
	NameData	name;
	NameData	column;
	bool		done;

	memset(nulls, ' ', sizeof(nulls));
	namestrcpy(&name, j->name);
	namestrcpy(&column, j->target_column ? j->target_column : "");
	v[0] = Int32GetDatum(j->id);
	v[1] = NameGetDatum(&name);
	v[2] = CStringGetTextDatum(j->kind);
	v[3] = ObjectIdGetDatum(j->owner);
	v[4] = ObjectIdGetDatum(j->source);
	v[5] = job_names_datum(j->key);
	v[6] = job_names_datum(j->inputs);
	v[7] = CStringGetTextDatum(j->input);
	v[8] = NameGetDatum(&column);
	nulls[8] = j->target_column ? ' ' : 'n';
	v[9] = ObjectIdGetDatum(j->target_table);
	nulls[9] = OidIsValid(j->target_table) ? ' ' : 'n';
	v[10] = CStringGetTextDatum(j->model);
	v[11] = CStringGetTextDatum(j->function);
	v[12] = CStringGetTextDatum(job_arguments_text(n));
	v[13] = CStringGetTextDatum(j->chunking);
	v[14] = Int32GetDatum(j->chunk_size);
	nulls[14] = j->chunk_size > 0 ? ' ' : 'n';
	v[15] = Int32GetDatum(j->chunk_overlap);
	nulls[15] = j->chunk_overlap >= 0 ? ' ' : 'n';
	v[16] = Int32GetDatum(j->max_attempts);
	v[17] = CStringGetTextDatum(n->backfill);
	nulls[17] = strcmp(n->backfill, "none") == 0 ? 'n' : ' ';
	job_role_internal(&role);
	if (SPI_execute_with_args("INSERT INTO vllm.job VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, "
							  "$12, $13, $14, $15, $16, $17, 0, NULL, NULL, 'active', NULL, "
							  "pg_catalog.clock_timestamp()) ON CONFLICT (id) DO NOTHING", 17, types, v,
							  nulls, false, 0) != SPI_OK_INSERT)
		elog(ERROR, "could not store the job");
	done = SPI_processed == 1;
	if (done && SPI_execute_with_args("INSERT INTO vllm.job_stat (job, backfill) SELECT $1, $18",
									  18, types, v, nulls, false, 0) != SPI_OK_INSERT)
		elog(ERROR, "could not store the job");
	job_role_end(&role);
	return done;
}

static void
insert_job(NewJob *n)
{
	do
	{
		CHECK_FOR_INTERRUPTS();
		n->def.id = (int32) nextval_internal(job_relation("job_id_seq"), false);
	} while (!try_insert_job(n));
}

/* As in PostgreSQL, the TRIGGER privilege on a table allows creating triggers. */
static void
create_triggers(const NewJob *n)
{
	List	   *tables = find_all_inheritors(n->def.source, ShareRowExclusiveLock, NULL);
	ListCell   *lc;

	foreach(lc, tables)
	{
		Oid			relid = lfirst_oid(lc);
		char		kind = get_rel_relkind(relid);
		AclResult	acl = pg_class_aclcheck(relid, GetUserId(), ACL_TRIGGER);

		if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
			job_refuse_source(n->source, "One of its partitions is a foreign table.", NULL);
		if (acl != ACLCHECK_OK)
			aclcheck_error(acl, OBJECT_TABLE, get_rel_name(relid));
		job_create_triggers(&n->def, relid);
	}
}

/* ---- create ---- */

static void
open_source(NewJob *n, FunctionCallInfo fcinfo, const char *function)
{
	PreventCommandDuringRecovery(function);
	PreventCommandIfReadOnly(function);
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("source must not be null")));
	n->def.source = PG_GETARG_OID(0);
	n->def.chunk_overlap = -1;
	/* not try_table_open(): its errors for an index or a type differ between versions of PostgreSQL */
	n->source = try_relation_open(n->def.source, AccessShareLock);
	if (n->source == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", n->def.source)));
	job_check_source(n->source);
	/*
	 * code that the owner puts on the table (triggers, generated columns) runs with the job, so the
	 * job runs as that owner
	 */
	n->def.owner = n->source->rd_rel->relowner;
	job_set_key(n);
}

static void
set_input(NewJob *n, const char *input, const char *template, List *columns)
{
	if ((input != NULL) + (template != NULL) + (columns != NIL) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a job needs one of input, template%s", strcmp(n->def.kind, "embedding") == 0
						? " and columns" : ""),
				 errhint("input is an SQL expression over the columns of the source, template a text with "
						 "{column} in it.")));
	if (template)
		input = job_template_expression(template);
	else if (columns)
		input = job_columns_expression(columns);
	n->def.input = (template || columns ? job_expression_built : job_expression) (n->source, n->def.owner,
			input,
																				  &n->def.inputs,
																				  &n->def.uses);
}

static void
set_common(NewJob *n, FunctionCallInfo fcinfo, int name, int backfill, int max_attempts)
{
	const char *source = RelationGetRelationName(n->source);

	n->def.name = name_arg(fcinfo, name);
	if (n->def.name == NULL)
		n->def.name = psprintf("%.*s_%s",
							   pg_mbcliplen(source, (int) strlen(source), NAMEDATALEN - 12), source,
							   n->def.kind);
	if (n->def.name[0] == '\0')
		job_bad_value("name", "", "Give the job a name, or leave it out.");
	if (job_find(n->def.name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("job \"%s\" already exists", n->def.name),
				 errhint("Give another name => '...'.")));
	n->backfill = PG_ARGISNULL(backfill) ? "missing" : text_arg(fcinfo, backfill);
	if (strcmp(n->backfill, "missing") != 0 && strcmp(n->backfill, "all") != 0 &&
		strcmp(n->backfill, "none") != 0)
		job_bad_value("backfill", n->backfill, "Valid values are missing, all and none.");
	n->def.max_attempts = positive_arg(fcinfo, max_attempts, "max_attempts", 1, 5);
}

/*
 * Return the type of the call's result.  Its arguments are values of the extension's types, but the
 * function is found by name.
 */
static Oid
call_type(const NewJob *n)
{
	JobRole		role;
	Oid			type;

	job_role_owner(&role, n->def.owner);
	type = job_call_make(n->def.function, job_arguments_text(n))->rettype;
	job_role_end(&role);
	return type;
}

/* Do the rest once the arguments are known; return the job's name, in the caller's memory. */
static Datum
create_job(NewJob *n)
{
	Oid			type;
	NameData   *result = SPI_palloc(sizeof(NameData));

	if ((n->def.target_column != NULL) + (n->target_table != NULL) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a job needs a target"),
				 errhint(strcmp(n->def.kind, "embedding") == 0 ?
						 "Give one of target_column => '...', a column of the source, and target_table => "
						 "'...'." : "Give target_column => '...', a column of the source.")));
	type = call_type(n);
	if (n->def.target_column)
		job_check_target_column(n, type);
	else
		job_set_side_table(n, type);
	job_check_chunking(n);
	job_try(n);
	/*
	 * the lock of CREATE TRIGGER: current writers commit before the back-fill reads; it is taken
	 * late, so that no writer waits while the model is tried
	 */
	LockRelationOid(n->def.source, ShareRowExclusiveLock);
	insert_job(n);
	job_uses_store(&n->def);
	create_triggers(n);
	relation_close(n->source, NoLock);
	namestrcpy(result, n->def.name);
	return NameGetDatum(result);
}

static List *
columns_arg(FunctionCallInfo fcinfo, int arg)
{
	Datum	   *elems;
	bool	   *nulls;
	int			count;
	List	   *names = NIL;

	if (PG_ARGISNULL(arg))
		return NIL;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(arg), NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &elems, &nulls,
					  &count);
	for (int i = 0; i < count; i++)
		if (!nulls[i])
			names = lappend(names, pstrdup(NameStr(*DatumGetName(elems[i]))));
	return names;
}

/* (source, input, target_column, target_table, model, chunking, chunk_size, overlap,
 * dimensions, instruction, prompt_name, options, columns, template, name, backfill,
 * max_attempts) */
Datum
llm_create_embedding_job(PG_FUNCTION_ARGS)
{
	NewJob		n = {0};
	Datum		name;

	SPI_connect();
	n.def.kind = "embedding";
	n.def.function = "llm_embed";
	open_source(&n, fcinfo, "llm_create_embedding_job()");
	set_input(&n, text_arg(fcinfo, 1), text_arg(fcinfo, 13), columns_arg(fcinfo, 12));
	n.def.target_column = name_arg(fcinfo, 2);
	n.target_table = text_arg(fcinfo, 3);
	set_model(&n, fcinfo, 4);
	n.def.chunking = PG_ARGISNULL(5) ? "none" : text_arg(fcinfo, 5);
	n.def.chunk_size = positive_arg(fcinfo, 6, "chunk_size", 1, 0);
	n.def.chunk_overlap = positive_arg(fcinfo, 7, "overlap", 0, -1);
	set_int_argument(&n, fcinfo, "dimensions", 8);
	set_text_argument(&n, fcinfo, "instruction", 9);
	set_text_argument(&n, fcinfo, "prompt_name", 10);
	set_options(&n, fcinfo, 11);
	set_common(&n, fcinfo, 14, 15, 16);
	name = create_job(&n);
	SPI_finish();
	PG_RETURN_DATUM(name);
}

/* (source, template, target_column, max_tokens, model, options, input, name, backfill,
 * max_attempts) */
Datum
llm_create_completion_job(PG_FUNCTION_ARGS)
{
	NewJob		n = {0};
	Datum		name;

	SPI_connect();
	n.def.kind = "completion";
	n.def.function = "llm_generate";
	n.def.chunking = "none";
	open_source(&n, fcinfo, "llm_create_completion_job()");
	set_input(&n, text_arg(fcinfo, 6), text_arg(fcinfo, 1), NIL);
	n.def.target_column = name_arg(fcinfo, 2);
	set_int_argument(&n, fcinfo, "max_tokens", 3);
	set_model(&n, fcinfo, 4);
	set_options(&n, fcinfo, 5);
	set_common(&n, fcinfo, 7, 8, 9);
	name = create_job(&n);
	SPI_finish();
	PG_RETURN_DATUM(name);
}

/* ---- changing ---- */

/*
 * Return the job if the caller has the rights of its source's owner, who is returned in *owner.  A
 * former owner of the source must not change the job: that role could have its expression run as the
 * new owner.
 */
static JobDef *
job_for_owner(FunctionCallInfo fcinfo, const char *function, Oid *owner)
{
	JobDef	   *j;

	PreventCommandDuringRecovery(function);
	PreventCommandIfReadOnly(function);
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the job's name must not be null")));
	/* the source may have a new owner, although no event trigger has noticed it */
	job_follow_owners();
	j = job_find(NameStr(*PG_GETARG_NAME(0)));
	if (j == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("job \"%s\" does not exist", NameStr(*PG_GETARG_NAME(0))),
				 errhint("The view llm_jobs lists the jobs of this database.")));
	*owner = job_relation_owner(j->source);
	if (!OidIsValid(*owner))
		*owner = j->owner;
	if (!superuser() && !has_privs_of_role(GetUserId(), *owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of job \"%s\"", j->name)));
	return j;
}

/* Execute one of our statements on a job's rows: $1 is its id, $2 is text. */
static void
change(const JobDef *j, const char *sql, const char *text)
{
	Oid			types[2] = {INT4OID, TEXTOID};
	Datum		v[2] = {Int32GetDatum(j->id), (Datum) 0};
	char		nulls[2] = {' ', text ? ' ' : 'n'};
	JobRole		role;

	if (text)
		v[1] = CStringGetTextDatum(text);
	SPI_connect();
	job_role_internal(&role);
	if (SPI_execute_with_args(sql, 2, types, v, nulls, false, 0) < 0)
		elog(ERROR, "could not change job \"%s\"", j->name);
	job_role_end(&role);
	SPI_finish();
}

/* ---- altering ---- */

/* Apply the arguments that change what the job computes; return true if that changed. */
static bool
set_computed(NewJob *n, FunctionCallInfo fcinfo)
{
	List	   *before = list_make4(n->def.input, job_arguments_text(n), n->def.chunking,
									psprintf("%d %d", n->def.chunk_size, n->def.chunk_overlap));
	List	   *after;

	if (!PG_ARGISNULL(1))
		set_model(n, fcinfo, 1);
	if (!PG_ARGISNULL(2) || !PG_ARGISNULL(3) || !PG_ARGISNULL(4))
		set_input(n, text_arg(fcinfo, 2), text_arg(fcinfo, 4), columns_arg(fcinfo, 3));
	if (!PG_ARGISNULL(5))
	{
		n->def.chunking = text_arg(fcinfo, 5);
		n->def.chunk_size = strcmp(n->def.chunking, "none") == 0 ? 0 : n->def.chunk_size;
		n->def.chunk_overlap = strcmp(n->def.chunking, "none") == 0 ? -1 : n->def.chunk_overlap;
	}
	n->def.chunk_size = positive_arg(fcinfo, 6, "chunk_size", 1, n->def.chunk_size);
	n->def.chunk_overlap = positive_arg(fcinfo, 7, "overlap", 0, n->def.chunk_overlap);
	set_own_argument(n, fcinfo, "dimensions", 8, true);
	set_own_argument(n, fcinfo, "instruction", 9, false);
	set_own_argument(n, fcinfo, "prompt_name", 10, false);
	set_own_argument(n, fcinfo, "max_tokens", 11, true);
	set_options(n, fcinfo, 12);
	after = list_make4(n->def.input, job_arguments_text(n), n->def.chunking,
					   psprintf("%d %d", n->def.chunk_size, n->def.chunk_overlap));
	for (int i = 0; i < list_length(before); i++)
		if (strcmp(list_nth(before, i), list_nth(after, i)) != 0)
			return true;
	return false;
}

static void
set_served(NewJob *n, FunctionCallInfo fcinfo)
{
	int			from;
	int			until;

	n->def.max_attempts = positive_arg(fcinfo, 13, "max_attempts", 1, n->def.max_attempts);
	if (!PG_ARGISNULL(14))
		n->def.priority = PG_GETARG_INT32(14);
	n->def.batch_size = positive_arg(fcinfo, 15, "batch_size", 0, n->def.batch_size);
	if (!PG_ARGISNULL(16))
	{
		n->def.schedule = text_arg(fcinfo, 16);
		if (n->def.schedule[0] == '\0')
			n->def.schedule = NULL;
		else if (!job_schedule(n->def.schedule, &from, &until))
			job_bad_value("schedule", n->def.schedule,
						  "Give a time of day such as '22:00-06:00', or '' for always.");
	}
	if (!PG_ARGISNULL(17))
		n->def.state = PG_GETARG_BOOL(17) ? "active" : "paused";
}

static void
update_job(const NewJob *n, Oid owner)
{
	const JobDef *j = &n->def;
	Oid			types[] = {INT4OID, NAMEARRAYOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT4OID, INT4OID,
						   INT4OID, INT4OID, INT4OID, TEXTOID, TEXTOID, OIDOID};
	Datum		v[lengthof(types)] = {
		Int32GetDatum(j->id), job_names_datum(j->inputs), CStringGetTextDatum(j->input),
		CStringGetTextDatum(j->model), CStringGetTextDatum(job_arguments_text(n)),
		CStringGetTextDatum(j->chunking), Int32GetDatum(j->chunk_size), Int32GetDatum(j->chunk_overlap),
		Int32GetDatum(j->max_attempts), Int32GetDatum(j->priority), Int32GetDatum(j->batch_size),
		CStringGetTextDatum(j->schedule ? j->schedule : ""), CStringGetTextDatum(j->state),
		ObjectIdGetDatum(owner)
	};
	JobRole		role;

	job_role_internal(&role);
	if (SPI_execute_with_args("UPDATE vllm.job SET input_columns = $2, input = $3, model = $4, arguments = "
							  "$5, chunking = $6, chunk_size = nullif($7, 0), chunk_overlap = nullif($8, "
							  "-1), max_attempts = $9, priority = $10, batch_size = nullif($11, 0), schedule "
							  "= nullif($12, ''), state = $13, reason = CASE WHEN state = $13 THEN reason "
							  "END, owner = $14 WHERE id = $1", lengthof(types), types, v, NULL, false,
							  0) != SPI_OK_UPDATE)
		elog(ERROR, "could not alter job \"%s\"", j->name);
	job_role_end(&role);
}

static bool
is_backfill(const char *rows)
{
	return strcmp(rows, "missing") == 0 || strcmp(rows, "all") == 0 || strcmp(rows, "none") == 0;
}

/* (name, model, input, columns, template, chunking, chunk_size, overlap, dimensions,
 * instruction, prompt_name, max_tokens, options, max_attempts, priority, batch_size,
 * schedule, enabled, backfill) */
Datum
llm_alter_job(PG_FUNCTION_ARGS)
{
	Oid			owner;
	JobDef	   *j = job_for_owner(fcinfo, "llm_alter_job()", &owner);
	NewJob		n = {.source = try_relation_open(j->source, AccessShareLock)};
	char	   *rows = text_arg(fcinfo, 18);
	bool		enables = !PG_ARGISNULL(17) && PG_GETARG_BOOL(17);
	bool		agrees = enables || !PG_ARGISNULL(2) || !PG_ARGISNULL(3) || !PG_ARGISNULL(4);

	if (n.source == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the source of job \"%s\" has been dropped", j->name),
				 errhint("llm_drop_job() removes the job.")));
	if (rows && !is_backfill(rows))
		job_bad_value("backfill", rows, "Valid values are missing, all and none.");
	/*
	 * with both locks, taken in the order of RENAME COLUMN (the table's first), no other transaction
	 * changes the job
	 */
	change(j, "SELECT FROM vllm.job WHERE id = $1 FOR UPDATE", NULL);
	j = job_for_owner(fcinfo, "llm_alter_job()", &owner);
	/* an input given here brings its own uses */
	if (enables)
		job_uses_agree(j, owner);
	n.def = *j;
	n.def.owner = owner;
	SPI_connect();
	n.target_table = OidIsValid(j->target_table) ? get_rel_name(j->target_table) : NULL;
	job_read_arguments(&n);
	set_served(&n, fcinfo);
	if (set_computed(&n, fcinfo))
	{
		Oid			type = call_type(&n);

		if (n.def.target_column)
			job_check_target_column(&n, type);
		job_check_chunking(&n);
		job_try(&n);
		/* every row has a value computed with the old settings */
		rows = rows ? rows : "all";
		agrees = true;
	}
	else if (agrees && owner != j->owner)
		job_check_size(j, owner, j->arguments);
	/*
	 * a caller who says what is computed, or enables the job, makes it run as the source's owner, who
	 * may be a new one
	 */
	update_job(&n, agrees ? owner : j->owner);
	job_uses_store(&n.def);
	relation_close(n.source, NoLock);
	SPI_finish();
	if (rows)
		change(j, "UPDATE vllm.job_stat SET backfill = NULLIF($2, 'none'), backfill_key = NULL, "
				  "backfill_rows = 0 WHERE job = $1", rows);
	PG_RETURN_VOID();
}

/* ---- dropping, pausing ---- */

/* Drop the triggers as the caller.  If the caller may not drop them, they remain and do nothing. */
static void
drop_triggers(const JobDef *j)
{
	ListCell   *lc;
	ListCell   *name;

	LockRelationOid(j->source, AccessExclusiveLock);
	if (get_rel_name(j->source) == NULL)
		return;
	SPI_connect();
	foreach(lc, find_all_inheritors(j->source, AccessExclusiveLock, NULL))
	{
		Oid			relid = lfirst_oid(lc);

		foreach(name, job_trigger_names(j, relid))
			job_execute(psprintf("DROP TRIGGER %s ON %s", quote_identifier(lfirst(name)),
								 quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
															get_rel_name(relid))));
	}
	SPI_finish();
}

/* llm_drop_job(name) */
Datum
llm_drop_job(PG_FUNCTION_ARGS)
{
	Oid			owner;
	JobDef	   *j = job_for_owner(fcinfo, "llm_drop_job()", &owner);

	drop_triggers(j);
	change(j, "DELETE FROM vllm.job WHERE id = $1", NULL);
	change(j, "DELETE FROM vllm.job_queue WHERE job = $1", NULL);
	change(j, "DELETE FROM vllm.job_failure WHERE job = $1", NULL);
	change(j, "DELETE FROM vllm.job_stat WHERE job = $1", NULL);
	PG_RETURN_VOID();
}

/* llm_pause_job(name) */
Datum
llm_pause_job(PG_FUNCTION_ARGS)
{
	Oid			owner;
	JobDef	   *j = job_for_owner(fcinfo, "llm_pause_job()", &owner);

	change(j, "UPDATE vllm.job SET state = 'paused', reason = NULL WHERE id = $1", NULL);
	PG_RETURN_VOID();
}

/* llm_resume_job(name) */
Datum
llm_resume_job(PG_FUNCTION_ARGS)
{
	Oid			owner;
	JobDef	   *j = job_for_owner(fcinfo, "llm_resume_job()", &owner);

	if (owner != j->owner)
		job_check_size(j, owner, j->arguments);
	SPI_connect();
	job_uses_agree(j, owner);
	job_uses_store(j);
	SPI_finish();
	/*
	 * as the owner whose rights the caller has: if the source has yet another owner by now, that role
	 * has not agreed
	 */
	change(j, psprintf("UPDATE vllm.job SET state = 'active', reason = NULL, owner = %u::pg_catalog.oid "
					   "WHERE id = $1", owner), NULL);
	PG_RETURN_VOID();
}

/* Move rows that were given up (all, or that of one key) back to the queue; return their number. */
static uint64
queue_failures(const JobDef *j, Datum key)
{
	Oid			types[2] = {INT4OID, TEXTARRAYOID};
	Datum		v[2] = {Int32GetDatum(j->id), key};
	char		nulls[2] = {' ', key ? ' ' : 'n'};
	JobRole		role;
	JobQueue   *queue;
	uint64		n;

	SPI_connect();
	job_role_internal(&role);
	if (SPI_execute_with_args("DELETE FROM vllm.job_failure WHERE job = $1 AND ($2 IS NULL OR key = $2) "
							  "RETURNING key, hash", 2, types, v, nulls, false, 0) != SPI_OK_DELETE_RETURNING)
		elog(ERROR, "could not read the failures of job \"%s\"", j->name);
	n = SPI_processed;
	queue = job_queue_open(j->id);
	for (uint64 i = 0; i < n; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		bool		isnull;

		key = SPI_getbinval(row, SPI_tuptable->tupdesc, 1, &isnull);
		job_queue_add_datum(queue, PointerGetDatum(DatumGetArrayTypePCopy(key)),
							DatumGetInt64(SPI_getbinval(row, SPI_tuptable->tupdesc, 2, &isnull)));
	}
	(void) job_queue_close(queue);
	job_role_end(&role);
	SPI_finish();
	return n;
}

/* llm_retry_job(name, key text[]) */
Datum
llm_retry_job(PG_FUNCTION_ARGS)
{
	Oid			owner;
	JobDef	   *j = job_for_owner(fcinfo, "llm_retry_job()", &owner);
	Datum		key = PG_ARGISNULL(1) ? (Datum) 0 : PG_GETARG_DATUM(1);
	uint64		n;

	n = queue_failures(j, key);
	/* the trigger on vllm.job wakes the worker */
	change(j, "UPDATE vllm.job SET state = state WHERE id = $1", NULL);
	PG_RETURN_INT64(n);
}

/* llm_backfill_job(name, rows text) */
Datum
llm_backfill_job(PG_FUNCTION_ARGS)
{
	Oid			owner;
	JobDef	   *j = job_for_owner(fcinfo, "llm_backfill_job()", &owner);
	char	   *rows = PG_ARGISNULL(1) ? "all" : text_arg(fcinfo, 1);

	if (!is_backfill(rows))
		job_bad_value("rows", rows, "Valid values are missing, all and none.");
	change(j, "UPDATE vllm.job_stat SET backfill = NULLIF($2, 'none'), backfill_key = NULL, backfill_rows = "
			  "0 WHERE job = $1", rows);
	change(j, "UPDATE vllm.job SET state = state WHERE id = $1", NULL);
	PG_RETURN_VOID();
}
