/*
 * job_call.c
 *	  The request of a job's function for one input.
 *
 * A job stores the call's arguments as SQL text: model => '...', dimensions => '...'.  own_call()
 * puts them in their places and adds the defaults of the others.  The parser makes a call with
 * constant arguments of that, and the function's row of engine_func.def makes the request's head.  So
 * a job's request is the same as that of a call in SQL.
 *
 * Tests: tests/sql/23_jobs.sql.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "optimizer/optimizer.h"
#include "parser/analyze.h"
#include "parser/parser.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"

#include "pg/client/client.h"
#include "pg/compat.h"
#include "pg/jobs/job.h"
#include "pg/util/own_call.h"

static const EngineFunc *
require_engine_func(Oid funcid)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	const EngineFunc *f;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", funcid);
	f = engine_func_of(tuple);
	ReleaseSysCache(tuple);
	if (f == NULL || f->n_inputs != 1)
		elog(ERROR, "function %u can't be a job's", funcid);
	return f;
}

/* The owner may have lost the privilege since the job was created. */
static void
require_execute(Oid funcid)
{
	AclResult	acl = compat_proc_aclcheck(funcid, GetUserId(), ACL_EXECUTE);

	if (acl != ACLCHECK_OK)
		aclcheck_error(acl, OBJECT_FUNCTION, get_func_name(funcid));
}

/* The call is not folded before it is known to be one of the function. */
static FuncExpr *
parse_call(const char *sql, Oid function)
{
	List	   *parsed = pg_parse_query(sql);
	Query	   *query;
	Node	   *expr;

	if (list_length(parsed) != 1)
		elog(ERROR, "a job's call is not one statement: %s", sql);
	query = parse_analyze_fixedparams(linitial_node(RawStmt, parsed), sql, NULL, 0, NULL);
	if (query->commandType != CMD_SELECT || list_length(query->targetList) != 1)
		elog(ERROR, "a job's call is not one expression: %s", sql);
	expr = (Node *) linitial_node(TargetEntry, query->targetList)->expr;
	if (!IsA(expr, FuncExpr) || ((FuncExpr *) expr)->funcid != function)
		elog(ERROR, "a job's call is not that of function %u: %s", function, sql);
	expr = (Node *) expression_planner((Expr *) expr);
	if (!IsA(expr, FuncExpr))
		elog(ERROR, "a job's call is not a function's: %s", sql);
	return (FuncExpr *) expr;
}

List *
job_arguments_read(const char *arguments)
{
	List	   *statements = raw_parser(psprintf("SELECT pg_catalog.f(%s)", arguments), RAW_PARSE_DEFAULT);
	SelectStmt *select = castNode(SelectStmt, linitial_node(RawStmt, statements)->stmt);
	FuncCall   *call = castNode(FuncCall, linitial_node(ResTarget, select->targetList)->val);
	List	   *args = NIL;
	ListCell   *lc;

	foreach(lc, call->args)
	{
		NamedArgExpr *arg = lfirst_node(NamedArgExpr, lc);

		args = own_arg(args, arg->name, strVal(&castNode(A_Const, arg->arg)->val));
	}
	return args;
}

char *
job_call_sql(const char *function, List *arguments, const char *input)
{
	Oid			funcid = own_function(function, TEXTOID);
	List	   *args = own_arg(NIL, strcmp(function, "llm_generate") == 0 ? "prompt" : "input", input);
	ListCell   *lc;

	foreach(lc, arguments)
		args = own_arg(args, ((OwnArg *) lfirst(lc))->name,
					   quote_literal_cstr(((OwnArg *) lfirst(lc))->value));
	return own_call(funcid, args);
}

JobCall *
job_call_make(const char *function, const char *arguments)
{
	JobCall    *c = palloc0(sizeof(JobCall));
	FuncExpr   *call =
		parse_call(psprintf("SELECT %s", job_call_sql(function, job_arguments_read(arguments), "''")),
								  own_function(function, TEXTOID));
	int			n = list_length(call->args);

	require_execute(call->funcid);
	c->func = require_engine_func(call->funcid);
	c->rettype = call->funcresulttype;
	fmgr_info(call->funcid, &c->flinfo);
	fmgr_info_set_expr((Node *) call, &c->flinfo);
	c->fcinfo = palloc0(SizeForFunctionCallInfo(n));
	InitFunctionCallInfoData(*c->fcinfo, &c->flinfo, n, call->inputcollid, NULL, NULL);
	for (int i = 0; i < n; i++)
	{
		Const	   *arg = list_nth(call->args, i);

		if (!IsA(arg, Const))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("argument %d of function %s is not a constant in a job", i + 1, function)));
		c->fcinfo->args[i].value = arg->constvalue;
		c->fcinfo->args[i].isnull = arg->constisnull;
	}
	initStringInfo(&c->request.body);
	c->func->head(&c->request, c->fcinfo);
	c->head_len = c->request.body.len;
	return c;
}

/* A body that is too long for a slot would wait for ever, and make other jobs wait. */
static ErrorData *
check_length(const StringInfoData *body)
{
	ErrorData  *e;

	if (vcall_fits(body))
		return NULL;
	e = palloc0(sizeof(ErrorData));
	e->elevel = ERROR;
	e->sqlerrcode = ERRCODE_PROGRAM_LIMIT_EXCEEDED;
	e->message = psprintf("request of %d bytes is too long", body->len);
	e->assoc_context = CurrentMemoryContext;
	return e;
}

ErrorData *
job_call_request(JobCall *c, const char *input)
{
	ErrorData  *refused;

	c->request.body.len = c->head_len;
	c->fcinfo->args[0].value = CStringGetTextDatum(input);
	c->fcinfo->args[0].isnull = false;
	refused = engine_func_input(c->func, &c->request, c->fcinfo);
	return refused != NULL ? refused : check_length(&c->request.body);
}

char *
job_chunks_sql(const JobDef *def, const char *input)
{
	List	   *args = own_arg(NIL, "input", input);

	args = own_arg(args, "method", quote_literal_cstr(def->chunking));
	if (def->chunk_size > 0)
		args = own_arg(args, "size", psprintf("%d", def->chunk_size));
	if (def->chunk_overlap >= 0)
		args = own_arg(args, "overlap", psprintf("%d", def->chunk_overlap));
	args = own_arg(args, "model", quote_literal_cstr(def->model));
	return psprintf("SELECT seq, chunk, tok_start, tok_end FROM %s ORDER BY seq",
					own_call(own_function("llm_chunk_text", TEXTOID), args));
}
