/*
 * values.c
 *	  Calls in the rows of a VALUES list.
 *
 * If the rows of a column with calls have one shape (template.c), a node above the ValuesScan
 * computes the column from columns that hold the differences between the rows.  Serial execution
 * computes all columns of a row before it checks the scan's quals.  So the calls don't depend on the
 * quals, and they are made even if no expression reads the column.
 *
 * The new columns come after the old ones.  An old column that the node computes is NULL in the list,
 * as nothing reads it there.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"

#include "pg/batch/split.h"

static List *
column_exprs(List *rows, int i)
{
	List	   *exprs = NIL;
	ListCell   *lc;

	foreach(lc, rows)
		exprs = lappend(exprs, list_nth(lfirst(lc), i));
	return exprs;
}

typedef struct CountVars
{
	Index		relid;
	AttrNumber	attno;
	int			n;
} CountVars;

static bool
count_walker(Node *node, void *context)
{
	CountVars  *c = context;
	Var		   *v = (Var *) node;

	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		/* a whole-row reference reads all columns from the scan tuple itself */
		c->n += v->varno == c->relid && (v->varattno == c->attno || v->varattno == 0) ?
			(v->varattno == 0 ? 2 : 1) : 0;
		return false;
	}
	return expression_tree_walker(node, count_walker, context);
}

static int
count_readers(ValuesScan *scan, AttrNumber attno)
{
	CountVars	c = {.relid = scan->scan.scanrelid, .attno = attno};

	(void) count_walker((Node *) scan->scan.plan.targetlist, &c);
	(void) count_walker((Node *) scan->scan.plan.qual, &c);
	return c.n;
}

static bool
reads_whole_row(ValuesScan *scan)
{
	return count_readers(scan, InvalidAttrNumber) > 0;
}

/*
 * Split the columns that can't be computed ahead into s->subst; return false if that is not
 * possible.  The rest of a volatile column is computed where it is read, so that must be in one place
 * only.
 */
static bool
split_columns(Rewrite *rw, ValuesScan *scan, Template *t, Split *s)
{
	int			n_old = list_length(linitial(scan->values_lists));
	List	   *subst = NIL;

	for (int i = 0; i < n_old; i++)
	{
		List	   *exprs = column_exprs(scan->values_lists, i);
		Node	   *e = NULL;

		if (batch_is_volatile(rw, (Node *) exprs) || batch_has_call((Node *) exprs))
		{
			e = template_add(t, exprs);
			if (!e)
				return false;
			e = split_expr(s, template_finish(e, scan->scan.scanrelid, n_old + 1));
			if (batch_is_volatile(rw, e) && count_readers(scan, i + 1) != 1)
				return false;
		}
		subst = lappend(subst, e);
	}
	s->subst = subst;
	s->subst_relid = scan->scan.scanrelid;
	return s->calls != NIL;
}

/* Append the new columns to the rows and name them for EXPLAIN. */
static void
extend_rows(Rewrite *rw, ValuesScan *scan, const Template *t, const List *subst)
{
	RangeTblEntry *rte = rt_fetch(scan->scan.scanrelid, rw->stmt->rtable);
	List	   *rows = NIL;
	ListCell   *lr,
			   *lc;

	foreach(lr, scan->values_lists)
	{
		List	   *row = NIL;
		int			i = 0;

		foreach(lc, (List *) lfirst(lr))
		{
			Node	   *e = lfirst(lc);

			if (list_nth(subst, i++))
				e = (Node *) makeNullConst(exprType(e), exprTypmod(e), exprCollation(e));
			row = lappend(row, e);
		}
		foreach(lc, t->columns)
			row = lappend(row, list_nth(lfirst(lc), list_length(rows)));
		rows = lappend(rows, row);
	}
	scan->values_lists = rows;

	/* the query may share the range table's members */
	rte->eref = copyObject(rte->eref);
	while (list_length(rte->eref->colnames) < list_length(linitial(rows)))
		rte->eref->colnames = lappend(rte->eref->colnames,
									  makeString(psprintf("column%d", list_length(rte->eref->colnames) + 1)));
}

/* Return NULL if the list has no calls or they stay inline. */
Plan *
insert_above_values(Rewrite *rw, ValuesScan *scan, const Demand *demand)
{
	Plan	   *plan = &scan->scan.plan;
	Split		s = {.rw = rw, .gather_leaves = true};
	Template	t = {.n_rows = list_length(scan->values_lists)};
	QualCut		cut = {0};
	List	   *quals = NIL,
			   *tlist;
	ListCell   *lc;

	if (!batch_has_call((Node *) scan->values_lists) || reads_whole_row(scan) ||
		!split_columns(rw, scan, &t, &s))
		return NULL;
	foreach(lc, plan->qual)
	{
		quals = lappend(quals, split_expr(&s, lfirst(lc)));
		s.stage++;
	}
	tlist = (List *) split_expr(&s, (Node *) plan->targetlist);
	extend_rows(rw, scan, &t, s.subst);
	reduce_plan(plan, &cut, s.leaves);
	return insert_node(rw, &s, plan, tlist, quals, demand);
}
