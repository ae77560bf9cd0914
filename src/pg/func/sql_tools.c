/*
 * sql_tools.c
 *	  llm_tool(): SQL functions as tools of a chat, and their calls.
 *
 * A call is a query, SELECT r.* FROM schema.function(name => $1, ...) r as one column, with
 * parameters of the arguments' own types.  Its rows become JSON without casts of other roles' types
 * (type_trust.c).  The planner adds defaults, the executor checks EXECUTE and runs set-returning
 * functions, and no text of the model is ever part of the query.  Before the query runs, the code
 * checks which function it calls: another one of the same name that fits better is not the one that
 * the user listed.
 *
 * Tests: tests/sql/28_chat_run.sql.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/comment.h"
#include "executor/spi.h"
#include "executor/spi_priv.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "pg/call/tool.h"
#include "pg/util/type_trust.h"

PG_FUNCTION_INFO_V1(llm_tool);

#define MAX_ROWS	1000		/* rows of a set that a tool returns */
#define MAX_NAME	64			/* OpenAI's limit */

static void
not_callable(Oid funcid, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("function %s cannot be a tool", format_procedure(funcid)),
			 errdetail("%s", why)));
}

/* ---- comments ---- */

/* Return the argument that a line "name: ..." describes, with *text after the colon. */
static ToolArg *
about_argument(Tool *t, const char *line, int len, const char **text)
{
	for (int i = 0; i < t->n_args; i++)
	{
		int			n = (int) strlen(t->args[i].name);

		if (n < len && strncmp(line, t->args[i].name, n) == 0 && line[n] == ':')
		{
			*text = line + n + 1;
			while (**text == ' ' && *text < line + len)
				(*text)++;
			return &t->args[i];
		}
	}
	return NULL;
}

/* Split a function's comment into lines about arguments and the rest. */
static void
read_comment(Tool *t)
{
	const char *s = GetComment(t->funcid, ProcedureRelationId, 0);
	StringInfoData rest;

	if (s == NULL)
		return;
	initStringInfo(&rest);
	while (*s != '\0')
	{
		int			len = (int) strcspn(s, "\n");
		const char *text;
		ToolArg    *a = about_argument(t, s, len, &text);

		CHECK_FOR_INTERRUPTS();
		if (a != NULL)
			a->comment = pnstrdup(text, len - (text - s));
		else
			appendStringInfo(&rest, "%s%.*s", rest.len > 0 ? "\n" : "", len, s);
		s += len + (s[len] == '\n');
	}
	while (rest.len > 0 && rest.data[rest.len - 1] == '\n')
		rest.data[--rest.len] = '\0';
	t->comment = rest.len > 0 ? rest.data : NULL;
}

/* ---- signatures ---- */

static void
check_kind(Oid funcid, Form_pg_proc f)
{
	if (f->prokind == PROKIND_PROCEDURE)
		not_callable(funcid, "It is a procedure.");
	if (f->prokind == PROKIND_AGGREGATE)
		not_callable(funcid, "It is an aggregate function.");
	if (f->prokind == PROKIND_WINDOW)
		not_callable(funcid, "It is a window function.");
	if (f->prorettype != VOIDOID && f->prorettype != RECORDOID &&
		get_typtype(f->prorettype) == TYPTYPE_PSEUDO)
		not_callable(funcid, psprintf("It returns the pseudo-type %s.", format_type_be(f->prorettype)));
}

static void
check_name(const Tool *t)
{
	size_t		n = strlen(t->name);

	if (n > MAX_NAME || strspn(t->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") !=
		n)
		not_callable(t->funcid, "A tool's name has letters, digits, _ and - only.");
}

static void
read_arguments(Tool *t, HeapTuple tup, Form_pg_proc f)
{
	Oid		   *types;
	char	  **names;
	char	   *modes;
	int			n = get_func_arg_info(tup, &types, &names, &modes);
	bool		has_columns = f->prorettype != RECORDOID;

	t->args = palloc0(sizeof(ToolArg) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		char		mode = modes != NULL ? modes[i] : PROARGMODE_IN;
		ToolArg    *a = &t->args[t->n_args];

		has_columns |= mode == PROARGMODE_OUT || mode == PROARGMODE_INOUT || mode == PROARGMODE_TABLE;
		if (mode == PROARGMODE_OUT || mode == PROARGMODE_TABLE)
			continue;
		t->n_args++;
		if (names == NULL || names[i] == NULL || names[i][0] == '\0')
			not_callable(t->funcid, psprintf("Its argument %d has no name.", t->n_args));
		if (get_typtype(types[i]) == TYPTYPE_PSEUDO)
			not_callable(t->funcid, psprintf("Its argument \"%s\" has the pseudo-type %s.", names[i],
											 format_type_be(types[i])));
		a->name = pstrdup(names[i]);
		a->variadic = mode == PROARGMODE_VARIADIC;
		a->shape = type_shape(types[i], -1);
	}
	/* a call with named arguments can't omit VARIADIC */
	for (int i = 0; i < t->n_args; i++)
		t->args[i].has_default = i >= t->n_args - f->pronargdefaults && !t->args[i].variadic;
	if (!has_columns)
		not_callable(t->funcid, "It returns rows whose columns are not known.");
}

Tool *
tool_of_function(Oid funcid)
{
	HeapTuple	tup = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	Form_pg_proc f;
	Tool	   *t = palloc0(sizeof(Tool));

	if (!HeapTupleIsValid(tup))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function with OID %u does not exist", funcid)));
	f = (Form_pg_proc) GETSTRUCT(tup);
	check_kind(funcid, f);
	t->funcid = funcid;
	t->name = pstrdup(NameStr(f->proname));
	t->schema = get_namespace_name(f->pronamespace);
	t->returns_set = f->proretset;
	t->returns_void = f->prorettype == VOIDOID;
	check_name(t);
	read_arguments(t, tup, f);
	ReleaseSysCache(tup);
	read_comment(t);
	return t;
}

void
tool_json(StringInfo out, const Tool *t)
{
	bool		first = true;

	appendStringInfoString(out, "{\"type\": \"function\", \"function\": {\"name\": ");
	escape_json(out, t->name);
	if (t->comment != NULL)
	{
		appendStringInfoString(out, ", \"description\": ");
		escape_json(out, t->comment);
	}
	appendStringInfoString(out, ", \"parameters\": {\"type\": \"object\", \"properties\": {");
	for (int i = 0; i < t->n_args; i++)
	{
		appendStringInfoString(out, i > 0 ? ", " : "");
		escape_json(out, t->args[i].name);
		appendStringInfoString(out, ": ");
		type_schema_described(out, t->args[i].shape, false, t->args[i].comment, SCHEMA_READABLE);
	}
	appendStringInfoString(out, "}, \"required\": [");
	for (int i = 0; i < t->n_args; i++)
	{
		if (t->args[i].has_default)
			continue;
		appendStringInfoString(out, first ? "" : ", ");
		escape_json(out, t->args[i].name);
		first = false;
	}
	appendStringInfoString(out, "], \"additionalProperties\": false}}}");
}

/* ---- calls ---- */

typedef struct Arguments
{
	int			n;
	Oid		   *types;
	Datum	   *values;
	StringInfoData list;		/* name => $1, ... */
} Arguments;

static void
bad_argument(const Tool *t, const char *name, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"%s\" of tool %s %s", name, t->name, what)));
}

static void
check_names(const Tool *t, const JsonNode *object)
{
	bool	   *seen = palloc0(sizeof(bool) * Max(t->n_args, 1));

	for (const JsonNode *m = object->first; m != NULL; m = m->next)
	{
		int			i = 0;

		CHECK_FOR_INTERRUPTS();
		while (i < t->n_args && strcmp(t->args[i].name, m->key) != 0)
			i++;
		if (i == t->n_args)
			bad_argument(t, m->key, "does not exist");
		if (seen[i])
			bad_argument(t, m->key, "is given twice");
		seen[i] = true;
	}
	pfree(seen);
}

/* Models write null to omit an argument: for one with a default, null counts as not given. */
static void
read_values(Tool *t, const JsonNode *object, Arguments *a)
{
	a->types = palloc(sizeof(Oid) * Max(t->n_args, 1));
	a->values = palloc(sizeof(Datum) * Max(t->n_args, 1));
	initStringInfo(&a->list);
	for (int i = 0; i < t->n_args; i++)
	{
		ToolArg    *arg = &t->args[i];
		const JsonNode *m = json_tree_get(object, arg->name);
		ErrorData  *refused;
		bool		isnull;

		if (arg->has_default && (m == NULL || m->kind == JSON_NULL))
			continue;
		if (m == NULL)
			bad_argument(t, arg->name, "is missing");
		refused = type_value(arg->shape, m, false, &a->values[a->n], &isnull);
		if (refused)
		{
			refused->message = psprintf("argument \"%s\" of tool %s: %s", arg->name, t->name,
										refused->message);
			ThrowErrorData(refused);
		}
		a->types[a->n++] = arg->shape->type;
		appendStringInfo(&a->list, "%s%s%s => $%d", a->n > 1 ? ", " : "", arg->variadic ? "VARIADIC " : "",
						 quote_identifier(arg->name), a->n);
	}
}

/* Return true if the query calls the function and no other. */
static bool
calls_function(SPIPlanPtr plan, Oid funcid)
{
	CachedPlanSource *source = linitial(SPI_plan_get_plan_sources(plan));
	Query	   *q = linitial(source->query_list);
	RangeTblEntry *rte;
	RangeTblFunction *f;

	if (list_length(q->rtable) < 1)
		return false;
	rte = linitial(q->rtable);
	if (rte->rtekind != RTE_FUNCTION || list_length(rte->functions) != 1)
		return false;
	f = linitial(rte->functions);
	return IsA(f->funcexpr, FuncExpr) && ((FuncExpr *) f->funcexpr)->funcid == funcid;
}

/* Return the rows of SPI's result as one JSON text, in cxt. */
static char *
rows_json(const Tool *t, MemoryContext cxt)
{
	MemoryContext old = MemoryContextSwitchTo(cxt);
	StringInfoData out;

	initStringInfo(&out);
	if (t->returns_set)
		appendStringInfoChar(&out, '[');
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		Datum		row = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull);

		appendStringInfo(&out, "%s%s", i > 0 ? ", " : "",
						 isnull ? "null" : type_plain_json(row, SPI_gettypeid(SPI_tuptable->tupdesc, 1)));
	}
	if (t->returns_set)
		appendStringInfoChar(&out, ']');
	else if (SPI_processed == 0)
		appendStringInfoString(&out, "null");
	MemoryContextSwitchTo(old);
	return out.data;
}

char *
tool_call(Tool *t, const JsonNode *object)
{
	MemoryContext cxt = CurrentMemoryContext;
	Arguments	a = {0};
	SPIPlanPtr	plan;
	StringInfoData query;
	char	   *result;

	if (object->kind != JSON_OBJECT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the arguments of tool %s must be an object, not %s", t->name,
						json_kind_name(object->kind))));
	check_names(t, object);
	read_values(t, object, &a);
	initStringInfo(&query);
	/* FROM turns a NULL row into a row of NULLs; CASE makes r.* one value */
	appendStringInfo(&query, "SELECT %s FROM %s(%s) r",
					 t->returns_void ? "NULL::pg_catalog.bool" :
					 t->returns_set ? "CASE WHEN true THEN r.* END" :
						 "CASE WHEN NOT r.* IS NULL THEN r.* END",
					 quote_qualified_identifier(t->schema, t->name), a.list.data);
	SPI_connect();
	plan = SPI_prepare(query.data, a.n, a.types);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	if (!calls_function(plan, t->funcid))
		ereport(ERROR,
				(errcode(ERRCODE_AMBIGUOUS_FUNCTION),
				 errmsg("a call of tool %s resolves to another function", t->name)));
	if (SPI_execute_plan(plan, a.values, NULL, false, MAX_ROWS + 1) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute_plan failed: %s", SPI_result_code_string(SPI_result));
	if (SPI_processed > MAX_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("tool %s returned more than %d rows", t->name, MAX_ROWS)));
	result = rows_json(t, cxt);
	SPI_finish();
	return result;
}

/* ---- SQL ---- */

/* llm_tool(function regprocedure) */
Datum
llm_tool(PG_FUNCTION_ARGS)
{
	StringInfoData out;

	initStringInfo(&out);
	tool_json(&out, tool_of_function(PG_GETARG_OID(0)));
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out.data, out.len));
}
