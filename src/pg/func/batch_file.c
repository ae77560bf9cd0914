/*
 * batch_file.c
 *	  llm_run_batch, llm_run_batch_table, llm_run_batch_file: many request bodies, as in OpenAI's batch files.
 *
 * All forms run one query over llm_api(), so that the batch node keeps the requests in flight and
 * returns their results in order.  A row that is refused gets an error body as its result, and the
 * others go on.  (A lost engine is not a result: it ends the statement.)
 *
 * The table form is for runs of hours: it commits after each part, and does not ask rows again that
 * have a result already.  So the same CALL continues a run that was interrupted.
 *
 * The file form reads the file into a temporary table, line by line.  Each line gets a result,
 * whatever it contains, and nothing in a line ends the file, as a backslash and a dot would for
 * COPY.  COPY writes the output file when all results exist, so it is never incomplete.  Conditions
 * that COPY would refuse there are checked before any request.
 *
 * Tests: tests/sql/30_bodies.sql, tests/t/082_bodies.pl.
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "common/jsonapi.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/fd.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/plancache.h"

#include "pg/compat.h"
#include "pg/util/type_trust.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_json_or_null);
PG_FUNCTION_INFO_V1(llm_run_batch);
PG_FUNCTION_INFO_V1(llm_run_batch_table);
PG_FUNCTION_INFO_V1(llm_run_batch_file);

#define FETCH	100				/* rows at a time */

/*
 * Called in a PG_CATCH() block: ignore an error of the line itself, which makes it invalid JSON here:
 * brackets deeper than the stack, a character that the database's encoding lacks.
 */
static void
forgive_line(MemoryContext cxt)
{
	int			code = geterrcode();

	if (code != ERRCODE_STATEMENT_TOO_COMPLEX && code != ERRCODE_UNTRANSLATABLE_CHARACTER)
		PG_RE_THROW();
	MemoryContextSwitchTo(cxt);
	FlushErrorState();
}

Datum
llm_json_or_null(PG_FUNCTION_ARGS)
{
	text	   *line = PG_GETARG_TEXT_PP(0);
	MemoryContext cxt = CurrentMemoryContext;
	volatile bool valid = false;

	PG_TRY();
	{
		valid = pg_parse_json(compat_json_lexer(line), &nullSemAction) == JSON_SUCCESS;
	}
	PG_CATCH();
	{
		forgive_line(cxt);
	}
	PG_END_TRY();
	if (!valid)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(line);
}

/* Return the schema of the extension's functions, as an identifier. */
static const char *
schema_of(FunctionCallInfo fcinfo)
{
	return quote_identifier(get_namespace_name(get_func_namespace(fcinfo->flinfo->fn_oid)));
}

/*
 * Append: SELECT n, custom_id, body of the result FROM rows, which has the columns n, custom_id, url,
 * body and problem; the results come in the order of n.
 */
static void
append_answers(StringInfo s, FunctionCallInfo fcinfo, const char *rows)
{
	appendStringInfo(s,
					 "SELECT n, custom_id, CASE WHEN refusal IS NULL THEN %s.llm_api(url, body, "
					 "'return'::pg_catalog.text) ELSE refusal END AS answer FROM (SELECT n, custom_id, url, "
					 "body, vllm.batch_refusal(custom_id, url, body, nth, problem) AS refusal FROM (SELECT "
					 "n, custom_id, url, body, problem, pg_catalog.row_number() OVER (PARTITION BY custom_id "
					 "ORDER BY n) AS nth FROM (%s) AS r) AS r ORDER BY n) AS r",
					 schema_of(fcinfo), rows);
}

/* Change a setting for the rest of the function; AtEOXact_GUC() undoes it. */
static void
set_local(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/* Run a statement that returns no rows. */
static void
run(const char *sql, int expected)
{
	if (SPI_execute(sql, false, 0) != expected)
		elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(SPI_result));
}

/* Copy the rows of a query to the function's result. */
static void
take_rows(ReturnSetInfo *rsinfo, const char *sql)
{
	SPIPlanPtr	plan = SPI_prepare(sql, 0, NULL);
	Portal		portal;
	Datum		values[4];
	bool		nulls[4];

	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	portal = SPI_cursor_open(NULL, plan, NULL, NULL, false);
	for (;;)
	{
		SPI_cursor_fetch(portal, true, FETCH);
		if (SPI_processed == 0)
			break;
		for (uint64 i = 0; i < SPI_processed; i++)
		{
			for (int c = 0; c < 4; c++)
				values[c] = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, c + 1, &nulls[c]);
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		}
		SPI_freetuptable(SPI_tuptable);
	}
	SPI_cursor_close(portal);
}

/*
 * Check the query before it is embedded, so that errors refer to the text that the caller gave.  Its
 * columns are cast, so their types must be trusted.  The locks on its tables are kept, so that no
 * column gets another type before the query runs.
 */
static void
check_query(const char *query)
{
	SPIPlanPtr	plan = SPI_prepare(query, 0, NULL);
	CachedPlanSource *source;

	if (plan == NULL || !SPI_is_cursor_plan(plan))
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("query must be one statement that returns rows")));
	source = linitial(SPI_plan_get_plan_sources(plan));
	if (source->resultDesc->natts != 3)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("query must have three columns: custom_id, url and body; it has %d",
						source->resultDesc->natts)));
	for (int i = 0; i < 3; i++)
		type_check_trusted(NameStr(TupleDescAttr(source->resultDesc, i)->attname),
						   TupleDescAttr(source->resultDesc, i)->atttypid);
	SPI_freeplan(plan);
}

/* llm_run_batch(query text, window int) */
Datum
llm_run_batch(PG_FUNCTION_ARGS)
{
	int			nest = NewGUCNestLevel();
	char	   *query;
	StringInfoData rows;
	StringInfoData sql;

	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("query must not be null")));
	if (!PG_ARGISNULL(1))
	{
		if (PG_GETARG_INT32(1) < 1)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("window must be at least 1, got %d", PG_GETARG_INT32(1))));
		set_local("vllm.batch_window", psprintf("%d", PG_GETARG_INT32(1)));
	}
	query = text_to_cstring(PG_GETARG_TEXT_PP(0));
	initStringInfo(&rows);
	appendStringInfo(&rows,
					 "SELECT pg_catalog.row_number() OVER () AS n, custom_id::pg_catalog.text, "
					 "url::pg_catalog.text, body::pg_catalog.json, NULL::pg_catalog.text AS problem "
					 "FROM (%s\n) AS q(custom_id, url, body)", query);
	initStringInfo(&sql);
	appendStringInfoString(&sql,
						   "SELECT custom_id, status, CASE WHEN status OPERATOR(pg_catalog.=) 200 THEN "
						   "answer END, CASE WHEN status OPERATOR(pg_catalog.<>) 200 THEN answer "
						   "OPERATOR(pg_catalog.->) 'error' END FROM (SELECT n, custom_id, answer, "
						   "vllm.api_status(answer) AS status FROM (");
	append_answers(&sql, fcinfo, rows.data);
	appendStringInfoString(&sql, ") AS a OFFSET 0) AS a");
	SPI_connect();
	check_query(query);
	take_rows((ReturnSetInfo *) fcinfo->resultinfo, sql.data);
	SPI_finish();
	AtEOXact_GUC(true, nest);
	return (Datum) 0;
}

/* ---- llm_run_batch_table(input regclass, output regclass, part_rows int) ---- */

static char *
table_name(Oid table)
{
	return DatumGetCString(DirectFunctionCall1(regclassout, ObjectIdGetDatum(table)));
}

/* The lock keeps the table's definition until the transaction ends. */
static void
lock_table(Oid table)
{
	LockRelationOid(table, AccessShareLock);
	if (get_rel_name(table) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", table)));
}

/*
 * Check the columns that a part's statements qualify with a table.  Without a column of that name,
 * SQL takes x.name for a call of a function name(x), which any user may have created.  The columns
 * are cast, so their types must be trusted.
 */
static void
check_columns(Oid table, const char *const *names, int n)
{
	for (int i = 0; i < n; i++)
	{
		AttrNumber	attno = get_attnum(table, names[i]);

		if (attno == InvalidAttrNumber)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" of relation \"%s\" does not exist", names[i],
							get_rel_name(table))));
		type_check_trusted(names[i], get_atttype(table, attno));
	}
}

/* Return the only column of the only row. */
static int64
run_number(const char *sql)
{
	bool		isnull;

	if (SPI_execute(sql, false, 1) != SPI_OK_SELECT || SPI_processed != 1)
		elog(ERROR, "could not count the rows of a batch");
	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
}

static void
check_ids(Oid table, const char *input)
{
	if (SPI_execute(psprintf("SELECT custom_id::pg_catalog.text FROM %s GROUP BY 1 HAVING "
							 "pg_catalog.count(*) OPERATOR(pg_catalog.>) 1 OR custom_id::pg_catalog.text IS "
							 "NULL", input),
					false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read the rows of a batch");
	if (SPI_processed > 0)
	{
		char	   *id = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);

		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 id == NULL ? errmsg("custom_id must be given in all rows of %s", table_name(table)) :
				 errmsg("custom_id \"%s\" is used more than once in %s", id, table_name(table)),
				 errhint("The custom_id identifies the rows that already have an answer, so it must be "
						 "unique and not null.")));
	}
}

typedef struct BatchFilePart
{
	char	   *input;			/* quoted names */
	char	   *output;
	char	   *rest;			/* FROM ... WHERE: the rows without a result */
} BatchFilePart;

/* After each commit the tables may have other names and other columns, so look them up again. */
static void
begin_part(BatchFilePart *p, Oid input, Oid output)
{
	static const char *const names[] = {"custom_id", "url", "body"};

	lock_table(input);
	lock_table(output);
	check_columns(input, names, 3);
	check_columns(output, names, 1);
	p->input = quote_qualified_identifier(get_namespace_name(get_rel_namespace(input)), get_rel_name(input));
	p->output = quote_qualified_identifier(get_namespace_name(get_rel_namespace(output)),
										   get_rel_name(output));
	p->rest = psprintf("FROM %s AS i WHERE NOT EXISTS (SELECT FROM %s AS o "
					   "WHERE o.custom_id::pg_catalog.text OPERATOR(pg_catalog.=) "
					   "i.custom_id::pg_catalog.text)", p->input, p->output);
}

static void
run_part(FunctionCallInfo fcinfo, const BatchFilePart *p, int part_rows)
{
	char	   *query = psprintf("SELECT i.custom_id, i.url, i.body %s LIMIT %d", p->rest, part_rows);

	run(psprintf("INSERT INTO %s (custom_id, status_code, response, error) SELECT custom_id, status_code, "
				 "response, error FROM %s.llm_run_batch(%s::pg_catalog.text, NULL::pg_catalog.int4)",
				 p->output, schema_of(fcinfo), quote_literal_cstr(query)),
		SPI_OK_INSERT);
}

static void
run_parts(FunctionCallInfo fcinfo, Oid input, Oid output, int part_rows)
{
	BatchFilePart p;
	int64		n;

	begin_part(&p, input, output);
	check_ids(input, p.input);
	n = run_number(psprintf("SELECT pg_catalog.count(*) %s", p.rest));
	/* bounded by the number of rows at the start, since inserted rows need not stay in the table */
	for (int64 done = 0; done < n; done += part_rows)
	{
		if (done > 0)
			begin_part(&p, input, output);
		run_part(fcinfo, &p, part_rows);
		SPI_commit();
	}
}

Datum
llm_run_batch_table(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {"input", "output", "part_rows"};
	const CallContext *call = fcinfo->context != NULL && IsA(fcinfo->context, CallContext) ?
		(CallContext *) fcinfo->context : NULL;

	for (int i = 0; i < 3; i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("%s must not be null", names[i])));
	if (PG_GETARG_INT32(2) < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("part_rows must be at least 1, got %d", PG_GETARG_INT32(2))));
	if (call == NULL || call->atomic)
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("llm_run_batch_table cannot run inside a transaction block"),
				 errhint("It commits after each part; llm_run_batch is for one transaction.")));
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	run_parts(fcinfo, PG_GETARG_OID(0), PG_GETARG_OID(1), PG_GETARG_INT32(2));
	SPI_finish();
	PG_RETURN_VOID();
}

/* ---- llm_run_batch_file(input_path text, output_path text, model text) ---- */

#define LINES	"pg_temp.vllm_batch_lines"
#define ANSWERS "pg_temp.vllm_batch_answers"

/* Each line is one value: no quotes, no columns. */
#define LINE_FORMAT "(FORMAT csv, DELIMITER E'\\x01', QUOTE E'\\x02', ENCODING 'UTF8')"

/*
 * Queries run with the caller's search_path, which may find operators and types of other schemas
 * first; so each has its schema.
 */
#define LINE_ROWS \
	"SELECT n, line OPERATOR(pg_catalog.->>) 'custom_id' AS custom_id, line OPERATOR(pg_catalog.->>) 'url' " \
	"AS url, " \
	"line OPERATOR(pg_catalog.->) 'body' AS body, CASE WHEN bad THEN 'the line is not a JSON object' " \
	"WHEN (line OPERATOR(pg_catalog.->>) 'method') OPERATOR(pg_catalog.<>) 'POST'::pg_catalog.text " \
	"THEN pg_catalog.format('method must be POST, got %s', line OPERATOR(pg_catalog.->) 'method') END AS " \
	"problem " \
	"FROM (SELECT n, CASE WHEN bad THEN '{}'::pg_catalog.json ELSE j END AS line, bad " \
	"FROM (SELECT n, j, coalesce(pg_catalog.json_typeof(j), '') OPERATOR(pg_catalog.<>) " \
	"'object'::pg_catalog.text AS bad " \
	"FROM (SELECT n, vllm.json_or_null(line) AS j " \
	"FROM " LINES " WHERE line OPERATOR(pg_catalog.~) '[^[:space:]]'::pg_catalog.text) AS j) AS j) AS l"

#define OUTPUT_LINE \
	"SELECT n, status, pg_catalog.json_build_object('id', 'vllm-' OPERATOR(pg_catalog.||) " \
	"pg_catalog.replace(pg_catalog.gen_random_uuid()::pg_catalog.text, '-', ''), 'custom_id', custom_id, " \
	"'response', pg_catalog.json_build_object('status_code', status, 'request_id', 'vllm-batch-' " \
	"OPERATOR(pg_catalog.||) " \
	"pg_catalog.replace(pg_catalog.gen_random_uuid()::pg_catalog.text, '-', ''), " \
	"'body', CASE WHEN status OPERATOR(pg_catalog.=) 200 THEN answer END), " \
	"'error', CASE WHEN status OPERATOR(pg_catalog.<>) 200 THEN answer OPERATOR(pg_catalog.->) 'error' " \
	"END)::pg_catalog.text AS line " \
	"FROM (SELECT n, custom_id, answer, vllm.api_status(answer) AS status FROM ("

/* Read one line, without its end; return false at the end of the file. */
static bool
read_line(FILE *file, const char *path, StringInfo line)
{
	int			c;

	resetStringInfo(line);
	while ((c = getc(file)) != EOF && c != '\n')
		appendStringInfoCharMacro(line, c);
	if (ferror(file))
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read file \"%s\": %m", path)));
	return c != EOF || line->len > 0;
}

/*
 * Return a line as text.  A line that is not UTF-8, or not convertible to the database's encoding,
 * becomes a text that is not JSON either.
 */
static Datum
line_text(const StringInfoData *line)
{
	int			len = line->len;
	MemoryContext cxt = CurrentMemoryContext;
	char	   *volatile s = NULL;

	if (pg_encoding_verifymbstr(PG_UTF8, line->data, len) != len)
		return CStringGetTextDatum("not UTF-8");
	PG_TRY();
	{
		s = pg_any_to_server(line->data, len, PG_UTF8);
	}
	PG_CATCH();
	{
		forgive_line(cxt);
	}
	PG_END_TRY();
	if (s == NULL)
		return CStringGetTextDatum("not of the database's encoding");
	return PointerGetDatum(cstring_to_text_with_len(s, s == line->data ? len : strlen(s)));
}

static void
check_role(Oid role, const char *name, const char *what)
{
	if (!has_privs_of_role(GetUserId(), role))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to %s a file on the server", what),
				 errdetail("Only roles with privileges of the \"%s\" role may %s files.", name, what)));
}

/* Check before the work whether the output may be written, as far as that is possible without writing. */
static void
check_files(const char *input, const char *output)
{
	char	   *folder = pstrdup(output);
	struct stat st;

	check_role(ROLE_PG_READ_SERVER_FILES, "pg_read_server_files", "read");
	check_role(ROLE_PG_WRITE_SERVER_FILES, "pg_write_server_files", "write");
	if (!is_absolute_path(output))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("output_path must be absolute, got \"%s\"", output)));
	get_parent_directory(folder);
	if (stat(output, &st) == 0 ? access(output, W_OK) != 0 : access(folder, W_OK) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", output)));
	if (stat(output, &st) == 0 && S_ISDIR(st.st_mode))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is a directory", output)));
	if (stat(input, &st) == 0 && S_ISDIR(st.st_mode))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is a directory", input)));
}

static void
read_lines(const char *path)
{
	Oid			types[1] = {TEXTOID};
	SPIPlanPtr	plan = SPI_prepare("INSERT INTO " LINES " (line) VALUES ($1)", 1, types);
	MemoryContext tmp = AllocSetContextCreate(CurrentMemoryContext, "LLM batch line", ALLOCSET_DEFAULT_SIZES);
	StringInfoData line;
	FILE	   *file = AllocateFile(path, PG_BINARY_R);

	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	if (file == NULL)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\" for reading: %m", path)));
	initStringInfo(&line);
	while (read_line(file, path, &line))
	{
		MemoryContext old = MemoryContextSwitchTo(tmp);
		Datum		values[1];

		CHECK_FOR_INTERRUPTS();
		values[0] = line_text(&line);
		if (SPI_execute_plan(plan, values, NULL, false, 0) != SPI_OK_INSERT)
			elog(ERROR, "could not store a line of a batch");
		MemoryContextSwitchTo(old);
		MemoryContextReset(tmp);
	}
	FreeFile(file);
	MemoryContextDelete(tmp);
}

static void
answer_lines(FunctionCallInfo fcinfo, const char *input, const char *output)
{
	StringInfoData sql;

	run("CREATE TEMPORARY TABLE " LINES " (n bigint GENERATED ALWAYS AS IDENTITY, line pg_catalog.text)",
		SPI_OK_UTILITY);
	read_lines(input);
	initStringInfo(&sql);
	appendStringInfoString(&sql, "CREATE TEMPORARY TABLE " ANSWERS " AS " OUTPUT_LINE);
	append_answers(&sql, fcinfo, LINE_ROWS);
	appendStringInfoString(&sql, ") AS a OFFSET 0) AS a");
	run(sql.data, SPI_OK_UTILITY);
	run(psprintf("COPY (SELECT line FROM " ANSWERS " ORDER BY n) TO %s " LINE_FORMAT,
				 quote_literal_cstr(output)), SPI_OK_UTILITY);
}

static char *
path_arg(FunctionCallInfo fcinfo, int arg, const char *name)
{
	if (PG_ARGISNULL(arg))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", name)));
	return text_to_cstring(PG_GETARG_TEXT_PP(arg));
}

Datum
llm_run_batch_file(PG_FUNCTION_ARGS)
{
	char	   *input = path_arg(fcinfo, 0, "input_path");
	char	   *output = path_arg(fcinfo, 1, "output_path");
	TimestampTz start = GetCurrentTimestamp();
	int			nest = NewGUCNestLevel();
	TupleDesc	desc;
	Datum		values[4];
	bool		nulls[4] = {0};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!PG_ARGISNULL(2))
		set_local("vllm.model", text_to_cstring(PG_GETARG_TEXT_PP(2)));
	check_files(input, output);
	SPI_connect();
	answer_lines(fcinfo, input, output);
	if (SPI_execute("SELECT pg_catalog.count(*)::int, (pg_catalog.count(*) FILTER (WHERE status "
					"OPERATOR(pg_catalog.=) 200))::int, (pg_catalog.count(*) FILTER (WHERE status "
					"OPERATOR(pg_catalog.<>) 200))::int FROM " ANSWERS, false, 1) != SPI_OK_SELECT ||
					SPI_processed != 1)
		elog(ERROR, "could not count the answers of a batch");
	for (int i = 0; i < 3; i++)
		values[i] = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, i + 1, &nulls[i]);
	values[3] = Float8GetDatum((GetCurrentTimestamp() - start) / 1000.0);
	run("DROP TABLE " LINES ", " ANSWERS, SPI_OK_UTILITY);
	SPI_finish();
	AtEOXact_GUC(true, nest);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
