/*
 * lateral.c
 *	  Insertion D: calls of a lateral item that depend on the outer row alone.
 *
 * The planner makes a NestLoop of LATERAL (SELECT llm_generate(d.x)) and of LATERAL
 * f(llm_generate(d.x)).  Its inner side is a Result without input or a FunctionScan: the functions
 * are volatile, so the planner doesn't pull the sub-select up.  The inner side runs exactly once for
 * each outer row.  We make its calls in a node over the outer side and pass the values in as further
 * parameters of the NestLoop.
 *
 * The planner may insert a Memoize in between, as it doesn't look for volatile functions inside of a
 * sub-select.  We remove it: it would cache values that the node has computed anyway.
 * vllm.batch_dedup finds equal deterministic calls.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"

#include "base/assert.h"
#include "pg/batch/split.h"

static Plan *
below_memoize(Plan *plan)
{
	return IsA(plan, Memoize) ? plan->lefttree : plan;
}

/* Find the plan on the inner side that holds the calls, from the join down. */
static Plan *
inner_source(Plan *plan)
{
	plan = below_memoize(plan);
	while (IsA(plan, SubqueryScan))
		plan = ((SubqueryScan *) plan)->subplan;
	if (IsA(plan, Result) && !plan->lefttree)
		return plan;
	if (IsA(plan, FunctionScan) && list_length(((FunctionScan *) plan)->functions) == 1)
		return plan;
	return NULL;
}

/* ---- back to the inner side's parameters ---- */

typedef struct ToParams
{
	List	   *nest_params;	/* the join's parameters before the change */
	List	   *new_params;		/* Param * of call 1, 2, ... */
} ToParams;

static Node *
to_params(Node *node, void *context)
{
	ToParams   *to = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varno == INDEX_VAR)
		return copyObject(list_nth(to->new_params, ((Var *) node)->varattno - 1));
	if (IsA(node, Var) && ((Var *) node)->varno == OUTER_VAR)
	{
		ListCell   *lc;

		foreach(lc, to->nest_params)
		{
			NestLoopParam *nlp = lfirst(lc);

			if (equal(nlp->paramval, node))
			{
				Param	   *p = makeNode(Param);

				p->paramkind = PARAM_EXEC;
				p->paramid = nlp->paramno;
				p->paramtype = exprType(node);
				p->paramtypmod = exprTypmod(node);
				p->paramcollid = exprCollation(node);
				p->location = -1;
				return (Node *) p;
			}
		}
		elog(ERROR, "lost the parameter of a lateral call");
	}
	return expression_tree_mutator(node, to_params, context);
}

/* Add one parameter for each call, which the join sets from the node's output. */
static List *
add_params(Rewrite *rw, Split *s, NestLoop *join, int n_child)
{
	List	   *params = NIL;
	ListCell   *lc;

	foreach(lc, s->calls)
	{
		Node	   *f = (Node *) ((BatchCall *) lfirst(lc))->func;
		Param	   *p = makeNode(Param);
		NestLoopParam *nlp = makeNode(NestLoopParam);

		p->paramkind = PARAM_EXEC;
		p->paramid = list_length(rw->stmt->paramExecTypes);
		p->paramtype = exprType(f);
		p->paramtypmod = exprTypmod(f);
		p->paramcollid = exprCollation(f);
		p->location = -1;
		params = lappend(params, p);
		rw->stmt->paramExecTypes = lappend_oid(rw->stmt->paramExecTypes, p->paramtype);
		nlp->paramno = p->paramid;
		nlp->paramval = makeVar(OUTER_VAR, n_child + list_length(params), p->paramtype, p->paramtypmod,
								p->paramcollid, 0);
		join->nestParams = lappend(join->nestParams, nlp);
	}
	return params;
}

/* Mark the plans between the join and the source as dependent on the new parameters. */
static void
mark_params(NestLoop *join, Plan *source, List *params)
{
	Plan	   *plan = below_memoize(join->join.plan.righttree);

	join->join.plan.righttree = plan;
	for (;;)
	{
		ListCell   *lc;

		foreach(lc, params)
		{
			plan->extParam = bms_add_member(plan->extParam, ((Param *) lfirst(lc))->paramid);
			plan->allParam = bms_add_member(plan->allParam, ((Param *) lfirst(lc))->paramid);
		}
		if (plan == source)
			break;
		/* inner_source() came the same way */
		ASSERT(IsA(plan, SubqueryScan));
		plan = ((SubqueryScan *) plan)->subplan;
	}
	if (IsA(source, FunctionScan))
	{
		RangeTblFunction *rtf = linitial(((FunctionScan *) source)->functions);
		ListCell   *lc;

		foreach(lc, params)
			rtf->funcparams = bms_add_member(rtf->funcparams, ((Param *) lfirst(lc))->paramid);
	}
}

/* ---- the split ---- */

/* A one-time filter's members are evaluated one after the other, before all other expressions. */
static Node *
split_filter(Split *s, Node *filter)
{
	List	   *result = NIL;
	ListCell   *lc;

	if (filter == NULL)
		return NULL;
	if (!IsA(filter, List))
		filter = (Node *) list_make1(filter);
	foreach(lc, (List *) filter)
	{
		Node	   *member = split_expr(s, lfirst(lc));

		result = lappend(result, member);
		s->guards = lappend(list_copy(s->guards), split_truth(member, IS_TRUE));
		s->no_hoist += !split_is_good_guard(s->rw, member);
	}
	return (Node *) result;
}

static void
split_result(Rewrite *rw, NestLoop *join, Result *result, const Demand *demand)
{
	Split		s = {.rw = rw, .nest_params = join->nestParams};
	ToParams	to = {.nest_params = join->nestParams};
	Node	   *filter = split_filter(&s, result->resconstantqual);
	List	   *tlist = (List *) split_expr(&s, (Node *) result->plan.targetlist);
	Plan	   *outer = join->join.plan.lefttree;

	if (s.calls == NIL || s.foreign_param || result->plan.qual != NIL)
		return;
	to.new_params = add_params(rw, &s, join, list_length(outer->targetlist));
	join->join.plan.lefttree = insert_pass_through(rw, &s, outer, demand);
	result->resconstantqual = to_params(filter, &to);
	result->plan.targetlist = (List *) to_params((Node *) tlist, &to);
	mark_params(join, (Plan *) result, to.new_params);
}

static void
split_function(Rewrite *rw, NestLoop *join, FunctionScan *scan, const Demand *demand)
{
	RangeTblFunction *rtf = linitial(scan->functions);
	Split		s = {.rw = rw, .nest_params = join->nestParams};
	ToParams	to = {.nest_params = join->nestParams};
	bool		set = IsA(rtf->funcexpr, FuncExpr) && ((FuncExpr *) rtf->funcexpr)->funcretset;
	Node	   *expr = set ? split_operands(&s, rtf->funcexpr) : split_expr(&s, rtf->funcexpr);
	Plan	   *outer = join->join.plan.lefttree;

	if (s.calls == NIL || s.foreign_param)
		return;
	to.new_params = add_params(rw, &s, join, list_length(outer->targetlist));
	join->join.plan.lefttree = insert_pass_through(rw, &s, outer, demand);
	rtf->funcexpr = to_params(expr, &to);
	mark_params(join, (Plan *) scan, to.new_params);
}

/*
 * Return true if the join has such an inner side, so that each outer row makes exactly one row of the
 * join.
 */
bool
lateral_is_one_to_one(NestLoop *join)
{
	Plan	   *source = inner_source(join->join.plan.righttree);
	Plan	   *plan = below_memoize(join->join.plan.righttree);

	if (!source || join->join.plan.qual != NIL)
		return false;
	if (IsA(source, FunctionScan))
	{
		RangeTblFunction *f = linitial(((FunctionScan *) source)->functions);

		if (expression_returns_set(f->funcexpr))
			return false;
	}
	if (join->join.jointype == JOIN_LEFT)
		return true;
	for (; IsA(plan, SubqueryScan); plan = ((SubqueryScan *) plan)->subplan)
		if (plan->qual != NIL)
			return false;
	return join->join.jointype == JOIN_INNER && join->join.joinqual == NIL && source->qual == NIL &&
		!(IsA(source, Result) && ((Result *) source)->resconstantqual);
}

/* demand: how the join reads its outer side, which must have been rewritten already. */
void
insert_lateral(Rewrite *rw, NestLoop *join, const Demand *demand)
{
	Plan	   *source = inner_source(join->join.plan.righttree);

	if (!source || join->nestParams == NIL ||
		(join->join.jointype != JOIN_INNER && join->join.jointype != JOIN_LEFT))
		return;
	if (IsA(source, Result))
		split_result(rw, join, (Result *) source, demand);
	else
		split_function(rw, join, (FunctionScan *) source, demand);
}
