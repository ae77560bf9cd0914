/*
 * insert.c
 *	  Insertions A (above a plan node) and B (below it).
 *
 * A: the plan node keeps the quals before the first one with a call and emits the inputs of the rest
 * (Vars, Aggrefs, WindowFuncs, set-returning functions).  The batch node evaluates the other quals,
 * in the planner's order, and the target list.  So other functions in the target list (nextval) run
 * once for each emitted row.
 *
 * B: for calls in the arguments of aggregates, window functions and set-returning functions.  The
 * plan node's input passes through the batch node, which appends the calls' values as columns.
 *
 * Places of calls, and how they are handled:
 *	 target list, qual			A, for all plan nodes that have them
 *	 joinqual					A for inner joins; for LEFT, SEMI, ANTI and hash joins that
 *								keep the hashed rows, A by a node that decides the join
 *								(match.c); inline for FULL
 *	 Aggref args, FILTER		B, FILTER being the args' guard; direct args inline
 *	 WindowFunc					B for aggregates over frames which each row enters, and for
 *								the first argument of lag and lead; else inline, as
 *								first_value() reads few of the rows
 *	 ProjectSet					B for arguments of the set-returning functions, A for
 *								the rest, which is evaluated for each emitted row
 *	 lateral Result, function	lateral.c
 *	 VALUES						values.c
 *	 Append						append.c
 *	 hash keys (only functions that aren't volatile)	B below both sides
 *	 RETURNING					append.c, of the statement itself
 *	 RETURNING in WITH (PostgreSQL completes such a statement without its parent nodes,
 *	 for rows that are never read), ON CONFLICT, MERGE actions, check options; one-time
 *	 filters; LIMIT; index conditions; TABLESAMPLE; arguments of functions in FROM
 *	 that aren't lateral; window frame bounds; Memoize keys: inline.  They run
 *	 once, or inside of a node that must have the value before it can read on.
 *
 * B computes each row's calls once.  Serial execution may compute them more often: for each sorted
 * grouping set, for each window frame that restarts, for each pair that a hash join compares.  For
 * lag and lead, B also computes them for rows that no other row reads (the last one of a partition).
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_proc.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "optimizer/optimizer.h"
#include "optimizer/plancat.h"
#include "utils/fmgroids.h"

#include "pg/batch/split.h"
#include "pg/vllm_pg.h"

/* ---- the node ---- */

/* Errors in a call's options or input are raised only when its row is due (site.c). */
static bool
calls_are_safe(List *calls)
{
	ListCell   *lc;

	foreach(lc, calls)
	{
		BatchCall  *c = lfirst(lc);
		if (!batch_expr_is_safe((Node *) c->args) || !batch_expr_is_safe((Node *) c->guards))
			return false;
	}
	return true;
}

typedef struct QualCalls
{
	const Split *s;
	int			n_child;
	Bitmapset  *seen;			/* members of s->calls already counted */
} QualCalls;

static bool
note_call(Node *node, void *context)
{
	QualCalls  *q = context;
	const Var  *v = (const Var *) node;

	if (node == NULL)
		return false;
	if (IsA(node, Var) && v->varno == INDEX_VAR && v->varattno > q->n_child)
		q->seen = bms_add_member(q->seen, v->varattno - q->n_child - 1);
	return expression_tree_walker(node, note_call, context);
}

/*
 * Move the calls' cost to the node that makes them.  The planner has included it in the child's cost,
 * except where the calls come from a plan node above (passes_through).  The child's plan_rows counts
 * only rows that pass the quals which have moved to the node.  The number of rows before those quals
 * follows from the child's cost, which is mostly the cost of the calls, counted for each row.
 */
static void
set_cost(const Split *s, Plan *plan, Plan *child, int n_child, List *qual)
{
	QualCalls	q = {.s = s,.n_child = n_child};
	QualCost	of_qual = {0, 0};
	QualCost	of_tlist = {0, 0};
	double		rows = child->plan_rows;
	Cost		own = child->total_cost;
	ListCell   *lc;

	(void) note_call((Node *) qual, &q);
	foreach(lc, s->calls)
	{
		BatchCall  *c = lfirst(lc);
		FuncExpr	f = *c->func;

		f.args = c->args;
		add_function_cost(NULL, f.funcid, (Node *) &f, bms_is_member(foreach_current_index(lc), q.seen)
						  ? &of_qual : &of_tlist);
	}
	plan->total_cost = child->total_cost;
	if (s->passes_through)
	{
		plan->total_cost += (of_qual.per_tuple + of_tlist.per_tuple) * child->plan_rows;
		return;
	}
	own -= of_tlist.per_tuple * child->plan_rows;
	if (child->lefttree != NULL)
		own -= child->lefttree->total_cost;
	if (child->righttree != NULL)
		own -= child->righttree->total_cost;
	/* cheap quals would be lost in the rest of the plan's cost */
	if (of_qual.per_tuple >= 1)
		rows = rint(own / of_qual.per_tuple);
	if (child->lefttree != NULL)
		rows = Min(rows,
				   child->lefttree->plan_rows * (child->righttree != NULL ? child->righttree->plan_rows : 1));
	rows = Max(rows, child->plan_rows);
	child->total_cost -= Min(of_qual.per_tuple * rows + of_tlist.per_tuple * child->plan_rows,
							 child->total_cost - child->startup_cost);
	child->plan_rows = rows;
}

Plan *
insert_node(Rewrite *rw, Split *s, Plan *child, List *tlist, List *qual, const Demand *demand)
{
	BatchPlan	bp = {.n_child = list_length(child->targetlist), .calls = s->calls};
	CustomScan *scan;
	ListCell   *lc;

	foreach(lc, s->calls)
	{
		BatchCall  *c = lfirst(lc);

		c->args = (List *) split_finish((Node *) c->args, bp.n_child);
		c->guards = (List *) split_finish((Node *) c->guards, bp.n_child);
	}
	tlist = (List *) split_finish((Node *) tlist, bp.n_child);
	qual = (List *) split_finish((Node *) qual, bp.n_child);
	bp.ahead = demand->ahead;
	if (demand->limit && qual == NIL)
	{
		bp.bounded = true;
		bp.ahead = demand->limit_ahead;
		bp.limit_count = copyObject(demand->limit->limitCount);
		bp.limit_offset = copyObject(demand->limit->limitOffset);
	}
	bp.match = s->match;
	bp.safe = calls_are_safe(s->calls) && batch_expr_is_safe((Node *) qual) &&
		batch_plan_is_safe(rw, child);
	scan = batch_plan_make(&bp, child, tlist, qual, rw->next_id++);
	set_cost(s, &scan->scan.plan, child, bp.n_child, qual);
	rw->changed = true;
	return (Plan *) scan;
}

Plan *
insert_pass_through(Rewrite *rw, Split *s, Plan *child, const Demand *demand)
{
	List	   *tlist = NIL;
	ListCell   *lc;
	int			j = 0;

	foreach(lc, child->targetlist)
	{
		TargetEntry *tle = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));

		tle->expr = (Expr *) makeVarFromTargetEntry(OUTER_VAR, tle);
		tlist = lappend(tlist, tle);
	}
	foreach(lc, s->calls)
	{
		BatchCall  *c = lfirst(lc);
		Node	   *f = (Node *) c->func;
		Var		   *v = makeVar(INDEX_VAR, ++j, exprType(f), exprTypmod(f), exprCollation(f), 0);

		tlist = lappend(tlist, makeTargetEntry((Expr *) v, list_length(tlist) + 1, NULL, false));
	}
	s->passes_through = true;
	return insert_node(rw, s, child, tlist, NIL, demand);
}

/* Make a Result that passes its input's columns on. */
static Plan *
add_result(Rewrite *rw, Plan *child)
{
	Plan	   *plan = &makeNode(Result)->plan;

	batch_plan_above(plan, child, rw->next_id++);
	batch_plan_hand_on(plan, child);
	return plan;
}

/* ---- A ---- */

/* Return the members before the first one with a call; the others go to *rest. */
static List *
cut_quals(List *quals, List **rest)
{
	int			n = 0;
	ListCell   *lc;

	foreach(lc, quals)
	{
		if (batch_has_call(lfirst(lc)))
			break;
		n++;
	}
	*rest = list_copy_tail(quals, n);
	return list_truncate(list_copy(quals), n);
}

static bool
is_inner_join(Plan *plan)
{
	return (IsA(plan, NestLoop) || IsA(plan, HashJoin) || IsA(plan, MergeJoin)) &&
		((Join *) plan)->jointype == JOIN_INNER;
}

/* An inner join's own condition is evaluated before its other quals. */
void
cut_plan_quals(Plan *plan, QualCut *cut)
{
	memset(cut, 0, sizeof(QualCut));
	cut->qual = plan->qual;
	if (is_inner_join(plan))
		cut->joinqual = cut_quals(((Join *) plan)->joinqual, &cut->moved);
	if (cut->moved != NIL)
	{
		cut->moved = list_concat(cut->moved, plan->qual);
		cut->qual = NIL;
	}
	else
		cut->qual = cut_quals(plan->qual, &cut->moved);
}

/* Leave to the plan node the quals that stay, and make it emit the given expressions. */
void
reduce_plan(Plan *plan, const QualCut *cut, List *columns)
{
	ListCell   *lc;

	if (is_inner_join(plan))
	{
		Join	   *join = (Join *) plan;

		/* the first match of the remaining quals needn't be the first match of all quals */
		if (list_length(cut->joinqual) < list_length(join->joinqual))
			join->inner_unique = false;
		join->joinqual = cut->joinqual;
	}
	plan->qual = cut->qual;
	plan->targetlist = NIL;
	foreach(lc, columns)
		plan->targetlist = lappend(plan->targetlist,
								   makeTargetEntry(lfirst(lc), list_length(plan->targetlist) + 1, NULL,
												   false));
}

/*
 * A WindowAgg's run condition and qual refer to its target list by number.  So its columns keep their
 * positions, and new ones are appended.
 */
static List *
split_fixed_tlist(Split *s, List *tlist)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, tlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		bool		stays = !batch_has_call((Node *) tle->expr) &&
			!contain_volatile_functions((Node *) tle->expr);
		Node	   *e = (Node *) tle->expr;

		s->leaves = lappend(s->leaves, stays ? e :
							(Node *) makeNullConst(exprType(e), exprTypmod(e), exprCollation(e)));
	}
	foreach(lc, tlist)
	{
		TargetEntry *tle = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));
		Node	   *leaf = list_nth(s->leaves, list_length(result));

		if (leaf == (Node *) tle->expr)
			tle->expr = (Expr *) makeVar(OUTER_VAR, list_length(result) + 1, exprType(leaf),
										 exprTypmod(leaf), exprCollation(leaf), 0);
		else
			tle->expr = (Expr *) split_expr(s, (Node *) tle->expr);
		result = lappend(result, tle);
	}
	return result;
}

Plan *
insert_above(Rewrite *rw, Plan *plan, const Demand *demand)
{
	Split		s = {.rw = rw, .gather_leaves = true};
	bool		fixed = IsA(plan, WindowAgg);
	QualCut		cut = {.qual = plan->qual};
	List	   *suffix = NIL,
			   *tlist;
	ListCell   *lc;

	if (!fixed)
		cut_plan_quals(plan, &cut);
	if (cut.moved == NIL && !batch_has_call((Node *) plan->targetlist))
		return plan;
	foreach(lc, cut.moved)
	{
		suffix = lappend(suffix, split_expr(&s, lfirst(lc)));
		s.stage++;
	}
	tlist = fixed ? split_fixed_tlist(&s, plan->targetlist) :
		(List *) split_expr(&s, (Node *) plan->targetlist);

	/* batching can't help a single row with a single call */
	if (s.calls == NIL ||
		(IsA(plan, Result) && !plan->lefttree && list_length(s.calls) == 1))
		return plan;
	reduce_plan(plan, &cut, s.leaves);
	return insert_node(rw, &s, plan, tlist, suffix, demand);
}

/* ---- A for outer, semi and anti joins ---- */

#define MANY_PAIRS	10000		/* reading that many pairs costs as much as some calls */

/*
 * Append a column that holds expr or, if that is NULL, a row number: to the plan itself or in a node
 * above it.
 */
static Plan *
add_column(Rewrite *rw, Plan *plan, Expr *expr)
{
	TargetEntry *tle;

	if (expr == NULL)
		return batch_number_rows(plan, rw->next_id++);
	tle = makeTargetEntry(expr, list_length(plan->targetlist) + 1, NULL, false);
	if (!plan_projects(plan) || IsA(plan, ProjectSet) || IsA(plan, ForeignScan) || IsA(plan, WindowAgg) ||
		IsA(plan, Gather) || IsA(plan, GatherMerge))
		plan = add_result(rw, plan);
	plan->targetlist = lappend(plan->targetlist, tle);
	return plan;
}

/* Append a column to one side of a join.  A Hash passes on the columns of the node below it. */
static Var *
add_to_side(Rewrite *rw, Join *join, int varno, Expr *expr)
{
	Plan	  **side = varno == OUTER_VAR ? &join->plan.lefttree : &join->plan.righttree;
	Plan	   *plan = *side;
	Node	   *column;

	if (IsA(plan, Hash))
	{
		TargetEntry *tle;

		plan->lefttree = add_column(rw, plan->lefttree, expr);
		tle = flatCopyTargetEntry(llast_node(TargetEntry, plan->lefttree->targetlist));
		tle->expr = (Expr *) makeVarFromTargetEntry(OUTER_VAR, tle);
		plan->targetlist = lappend(plan->targetlist, tle);
		tle->resno = list_length(plan->targetlist);
	}
	else
		*side = add_column(rw, plan, expr);
	column = (Node *) llast_node(TargetEntry, (*side)->targetlist)->expr;
	return makeVar(varno, list_length((*side)->targetlist), exprType(column), -1, InvalidOid, 0);
}

static bool
supports_match(Join *join)
{
	JoinType	type = join->jointype;

	if (vllm_batch_strict)
		return false;

	/* with a shared hash table, each worker has only some of a hashed row's pairs */
	if (type == JOIN_RIGHT)
		return IsA(join, HashJoin) && !join->plan.parallel_aware;
	if (type != JOIN_LEFT && type != JOIN_SEMI && type != JOIN_ANTI)
		return false;

	/* serial execution would end at the first match */
	return !IsA(join, NestLoop) || (type == JOIN_LEFT && !join->inner_unique) ||
		join->plan.righttree->plan_rows <= MANY_PAIRS;
}

/*
 * Reduce the join so that it emits all pairs, and rows without any.  Each kept row gets a number that
 * no other row has, also when it comes back from a hash join's file.  The other side gets a column
 * that is NULL only where the join has no row of that side.
 */
static void
reduce_join(Rewrite *rw, Join *join, Split *s, List *joinqual)
{
	bool		right = join->jointype == JOIN_RIGHT;
	int			kept = right ? INNER_VAR : OUTER_VAR;
	int			nulled = right ? OUTER_VAR : INNER_VAR;
	QualCut		cut = {.joinqual = joinqual};
	ListCell   *lc;

	foreach(lc, s->leaves)
		if (castNode(Var, lfirst(lc))->varno == nulled)
			s->match.nulled = lappend_int(s->match.nulled, foreach_current_index(lc) + 1);
	s->leaves = lappend(s->leaves, add_to_side(rw, join, kept, NULL));
	s->match.outer_id = list_length(s->leaves);
	if (join->jointype != JOIN_SEMI)
	{
		s->leaves = lappend(s->leaves, add_to_side(rw, join, nulled, (Expr *) makeBoolConst(true, false)));
		s->match.marker = list_length(s->leaves);
	}
	if (!right)
		join->jointype = join->jointype == JOIN_SEMI ? JOIN_INNER : JOIN_LEFT;
	join->inner_unique = false;
	join->joinqual = joinqual;
	reduce_plan(&join->plan, &cut, s->leaves);
}

Plan *
insert_match(Rewrite *rw, Join *join, const Demand *demand)
{
	Split		s = {.rw = rw, .gather_leaves = true};
	List	   *moved,
			   *joinqual = cut_quals(join->joinqual, &moved),
			   *quals = NIL,
			   *tlist;
	ListCell   *lc;

	if (moved == NIL || !supports_match(join) ||
		batch_is_otherwise_volatile(rw, (Node *) join->joinqual) ||
		(IsA(join, HashJoin) && batch_is_volatile(rw, (Node *) ((HashJoin *) join)->hashclauses)) ||
		(IsA(join, MergeJoin) && batch_is_volatile(rw, (Node *) ((MergeJoin *) join)->mergeclauses)))
		return NULL;
	foreach(lc, list_concat_copy(moved, join->plan.qual))
	{
		quals = lappend(quals, split_expr(&s, lfirst(lc)));
		s.stage++;
		if (s.stage == list_length(moved) && s.calls == NIL)
			return NULL;
	}
	tlist = (List *) split_expr(&s, (Node *) join->plan.targetlist);
	s.match.type = join->jointype;
	s.match.first_only = join->jointype == JOIN_SEMI || join->jointype == JOIN_ANTI ||
		(join->jointype == JOIN_LEFT && join->inner_unique);
	s.match.n_quals = list_length(moved);
	reduce_join(rw, join, &s, joinqual);
	return insert_node(rw, &s, &join->plan, tlist, quals, demand);
}

/* ---- B ---- */

typedef struct Below
{
	Split		split;
	Plan	   *plan;
	List	   *old_aggs,		/* equal Aggrefs must stay equal, */
			   *new_aggs;		/* since the executor computes them once */
} Below;

static List *
split_args(Split *s, List *args, Node *filter)
{
	if (filter == NULL)
		return (List *) split_expr(s, (Node *) args);
	return (List *) split_guarded(s, (Node *) args, split_truth(filter, IS_TRUE));
}

static Node *
below_aggref(Below *b, Aggref *agg)
{
	Aggref	   *result;
	ListCell   *lo,
			   *ln;

	forboth(lo, b->old_aggs, ln, b->new_aggs)
		if (equal(lfirst(lo), agg))
			return copyObject(lfirst(ln));
	result = makeNode(Aggref);
	*result = *agg;
	result->aggfilter = (Expr *) split_expr(&b->split, (Node *) agg->aggfilter);
	result->args = split_args(&b->split, agg->args, (Node *) result->aggfilter);
	b->old_aggs = lappend(b->old_aggs, agg);
	b->new_aggs = lappend(b->new_aggs, result);
	return (Node *) result;
}

/* Return true if each row enters the frame of some row, so that its arguments are evaluated. */
static bool
frames_take_all(WindowAgg *wagg)
{
	return (wagg->frameOptions & (FRAMEOPTION_START_OFFSET_FOLLOWING | FRAMEOPTION_START_UNBOUNDED_FOLLOWING |
								  FRAMEOPTION_END_OFFSET_PRECEDING | FRAMEOPTION_END_UNBOUNDED_PRECEDING |
								  FRAMEOPTION_EXCLUSION)) == 0;
}

static bool
is_lag_or_lead(Oid funcid)
{
	return funcid == F_LAG_ANYELEMENT || funcid == F_LAG_ANYELEMENT_INT4 ||
		funcid == F_LAG_ANYCOMPATIBLE_INT4_ANYCOMPATIBLE || funcid == F_LEAD_ANYELEMENT ||
		funcid == F_LEAD_ANYELEMENT_INT4 || funcid == F_LEAD_ANYCOMPATIBLE_INT4_ANYCOMPATIBLE;
}

static Node *
below_window(Below *b, WindowFunc *func)
{
	WindowFunc *result = copyObject(func);

	if (func->winagg && frames_take_all((WindowAgg *) b->plan))
	{
		result->aggfilter = (Expr *) split_expr(&b->split, (Node *) func->aggfilter);
		result->args = split_args(&b->split, func->args, (Node *) result->aggfilter);
	}
	else if (is_lag_or_lead(func->winfnoid))
		linitial(result->args) = split_expr(&b->split, linitial(func->args));
	return (Node *) result;
}

static Node *
below_mutator(Node *node, void *context)
{
	Below	   *b = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, Aggref) && IsA(b->plan, Agg))
		return below_aggref(b, (Aggref *) node);
	if (IsA(node, WindowFunc) && IsA(b->plan, WindowAgg))
		return below_window(b, (WindowFunc *) node);
	if (IsA(b->plan, ProjectSet) &&
		((IsA(node, FuncExpr) && ((FuncExpr *) node)->funcretset) ||
		 (IsA(node, OpExpr) && ((OpExpr *) node)->opretset)))
		return split_operands(&b->split, node);
	return expression_tree_mutator(node, below_mutator, context);
}

void
insert_below(Rewrite *rw, Plan *plan, const Demand *demand)
{
	Below		b = {.split = {.rw = rw}, .plan = plan};
	List	   *tlist,
			   *qual;
	int			n_child;

	if (!batch_has_call((Node *) plan->targetlist) && !batch_has_call((Node *) plan->qual))
		return;
	tlist = (List *) below_mutator((Node *) plan->targetlist, &b);
	qual = (List *) below_mutator((Node *) plan->qual, &b);
	if (b.split.calls == NIL)
		return;
	n_child = list_length(plan->lefttree->targetlist);
	plan->lefttree = insert_pass_through(rw, &b.split, plan->lefttree, demand);
	plan->targetlist = (List *) split_finish_above((Node *) tlist, n_child);
	plan->qual = (List *) split_finish_above((Node *) qual, n_child);
}

/* ---- B for hash joins ---- */

static Node *
inner_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varno == OUTER_VAR)
	{
		Var		   *v = copyObject((Var *) node);

		v->varno = INNER_VAR;
		return (Node *) v;
	}
	return expression_tree_mutator(node, inner_mutator, context);
}

/*
 * Compute the first hash key's calls below a side of the join.  The join doesn't evaluate later keys
 * if an earlier one is NULL, so calls in those stay inline.
 */
static bool
split_hash_keys(Rewrite *rw, List *keys, Plan **side, const Demand *demand)
{
	Split		s = {.rw = rw};
	int			n_child = list_length((*side)->targetlist);
	Node	   *key;

	key = split_expr(&s, linitial(keys));
	if (s.calls == NIL)
		return false;
	*side = insert_pass_through(rw, &s, *side, demand);
	linitial(keys) = split_finish_above(key, n_child);
	return true;
}

/*
 * The keys are in three places: the Hash's for its input, the join's for its outer side, and both
 * sides again in the clauses.  Both inputs must have been rewritten already.
 */
void
insert_for_hash(Rewrite *rw, HashJoin *join, const Demand *outer)
{
	Hash	   *hash = castNode(Hash, join->join.plan.righttree);
	Demand		full = {.ahead = BATCH_FULL};
	OpExpr	   *clause = linitial_node(OpExpr, join->hashclauses);

	if (split_hash_keys(rw, join->hashkeys, &join->join.plan.lefttree, outer))
		linitial(clause->args) = copyObject(linitial(join->hashkeys));
	if (split_hash_keys(rw, hash->hashkeys, &hash->plan.lefttree, &full))
	{
		List	   *tlist = hash->plan.lefttree->targetlist;

		lsecond(clause->args) = inner_mutator(linitial(hash->hashkeys), NULL);
		for (int i = list_length(hash->plan.targetlist); i < list_length(tlist); i++)
		{
			TargetEntry *tle = flatCopyTargetEntry(list_nth_node(TargetEntry, tlist, i));

			tle->expr = (Expr *) makeVarFromTargetEntry(OUTER_VAR, tle);
			hash->plan.targetlist = lappend(hash->plan.targetlist, tle);
		}
	}
}
