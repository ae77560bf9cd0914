/*
 * job_check.c
 *	  Checks of a job's definition when it is created or altered.
 *
 * The checks here cover columns, types, keys, targets and the call's arguments.  Only the engine
 * knows whether the settings suit the model, so the call is tried once with a short text.
 *
 * Tests: tests/sql/23_jobs.sql.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "parser/parse_coerce.h"
#include "parser/parser.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/varlena.h"

#include "pg/jobs/job_new.h"
#include "pg/util/own_call.h"

/*
 * limits for the texts of one job, and of all jobs of an owner, as a worker keeps those of a database
 * in memory
 */
#define MAX_TEXT	(1024 * 1024)
#define MAX_TEXTS	(16 * MAX_TEXT)
/* an owner's jobs with texts longer than this are created one after the other */
#define LONG_TEXT	(16 * 1024)

/* columns of a side table besides the key */
static const char *const side_columns[] = {"chunk_seq", "chunk", "embedding", "tok_start", "tok_end"};

void
job_bad_value(const char *parameter, const char *value, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for parameter \"%s\": \"%s\"", parameter, value),
			 errhint("%s", hint)));
}

/* ---- the call's arguments ---- */

static OwnArg *
find_argument(const NewJob *n, const char *name)
{
	ListCell   *lc;

	foreach(lc, n->arguments)
		if (strcmp(((OwnArg *) lfirst(lc))->name, name) == 0)
			return lfirst(lc);
	return NULL;
}

void
job_set_argument(NewJob *n, const char *name, const char *value)
{
	OwnArg *a = find_argument(n, name);

	if (a != NULL)
		n->arguments = list_delete_ptr(n->arguments, a);
	if (value == NULL)
		return;
	a = palloc(sizeof(OwnArg));
	a->name = pstrdup(name);
	a->value = pstrdup(value);
	n->arguments = lappend(n->arguments, a);
}

/* Return true if the function has an argument of that name that a job may give. */
static bool
is_argument(const char *function, const char *name)
{
	return own_function_takes(own_function(function, TEXTOID), name);
}

void
job_set_option(NewJob *n, const char *name, const char *value)
{
	static const char *const own[] = {"model", "dimensions", "instruction", "prompt_name", "max_tokens"};

	for (int i = 0; i < (int) lengthof(own); i++)
		if (strcmp(name, own[i]) == 0 && (value != NULL || i == 0) && is_argument(n->def.function, name))
			job_bad_value("options", name, "It is a parameter of its own.");
	if (!is_argument(n->def.function, name))
		job_bad_value("options", name, psprintf("%s() has no argument of this name.", n->def.function));
	job_set_argument(n, name, value);
}

static char *
arguments_text(List *arguments)
{
	StringInfoData s;
	ListCell   *lc;

	initStringInfo(&s);
	foreach(lc, arguments)
	{
		OwnArg *a = lfirst(lc);

		appendStringInfo(&s, "%s%s => %s", s.len > 0 ? ", " : "", quote_identifier(a->name),
						 quote_literal_cstr(a->value));
	}
	return s.data;
}

char *
job_arguments_text(const NewJob *n)
{
	return arguments_text(n->arguments);
}

bool
job_has_argument(const NewJob *n, const char *name)
{
	return is_argument(n->def.function, name);
}

void
job_read_arguments(NewJob *n)
{
	ListCell   *lc;

	foreach(lc, job_arguments_read(n->def.arguments))
		job_set_argument(n, ((OwnArg *) lfirst(lc))->name, ((OwnArg *) lfirst(lc))->value);
}

/* ---- source and key ---- */

void
job_refuse_source(Relation rel, const char *why, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("relation \"%s\" can't be the source of a job", RelationGetRelationName(rel)),
			 errdetail("%s", why), hint ? errhint("%s", hint) : 0));
}

/* Code on a partition belongs to the partition's owner, but runs with the job as the source's owner. */
static void
check_partition_owners(Relation rel)
{
	ListCell   *lc;

	foreach(lc, find_all_inheritors(RelationGetRelid(rel), AccessShareLock, NULL))
		if (job_relation_owner(lfirst_oid(lc)) != rel->rd_rel->relowner)
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("partition \"%s\" has another owner than relation \"%s\"",
							get_rel_name(lfirst_oid(lc)), RelationGetRelationName(rel)),
					 errdetail("A job runs as the owner of its source, and so does code that the partition's "
							   "owner attaches to the partition."),
					 errhint("Use ALTER TABLE ... OWNER TO.")));
}

void
job_check_source(Relation rel)
{
	char		kind = rel->rd_rel->relkind;

	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		job_refuse_source(rel, "It is not a table.", NULL);
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		job_refuse_source(rel, "It is a temporary table, which no other session can read.", NULL);
	if (IsSystemRelation(rel))
		job_refuse_source(rel, "It is a system catalog.", NULL);
	if (!has_privs_of_role(GetUserId(), rel->rd_rel->relowner))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, RelationGetRelationName(rel));
	job_refuse_rls(RelationGetRelid(rel), rel->rd_rel->relowner);
	job_check_written_types(rel, false, rel->rd_rel->relowner);
	if (kind == RELKIND_PARTITIONED_TABLE)
		check_partition_owners(rel);
	if (kind == RELKIND_RELATION && has_subclass(RelationGetRelid(rel)) &&
		list_length(find_inheritance_children(RelationGetRelid(rel), NoLock)) > 0)
		job_refuse_source(rel, "Other tables inherit from it, and its primary key does not distinguish their "
							   "rows.",
						  "Create a job for each of the tables, or use partitions.");
}

void
job_set_key(NewJob *n)
{
	Relation	rel = n->source;
	Relation	index;

	(void) RelationGetIndexList(rel);
	if (!OidIsValid(rel->rd_pkindex))
		job_refuse_source(rel, "It has no primary key.", "Add one with ALTER TABLE ... ADD PRIMARY KEY.");
	index = index_open(rel->rd_pkindex, AccessShareLock);
	for (int i = 0; i < index->rd_index->indnkeyatts; i++)
	{
		AttrNumber	attno = index->rd_index->indkey.values[i];

		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attno - 1);

		job_check_key_type(NameStr(att->attname), att->atttypid);
		job_check_column_type(att->atttypid, rel->rd_rel->relowner);
		n->def.key = lappend(n->def.key, pstrdup(NameStr(att->attname)));
	}
	index_close(index, AccessShareLock);
}

static bool
in_list(List *names, const char *name)
{
	ListCell   *lc;

	foreach(lc, names)
		if (strcmp(lfirst(lc), name) == 0)
			return true;
	return false;
}

/* ---- target ---- */

static void
check_assignable(const char *column, Oid from, Oid to)
{
	if (!can_coerce_type(1, &from, &to, COERCION_ASSIGNMENT))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" is of type %s but the job's values are of type %s",
						column, format_type_be(to), format_type_be(from))));
}

/* Return true if the input depends on the target, through other jobs on the table. */
static bool
has_cycle(NewJob *n)
{
	Oid			types[3] = {NAMEOID, NAMEARRAYOID, OIDOID};
	NameData	target;
	Datum		v[3] = {NameGetDatum(&target), job_names_datum(n->def.inputs),
						ObjectIdGetDatum(n->def.source)};
	JobRole		role;
	bool		found;

	namestrcpy(&target, n->def.target_column);
	job_role_internal(&role);
	if (SPI_execute_with_args("WITH RECURSIVE made(col) AS (SELECT $1 UNION SELECT j.target_column FROM "
							  "vllm.job j, made WHERE j.source = $3 AND made.col = ANY (j.input_columns) AND "
							  "j.target_column IS NOT NULL) SELECT 1 FROM made WHERE col = ANY ($2)", 3,
							  types, v, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not look at other jobs");
	found = SPI_processed > 0;
	job_role_end(&role);
	return found;
}

/*
 * ERROR if another job fills the target.  A target column is looked up in the source, its partitions
 * and the tables that it is a partition of.
 */
static void
refuse_taken_target(NewJob *n)
{
	Oid			types[4] = {NAMEOID, OIDOID, OIDOID, INT4OID};
	NameData	column;
	Datum		v[4] = {NameGetDatum(&column), ObjectIdGetDatum(n->def.source),
						ObjectIdGetDatum(n->def.target_table), Int32GetDatum(n->def.id)};
	JobRole		role;
	char	   *other = NULL;
	bool		by_column = n->def.target_column != NULL;

	namestrcpy(&column, by_column ? n->def.target_column : "");
	job_role_internal(&role);
	if (SPI_execute_with_args(by_column ?
							  "SELECT name FROM vllm.job WHERE id <> $4 AND target_column = $1 AND (source = "
							  "$2 OR source::oid IN (SELECT relid FROM pg_catalog.pg_partition_tree($2) "
							  "UNION ALL SELECT relid FROM pg_catalog.pg_partition_ancestors($2)))" :
							  "SELECT name FROM vllm.job WHERE id <> $4 AND target_table = $3", 4, types, v,
								  NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not look at other jobs");
	if (SPI_processed > 0)
		other = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	job_role_end(&role);
	if (other)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("job \"%s\" already fills %s \"%s\"", other, by_column ? "column" : "table",
						by_column ? n->def.target_column : n->target_table),
				 errhint("Each job needs a target of its own; llm_drop_job() removes a job and leaves its "
						 "target.")));
}

void
job_check_target_column(NewJob *n, Oid type)
{
	const char *name = n->def.target_column;
	AttrNumber	attno = get_attnum(RelationGetRelid(n->source), name);
	Form_pg_attribute att;

	if (attno < 0)
		job_bad_value("target_column", name, "It is a system column.");
	if (attno == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist", name,
						RelationGetRelationName(n->source)),
				 errhint("Add it: ALTER TABLE %s ADD COLUMN %s %s.", RelationGetRelationName(n->source),
						 quote_identifier(name), format_type_be(type))));
	att = TupleDescAttr(RelationGetDescr(n->source), attno - 1);
	if (att->attgenerated || att->attidentity == ATTRIBUTE_IDENTITY_ALWAYS)
		job_bad_value("target_column", name, "It is a generated column.");
	if (in_list(n->def.key, name))
		job_bad_value("target_column", name, "It is part of the primary key.");
	job_check_trigger_rights(RelationGetRelid(n->source), n->def.owner);
	if (has_cycle(n))
		job_bad_value("target_column", name,
					  "The input depends on it, directly or through other jobs, so the job would never end.");
	refuse_taken_target(n);
	check_assignable(name, type, att->atttypid);
	job_check_column_type(att->atttypid, n->source->rd_rel->relowner);
}

/* Execute a statement as the caller. */
void
job_execute(const char *sql)
{
	if (SPI_execute(sql, false, 0) < 0)
		elog(ERROR, "could not execute: %s", sql);
}

static void
create_side_table(NewJob *n, RangeVar *name, Oid type)
{
	StringInfoData sql;
	ListCell   *lc;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE TABLE %s (", quote_qualified_identifier(name->schemaname, name->relname));
	foreach(lc, n->def.key)
	{
		AttrNumber	attno = get_attnum(RelationGetRelid(n->source), lfirst(lc));
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(n->source), attno - 1);

		appendStringInfo(&sql, "%s %s NOT NULL, ", quote_identifier(lfirst(lc)),
						 format_type_with_typemod(att->atttypid, att->atttypmod));
	}
	appendStringInfo(&sql, "chunk_seq int NOT NULL, chunk pg_catalog.text NOT NULL, embedding %s NOT NULL, "
						   "tok_start int, tok_end int, PRIMARY KEY (",
					 format_type_be(type));
	foreach(lc, n->def.key)
		appendStringInfo(&sql, "%s, ", quote_identifier(lfirst(lc)));
	appendStringInfoString(&sql, "chunk_seq))");
	job_execute(sql.data);
}

static void
check_side_table(NewJob *n, Oid type)
{
	Relation	rel = table_open(n->def.target_table, AccessShareLock);
	ListCell   *lc;

	if (rel->rd_rel->relkind != RELKIND_RELATION || rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		job_bad_value("target_table", n->target_table, "It must be an ordinary table.");
	if (RelationGetRelid(rel) == RelationGetRelid(n->source))
		job_bad_value("target_table", n->target_table, "It must not be the source.");
	if (rel->rd_rel->relowner != n->def.owner)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("relation \"%s\" has another owner than relation \"%s\"",
						RelationGetRelationName(rel), RelationGetRelationName(n->source)),
				 errdetail("A job runs as the owner of its source.")));
	job_refuse_rls(RelationGetRelid(rel), n->def.owner);
	job_check_written_types(rel, true, n->def.owner);
	job_check_trigger_rights(RelationGetRelid(rel), n->def.owner);
	refuse_taken_target(n);
	foreach(lc, n->def.key)
		if (get_attnum(RelationGetRelid(rel), lfirst(lc)) <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" of relation \"%s\" does not exist", (char *) lfirst(lc),
							RelationGetRelationName(rel)),
					 errdetail("A side table has the columns of the source's primary key.")));
	for (int i = 0; i < (int) lengthof(side_columns); i++)
	{
		AttrNumber	attno = get_attnum(RelationGetRelid(rel), side_columns[i]);

		if (attno <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" of relation \"%s\" does not exist", side_columns[i],
							RelationGetRelationName(rel)),
					 errdetail("A side table has the columns chunk_seq, chunk, embedding, tok_start and "
							   "tok_end.")));
		if (i == 2)
			check_assignable(side_columns[i], type,
							 TupleDescAttr(RelationGetDescr(rel), attno - 1)->atttypid);
	}
	table_close(rel, AccessShareLock);
}

void
job_set_side_table(NewJob *n, Oid type)
{
	RangeVar   *name = makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(n->target_table)));

	for (int i = 0; i < (int) lengthof(side_columns); i++)
		if (in_list(n->def.key, side_columns[i]))
			job_refuse_source(n->source,
							  psprintf("Its key column \"%s\" has the name of a column of the side table.",
									   side_columns[i]), NULL);
	n->def.target_table = RangeVarGetRelid(name, NoLock, true);
	if (!OidIsValid(n->def.target_table))
	{
		if (name->schemaname == NULL)
			name->schemaname = get_namespace_name(RangeVarGetCreationNamespace(name));
		create_side_table(n, name, type);
		n->def.target_table = RangeVarGetRelid(name, NoLock, false);
	}
	check_side_table(n, type);
}

void
job_check_chunking(const NewJob *n)
{
	static const char *const methods[] = {"none", "tokens", "sentences", "markdown"};
	const char *m = n->def.chunking;
	bool		known = false;

	for (int i = 0; i < (int) lengthof(methods); i++)
		known = known || strcmp(m, methods[i]) == 0;
	if (!known)
		job_bad_value("chunking", m, "Valid values are none, tokens, sentences and markdown.");
	if (strcmp(m, "none") != 0 && n->target_table == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("chunking needs a side table"),
				 errhint("Name it with target_table => '...'; it is created if it does not exist.")));
	if (strcmp(m, "none") == 0 && (n->def.chunk_size != 0 || n->def.chunk_overlap >= 0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("chunk_size and overlap need a method of chunking"),
				 errhint("Give chunking => 'tokens', 'sentences' or 'markdown'.")));
	if (n->def.chunk_size > 0 && n->def.chunk_overlap >= n->def.chunk_size)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("overlap %d must be less than chunk_size %d", n->def.chunk_overlap,
						n->def.chunk_size)));
}

/* ---- rows ---- */

Datum
job_names_datum(List *names)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(list_length(names), 1));
	int			n = 0;
	ListCell   *lc;

	foreach(lc, names)
	{
		NameData   *name = palloc(sizeof(NameData));

		namestrcpy(name, lfirst(lc));
		elems[n++] = NameGetDatum(name);
	}
	return PointerGetDatum(construct_array(elems, n, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR));
}

/* ---- trying ---- */

/* Return true if the error says that there is no engine: a job may be created before it runs. */
static bool
is_engine_missing(const ErrorData *e)
{
	int			category = ERRCODE_TO_CATEGORY(e->sqlerrcode);

	return category == ERRCODE_INSUFFICIENT_RESOURCES || category == ERRCODE_SYSTEM_ERROR ||
		category == ERRCODE_CONNECTION_EXCEPTION || e->sqlerrcode == ERRCODE_CANNOT_CONNECT_NOW;
}

typedef struct Trial
{
	const NewJob *n;
	const char *sql;
} Trial;

/* Run as the source's owner, whose types may run code of that role. */
static void
try_step(void *arg)
{
	Trial	   *t = arg;
	JobRole		role;

	job_role_owner(&role, t->n->source->rd_rel->relowner);
	if (SPI_execute(t->sql, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not try the job's call");
	job_role_end(&role);
}

/* Return false if there is no engine to ask. */
static bool
try_statement(const NewJob *n, const char *sql)
{
	Trial		t = {n, sql};
	ErrorData  *err = job_attempt(try_step, &t);

	if (err == NULL)
		return true;
	if (!is_engine_missing(err))
		ReThrowError(err);
	ereport(NOTICE,
			(errmsg("could not test the job's settings: %s",
					err->message ? err->message : "the inference engine is not available")));
	return false;
}

/* Return the call with the shortest possible output. */
static char *
call_sql(const NewJob *n)
{
	List	   *arguments = list_copy(n->arguments);
	OwnArg		one = {"max_tokens", "1"};

	if (strcmp(n->def.kind, "completion") == 0 && find_argument(n, "params") == NULL)
	{
		arguments = list_delete_ptr(arguments, find_argument(n, "max_tokens"));
		arguments = list_delete_ptr(arguments, find_argument(n, "min_tokens"));
		arguments = lappend(arguments, &one);
	}
	return job_call_sql(n->def.function, arguments, "'x'");
}

/* Return the type of the column for embeddings, with its modifier. */
static char *
embedding_type(const NewJob *n)
{
	Oid			relid = n->def.target_column ? n->def.source : n->def.target_table;
	AttrNumber	attno = get_attnum(relid, n->def.target_column ? n->def.target_column : side_columns[2]);
	Oid			type;
	int32		typmod;
	Oid			collation;

	if (attno == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the side table of job \"%s\" has been dropped, or its column \"%s\"", n->def.name,
						side_columns[2]),
				 errhint("Drop the job and create it again.")));
	get_atttypetypmodcoll(relid, attno, &type, &typmod, &collation);
	job_check_column_type(type, n->source->rd_rel->relowner);
	return format_type_extended(type, typmod, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
}

void
job_check_size(const JobDef *def, Oid owner, const char *arguments)
{
	size_t		size = strlen(def->input) + strlen(arguments);
	size_t		all;

	if (size > MAX_TEXT)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("input and options of job \"%s\" are too long", def->name),
				 errdetail("They have %zu bytes; the limit is %d bytes.", size, MAX_TEXT)));
	/* the sum doesn't include jobs that other transactions have not committed, hence the lock */
	if (size > LONG_TEXT)
		LockSharedObject(AuthIdRelationId, owner, 0, ShareUpdateExclusiveLock);
	all = size + job_size_of_others(owner, def->id);
	if (all > MAX_TEXTS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("inputs and options of the jobs of role \"%s\" are too long",
						GetUserNameFromId(owner, false)),
				 errdetail("With job \"%s\" they have %zu bytes; the limit is %d bytes.", def->name, all,
						   MAX_TEXTS)));
}

void
job_try(const NewJob *n)
{
	char	   *call = call_sql(n);

	job_check_size(&n->def, n->def.owner, job_arguments_text(n));
	if (strcmp(n->def.kind, "embedding") == 0)
		call = psprintf("CAST(%s AS %s)", call, embedding_type(n));
	if (!try_statement(n, psprintf("SELECT %s", call)) || strcmp(n->def.chunking, "none") == 0)
		return;
	(void) try_statement(n, job_chunks_sql(&n->def, "'x'"));
}
