/*
 * estimate.c
 *	  Estimates of a batch node's calls: their number, their tokens, their cost.  EXPLAIN shows them, and a
 *	  statement whose estimates exceed vllm.max_rows, vllm.max_tokens_per_statement or vllm.max_cost is
 *	  refused before its first call.
 *
 * The number of calls is the number of rows that the planner expects from the child or, where calls
 * run after the node's quals, the number of rows that pass those.  A prompt is as long as its columns
 * are on average, by their tables' statistics.  An output is as long as the model's outputs have been
 * on average (spend.c), else max_tokens.
 *
 * Options that differ from row to row are not known beforehand: such calls are counted, but their
 * tokens are not known.  The same holds if the head of a request is refused; the statement raises
 * that error when it runs.
 *
 * LIMITS.  A statement's estimate counts each node as often as the planner expects the node to be
 * scanned, and only the part of it that a Limit, or a FETCH, above it is expected to read.  A call
 * outside of any batch node counts once for each row of its plan node.  Its tokens are known as in a batch
 * node, if it is one that a batch node could have; those of functions that send their own requests, and of
 * aggregates, are not.
 *
 * vllm.max_cost also holds while the statement runs (spend.c).  So outputs of unknown length count as
 * 0 there, not as max_tokens: the statement may well cost less.
 *
 * An estimate does not stop a user who runs many small statements: limits and budgets of roles do
 * that (spend.c, role_limits.c).
 *
 * Tests: tests/sql/36_cost.sql.
 */
#include "postgres.h"

#include <math.h>

#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/assert.h"
#include "pg/batch/node.h"
#include "pg/compat.h"
#include "pg/client/spend.h"
#include "pg/vllm_pg.h"

int			vllm_max_rows;
int			vllm_max_tokens_per_statement;

/* ---- a node ---- */

typedef struct WidthContext
{
	const PlanState *ps;		/* has the expression */
	int			n_child;		/* of a batch node: number of its child's columns; else 0 */
	double		bytes;
} WidthContext;

static double
const_width(const Const *c)
{
	if (c->constisnull)
		return 0;
	if (c->constlen == -1)
		return VARSIZE_ANY_EXHDR(DatumGetPointer(c->constvalue));
	return c->constlen == -2 ? strlen(DatumGetCString(c->constvalue)) : c->constlen;
}

/* Return the expression of a plan's column, NULL if there is none. */
static const Node *
column_of(const Plan *plan, int attno)
{
	return plan != NULL && attno > 0 && attno <= list_length(plan->targetlist) ?
		(Node *) ((TargetEntry *) list_nth(plan->targetlist, attno - 1))->expr : NULL;
}

/*
 * Return the average width of an expression in a plan: of a column by the statistics of its table, else by
 * the type.
 */
static double
expression_width(EState *estate, const Plan *plan, const Node *e)
{
	const Var  *v = (const Var *) e;
	int32		width = 0;

	while (e != NULL && IsA(e, Var) && (v->varno == OUTER_VAR || v->varno == INNER_VAR))
	{
		plan = v->varno == OUTER_VAR ? outerPlan(plan) : innerPlan(plan);
		e = column_of(plan, v->varattno);
		v = (const Var *) e;
	}
	if (e == NULL)
		return 32;
	if (IsA(e, Var) && v->varno > 0 && v->varno <= list_length(estate->es_range_table) &&
		v->varattno > 0 && exec_rt_fetch(v->varno, estate)->rtekind == RTE_RELATION)
		width = get_attavgwidth(exec_rt_fetch(v->varno, estate)->relid, v->varattno);
	return width > 0 ? width : get_typavgwidth(exprType(e), exprTypmod(e));
}

static bool
add_width(Node *node, WidthContext *w)
{
	if (node == NULL)
		return false;
	if (IsA(node, Const))
		w->bytes += const_width((Const *) node);
	else if (IsA(node, Var) && ((Var *) node)->varno == INDEX_VAR && ((Var *) node)->varattno <= w->n_child)
		w->bytes += expression_width(w->ps->state, outerPlan(w->ps->plan),
									 column_of(outerPlan(w->ps->plan), ((Var *) node)->varattno));
	else if (IsA(node, Var))
		w->bytes += expression_width(w->ps->state, w->ps->plan, node);
	else if (IsA(node, Param))
		w->bytes += get_typavgwidth(exprType(node), exprTypmod(node));
	return expression_tree_walker(node, add_width, w);
}

/*
 * Add the tokens and the cost of so many calls whose options are known; return false if the head of their
 * messages is refused.  w: where the arguments are.
 */
static bool
add_tokens(BatchEstimate *e, double rows, const EngineFunc *engine, FunctionCallInfo fcinfo, List *args,
		   WidthContext w)
{
	SqlRequest	r = {0};
	SpendRecord	note;
	CostTokens	t = {0};
	int64		seen;
	WireIn		in;
	WireField	f;

	ASSERT(engine->n_inputs <= list_length(args));
	initStringInfo(&r.body);
	if (engine_func_head(engine, &r, fcinfo) != NULL)
		return false;
	cost_note_begin(&note);
	in = (WireIn) {r.body.data, r.body.data + r.body.len};
	while (wire_next(&in, &f) > 0)
		cost_note_field(&note, &f);
	for (int i = 0; i < engine->n_inputs; i++)
		(void) add_width(list_nth(args, i), &w);
	note.prompt_bytes += (int64) w.bytes;
	if (r.model != NULL)
		cost_learn(&note, r.model);
	t.prompt = cost_prompt_estimate(&note);
	t.output = cost_output_estimate(&note, r.kind);
	seen = r.model != NULL ? cost_seen_output(r.model) : -1;
	if (seen >= 0)
		t.output = Min(t.output, seen * note.answers);
	e->prompt_tokens += rows * (double) t.prompt;
	e->output_tokens += rows * (double) t.output;
	e->cost += note.priced ? rows * cost_money(&note, &t) : 0;
	t.output = seen >= 0 ? t.output : 0;
	e->known_cost += note.priced ? rows * cost_money(&note, &t) : 0;
	e->priced |= note.priced;
	return true;
}

typedef struct SiteContext
{
	AttrNumber	attno;
} SiteContext;

static bool
needs_site(Node *node, SiteContext *c)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var) && ((Var *) node)->varno == INDEX_VAR && ((Var *) node)->varattno == c->attno)
		return true;
	return expression_tree_walker(node, needs_site, c);
}

/*
 * Return true if only rows that pass the node's quals need the i'th call.  A call that other calls
 * need counts for all rows.
 */
static bool
is_after_quals(const BatchNode *n, int i)
{
	SiteContext c = {n->n_child + i + 1};

	for (int k = i + 1; k < n->n_sites; k++)
		if (needs_site((Node *) n->sites[k].call->args, &c))
			return false;
	return !needs_site((Node *) n->css.ss.ps.plan->qual, &c);
}

static double
limit_value(Node *limit, double otherwise)
{
	if (limit == NULL)
		return 0;
	return IsA(limit, Const) && !((Const *) limit)->constisnull ?
		(double) DatumGetInt64(((Const *) limit)->constvalue) : otherwise;
}

/* Reduce the estimate to the rows of a Limit whose value is known before the run. */
static double
within_limit(const BatchNode *n, double rows)
{
	if (!n->plan->bounded || n->plan->limit_count == NULL)
		return rows;
	return Min(rows, limit_value(n->plan->limit_count, rows) + limit_value(n->plan->limit_offset, rows));
}

bool
batch_estimate(const BatchNode *n, BatchEstimate *e)
{
	const Plan *plan = n->css.ss.ps.plan;
	bool		known = true;

	memset(e, 0, sizeof(*e));
	for (int i = 0; i < n->n_sites; i++)
	{
		const BatchSite *s = &n->sites[i];
		double		rows = within_limit(n,
										Max(is_after_quals(n, i)
											? plan->plan_rows : outerPlan(plan)->plan_rows, 1));

		e->calls += rows;
		known &= s->fixed_head && add_tokens(e, rows, s->engine, s->fcinfo, s->call->args,
											 (WidthContext) {&n->css.ss.ps, n->n_child, 0});
	}
	return known;
}

/* ---- a statement ---- */

static void expect_node(PlanState *ps, double times, BatchEstimate *sum);

static void
add_times(BatchEstimate *sum, double times, const BatchEstimate *e)
{
	sum->calls += times * e->calls;
	sum->prompt_tokens += times * e->prompt_tokens;
	sum->output_tokens += times * e->output_tokens;
	sum->cost += times * e->cost;
	sum->known_cost += times * e->known_cost;
}

/* The calls in a plan node's expressions, for one row */
typedef struct InlineContext
{
	const PlanState *ps;
	BatchEstimate one;
} InlineContext;

/* Add the tokens of a call outside of any batch node, if its options are constants. */
static void
add_inline(InlineContext *c, FuncExpr *call)
{
	const EngineFunc *engine = batch_recognise(call->funcid);
	int			nargs = list_length(call->args);
	FunctionCallInfo fcinfo;
	FmgrInfo	flinfo;
	ListCell   *lc;
	int			i = 0;

	if (engine == NULL)
		return;
	fmgr_info(call->funcid, &flinfo);
	fmgr_info_set_expr((Node *) call, &flinfo);
	fcinfo = palloc0(SizeForFunctionCallInfo(nargs));
	InitFunctionCallInfoData(*fcinfo, &flinfo, nargs, call->inputcollid, NULL, NULL);
	foreach(lc, call->args)
	{
		const Const *arg = lfirst(lc);

		if (IsA(arg, Const))
			fcinfo->args[i] = (NullableDatum) {arg->constvalue, arg->constisnull};
		else if (i >= engine->n_inputs)
			return;
		i++;
	}
	(void) add_tokens(&c->one, 1, engine, fcinfo, call->args, (WidthContext) {c->ps, 0, 0});
}

static bool
count_calls(Node *node, InlineContext *c)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && batch_calls_engine(((FuncExpr *) node)->funcid))
	{
		c->one.calls++;
		add_inline(c, (FuncExpr *) node);
	}
	if (IsA(node, Aggref) && batch_aggregate_calls((Aggref *) node) == AGGREGATE_ROW_CALLS)
		c->one.calls++;
	return expression_tree_walker(node, count_calls, c);
}

/* Add the calls of an expression, or of a list of them, that is computed for so many rows. */
static void
add_calls(BatchEstimate *sum, double rows, const PlanState *ps, Node *node)
{
	InlineContext c = {.ps = ps};

	(void) count_calls(node, &c);
	add_times(sum, rows, &c.one);
}

/* Count the aggregates that ask for each group. */
static bool
count_groups(Node *node, int *n)
{
	if (node == NULL)
		return false;
	if (IsA(node, Aggref) && batch_aggregate_calls((Aggref *) node) == AGGREGATE_GROUP_CALLS)
		(*n)++;
	return expression_tree_walker(node, count_groups, n);
}

/*
 * Return the number of rows that a join looks at.  For a hash or merge join, the planner does not say
 * how many pairs match the join's keys.
 */
static double
joined_rows(const Plan *plan)
{
	double		outer = Max(outerPlan(plan)->plan_rows, 1);
	double		inner = Max(innerPlan(plan)->plan_rows, 1);

	return IsA(plan, NestLoop) ? outer * inner : Max(Max(outer, inner), plan->plan_rows);
}

/*
 * Calls in the target list count once for each row that leaves the plan node; calls in quals and
 * aggregates count once for each input row.
 */
static void
expect_inline(const PlanState *ps, double times, BatchEstimate *sum)
{
	const Plan *plan = ps->plan;
	double		input = Max(outerPlan(plan) != NULL ? outerPlan(plan)->plan_rows : plan->plan_rows, 1);
	double		output = IsA(plan, FunctionScan) ? 1 : IsA(plan, Agg) ? input : Max(plan->plan_rows, 1);

	add_calls(sum, times * output, ps, (Node *) plan->targetlist);
	add_calls(sum, times * input, ps, (Node *) plan->qual);
	if (IsA(plan, FunctionScan))
		add_calls(sum, times * output, ps, (Node *) ((const FunctionScan *) plan)->functions);
	if (IsA(plan, Agg))
	{
		int			grouped = 0;

		(void) count_groups((Node *) plan->targetlist, &grouped);
		(void) count_groups((Node *) plan->qual, &grouped);
		sum->calls += times * grouped * Max(plan->plan_rows, 1);
	}
	if (IsA(plan, NestLoop) || IsA(plan, HashJoin) || IsA(plan, MergeJoin))
		add_calls(sum, times * joined_rows(plan), ps, (Node *) ((const Join *) plan)->joinqual);
}

/* Return true if the plan node reads all of its input before it emits its first row. */
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
	/* the node's own estimate includes the limit already */
	if (n->plan->bounded && n->plan->limit_count != NULL && times < 1)
		times = Max(times, part_of(e.calls, rows));
	add_times(sum, times, &e);
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

/* Return the number of processes that share the rows below a Gather, as the planner counts them. */
static double
processes_below(const Plan *plan)
{
	int			workers = IsA(plan, Gather) ? ((const Gather *) plan)->num_workers :
		IsA(plan, GatherMerge) ? ((const GatherMerge *) plan)->num_workers : 0;
	double		leader = parallel_leader_participation ? 1.0 - 0.3 * workers : 0;

	return Max(workers + Max(leader, 0), 1);
}

/* times: how often the parent is expected to read all of the node's rows; less than 1 under a Limit */
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
	below *= processes_below(ps->plan);
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

pg_noreturn static void
refuse(const BatchEstimate *e, const char *setting, const char *limit, bool tokens)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("statement is estimated to exceed \"%s\" (%s)", setting, limit),
			 tokens ? errdetail("The estimate is %.0f LLM calls, %.0f prompt tokens, %.0f output tokens, "
								"cost %.6g.", e->calls, e->prompt_tokens, e->output_tokens, e->cost) :
			 errdetail("The estimate is %.0f LLM calls.", e->calls),
			 errhint("EXPLAIN shows the estimate; run ANALYZE on the tables if it is wrong. Request fewer "
					 "rows or tokens, or raise %s.", setting)));
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
