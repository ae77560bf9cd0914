/*
 * limits.c
 *	  Statements that are expected to ask too much are refused before their first call: vllm.max_rows,
 *	  vllm.max_tokens_per_statement, vllm.max_cost.
 *
 * What is expected of a batch node is what EXPLAIN says (estimate.c), as often as the planner expects the
 * node to be scanned, and as much of it as a Limit, or a FETCH, above it is expected to ask for.  Calls that
 * are in no node are counted, one for each of their plan node's rows; what they have in tokens is not known.
 *
 * vllm.max_cost holds while the statement runs, too (spend.c).  So answers of which nothing is known count for
 * nothing here, not for max_tokens: the statement may well cost less.
 *
 * An estimate keeps nobody out who writes many small statements: that is what limits and budgets of roles
 * are for (spend.c, role_limits.c).
 *
 * Tests: tests/sql/36_cost.sql.
 */
#include "postgres.h"

#include <math.h>

#include "nodes/nodeFuncs.h"

#include "pg/batch/node.h"
#include "pg/client/spend.h"
#include "pg/vllm_pg.h"

int			vllm_max_rows;
int			vllm_max_tokens_per_statement;

static void expect_node(PlanState *ps, double times, BatchEstimate *sum);

/* ---- calls that stand in expressions ---- */

static bool
count_calls(Node *node, int *n)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && batch_asks_engine(((FuncExpr *) node)->funcid))
		(*n)++;
	return expression_tree_walker(node, count_calls, n);
}

/*
 * Those of the target list for each row that leaves the node, those of the quals and of aggregates for each
 * that comes.
 */
static void
expect_inline(const PlanState *ps, double times, BatchEstimate *sum)
{
	const Plan *plan = ps->plan;
	int			listed = 0;
	int			filtered = 0;
	double		input = Max(outerPlan(plan) != NULL ? outerPlan(plan)->plan_rows : plan->plan_rows, 1);
	double		output = IsA(plan, FunctionScan) ? 1 : IsA(plan, Agg) ? input : Max(plan->plan_rows, 1);

	(void) count_calls((Node *) plan->targetlist, &listed);
	(void) count_calls((Node *) plan->qual, &filtered);
	if (IsA(plan, FunctionScan))
		(void) count_calls((Node *) ((const FunctionScan *) plan)->functions, &listed);
	sum->calls += times * (listed * output + filtered * input);
}

/* ---- a plan ---- */

/* All of the input is read before the first row leaves. */
static bool
reads_all(const PlanState *ps)
{
	switch (nodeTag(ps))
	{
		case T_SortState:
		case T_HashState:
		case T_AggState:
		case T_SetOpState:
		case T_WindowAggState:
		case T_ModifyTableState:
			return true;
		default:
			return false;
	}
}

static double
part_of(double rows, double all)
{
	return all > 0 && rows < all ? rows / all : 1;
}

static void
expect_batch(const BatchNode *n, double times, BatchEstimate *sum)
{
	BatchEstimate e;
	double		rows = Max(n->css.ss.ps.plan->plan_rows, 1);

	(void) batch_estimate(n, &e);
	/* its own estimate knows of the limit */
	if (n->plan->bounded && n->plan->limit_count != NULL && times < 1)
		times = Max(times, part_of(e.calls, rows));
	sum->calls += times * e.calls;
	sum->prompt_tokens += times * e.prompt_tokens;
	sum->output_tokens += times * e.output_tokens;
	sum->cost += times * e.cost;
	sum->known_cost += times * e.known_cost;
}

static void
expect_subplans(List *subplans, double times, BatchEstimate *sum)
{
	ListCell   *lc;

	foreach(lc, subplans)
	{
		SubPlanState *s = lfirst_node(SubPlanState, lc);

		expect_node(s->planstate, s->subplan->parParam != NIL ? times : 1, sum);
	}
}

static void
expect_members(PlanState **members, int n, double times, BatchEstimate *sum)
{
	for (int i = 0; i < n; i++)
		expect_node(members[i], times, sum);
}

/* times: how often all of the node's rows are expected to be asked for; a part of 1 under a Limit */
static void
expect_node(PlanState *ps, double times, BatchEstimate *sum)
{
	double		below = times;
	double		inner;

	if (ps == NULL)
		return;
	if (batch_is_node(ps))
		expect_batch((const BatchNode *) ps, times, sum);
	else
		expect_inline(ps, times, sum);
	if (IsA(ps, LimitState) && outerPlanState(ps) != NULL)
		below = times * part_of(ps->plan->plan_rows, outerPlanState(ps)->plan->plan_rows);
	else if (reads_all(ps))
		below = Max(times, 1);
	inner = below;
	if (IsA(ps, NestLoopState) && !IsA(innerPlanState(ps), MaterialState))
		inner = below * Max(outerPlanState(ps)->plan->plan_rows, 1);
	expect_node(outerPlanState(ps), below, sum);
	expect_node(innerPlanState(ps), inner, sum);
	expect_subplans(ps->initPlan, 1, sum);
	expect_subplans(ps->subPlan, times * Max(ps->plan->plan_rows, 1), sum);
	if (IsA(ps, AppendState))
		expect_members(((AppendState *) ps)->appendplans, ((AppendState *) ps)->as_nplans, below, sum);
	else if (IsA(ps, MergeAppendState))
		expect_members(((MergeAppendState *) ps)->mergeplans, ((MergeAppendState *) ps)->ms_nplans, below,
					   sum);
	else if (IsA(ps, SubqueryScanState))
		expect_node(((SubqueryScanState *) ps)->subplan, below, sum);
}

/* ---- what is too much ---- */

pg_noreturn static void
refuse(const BatchEstimate *e, const char *setting, const char *limit, bool tokens)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("statement is estimated to exceed \"%s\" (%s)", setting, limit),
			 tokens ? errdetail("The estimate is %.0f LLM calls, %.0f prompt tokens, %.0f output tokens, "
								"cost %.6g.", e->calls, e->prompt_tokens, e->output_tokens, e->cost) :
			 errdetail("The estimate is %.0f LLM calls.", e->calls),
			 errhint("EXPLAIN shows it; ANALYZE the tables if it is wrong. Ask for fewer rows or tokens, or "
					 "raise %s.", setting)));
	pg_unreachable();
}

void
batch_check_limits(PlanState *ps, uint64 count)
{
	BatchEstimate e = {0};

	if (ps == NULL || (vllm_max_rows <= 0 && vllm_max_tokens_per_statement <= 0 && vllm_max_cost <= 0))
		return;
	expect_node(ps, count == 0 ? 1 : part_of((double) count, ps->plan->plan_rows), &e);
	if (e.calls <= 0)
		return;
	if (vllm_max_rows > 0 && rint(e.calls) > vllm_max_rows)
		refuse(&e, "vllm.max_rows", psprintf("%d", vllm_max_rows), false);
	if (vllm_max_tokens_per_statement > 0 &&
		rint(e.prompt_tokens + e.output_tokens) > vllm_max_tokens_per_statement)
		refuse(&e, "vllm.max_tokens_per_statement", psprintf("%d", vllm_max_tokens_per_statement), true);
	if (vllm_max_cost > 0 && e.known_cost > vllm_max_cost)
		refuse(&e, "vllm.max_cost", psprintf("%g", vllm_max_cost), true);
}
