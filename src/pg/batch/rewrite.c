/*
 * rewrite.c
 *	  The planner's hook and the walk over a finished plan.
 *
 * WHEN.  The planner records in PlannedStmt.invalItems every function that isn't built in.  A
 * statement without such an entry has no engine function, so the check of one list is its whole cost;
 * other statements are walked once to find out.
 *
 * WALK.  On the way down, each plan node passes to its children how far it reads (Demand); on the way
 * up, batch nodes are inserted (insert.c, lateral.c).  Sub-plans are rewritten after the main tree,
 * the last one first: the reader of a CTE was planned after it, so the reader's demand is known by
 * then.
 *
 * UNCHANGED.  Plan nodes of other extensions with everything below them, as they may rely on the
 * kinds of their children.  A Result of one column without input at the top: PL/pgSQL evaluates such
 * a plan as a simple expression.
 *
 * BACKWARDS.  A batch node can't be read backwards nor restored to a mark.  A cursor whose plan could
 * be, and the inner side of a merge join, get a Material on top: FETCH BACKWARD returns the same
 * text again.  WHERE CURRENT OF then needs FOR UPDATE, as the batch node's rows have no position in
 * the table.
 *
 * JIT.  The cost of the calls makes a plan look worth compiling, but compiling takes longer than
 * everything in the plan that is not a call.  So statements with calls are not compiled, also if the
 * calls are set-returning functions or aggregates.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "jit/jit.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/plancat.h"
#include "optimizer/planner.h"
#include "utils/syscache.h"

#include "pg/batch/note.h"
#include "pg/batch/split.h"
#include "pg/vllm_pg.h"

static planner_hook_type prev_planner_hook = NULL;

static Plan *rewrite_plan(Rewrite *rw, Plan *plan, Demand demand);

/* ---- searching a statement ---- */

/* context: pointer to the ExprVisitor that searches the plan's expressions. */
static bool
finds_in_plan(Plan *plan, void *context)
{
	CHECK_FOR_INTERRUPTS();
	return plan && (walk_exprs(plan, *(ExprVisitor *) context, NULL) ||
					walk_children(plan, finds_in_plan, context));
}

/* Return false if the statement can't have any calls. */
static bool
uses_functions(PlannedStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->invalItems)
		if (lfirst_node(PlanInvalItem, lc)->cacheId == PROCOID)
			return true;
	return false;
}

/* Return true if the visitor finds its target in an expression of the statement or of its sub-plans. */
static bool
finds_in_statement(PlannedStmt *stmt, ExprVisitor visit)
{
	ListCell   *lc;

	if (!stmt->planTree || !uses_functions(stmt))
		return false;
	if (finds_in_plan(stmt->planTree, &visit))
		return true;
	foreach(lc, stmt->subplans)
		if (finds_in_plan(lfirst(lc), &visit))
			return true;
	return false;
}

static bool
has_call_expr(Node *expr, void *context)
{
	return batch_has_call(expr);
}

static bool
max_id_plan(Plan *plan, void *context)
{
	int		   *max_id = context;

	if (plan)
	{
		*max_id = Max(*max_id, plan->plan_node_id);
		(void) walk_children(plan, max_id_plan, context);
	}
	return false;
}

int
max_plan_node_id(PlannedStmt *stmt)
{
	int			max_id = 0;
	ListCell   *lc;

	(void) max_id_plan(stmt->planTree, &max_id);
	foreach(lc, stmt->subplans)
		(void) max_id_plan(lfirst(lc), &max_id);
	return max_id;
}

/* ---- JIT ---- */

static bool
calls_engine_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if ((IsA(node, FuncExpr) && batch_calls_engine(((FuncExpr *) node)->funcid)) ||
		(IsA(node, Aggref) && batch_calls_engine(((Aggref *) node)->aggfnoid)) ||
		(IsA(node, WindowFunc) && batch_calls_engine(((WindowFunc *) node)->winfnoid)))
		return true;
	return expression_tree_walker(node, calls_engine_walker, context);
}

/* Compile no expression of a statement that asks the engine anywhere. */
static void
decide_jit(PlannedStmt *stmt)
{
	if (stmt->jitFlags != PGJIT_NONE && finds_in_statement(stmt, calls_engine_walker))
		stmt->jitFlags = PGJIT_NONE;
}

/* ---- Material ---- */

/* Like materialize_finished_plan(), but for a plan whose references are final. */
static Plan *
materialize(Rewrite *rw, Plan *child)
{
	Material   *mat = makeNode(Material);
	Plan	   *plan = &mat->plan;

	batch_plan_above(plan, child, rw->next_id++);
	plan->total_cost += 2 * cpu_operator_cost * child->plan_rows;
	batch_plan_hand_on(plan, child);
	return plan;
}

/*
 * Return true if the plan of a cursor must be readable backwards.  A cursor declared with neither
 * SCROLL nor NO SCROLL is scrollable if its plan allows that; only cursors (DECLARE, PL/pgSQL's) are
 * planned for a fast start.
 */
static bool
may_scroll(PlannedStmt *stmt, int cursor_options)
{
	if (cursor_options & CURSOR_OPT_SCROLL)
		return true;
	return (cursor_options & CURSOR_OPT_FAST_PLAN) && !(cursor_options & CURSOR_OPT_NO_SCROLL) &&
		stmt->commandType == CMD_SELECT && stmt->rowMarks == NIL;
}

/* ---- sub-plans ---- */

static void
subplan_demand(Rewrite *rw, int plan_id, BatchAhead ahead)
{
	rw->subplan_ahead[plan_id - 1] = Max(rw->subplan_ahead[plan_id - 1], ahead);
}

/* A sub-select that makes an array or a hash table is read to its end. */
static BatchAhead
sublink_ahead(SubPlan *subplan)
{
	return subplan->subLinkType == ARRAY_SUBLINK || subplan->useHashTable ? BATCH_FULL : BATCH_RAMP;
}

static bool
subplan_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) && ((SubPlan *) node)->subLinkType != CTE_SUBLINK)
		subplan_demand(context, ((SubPlan *) node)->plan_id, sublink_ahead((SubPlan *) node));
	return expression_tree_walker(node, subplan_walker, context);
}

static void
note_subplans(Rewrite *rw, Plan *plan)
{
	(void) subplan_walker((Node *) plan->initPlan, rw);
	(void) walk_exprs(plan, subplan_walker, rw);
}

/* ---- the walk ---- */

/* Return the demand where no Limit counts single rows. */
static Demand
uncounted(Demand demand)
{
	demand.limit = NULL;
	return demand;
}

static Demand
reads(BatchAhead ahead)
{
	Demand		demand = {.ahead = ahead};

	return demand;
}

static bool
is_plain_number(Rewrite *rw, Node *expr)
{
	return !batch_is_volatile(rw, expr) && !batch_has_call(expr);
}

static Demand
below_limit(Rewrite *rw, Limit *limit, Demand demand)
{
	Demand		below = {.ahead = BATCH_RAMP};
	bool		no_count = limit->limitCount == NULL ||
		(IsA(limit->limitCount, Const) && ((Const *) limit->limitCount)->constisnull);

	if (no_count)				/* OFFSET alone */
		return uncounted(demand);
	if (limit->limitOption == LIMIT_OPTION_COUNT && is_plain_number(rw, limit->limitCount) &&
		is_plain_number(rw, limit->limitOffset))
	{
		below.limit = limit;
		below.limit_ahead = demand.ahead;
	}
	return below;
}

/* Return the demand of a plan on its single input. */
static Demand
below_single(Rewrite *rw, Plan *plan, Demand demand)
{
	switch (nodeTag(plan))
	{
		case T_Sort:
		case T_Hash:
			return reads(BATCH_FULL);
		case T_Agg:
			return ((Agg *) plan)->aggstrategy == AGG_SORTED ? uncounted(demand) : reads(BATCH_FULL);
		case T_SetOp:
			return ((SetOp *) plan)->strategy == SETOP_HASHED ? reads(BATCH_FULL) : uncounted(demand);
		case T_WindowAgg:
			return ((WindowAgg *) plan)->runCondition ? reads(BATCH_RAMP) : uncounted(demand);
		case T_Memoize:
			return ((Memoize *) plan)->singlerow ? reads(BATCH_RAMP) : uncounted(demand);
		case T_ModifyTable:
			return reads(((ModifyTable *) plan)->returningLists ? BATCH_FETCH_ALL : BATCH_FULL);
		case T_Limit:
			return below_limit(rw, (Limit *) plan, demand);
		case T_Result:
			return plan->qual ? uncounted(demand) : demand;
		default:
			return uncounted(demand);
	}
}

static void
rewrite_list(Rewrite *rw, List *plans, Demand demand)
{
	ListCell   *lc;

	foreach(lc, plans)
		lfirst(lc) = rewrite_plan(rw, lfirst(lc), demand);
}

/* Return true if the plan can mark and restore a position; a Result passes both on to its input. */
static bool
keeps_marks(Plan *plan)
{
	while (IsA(plan, Result) && plan->lefttree)
		plan = plan->lefttree;
	return !batch_plan_is_ours(plan);
}

static void
rewrite_join(Rewrite *rw, Join *join, Demand demand)
{
	Plan	   *plan = &join->plan;
	Demand		outer = uncounted(demand);
	Demand		inner = uncounted(demand);

	if (IsA(join, NestLoop) && lateral_is_one_to_one((NestLoop *) join))
		outer = demand;

	/* a merge join ends with the shorter side; a semi join searches for one match */
	if (IsA(join, MergeJoin))
		outer = reads(BATCH_RAMP);
	if (IsA(join, MergeJoin) || join->inner_unique || join->jointype == JOIN_SEMI ||
		join->jointype == JOIN_ANTI)
		inner = reads(BATCH_RAMP);
	plan->lefttree = rewrite_plan(rw, plan->lefttree, outer);
	if (IsA(join, NestLoop))
		insert_lateral(rw, (NestLoop *) join, &outer);
	plan->righttree = rewrite_plan(rw, plan->righttree, inner);
	if (IsA(join, HashJoin))
		insert_for_hash(rw, (HashJoin *) join, &outer);
	if (IsA(join, MergeJoin) && !((MergeJoin *) join)->skip_mark_restore && !keeps_marks(plan->righttree))
		plan->righttree = materialize(rw, plan->righttree);
}

static void
rewrite_children(Rewrite *rw, Plan *plan, Demand demand)
{
	switch (nodeTag(plan))
	{
		case T_MergeAppend:
			rewrite_list(rw, ((MergeAppend *) plan)->mergeplans, uncounted(demand));
			break;
		case T_SubqueryScan:
			((SubqueryScan *) plan)->subplan = rewrite_plan(rw, ((SubqueryScan *) plan)->subplan,
															plan->qual ? uncounted(demand) : demand);
			break;
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
			rewrite_join(rw, (Join *) plan, demand);
			break;
		case T_CteScan:
			subplan_demand(rw, ((CteScan *) plan)->ctePlanId, demand.ahead);
			break;
		case T_RecursiveUnion:
			plan->lefttree = rewrite_plan(rw, plan->lefttree, uncounted(demand));
			plan->righttree = rewrite_plan(rw, plan->righttree, uncounted(demand));
			break;
		case T_BitmapHeapScan:
		case T_ForeignScan:
			break;
		default:
			/* in PostgreSQL 18, a SetOp has two inputs */
			if (plan->lefttree)
				plan->lefttree = rewrite_plan(rw, plan->lefttree, below_single(rw, plan, demand));
			if (plan->righttree)
				plan->righttree = rewrite_plan(rw, plan->righttree, below_single(rw, plan, demand));
			break;
	}
}

/*
 * Return true if the plan reads its input's next row before it evaluates its arguments for the
 * current one, to find the end of a group or of peers.  If calls were computed below such a plan, the
 * next row's call would raise its error one row early; and lag() and lead() may never need its value.
 */
static bool
reads_before_it_evaluates(Plan *plan)
{
	if (IsA(plan, Agg))
		return ((Agg *) plan)->numCols > 0 && ((Agg *) plan)->aggstrategy != AGG_HASHED;
	return IsA(plan, WindowAgg);
}

/* Pull sub-selects that are mere expressions up in the lists that calls are cut from. */
static void
pull_scalars(Rewrite *rw, Plan *plan)
{
	if (IsA(plan, ModifyTable))
		((ModifyTable *) plan)->returningLists =
			(List *) split_pull_scalars(rw, (Node *) ((ModifyTable *) plan)->returningLists);
	if (!plan_projects(plan))
		return;
	plan->targetlist = (List *) split_pull_scalars(rw, (Node *) plan->targetlist);
	plan->qual = (List *) split_pull_scalars(rw, (Node *) plan->qual);
	if (IsA(plan, NestLoop) || IsA(plan, MergeJoin) || IsA(plan, HashJoin))
		((Join *) plan)->joinqual = (List *) split_pull_scalars(rw, (Node *) ((Join *) plan)->joinqual);
}

/* Rewrite the plan's inputs, then do insertion B. */
static void
rewrite_below(Rewrite *rw, Plan *plan, Demand demand)
{
	Demand		below = below_single(rw, plan, demand);

	pull_scalars(rw, plan);
	note_subplans(rw, plan);
	rewrite_children(rw, plan, demand);
	if (vllm_batch_strict && reads_before_it_evaluates(plan))
		return;
	if (IsA(plan, Agg) || IsA(plan, WindowAgg) || IsA(plan, ProjectSet))
		insert_below(rw, plan, &below);
}

static Plan *
rewrite_above(Rewrite *rw, Plan *plan, const Demand *demand)
{
	Plan	   *result = NULL;

	if (IsA(plan, ModifyTable) && plan == rw->stmt->planTree)
		result = insert_above_returning(rw, (ModifyTable *) plan);
	if (IsA(plan, NestLoop) || IsA(plan, HashJoin) || IsA(plan, MergeJoin))
		result = insert_match(rw, (Join *) plan, demand);
	if (IsA(plan, ValuesScan))
		result = insert_above_values(rw, (ValuesScan *) plan, demand);
	if (result == NULL && plan_projects(plan))
		result = insert_above(rw, plan, demand);
	return result ? result : plan;
}

static Demand
below_append(Append *append, Demand demand)
{
	/* a Limit counts the rows of all branches together */
	return list_length(append->appendplans) == 1 ? demand : uncounted(demand);
}

/* Rewrite the branches' inputs; the branches of an Append may be Appends. */
static void
rewrite_branches(Rewrite *rw, Append *append, Demand demand)
{
	Demand		branch = below_append(append, demand);
	ListCell   *lc;

	note_subplans(rw, &append->plan);
	foreach(lc, append->appendplans)
	{
		Plan	   *plan = lfirst(lc);

		if (IsA(plan, Append))
			rewrite_branches(rw, (Append *) plan, branch);
		else if (!IsA(plan, CustomScan))
			rewrite_below(rw, plan, branch);
	}
}

/* Insert one node for all branches if possible, else one in each branch. */
static Plan *
rewrite_append(Rewrite *rw, Append *append, Demand demand)
{
	Demand		branch = below_append(append, demand);
	Plan	   *result = insert_above_append(rw, append, &demand);
	ListCell   *lc;

	if (result)
		return result;
	foreach(lc, append->appendplans)
	{
		Plan	   *plan = lfirst(lc);

		if (IsA(plan, Append))
			lfirst(lc) = rewrite_append(rw, (Append *) plan, branch);
		else if (!IsA(plan, CustomScan))
			lfirst(lc) = rewrite_above(rw, plan, &branch);
	}
	return &append->plan;
}

static Plan *
rewrite_plan(Rewrite *rw, Plan *plan, Demand demand)
{
	CHECK_FOR_INTERRUPTS();
	check_stack_depth();
	if (plan == NULL || IsA(plan, CustomScan))
		return plan;
	if (IsA(plan, Append))
	{
		rewrite_branches(rw, (Append *) plan, demand);
		return rewrite_append(rw, (Append *) plan, demand);
	}
	rewrite_below(rw, plan, demand);
	return rewrite_above(rw, plan, &demand);
}

static bool
is_simple_expression(PlannedStmt *stmt)
{
	Plan	   *plan = stmt->planTree;

	return IsA(plan, Result) && !plan->lefttree && list_length(plan->targetlist) == 1;
}

/* With vllm.batch, cut the calls out of the finished plan, in place. */
static void
batch_rewrite(PlannedStmt *stmt, int cursor_options)
{
	Rewrite		rw = {.stmt = stmt};
	bool		backwards;

	decide_jit(stmt);
	if (!vllm_batch || !finds_in_statement(stmt, has_call_expr))
		return;
	backwards = ExecSupportsBackwardScan(stmt->planTree);
	rw.next_id = max_plan_node_id(stmt) + 1;
	rw.subplan_ahead = palloc0(list_length(stmt->subplans) * sizeof(BatchAhead));
	rw.subplan_facts = palloc0(list_length(stmt->subplans) * sizeof(SubplanFacts));
	if (is_simple_expression(stmt))
		note_subplans(&rw, stmt->planTree);
	else
		stmt->planTree = rewrite_plan(&rw, stmt->planTree, reads(BATCH_FETCH_ALL));
	for (int i = list_length(stmt->subplans) - 1; i >= 0; i--)
	{
		ListCell   *lc = list_nth_cell(stmt->subplans, i);

		lfirst(lc) = rewrite_plan(&rw, lfirst(lc), reads(rw.subplan_ahead[i]));
	}
	if (rw.changed && backwards && may_scroll(stmt, cursor_options) &&
		!ExecSupportsBackwardScan(stmt->planTree))
		stmt->planTree = materialize(&rw, stmt->planTree);
}

/* ---- hook ---- */

static PlannedStmt *
batch_planner(Query *parse, const char *query_string, int cursor_options, ParamListInfo params)
{
	/* functions that the planner evaluates may plan statements of their own */
	bool		explaining = batch_note_explaining(false);
	PlannedStmt *stmt = prev_planner_hook ?
		prev_planner_hook(parse, query_string, cursor_options, params) :
		standard_planner(parse, query_string, cursor_options, params);

	batch_rewrite(stmt, cursor_options);
	if (explaining && uses_functions(stmt))
		batch_note_calls(stmt);
	(void) batch_note_explaining(explaining);
	return stmt;
}

void
batch_init(void)
{
	prev_planner_hook = planner_hook;
	planner_hook = batch_planner;
	batch_execute_init();
	batch_note_init();
}
