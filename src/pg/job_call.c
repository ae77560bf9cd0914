/*
 * job_call.c
 *	  The request of a job's function for one input.
 *
 * A job keeps the call as SQL text, llm_embed('', model => '...', ...): the parser finds
 * the function, the places of its arguments and their defaults.  What comes out is a call
 * whose arguments are constants, from which the function's row of engine_func.def makes
 * the request's head.  So a job's request is what the same call would send.
 *
 * Tests: tests/sql/23_jobs.sql.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "optimizer/optimizer.h"
#include "parser/analyze.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "catalog/pg_proc.h"

#include "pg/job.h"

static FuncExpr *
parse_call(const char *sql)
{
	List	   *parsed = pg_parse_query(sql);
	Query	   *query;
	Node	   *expr;

	if (list_length(parsed) != 1)
		elog(ERROR, "a job's call is not one statement: %s", sql);
	query = parse_analyze_fixedparams(linitial_node(RawStmt, parsed), sql, NULL, 0, NULL);
	if (query->commandType != CMD_SELECT || list_length(query->targetList) != 1)
		elog(ERROR, "a job's call is not one expression: %s", sql);
	expr = (Node *) expression_planner(linitial_node(TargetEntry, query->targetList)->expr);
	if (!IsA(expr, FuncExpr))
		elog(ERROR, "a job's call is not a function's: %s", sql);
	return (FuncExpr *) expr;
}

static const EngineFunc *
engine_func_of(Oid funcid)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	const EngineFunc *f;
	bool		isnull;
	Datum		prosrc;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", funcid);
	prosrc = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull);
	f = isnull ? NULL : engine_func_find(TextDatumGetCString(prosrc));
	ReleaseSysCache(tuple);
	if (f == NULL || f->n_inputs != 1)
		elog(ERROR, "function %u can't be a job's", funcid);
	return f;
}

JobCall *
job_call_make(const char *schema, const char *function, const char *arguments)
{
	JobCall    *c = palloc0(sizeof(JobCall));
	FuncExpr   *call = parse_call(psprintf("SELECT %s(''%s%s)", quote_qualified_identifier(schema, function),
										   arguments[0] ? ", " : "", arguments));
	int			n = list_length(call->args);

	c->func = engine_func_of(call->funcid);
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

ErrorData *
job_call_request(JobCall *c, const char *input)
{
	c->request.body.len = c->head_len;
	c->fcinfo->args[0].value = CStringGetTextDatum(input);
	c->fcinfo->args[0].isnull = false;
	return c->func->input(&c->request, c->fcinfo);
}

char *
job_chunks_sql(const JobDef *def, const char *input)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfo(&s, "SELECT seq, chunk, tok_start, tok_end FROM %s(%s, method => %s",
					 quote_qualified_identifier(job_extension_schema(), "llm_chunk_text"), input, quote_literal_cstr(def->chunking));
	if (def->chunk_size > 0)
		appendStringInfo(&s, ", size => %d", def->chunk_size);
	if (def->chunk_overlap >= 0)
		appendStringInfo(&s, ", overlap => %d", def->chunk_overlap);
	appendStringInfo(&s, ", model => %s) ORDER BY seq", quote_literal_cstr(def->model));
	return s.data;
}
