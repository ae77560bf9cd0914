/*
 * walk.c
 *	  Where a plan keeps its child plans and its expressions.
 *
 * Init plans and sub-plans are in PlannedStmt.subplans and are not visited from the plan that uses
 * them.  The children and expressions of other extensions' plan nodes are visited, but never changed.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"

#include "pg/batch/split.h"

static bool
walk_list(List *plans, PlanVisitor visit, void *context)
{
	ListCell   *lc;

	foreach(lc, plans)
		if (visit(lfirst(lc), context))
			return true;
	return false;
}

bool
walk_children(Plan *plan, PlanVisitor visit, void *context)
{
	if (plan->lefttree && visit(plan->lefttree, context))
		return true;
	if (plan->righttree && visit(plan->righttree, context))
		return true;
	switch (nodeTag(plan))
	{
		case T_Append:
			return walk_list(((Append *) plan)->appendplans, visit, context);
		case T_MergeAppend:
			return walk_list(((MergeAppend *) plan)->mergeplans, visit, context);
		case T_BitmapAnd:
			return walk_list(((BitmapAnd *) plan)->bitmapplans, visit, context);
		case T_BitmapOr:
			return walk_list(((BitmapOr *) plan)->bitmapplans, visit, context);
		case T_SubqueryScan:
			return visit(((SubqueryScan *) plan)->subplan, context);
		case T_CustomScan:
			return walk_list(((CustomScan *) plan)->custom_plans, visit, context);
		default:
			return false;
	}
}

static void
replace_list(List *plans, PlanMutator mutate, void *context)
{
	ListCell   *lc;

	foreach(lc, plans)
		lfirst(lc) = mutate(lfirst(lc), context);
}

void
replace_children(Plan *plan, PlanMutator mutate, void *context)
{
	switch (nodeTag(plan))
	{
		case T_BitmapHeapScan:
		case T_ForeignScan:
			return;
		case T_CustomScan:
			if (!batch_plan_is_ours(plan) && !batch_plan_numbers(plan))
				return;
			break;
		case T_Append:
			replace_list(((Append *) plan)->appendplans, mutate, context);
			break;
		case T_MergeAppend:
			replace_list(((MergeAppend *) plan)->mergeplans, mutate, context);
			break;
		case T_SubqueryScan:
			((SubqueryScan *) plan)->subplan = mutate(((SubqueryScan *) plan)->subplan, context);
			break;
		default:
			break;
	}
	plan->lefttree = plan->lefttree ? mutate(plan->lefttree, context) : NULL;
	plan->righttree = plan->righttree ? mutate(plan->righttree, context) : NULL;
}

static bool
walk_scan_exprs(Plan *plan, ExprVisitor visit, void *context)
{
	switch (nodeTag(plan))
	{
		case T_SampleScan:
			return visit((Node *) ((SampleScan *) plan)->tablesample, context);
		case T_IndexScan:
			return visit((Node *) ((IndexScan *) plan)->indexqualorig, context) ||
				visit((Node *) ((IndexScan *) plan)->indexorderbyorig, context);
		case T_IndexOnlyScan:
			return visit((Node *) ((IndexOnlyScan *) plan)->indexqual, context) ||
				visit((Node *) ((IndexOnlyScan *) plan)->recheckqual, context) ||
				visit((Node *) ((IndexOnlyScan *) plan)->indexorderby, context);
		case T_BitmapIndexScan:
			return visit((Node *) ((BitmapIndexScan *) plan)->indexqualorig, context);
		case T_BitmapHeapScan:
			return visit((Node *) ((BitmapHeapScan *) plan)->bitmapqualorig, context);
		case T_TidScan:
			return visit((Node *) ((TidScan *) plan)->tidquals, context);
		case T_TidRangeScan:
			return visit((Node *) ((TidRangeScan *) plan)->tidrangequals, context);
		case T_FunctionScan:
			return visit((Node *) ((FunctionScan *) plan)->functions, context);
		case T_ValuesScan:
			return visit((Node *) ((ValuesScan *) plan)->values_lists, context);
		case T_TableFuncScan:
			return visit((Node *) ((TableFuncScan *) plan)->tablefunc, context);
		case T_ForeignScan:
			return visit((Node *) ((ForeignScan *) plan)->fdw_exprs, context) ||
				visit((Node *) ((ForeignScan *) plan)->fdw_recheck_quals, context);
		case T_CustomScan:
			return visit((Node *) ((CustomScan *) plan)->custom_exprs, context);
		default:
			return false;
	}
}

static bool
walk_modify_exprs(ModifyTable *plan, ExprVisitor visit, void *context)
{
	return visit((Node *) plan->withCheckOptionLists, context) ||
		visit((Node *) plan->returningLists, context) ||
		visit((Node *) plan->onConflictSet, context) ||
		visit(plan->onConflictWhere, context) ||
		visit((Node *) plan->mergeActionLists, context);
}

static bool
walk_join_exprs(Plan *plan, ExprVisitor visit, void *context)
{
	if (visit((Node *) ((Join *) plan)->joinqual, context))
		return true;
	if (IsA(plan, MergeJoin))
		return visit((Node *) ((MergeJoin *) plan)->mergeclauses, context);
	if (IsA(plan, HashJoin))
		return visit((Node *) ((HashJoin *) plan)->hashclauses, context) ||
			visit((Node *) ((HashJoin *) plan)->hashkeys, context);
	return false;				/* the value of a NestLoopParam is a plain Var */
}

bool
walk_exprs(Plan *plan, ExprVisitor visit, void *context)
{
	if (visit((Node *) plan->targetlist, context) || visit((Node *) plan->qual, context))
		return true;
	switch (nodeTag(plan))
	{
		case T_Result:
			return visit(((Result *) plan)->resconstantqual, context);
		case T_ModifyTable:
			return walk_modify_exprs((ModifyTable *) plan, visit, context);
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
			return walk_join_exprs(plan, visit, context);
		case T_Hash:
			return visit((Node *) ((Hash *) plan)->hashkeys, context);
		case T_Memoize:
			return visit((Node *) ((Memoize *) plan)->param_exprs, context);
		case T_WindowAgg:
			return visit((Node *) ((WindowAgg *) plan)->runCondition, context) ||
				visit(((WindowAgg *) plan)->startOffset, context) ||
				visit(((WindowAgg *) plan)->endOffset, context);
		case T_Limit:
			return visit(((Limit *) plan)->limitOffset, context) ||
				visit(((Limit *) plan)->limitCount, context);
		default:
			return walk_scan_exprs(plan, visit, context);
	}
}

/* Return true for plan nodes that compute a target list of their own. */
bool
plan_projects(Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_Result:
		case T_ProjectSet:
		case T_SeqScan:
		case T_SampleScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
		case T_TidScan:
		case T_TidRangeScan:
		case T_SubqueryScan:
		case T_FunctionScan:
		case T_ValuesScan:
		case T_TableFuncScan:
		case T_CteScan:
		case T_NamedTuplestoreScan:
		case T_WorkTableScan:
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
		case T_Group:
		case T_Agg:
		case T_WindowAgg:
		case T_Gather:
		case T_GatherMerge:
			return true;
		case T_ForeignScan:
			return ((ForeignScan *) plan)->operation == CMD_SELECT;
		default:
			return false;
	}
}

/* ---- parameters ---- */

/*
 * Collect the parameters that the plan and the plans below it set: results of init plans, signals
 * between plan nodes.
 */
static bool
own_params(Plan *plan, void *context)
{
	Bitmapset **params = context;
	int			signal = -1;
	ListCell   *lc,
			   *lp;

	foreach(lc, plan->initPlan)
		foreach(lp, lfirst_node(SubPlan, lc)->setParam)
			*params = bms_add_member(*params, lfirst_int(lp));
	if (IsA(plan, ModifyTable))
		signal = ((ModifyTable *) plan)->epqParam;
	else if (IsA(plan, LockRows))
		signal = ((LockRows *) plan)->epqParam;
	else if (IsA(plan, RecursiveUnion))
		signal = ((RecursiveUnion *) plan)->wtParam;
	else if (IsA(plan, Gather))
		signal = ((Gather *) plan)->rescan_param;
	else if (IsA(plan, GatherMerge))
		signal = ((GatherMerge *) plan)->rescan_param;
	if (signal >= 0)
		*params = bms_add_member(*params, signal);
	return walk_children(plan, own_params, context);
}

/* Return true if the plan runs again for each row of another plan. */
bool
plan_depends_on_outer(PlannedStmt *stmt, Plan *plan)
{
	Bitmapset  *params = NULL;
	ListCell   *lc;

	if (bms_is_empty(plan->extParam))
		return false;
	(void) own_params(stmt->planTree, &params);
	foreach(lc, stmt->subplans)
		if (lfirst(lc) != NULL)
			(void) own_params(lfirst(lc), &params);
	return !bms_is_subset(plan->extParam, params);
}
