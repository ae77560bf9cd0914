/*
 * fn_job.c
 *	  llm_create_embedding_job, llm_create_completion_job, llm_drop_job, llm_pause_job,
 *	  llm_resume_job, llm_retry_job, llm_backfill_job.
 *
 * Who makes a job owns the source table and may use the model; the job's work runs with
 * its maker's rights.  Triggers and the side table are made by statements that run as the
 * caller, so that PostgreSQL's own checks apply; the job's rows are written with the
 * rights of the extension's owner.
 *
 * Everything that can be wrong with a job is found out here, not by the worker: columns,
 * types, the expression, the call's arguments, the model and its use.
 *
 * Tests: tests/sql/23_jobs.sql.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

#include "pg/catalog.h"
#include "pg/job.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_create_embedding_job);
PG_FUNCTION_INFO_V1(llm_create_completion_job);
PG_FUNCTION_INFO_V1(llm_drop_job);
PG_FUNCTION_INFO_V1(llm_pause_job);
PG_FUNCTION_INFO_V1(llm_resume_job);
PG_FUNCTION_INFO_V1(llm_retry_job);
PG_FUNCTION_INFO_V1(llm_backfill_job);

/* columns of a side table beside the key */
static const char *const side_columns[] = {"chunk_seq", "chunk", "embedding", "tok_start", "tok_end"};

typedef struct NewJob
{
	JobDef		def;
	Relation	source;
	char	   *target_table;	/* as given, or NULL */
	StringInfoData arguments;
	const char *backfill;
} NewJob;

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

static void
bad_value(const char *parameter, const char *value, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for parameter \"%s\": \"%s\"", parameter, value),
			 errhint("%s", hint)));
}

/* ---- the call ---- */

static void
put_argument(NewJob *n, const char *name, const char *value)
{
	appendStringInfo(&n->arguments, "%s%s => %s", n->arguments.len > 0 ? ", " : "",
					 quote_identifier(name), quote_literal_cstr(value));
}

static void
put_int_argument(NewJob *n, FunctionCallInfo fcinfo, const char *name, int arg)
{
	if (!PG_ARGISNULL(arg))
		put_argument(n, name, psprintf("%d", PG_GETARG_INT32(arg)));
}

static void
put_text_argument(NewJob *n, FunctionCallInfo fcinfo, const char *name, int arg)
{
	if (!PG_ARGISNULL(arg))
		put_argument(n, name, text_arg(fcinfo, arg));
}

/* options json: further arguments of the function by name; NULL is not given */
static void
put_options(NewJob *n, FunctionCallInfo fcinfo, int arg)
{
	Oid			types[1] = {JSONOID};
	Datum		values[1];

	if (PG_ARGISNULL(arg))
		return;
	values[0] = PG_GETARG_DATUM(arg);
	if (SPI_execute_with_args("SELECT key, value FROM pg_catalog.json_each_text($1)", 1, types, values, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read options");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		char	   *key = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1);
		char	   *value = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 2);

		if (strcmp(key, "model") == 0)
			bad_value("options", key, "The model is an argument of its own.");
		if (value != NULL)
			put_argument(n, key, value);
	}
}

/* NULL: vllm.model, as it is now.  The job keeps the name. */
static void
set_model(NewJob *n, FunctionCallInfo fcinfo, int arg)
{
	n->def.model = catalog_model_for_use(text_arg(fcinfo, arg))->name;
	put_argument(n, "model", n->def.model);
}

/* ---- source and key ---- */

static void
refuse_source(Relation rel, const char *why, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("relation \"%s\" can't be the source of a job", RelationGetRelationName(rel)),
			 errdetail("%s", why), hint ? errhint("%s", hint) : 0));
}

static void
check_source(Relation rel)
{
	char		kind = rel->rd_rel->relkind;

	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		refuse_source(rel, "It is not a table.", NULL);
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		refuse_source(rel, "It is a temporary table, which no other session can read.", NULL);
	if (IsSystemRelation(rel))
		refuse_source(rel, "It is a system catalog.", NULL);
	if (!has_privs_of_role(GetUserId(), rel->rd_rel->relowner))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, RelationGetRelationName(rel));
	if (kind == RELKIND_RELATION && has_subclass(RelationGetRelid(rel)) &&
		list_length(find_inheritance_children(RelationGetRelid(rel), NoLock)) > 0)
		refuse_source(rel, "Other tables inherit from it, whose rows its primary key does not tell apart.",
					  "Make a job for each of the tables, or use partitions.");
}

static void
set_key(NewJob *n)
{
	Relation	rel = n->source;
	Relation	index;

	(void) RelationGetIndexList(rel);
	if (!OidIsValid(rel->rd_pkindex))
		refuse_source(rel, "It has no primary key.", "Add one with ALTER TABLE ... ADD PRIMARY KEY.");
	index = index_open(rel->rd_pkindex, AccessShareLock);
	for (int i = 0; i < index->rd_index->indnkeyatts; i++)
	{
		AttrNumber	attno = index->rd_index->indkey.values[i];

		n->def.key = lappend(n->def.key, pstrdup(NameStr(TupleDescAttr(RelationGetDescr(rel), attno - 1)->attname)));
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

static Datum names_datum(List *names);

/* Does the input depend on the target, by way of other jobs on the table? */
static bool
goes_in_circles(NewJob *n)
{
	Oid			types[3] = {NAMEOID, NAMEARRAYOID, OIDOID};
	NameData	target;
	Datum		v[3] = {NameGetDatum(&target), names_datum(n->def.inputs), ObjectIdGetDatum(n->def.source)};
	JobRole		role;
	bool		found;

	namestrcpy(&target, n->def.target_column);
	job_role_internal(&role);
	if (SPI_execute_with_args("WITH RECURSIVE made(col) AS (SELECT $1 UNION SELECT j.target_column FROM vllm.job j, made"
							  " WHERE j.source = $3 AND made.col = ANY (j.input_columns) AND j.target_column IS NOT NULL)"
							  " SELECT 1 FROM made WHERE col = ANY ($2)", 3, types, v, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not look at other jobs");
	found = SPI_processed > 0;
	job_role_end(&role);
	return found;
}

static void
check_target_column(NewJob *n, Oid type)
{
	const char *name = n->def.target_column;
	AttrNumber	attno = get_attnum(RelationGetRelid(n->source), name);
	Form_pg_attribute att;

	if (attno <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist", name, RelationGetRelationName(n->source)),
				 errhint("Add it: ALTER TABLE %s ADD COLUMN %s %s.", RelationGetRelationName(n->source),
						 quote_identifier(name), format_type_be(type))));
	att = TupleDescAttr(RelationGetDescr(n->source), attno - 1);
	if (att->attgenerated || att->attidentity == ATTRIBUTE_IDENTITY_ALWAYS)
		bad_value("target_column", name, "It is a generated column.");
	if (in_list(n->def.key, name))
		bad_value("target_column", name, "It is part of the primary key.");
	if (goes_in_circles(n))
		bad_value("target_column", name, "The input is made of it, here or by other jobs: the job would never end.");
	check_assignable(name, type, att->atttypid);
}

/* A statement as the caller. */
static void
execute(const char *sql)
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
	appendStringInfo(&sql, "chunk_seq int NOT NULL, chunk text NOT NULL, embedding %s NOT NULL, tok_start int, tok_end int, PRIMARY KEY (",
					 format_type_be(type));
	foreach(lc, n->def.key)
		appendStringInfo(&sql, "%s, ", quote_identifier(lfirst(lc)));
	appendStringInfoString(&sql, "chunk_seq))");
	execute(sql.data);
}

static void
check_side_table(NewJob *n, Oid type)
{
	Relation	rel = table_open(n->def.target_table, AccessShareLock);
	ListCell   *lc;

	if (rel->rd_rel->relkind != RELKIND_RELATION || rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		bad_value("target_table", n->target_table, "It must be an ordinary table.");
	if (RelationGetRelid(rel) == RelationGetRelid(n->source))
		bad_value("target_table", n->target_table, "It must not be the source.");
	if (rel->rd_rel->relowner != n->def.owner)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("relation \"%s\" has another owner than relation \"%s\"", RelationGetRelationName(rel),
						RelationGetRelationName(n->source)),
				 errdetail("A job runs as the owner of its source.")));
	foreach(lc, n->def.key)
		if (get_attnum(RelationGetRelid(rel), lfirst(lc)) <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" of relation \"%s\" does not exist", (char *) lfirst(lc), RelationGetRelationName(rel)),
					 errdetail("A side table has the columns of the source's primary key.")));
	for (int i = 0; i < (int) lengthof(side_columns); i++)
	{
		AttrNumber	attno = get_attnum(RelationGetRelid(rel), side_columns[i]);

		if (attno <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" of relation \"%s\" does not exist", side_columns[i], RelationGetRelationName(rel)),
					 errdetail("A side table has the columns chunk_seq, chunk, embedding, tok_start and tok_end.")));
		if (i == 2)
			check_assignable(side_columns[i], type, TupleDescAttr(RelationGetDescr(rel), attno - 1)->atttypid);
	}
	table_close(rel, AccessShareLock);
}

static void
set_side_table(NewJob *n, Oid type)
{
	RangeVar   *name = makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(n->target_table)));

	for (int i = 0; i < (int) lengthof(side_columns); i++)
		if (in_list(n->def.key, side_columns[i]))
			refuse_source(n->source, psprintf("Its key column \"%s\" has the name of a column of the side table.", side_columns[i]), NULL);
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

static void
check_chunking(const NewJob *n)
{
	static const char *const methods[] = {"none", "tokens", "sentences", "markdown"};
	const char *m = n->def.chunking;
	bool		known = false;

	for (int i = 0; i < (int) lengthof(methods); i++)
		known = known || strcmp(m, methods[i]) == 0;
	if (!known)
		bad_value("chunking", m, "It is one of none, tokens, sentences, markdown.");
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
	if (n->def.chunk_size < 0 || (n->def.chunk_size > 0 && n->def.chunk_overlap >= n->def.chunk_size))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("chunk_size must be positive and greater than overlap")));
}

/* ---- rows of the job ---- */

static Datum
names_datum(List *names)
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

static void
insert_job(NewJob *n)
{
	const JobDef *j = &n->def;
	JobRole		role;
	Oid			types[] = {INT4OID, NAMEOID, TEXTOID, OIDOID, OIDOID, NAMEARRAYOID, NAMEARRAYOID, TEXTOID, NAMEOID, OIDOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT4OID, INT4OID, INT4OID, TEXTOID};
	Datum		v[lengthof(types)];
	char		nulls[lengthof(types)];
	NameData	name;
	NameData	column;

	memset(nulls, ' ', sizeof(nulls));
	namestrcpy(&name, j->name);
	namestrcpy(&column, j->target_column ? j->target_column : "");
	v[0] = Int32GetDatum(j->id);
	v[1] = NameGetDatum(&name);
	v[2] = CStringGetTextDatum(j->kind);
	v[3] = ObjectIdGetDatum(j->owner);
	v[4] = ObjectIdGetDatum(j->source);
	v[5] = names_datum(j->key);
	v[6] = names_datum(j->inputs);
	v[7] = CStringGetTextDatum(j->input);
	v[8] = NameGetDatum(&column);
	nulls[8] = j->target_column ? ' ' : 'n';
	v[9] = ObjectIdGetDatum(j->target_table);
	nulls[9] = OidIsValid(j->target_table) ? ' ' : 'n';
	v[10] = CStringGetTextDatum(j->model);
	v[11] = CStringGetTextDatum(j->function);
	v[12] = CStringGetTextDatum(n->arguments.data);
	v[13] = CStringGetTextDatum(j->chunking);
	v[14] = Int32GetDatum(j->chunk_size);
	nulls[14] = j->chunk_size > 0 ? ' ' : 'n';
	v[15] = Int32GetDatum(j->chunk_overlap);
	nulls[15] = j->chunk_overlap >= 0 ? ' ' : 'n';
	v[16] = Int32GetDatum(j->max_attempts);
	v[17] = CStringGetTextDatum(n->backfill);
	nulls[17] = strcmp(n->backfill, "none") == 0 ? 'n' : ' ';
	job_role_internal(&role);
	if (SPI_execute_with_args("INSERT INTO vllm.job VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,"
							  " $15, $16, $17, 'active', NULL, pg_catalog.clock_timestamp())",
							  17, types, v, nulls, false, 0) != SPI_OK_INSERT ||
		SPI_execute_with_args("INSERT INTO vllm.job_stat (job, backfill) SELECT $1, $18",
							  18, types, v, nulls, false, 0) != SPI_OK_INSERT)
		elog(ERROR, "could not store the job");
	job_role_end(&role);
}

static void
create_triggers(const NewJob *n)
{
	static const char *const events[][2] = {
		{"insert", "REFERENCING NEW TABLE AS new_rows"},
		{"update", "REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows"},
		{"delete", "REFERENCING OLD TABLE AS old_rows"},
		{"truncate", ""}
	};
	int			n_events = OidIsValid(n->def.target_table) ? 4 : 2;
	List	   *tables = find_all_inheritors(n->def.source, ShareRowExclusiveLock, NULL);
	ListCell   *lc;

	foreach(lc, tables)
	{
		Oid			relid = lfirst_oid(lc);
		char		kind = get_rel_relkind(relid);

		if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
			refuse_source(n->source, "One of its partitions is a foreign table.", NULL);
		for (int i = 0; i < n_events; i++)
			execute(psprintf("CREATE TRIGGER vllm_job_%d_%s AFTER %s ON %s %s FOR EACH STATEMENT EXECUTE FUNCTION vllm.job_changed(%s)",
							 n->def.id, events[i][0], events[i][0],
							 quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid)),
							 events[i][1], quote_literal_cstr(n->def.name)));
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
	/* as CREATE TRIGGER: whoever writes now has committed before the back-fill reads */
	n->source = table_open(n->def.source, ShareRowExclusiveLock);
	check_source(n->source);
	/* code that its owner puts on the table (triggers, generated columns) runs with the job: as nobody else */
	n->def.owner = n->source->rd_rel->relowner;
	set_key(n);
	initStringInfo(&n->arguments);
}

static void
set_input(NewJob *n, const char *input, const char *template, List *columns)
{
	if ((input != NULL) + (template != NULL) + (columns != NIL) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a job needs one of input, template%s", strcmp(n->def.kind, "embedding") == 0 ? " and columns" : ""),
				 errhint("input is an SQL expression over the columns of the source, template a text with {column} in it.")));
	if (template)
		input = job_template_expression(template);
	else if (columns)
		input = job_columns_expression(columns);
	n->def.input = job_expression(n->source, input, &n->def.inputs);
}

static void
set_common(NewJob *n, FunctionCallInfo fcinfo, int name, int backfill, int max_attempts)
{
	n->def.name = name_arg(fcinfo, name);
	if (n->def.name == NULL)
		n->def.name = psprintf("%.*s_%s", NAMEDATALEN - 12, RelationGetRelationName(n->source), n->def.kind);
	if (n->def.name[0] == '\0')
		bad_value("name", "", "Give the job a name, or leave it out.");
	if (job_find(n->def.name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("job \"%s\" already exists", n->def.name),
				 errhint("Give another name => '...'.")));
	n->backfill = PG_ARGISNULL(backfill) ? "missing" : text_arg(fcinfo, backfill);
	if (strcmp(n->backfill, "missing") != 0 && strcmp(n->backfill, "all") != 0 && strcmp(n->backfill, "none") != 0)
		bad_value("backfill", n->backfill, "It is one of missing, all, none.");
	n->def.max_attempts = PG_ARGISNULL(max_attempts) ? 5 : PG_GETARG_INT32(max_attempts);
	if (n->def.max_attempts < 1)
		bad_value("max_attempts", psprintf("%d", n->def.max_attempts), "It must be at least 1.");
}

/* What is left once the arguments are known; the job's name, in the caller's memory. */
static Datum
create_job(NewJob *n)
{
	JobCall    *call;
	NameData   *result = SPI_palloc(sizeof(NameData));

	if ((n->def.target_column != NULL) + (n->target_table != NULL) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a job needs a target"),
				 errhint(strcmp(n->def.kind, "embedding") == 0 ?
						 "Give one of target_column => '...', a column of the source, and target_table => '...'." :
						 "Give target_column => '...', a column of the source.")));
	call = job_call_make(job_extension_schema(), n->def.function, n->arguments.data);
	if (n->def.target_column)
		check_target_column(n, call->rettype);
	else
		set_side_table(n, call->rettype);
	check_chunking(n);
	n->def.id = (int32) nextval_internal(job_relation("job_id_seq"), false);
	insert_job(n);
	create_triggers(n);
	table_close(n->source, NoLock);
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
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(arg), NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &elems, &nulls, &count);
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
	n.def.chunk_size = PG_ARGISNULL(6) ? 0 : PG_GETARG_INT32(6);
	n.def.chunk_overlap = PG_ARGISNULL(7) ? -1 : PG_GETARG_INT32(7);
	put_int_argument(&n, fcinfo, "dimensions", 8);
	put_text_argument(&n, fcinfo, "instruction", 9);
	put_text_argument(&n, fcinfo, "prompt_name", 10);
	put_options(&n, fcinfo, 11);
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
	put_int_argument(&n, fcinfo, "max_tokens", 3);
	set_model(&n, fcinfo, 4);
	put_options(&n, fcinfo, 5);
	set_common(&n, fcinfo, 7, 8, 9);
	name = create_job(&n);
	SPI_finish();
	PG_RETURN_DATUM(name);
}

/* ---- changing ---- */

/* The job, if the caller has its owner's rights. */
static JobDef *
job_for_owner(FunctionCallInfo fcinfo, const char *function)
{
	JobDef	   *j;

	PreventCommandDuringRecovery(function);
	PreventCommandIfReadOnly(function);
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the job's name must not be null")));
	j = job_find(NameStr(*PG_GETARG_NAME(0)));
	if (j == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("job \"%s\" does not exist", NameStr(*PG_GETARG_NAME(0))),
				 errhint("The view llm_jobs lists the jobs of this database.")));
	if (!superuser() && !has_privs_of_role(GetUserId(), j->owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of job \"%s\"", j->name)));
	return j;
}

/* A statement of ours on a job's rows: $1 is its id, $2 text, $3 text[]. */
static uint64
change(const JobDef *j, const char *sql, const char *text, Datum keys)
{
	Oid			types[3] = {INT4OID, TEXTOID, TEXTARRAYOID};
	Datum		v[3] = {Int32GetDatum(j->id), (Datum) 0, keys};
	char		nulls[3] = {' ', text ? ' ' : 'n', keys ? ' ' : 'n'};
	JobRole		role;
	uint64		n;

	if (text)
		v[1] = CStringGetTextDatum(text);
	SPI_connect();
	job_role_internal(&role);
	if (SPI_execute_with_args(sql, 3, types, v, nulls, false, 0) < 0)
		elog(ERROR, "could not change job \"%s\"", j->name);
	n = SPI_processed;
	job_role_end(&role);
	SPI_finish();
	return n;
}

/* The triggers are dropped as the caller; who may not has them do nothing. */
static void
drop_triggers(const JobDef *j)
{
	List	   *tables;
	ListCell   *lc;

	if (get_rel_name(j->source) == NULL)
		return;
	tables = find_all_inheritors(j->source, AccessExclusiveLock, NULL);
	SPI_connect();
	foreach(lc, tables)
	{
		static const char *const events[] = {"insert", "update", "delete", "truncate"};
		Oid			relid = lfirst_oid(lc);

		for (int i = 0; i < (int) lengthof(events); i++)
		{
			char	   *name = psprintf("vllm_job_%d_%s", j->id, events[i]);

			if (OidIsValid(get_trigger_oid(relid, name, true)))
				execute(psprintf("DROP TRIGGER %s ON %s", name,
								 quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid))));
		}
	}
	SPI_finish();
}

/* llm_drop_job(name) */
Datum
llm_drop_job(PG_FUNCTION_ARGS)
{
	JobDef	   *j = job_for_owner(fcinfo, "llm_drop_job()");

	drop_triggers(j);
	(void) change(j, "DELETE FROM vllm.job WHERE id = $1", NULL, 0);
	(void) change(j, "DELETE FROM vllm.job_queue WHERE job = $1", NULL, 0);
	(void) change(j, "DELETE FROM vllm.job_failure WHERE job = $1", NULL, 0);
	(void) change(j, "DELETE FROM vllm.job_stat WHERE job = $1", NULL, 0);
	PG_RETURN_VOID();
}

/* llm_pause_job(name) */
Datum
llm_pause_job(PG_FUNCTION_ARGS)
{
	JobDef	   *j = job_for_owner(fcinfo, "llm_pause_job()");

	(void) change(j, "UPDATE vllm.job SET state = 'paused', reason = NULL WHERE id = $1", NULL, 0);
	PG_RETURN_VOID();
}

/* llm_resume_job(name) */
Datum
llm_resume_job(PG_FUNCTION_ARGS)
{
	JobDef	   *j = job_for_owner(fcinfo, "llm_resume_job()");

	(void) change(j, "UPDATE vllm.job SET state = 'active', reason = NULL WHERE id = $1", NULL, 0);
	PG_RETURN_VOID();
}

/* llm_retry_job(name, key text[]) */
Datum
llm_retry_job(PG_FUNCTION_ARGS)
{
	JobDef	   *j = job_for_owner(fcinfo, "llm_retry_job()");
	Datum		key = PG_ARGISNULL(1) ? (Datum) 0 : PG_GETARG_DATUM(1);
	uint64		n;

	n = change(j, "WITH f AS (DELETE FROM vllm.job_failure WHERE job = $1 AND ($3 IS NULL OR key = $3) RETURNING job, hash, key)"
			   " INSERT INTO vllm.job_queue (job, id, hash, key, queued, attempts)"
			   " SELECT job, pg_catalog.nextval('vllm.job_queue_id_seq'), hash, key, pg_catalog.clock_timestamp(), 0 FROM f", NULL, key);
	/* the trigger on vllm.job wakes the worker */
	(void) change(j, "UPDATE vllm.job SET state = state WHERE id = $1", NULL, 0);
	PG_RETURN_INT64(n);
}

/* llm_backfill_job(name, rows text) */
Datum
llm_backfill_job(PG_FUNCTION_ARGS)
{
	JobDef	   *j = job_for_owner(fcinfo, "llm_backfill_job()");
	char	   *rows = PG_ARGISNULL(1) ? "all" : text_arg(fcinfo, 1);

	if (strcmp(rows, "missing") != 0 && strcmp(rows, "all") != 0 && strcmp(rows, "none") != 0)
		bad_value("rows", rows, "It is one of missing, all, none.");
	(void) change(j, "UPDATE vllm.job_stat SET backfill = NULLIF($2, 'none'), backfill_key = NULL, backfill_rows = 0 WHERE job = $1", rows, 0);
	(void) change(j, "UPDATE vllm.job SET state = state WHERE id = $1", NULL, 0);
	PG_RETURN_VOID();
}
