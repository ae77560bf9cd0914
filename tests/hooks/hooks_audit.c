/*
 * hooks_audit.c
 *	  An extension with the hooks that auditing and monitoring extensions use, for
 *	  tests/t/044_batch_hooks.pl: it is loaded before and behind vllm_pg.
 *
 * It counts what it sees in this session, and it is as demanding as such
 * extensions are: a finished plan is copied, written out and read back before it
 * runs; every node is instrumented and looked at when the statement ends.
 *
 * CREATE FUNCTION audit_counts() RETURNS text, audit_reset() RETURNS void; plant_fault(text) RETURNS void,
 * for tests/t/045_assertions.pl: breaks an invariant of the module's.
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "fmgr.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "ipc/call_state.h"
#include "pg/compat.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

PG_FUNCTION_INFO_V1(audit_counts);
PG_FUNCTION_INFO_V1(audit_reset);
PG_FUNCTION_INFO_V1(plant_fault);

/* Of this session, since audit_reset(). */
typedef struct Counts
{
	int			plans;
	int			starts;
	int			runs;
	int			finishes;
	int			ends;
	int			utilities;
	int			executes;		/* function calls allowed, of llm_ functions */
	uint64		rows;
	int			custom;			/* custom scans in plans that ran */
	int			loose;			/* nodes that ran without being stopped */
	int			depth;
} Counts;

static Counts counts;

static planner_hook_type prev_planner;
static ExecutorStart_hook_type prev_start;
static ExecutorRun_hook_type prev_run;
static ExecutorFinish_hook_type prev_finish;
static ExecutorEnd_hook_type prev_end;
static ProcessUtility_hook_type prev_utility;
static object_access_hook_type prev_access;

static PlannedStmt *
audit_planner(Query *parse, const char *query_string, int cursor_options, ParamListInfo params)
{
	PlannedStmt *stmt = prev_planner
		? prev_planner(parse, query_string, cursor_options, params)
		: standard_planner(parse, query_string, cursor_options, params);
	char	   *text = nodeToString(copyObject(stmt));

	counts.plans++;
	/* what comes back lacks the locations, which are not written */
	return stringToNode(text);
}

static void
audit_start(QueryDesc *queryDesc, int eflags)
{
	counts.starts++;
	queryDesc->instrument_options |= INSTRUMENT_ALL;
	if (prev_start)
		prev_start(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);
}

static void
audit_run(COMPAT_EXECUTOR_RUN_ARGS)
{
	counts.runs++;
	counts.depth++;
	PG_TRY();
	{
		if (prev_run)
			prev_run(COMPAT_EXECUTOR_RUN_PASS);
		else
			standard_ExecutorRun(COMPAT_EXECUTOR_RUN_PASS);
	}
	PG_FINALLY();
	{
		counts.depth--;
	}
	PG_END_TRY();
}

static void
audit_finish(QueryDesc *queryDesc)
{
	counts.finishes++;
	if (prev_finish)
		prev_finish(queryDesc);
	else
		standard_ExecutorFinish(queryDesc);
}

static bool
look_at(PlanState *ps, void *context)
{
	if (IsA(ps, CustomScanState))
		counts.custom++;
	if (ps->instrument)
	{
		if (!INSTR_TIME_IS_ZERO(ps->instrument->starttime))
			counts.loose++;
		InstrEndLoop(ps->instrument);
	}
	return planstate_tree_walker(ps, look_at, context);
}

static void
audit_end(QueryDesc *queryDesc)
{
	counts.ends++;
	if (counts.depth == 0)
		counts.rows += queryDesc->estate->es_processed;
	look_at(queryDesc->planstate, NULL);
	if (prev_end)
		prev_end(queryDesc);
	else
		standard_ExecutorEnd(queryDesc);
}

static void
audit_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
			  ProcessUtilityContext context, ParamListInfo params,
			  QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	counts.utilities++;
	if (prev_utility)
		prev_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
}

static void
audit_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (prev_access)
		prev_access(access, classId, objectId, subId, arg);
	if (access == OAT_FUNCTION_EXECUTE && classId == ProcedureRelationId)
	{
		char	   *name = get_func_name(objectId);

		if (name && strncmp(name, "llm_", 4) == 0)
			counts.executes++;
	}
}

Datum
audit_counts(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(psprintf(
		"plans=%d starts=%d runs=%d finishes=%d ends=%d utilities=%d executes=%d rows="
		UINT64_FORMAT " custom=%d loose=%d", counts.plans, counts.starts, counts.runs, counts.finishes,
		counts.ends, counts.utilities, counts.executes, counts.rows, counts.custom, counts.loose)));
}

Datum
audit_reset(PG_FUNCTION_ARGS)
{
	int			depth = counts.depth;

	memset(&counts, 0, sizeof(counts));
	counts.depth = depth;
	PG_RETURN_VOID();
}

void
_PG_init(void)
{
	prev_planner = planner_hook;
	planner_hook = audit_planner;
	prev_start = ExecutorStart_hook;
	ExecutorStart_hook = audit_start;
	prev_run = ExecutorRun_hook;
	ExecutorRun_hook = audit_run;
	prev_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = audit_finish;
	prev_end = ExecutorEnd_hook;
	ExecutorEnd_hook = audit_end;
	prev_utility = ProcessUtility_hook;
	ProcessUtility_hook = audit_utility;
	prev_access = object_access_hook;
	object_access_hook = audit_access;
}

/* ---- faults ---- */

/* A function of the module's, which other tests load this file without. */
static void *
of_module(const char *name)
{
	return load_external_function("$libdir/vllm_pg", name, true, NULL);
}

typedef void SetState(void *call, WireCallState to);

Datum
plant_fault(PG_FUNCTION_ARGS)
{
	char	   *which = text_to_cstring(PG_GETARG_TEXT_PP(0));
	void	   *(*make) (MemoryContext) = (void *(*) (MemoryContext)) of_module("vcall_make");
	SetState   *set = (SetState *) of_module("vcall_set_state");
	void	   *call = make(CurrentMemoryContext);

	if (strcmp(which, "none") == 0)
		set(call, WC_CLAIMED);
	else if (strcmp(which, "no slot") == 0)
		set(call, WC_SENDING);
	else if (strcmp(which, "twice") == 0)
	{
		set(call, WC_CLAIMED);
		set(call, WC_CLAIMED);
	}
	PG_RETURN_VOID();
}
