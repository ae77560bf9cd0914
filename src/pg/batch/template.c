/*
 * template.c
 *	  Merging expressions that differ only in variables and constants.
 *
 * The rows of a VALUES list and the plans under an Append each have their own expressions.  If those
 * of a column have the same shape, a single node can compute them all from columns that hold the
 * differences.  To compare shapes, each variable and constant is replaced by a placeholder with its
 * position and type.  A placeholder for which all expressions have the same constant becomes that
 * constant again; the others become columns.
 *
 * Only variables and constants (and aggregates, which their plan computes anyway) become columns.
 * Computing those early can't raise an error, even under a CASE.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"

#include "pg/batch/split.h"

/* ---- shapes ---- */

/* A placeholder is a PARAM_SUBLINK Param: a finished plan has none of those. */
static Node *
placeholder(int id, Node *like)
{
	Param	   *p = makeNode(Param);

	p->paramkind = PARAM_SUBLINK;
	p->paramid = id;
	p->paramtype = exprType(like);
	p->paramtypmod = exprTypmod(like);
	p->paramcollid = exprCollation(like);
	p->location = -1;
	return (Node *) p;
}

static Node *
shape_mutator(Node *node, void *context)
{
	List	  **parts = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, Const) || split_is_leaf(node))
	{
		*parts = lappend(*parts, node);
		return placeholder(list_length(*parts), node);
	}
	return expression_tree_mutator(node, shape_mutator, context);
}

/* ---- columns ---- */

/* Return the number of the column that holds these expressions, an existing one if possible. */
static int
find_column(Template *t, List *exprs)
{
	int			n = 0;
	bool		shareable = true;
	ListCell   *lc;

	foreach(lc, exprs)
		if (!IsA(lfirst(lc), Var) && !IsA(lfirst(lc), Const))
			shareable = false;
	foreach(lc, t->columns)
	{
		n++;
		if (shareable && equal(lfirst(lc), exprs))
			return n;
	}
	t->columns = lappend(t->columns, exprs);
	return n + 1;
}

/* Return the constant that is the same in all rows, or NULL. */
static Node *
common_constant(List *exprs)
{
	ListCell   *lc;

	foreach(lc, exprs)
		if (!IsA(lfirst(lc), Const) || !equal(lfirst(lc), linitial(exprs)))
			return NULL;
	return linitial(exprs);
}

/* Return the i'th part of each row. */
static List *
parts_of_rows(List *rows, int i)
{
	List	   *exprs = NIL;
	ListCell   *lc;

	foreach(lc, rows)
		exprs = lappend(exprs, list_nth(lfirst(lc), i));
	return exprs;
}

static Node *
fill_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_SUBLINK)
		return copyObject(list_nth(context, ((Param *) node)->paramid - 1));
	return expression_tree_mutator(node, fill_mutator, context);
}

/*
 * Return the expression that stands for exprs, one for each row; NULL if their shapes differ.
 * Columns are placeholders until template_finish().
 */
Node *
template_add(Template *t, List *exprs)
{
	Node	   *shape = NULL;
	List	   *rows = NIL,
			   *fillings = NIL;
	ListCell   *lc;

	foreach(lc, exprs)
	{
		List	   *parts = NIL;
		Node	   *e = shape_mutator(lfirst(lc), &parts);

		if (shape && !equal(shape, e))
			return NULL;
		shape = e;
		rows = lappend(rows, parts);
	}
	for (int i = 0; i < list_length(linitial(rows)); i++)
	{
		List	   *parts = parts_of_rows(rows, i);
		Node	   *constant = common_constant(parts);

		fillings = lappend(fillings, constant ? constant :
						   placeholder(find_column(t, parts), linitial(parts)));
	}
	return fill_mutator(shape, fillings);
}

/* Return one column that holds exprs unchanged. */
Node *
template_add_whole(Template *t, List *exprs)
{
	return placeholder(find_column(t, exprs), linitial(exprs));
}

typedef struct Finish
{
	int			varno;
	int			first_column;
} Finish;

static Node *
finish_mutator(Node *node, void *context)
{
	Finish	   *f = context;
	Param	   *p = (Param *) node;
	Var		   *v;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Param) || p->paramkind != PARAM_SUBLINK)
		return expression_tree_mutator(node, finish_mutator, context);
	v = makeVar(f->varno, f->first_column + p->paramid - 1, p->paramtype, p->paramtypmod, p->paramcollid, 0);
	v->varnosyn = 0;
	v->varattnosyn = 0;
	return (Node *) v;
}

/* Replace placeholders by the columns of varno from first_column on. */
Node *
template_finish(Node *expr, int varno, int first_column)
{
	Finish		f = {varno, first_column};

	return finish_mutator(expr, &f);
}
