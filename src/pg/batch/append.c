/*
 * append.c
 *	  One node above an Append, so that partitions share a window; calls in RETURNING.
 *
 * With a node in each branch, the last calls of every partition would have to finish before the next
 * partition's first call starts.  If the branches' expressions have one shape (template.c), the
 * branches supply the differences and the node computes the rest above the Append.  The output of the
 * Append stays as its parents expect it.
 *
 * RETURNING has one list per partition, too.  The ModifyTable still evaluates columns without calls
 * when it writes the row.  A column with calls moves above the ModifyTable, unless another part of
 * the column is volatile: that part might see what the statement has written in the meantime.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"

#include "pg/batch/split.h"

typedef struct Branches
{
	Rewrite    *rw;
	List	   *plans;			/* plans of nested Appends, too */
	List	   *cuts;			/* QualCut *, one for each plan */
	Template	t;
} Branches;

static bool
is_steady(Rewrite *rw, List *exprs)
{
	return !batch_has_call((Node *) exprs) && !batch_is_volatile(rw, (Node *) exprs) &&
		batch_expr_is_safe((Node *) exprs);
}

/* Merge the i'th quals of all branches into one; return NULL if that is not possible. */
static Node *
common_qual(Branches *b, int i)
{
	List	   *exprs = NIL;
	ListCell   *lc;

	foreach(lc, b->cuts)
		exprs = lappend(exprs, list_nth(((QualCut *) lfirst(lc))->moved, i));
	return template_add(&b->t, exprs);
}

/*
 * Return column i as one merged expression or as a column that the branches compute; NULL if neither
 * is possible.
 */
static Node *
common_column(Branches *b, int i)
{
	List	   *exprs = NIL;
	Node	   *e;
	ListCell   *lc;

	foreach(lc, b->plans)
		exprs = lappend(exprs, list_nth_node(TargetEntry, ((Plan *) lfirst(lc))->targetlist, i)->expr);
	e = template_add(&b->t, exprs);
	return e || !is_steady(b->rw, exprs) ? e : template_add_whole(&b->t, exprs);
}

static List *
list_branches(Append *append)
{
	List	   *plans = NIL;
	ListCell   *lc;

	foreach(lc, append->appendplans)
		if (IsA(lfirst(lc), Append))
			plans = list_concat(plans, list_branches(lfirst(lc)));
		else
			plans = lappend(plans, lfirst(lc));
	return plans;
}

/* Cut the branches' quals; return false if they can't be treated alike. */
static bool
cut_branches(Branches *b)
{
	bool		calls = false;
	ListCell   *lc;

	b->t.n_rows = list_length(b->plans);
	foreach(lc, b->plans)
	{
		Plan	   *plan = lfirst(lc);
		QualCut    *cut = palloc(sizeof(QualCut));

		if (!plan_projects(plan) || IsA(plan, WindowAgg))
			return false;
		cut_plan_quals(plan, cut);
		b->cuts = lappend(b->cuts, cut);
		calls |= cut->moved != NIL || batch_has_call((Node *) plan->targetlist);
		if (list_length(cut->moved) != list_length(((QualCut *) linitial(b->cuts))->moved))
			return false;
	}
	return calls;
}

static void
reduce_append(Append *append, List *columns)
{
	ListCell   *lc;

	append->plan.targetlist = NIL;
	foreach(lc, columns)
	{
		Node	   *like = linitial(lfirst(lc));
		int			n = list_length(append->plan.targetlist) + 1;
		Var		   *v = makeVar(OUTER_VAR, n, exprType(like), exprTypmod(like), exprCollation(like), 0);

		append->plan.targetlist = lappend(append->plan.targetlist,
										  makeTargetEntry((Expr *) v, n, NULL, false));
	}
	foreach(lc, append->appendplans)
		if (IsA(lfirst(lc), Append))
			reduce_append(lfirst(lc), columns);
}

/* Make the branches and the Append emit the template's columns. */
static void
reduce_branches(Branches *b, Append *append)
{
	int			row = 0;
	ListCell   *lp,
			   *lq,
			   *lc;

	forboth(lp, b->plans, lq, b->cuts)
	{
		List	   *columns = NIL;

		foreach(lc, b->t.columns)
			columns = lappend(columns, list_nth(lfirst(lc), row));
		reduce_plan(lfirst(lp), lfirst(lq), columns);
		row++;
	}
	reduce_append(append, b->t.columns);
}

/* The branches' own inputs have been rewritten already.  Return NULL if one node is not possible. */
Plan *
insert_above_append(Rewrite *rw, Append *append, const Demand *demand)
{
	Branches	b = {.rw = rw, .plans = list_branches(append)};
	Split		s = {.rw = rw};
	List	   *tlist = NIL,
			   *quals = NIL;
	ListCell   *lc;

	if (list_length(b.plans) < 2 || !cut_branches(&b))
		return NULL;
	for (int i = 0; i < list_length(((QualCut *) linitial(b.cuts))->moved); i++)
	{
		Node	   *qual = common_qual(&b, i);

		if (!qual)
			return NULL;
		quals = lappend(quals, split_expr(&s, template_finish(qual, OUTER_VAR, 1)));
		s.stage++;
	}
	foreach(lc, append->plan.targetlist)
	{
		TargetEntry *tle = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));
		Node	   *e = common_column(&b, list_length(tlist));

		if (!e)
			return NULL;
		tle->expr = (Expr *) split_expr(&s, template_finish(e, OUTER_VAR, 1));
		tlist = lappend(tlist, tle);
	}
	if (s.calls == NIL)
		return NULL;
	reduce_branches(&b, append);
	return insert_node(rw, &s, (Plan *) append, tlist, quals, demand);
}

/* ---- RETURNING ---- */

/* Return column i of each list. */
static List *
returning_column(ModifyTable *modify, int i)
{
	List	   *exprs = NIL;
	ListCell   *lc;

	foreach(lc, modify->returningLists)
		exprs = lappend(exprs, list_nth_node(TargetEntry, lfirst(lc), i)->expr);
	return exprs;
}

/* Return the part of column i that moves above: an expression over the template's columns. */
static Node *
returning_expr(Rewrite *rw, ModifyTable *modify, int i, Template *t)
{
	List	   *exprs = returning_column(modify, i);
	Node	   *e = NULL;

	if (batch_has_call((Node *) exprs) && !batch_is_otherwise_volatile(rw, (Node *) exprs) &&
		!batch_is_written_only((Node *) exprs))
		e = template_add(t, exprs);
	return e ? e : template_add_whole(t, exprs);
}

/* Make the ModifyTable emit the template's columns. */
static void
reduce_returning(ModifyTable *modify, const Template *t)
{
	List	   *lists = NIL;

	for (int row = 0; row < t->n_rows; row++)
	{
		List	   *tlist = NIL;
		ListCell   *lc;

		foreach(lc, t->columns)
			tlist = lappend(tlist, makeTargetEntry(list_nth(lfirst(lc), row), list_length(tlist) + 1, NULL,
												   false));
		lists = lappend(lists, tlist);
	}
	modify->returningLists = lists;
	modify->plan.targetlist = copyObject(linitial(lists));
}

/*
 * The ModifyTable writes rows as the node reads them: the node may read ahead only if all of them
 * will be read.
 */
Plan *
insert_above_returning(Rewrite *rw, ModifyTable *modify)
{
	Template	t = {.n_rows = list_length(modify->returningLists)};
	Split		s = {.rw = rw, .passes_through = true};
	Demand		demand = {.ahead = BATCH_ALL_OR_ONE};
	List	   *tlist = NIL;
	ListCell   *lc;

	if (!batch_has_call((Node *) modify->returningLists))
		return NULL;
	foreach(lc, (List *) linitial(modify->returningLists))
	{
		TargetEntry *tle = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));
		Node	   *e = returning_expr(rw, modify, list_length(tlist), &t);

		tle->expr = (Expr *) split_expr(&s, template_finish(e, OUTER_VAR, 1));
		tlist = lappend(tlist, tle);
	}
	if (s.calls == NIL)
		return NULL;
	reduce_returning(modify, &t);
	return insert_node(rw, &s, &modify->plan, tlist, NIL, &demand);
}
