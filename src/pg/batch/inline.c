/*
 * inline.c
 *	  Which calls a plan node makes itself, row by row, and why.
 *
 * EXPLAIN (note.c) asks this about a finished plan.  The rewrite has already moved out all calls that
 * a batch node can take, so each call found here has stayed for a reason: its function, its arguments
 * or its place.  The reasons follow split.c (expressions) and insert.c (places).
 */
#include "postgres.h"

#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/syscache.h"

#include "pg/batch/note.h"
#include "pg/vllm_pg.h"

typedef struct CallLook
{
	Rewrite    *rw;
	Plan	   *plan;
	const char *place;			/* why calls in this place are not batched; NULL: the place is no reason */
	const char *operand;		/* why calls in the current operands are not batched; NULL: no reason */
	InlineCalls *found;
} CallLook;

static bool look_walker(Node *node, void *context);

/* ---- functions and their arguments ---- */

static bool
is_call(Oid funcid)
{
	return batch_recognise(funcid) != NULL || batch_calls_engine(funcid);
}

/* Return the reason why the function itself can't be in a batch node; NULL: there is none. */
static const char *
reason_of_function(Oid funcid)
{
	HeapTuple	tup;
	bool		set;
	bool		known;

	if (batch_recognise(funcid) != NULL)
		return NULL;
	tup = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	if (!HeapTupleIsValid(tup))
		return NULL;
	set = ((Form_pg_proc) GETSTRUCT(tup))->proretset;
	known = engine_func_of(tup) != NULL;
	ReleaseSysCache(tup);
	if (set)
		return "a function that returns rows sends its own requests";
	return known ? "ALTER FUNCTION gave the function settings, rights or a strictness of its own" :
		"the function sends its own requests";
}

static void
found(CallLook *l, Node *call, const char *reason)
{
	l->found->calls = lappend(l->found->calls, call);
	l->found->reasons = list_append_unique(l->found->reasons, makeString(pstrdup(reason)));
}

static void
look_call(CallLook *l, FuncExpr *func)
{
	const char *reason = reason_of_function(func->funcid);

	if (reason == NULL && !vllm_batch)
		reason = "vllm.batch is off";
	if (reason == NULL && batch_is_otherwise_volatile(l->rw, (Node *) func->args))
		reason = "an argument is volatile";
	if (reason == NULL)
		reason = l->operand != NULL ? l->operand : l->place;
	found(l, (Node *) func, reason != NULL ? reason : "its expression is evaluated as a whole");
}

/* ---- expressions ---- */

/* Look at an operand of an expression that keeps the calls in it inline. */
static bool
look_operand(CallLook *l, Node *node, const char *operand)
{
	const char *outer = l->operand;

	if (l->operand == NULL)
		l->operand = operand;
	(void) look_walker(node, l);
	l->operand = outer;
	return false;
}

/* Look at all operands of an expression that keeps the calls in them inline. */
static bool
look_operands(CallLook *l, Node *node, const char *operand)
{
	const char *outer = l->operand;

	if (l->operand == NULL)
		l->operand = operand;
	(void) expression_tree_walker(node, look_walker, l);
	l->operand = outer;
	return false;
}

/* A call after a test needs a copy of the test as its guard. */
static bool
look_tests(CallLook *l, Node *node)
{
	if (batch_is_otherwise_volatile(l->rw, node))
		return look_operands(l, node, "a condition beside it is volatile");
	if (batch_has_param_hash(l->rw, node))
		return look_operands(l, node, "a condition beside it has a hashed sub-select of the outer row");
	return look_operands(l, node, NULL);
}

/* An aggregate that asks for each row keeps requests of its own in flight, vllm.batch or not. */
static const char *
reason_of_aggregate(Oid aggfnoid, const char *otherwise)
{
	if (batch_asks_for_rows(aggfnoid))
		return "the aggregate keeps requests of many rows in flight itself";
	return vllm_batch ? otherwise : "vllm.batch is off";
}

static bool
look_aggref(CallLook *l, Aggref *agg)
{
	if (batch_aggregate_calls(agg) != AGGREGATE_NO_CALLS)
		found(l, (Node *) agg,
			  reason_of_aggregate(agg->aggfnoid, "the aggregate sends requests one group at a time"));
	(void) look_operand(l, (Node *) agg->aggdirectargs, "a direct argument of an aggregate");
	(void) look_walker((Node *) agg->aggfilter, l);
	return look_operand(l, (Node *) agg->args, vllm_batch_strict ? "vllm.batch_strict is on" : NULL);
}

static bool
look_window(CallLook *l, WindowFunc *func)
{
	if (batch_calls_engine(func->winfnoid))
		found(l, (Node *) func,
			  reason_of_aggregate(func->winfnoid, "the aggregate sends requests one frame at a time"));
	return look_operands(l, (Node *) func, vllm_batch_strict ? "vllm.batch_strict is on" :
						 "the window function may not look at every row");
}

static bool
look_walker(Node *node, void *context)
{
	CallLook   *l = context;

	if (node == NULL)
		return false;
	CHECK_FOR_INTERRUPTS();
	check_stack_depth();
	switch (nodeTag(node))
	{
		case T_FuncExpr:
			if (is_call(((FuncExpr *) node)->funcid))
				look_call(l, (FuncExpr *) node);
			break;
		case T_Aggref:
			return look_aggref(l, (Aggref *) node);
		case T_WindowFunc:
			return look_window(l, (WindowFunc *) node);
		case T_SubPlan:
			return look_operands(l, node, "an operand of a sub-select");
		case T_RowCompareExpr:
			return look_operands(l, node, "a comparison of rows");
		case T_ArrayCoerceExpr:
			(void) look_walker((Node *) ((ArrayCoerceExpr *) node)->arg, l);
			return look_operand(l, (Node *) ((ArrayCoerceExpr *) node)->elemexpr, "a step of an array cast");
		case T_SubscriptingRef:
			return look_operands(l, node, "a subscript");
		case T_BoolExpr:
		case T_CoalesceExpr:
		case T_CaseExpr:
			return look_tests(l, node);
		default:
			break;
	}
	return expression_tree_walker(node, look_walker, l);
}

/* ---- places ---- */

static void
look_at(CallLook *l, void *expr, const char *place)
{
	l->place = place;
	(void) look_walker(expr, l);
}

static void
look_join(CallLook *l, Join *join)
{
	const char *place = NULL;

	if (join->jointype == JOIN_INNER)
		place = NULL;
	else if (vllm_batch_strict)
		place = "vllm.batch_strict is on";
	else if (batch_is_otherwise_volatile(l->rw, (Node *) join->joinqual))
		place = "a condition beside it is volatile";
	else if (join->jointype == JOIN_FULL)
		place = "the condition of a full join";
	else if (IsA(join, NestLoop))
		place = "the condition of a join that ends at the first of many candidates";
	else
		place = "the condition of an outer join";
	look_at(l, join->joinqual, place);
	if (IsA(join, MergeJoin))
		look_at(l, ((MergeJoin *) join)->mergeclauses, "a key of a merge join");
	if (IsA(join, HashJoin))
		look_at(l, ((HashJoin *) join)->hashclauses, "a key of a hash join");
}

static void
look_modify(CallLook *l, ModifyTable *modify)
{
	look_at(l, modify->withCheckOptionLists, "the check option of a view");
	look_at(l, modify->returningLists != NIL ? linitial(modify->returningLists) : NULL,
			modify->canSetTag ? "a list of RETURNING that is evaluated when the row is written" :
			"RETURNING of a statement in WITH");
	look_at(l, modify->onConflictSet, "ON CONFLICT DO UPDATE");
	look_at(l, modify->onConflictWhere, "ON CONFLICT DO UPDATE");
	look_at(l, modify->mergeActionLists != NIL ? linitial(modify->mergeActionLists) : NULL,
			"an action of MERGE");
}

static void
look_window_agg(CallLook *l, WindowAgg *window)
{
	look_at(l, window->startOffset, "a bound of a window frame");
	look_at(l, window->endOffset, "a bound of a window frame");
	look_at(l, window->runCondition, "a condition on a window");
}

/* Look at the expressions that scan nodes have besides filter and target list. */
static void
look_scan(CallLook *l, Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_SampleScan:
			look_at(l, ((SampleScan *) plan)->tablesample, "TABLESAMPLE");
			break;
		case T_IndexScan:
			look_at(l, ((IndexScan *) plan)->indexqualorig, "an index condition");
			look_at(l, ((IndexScan *) plan)->indexorderbyorig, "an index condition");
			break;
		case T_IndexOnlyScan:
			look_at(l, ((IndexOnlyScan *) plan)->indexqual, "an index condition");
			look_at(l, ((IndexOnlyScan *) plan)->indexorderby, "an index condition");
			break;
		case T_BitmapHeapScan:
			look_at(l, ((BitmapHeapScan *) plan)->bitmapqualorig, "an index condition");
			break;
		case T_TidScan:
			look_at(l, ((TidScan *) plan)->tidquals, "a condition on ctid");
			break;
		case T_TidRangeScan:
			look_at(l, ((TidRangeScan *) plan)->tidrangequals, "a condition on ctid");
			break;
		case T_FunctionScan:
			look_at(l, ((FunctionScan *) plan)->functions, "a function in FROM");
			break;
		case T_TableFuncScan:
			look_at(l, ((TableFuncScan *) plan)->tablefunc, "a function in FROM");
			break;
		case T_ValuesScan:
			look_at(l, ((ValuesScan *) plan)->values_lists, "the rows of VALUES are not written alike");
			break;
		case T_ForeignScan:
			look_at(l, ((ForeignScan *) plan)->fdw_exprs, "a parameter of a foreign scan");
			break;
		case T_CustomScan:
			look_at(l, ((CustomScan *) plan)->custom_exprs, NULL);
			break;
		default:
			break;
	}
}

static const char *
place_of_lists(Rewrite *rw, Plan *plan)
{
	if (IsA(plan, Result) && plan->lefttree == NULL)
		return plan_depends_on_outer(rw->stmt, plan) ? "a sub-select that depends on the outer row" :
			"a single row";
	if (IsA(plan, CustomScan) && !batch_plan_is_ours(plan))
		return "a plan node of another extension";
	return plan_projects(plan) || batch_plan_is_ours(plan) ? NULL : "a plan node without a list of its own";
}

bool
batch_inline_calls(Rewrite *rw, Plan *plan, InlineCalls *result)
{
	CallLook	l = {.rw = rw, .plan = plan, .found = result};

	memset(result, 0, sizeof(InlineCalls));
	if (!IsA(plan, ModifyTable))	/* a ModifyTable's target list is a copy of the first RETURNING list */
		look_at(&l, plan->targetlist, place_of_lists(rw, plan));
	look_at(&l, plan->qual, place_of_lists(rw, plan));
	switch (nodeTag(plan))
	{
		case T_Result:
			look_at(&l, ((Result *) plan)->resconstantqual, "a one-time filter");
			break;
		case T_ModifyTable:
			look_modify(&l, (ModifyTable *) plan);
			break;
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
			look_join(&l, (Join *) plan);
			break;
		case T_WindowAgg:
			look_window_agg(&l, (WindowAgg *) plan);
			break;
		case T_Limit:
			look_at(&l, ((Limit *) plan)->limitOffset, "OFFSET is evaluated once");
			look_at(&l, ((Limit *) plan)->limitCount, "LIMIT is evaluated once");
			break;
		default:
			look_scan(&l, plan);
			break;
	}
	return result->calls != NIL;
}
