/*
 * pooling_support.c
 *	  llm_pool_support: the planner's support for llm_embed and related functions.
 *
 * The functions are STABLE.  But in a target list, a condition or an ORDER BY the executor evaluates
 * a STABLE function once for each row, also where its arguments don't depend on the row:
 *
 *		SELECT id FROM docs ORDER BY llm_similarity(embedding, llm_embed('a question'))
 *
 * So a call of constants and parameters becomes an uncorrelated scalar sub-select, as a user would
 * write it by hand.  The planner makes an InitPlan of it, which runs once, when its value is first
 * needed.  An index scan can use the value, the leader passes it to the workers of a parallel query,
 * and nothing is computed during planning: selectivity functions would evaluate a STABLE function of
 * constants.
 *
 * In a VALUES list such calls differ from row to row, and each is evaluated once anyway.  They stay,
 * so that the batch node can have them in flight together.
 *
 * A sub-select may be made only while the planner prepares a query's expressions; afterwards it would
 * not be planned (simple_rel_array exists from then on).
 *
 * Tests: tests/sql/17_embed.sql.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(llm_pool_support);

/*
 * Return true if the expression has anything but constants, parameters of the statement, and
 * functions of those.
 */
static bool
varies(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Param:
			return ((Param *) node)->paramkind != PARAM_EXTERN;
		case T_FuncExpr:
			if (((FuncExpr *) node)->funcretset)
				return true;
			break;
		case T_Const:
		case T_OpExpr:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayExpr:
		case T_ArrayCoerceExpr:
		case T_List:
			break;
		default:
			return true;
	}
	return expression_tree_walker(node, varies, context);
}

/* Return true if the query reads a relation.  Without one, no expression runs more than once. */
static bool
has_rows(const Query *q)
{
	ListCell   *lc;

	if (q->jointree == NULL)
		return false;
	foreach(lc, q->jointree->fromlist)
	{
		Node	   *item = lfirst(lc);

		if (!IsA(item, RangeTblRef) ||
			rt_fetch(((RangeTblRef *) item)->rtindex, q->rtable)->rtekind != RTE_RESULT)
			return true;
	}
	return false;
}

static bool
find_last(Node *node, void *context)
{
	int		   *last = context;

	if (node == NULL)
		return false;
	*last = Max(*last, exprLocation(node));
	return expression_tree_walker(node, find_last, context);
}

/*
 * Return true if the call is in a VALUES list: everything between the list's first and last
 * expression is.  The request doesn't have the call's own location, but its arguments have theirs.
 */
static bool
in_values(const Query *q, const FuncExpr *call)
{
	int			location = exprLocation((Node *) call->args);
	ListCell   *lc;

	foreach(lc, q->rtable)
	{
		RangeTblEntry *rte = lfirst(lc);
		int			last = -1;

		if (rte->rtekind != RTE_VALUES || location < exprLocation(linitial(rte->values_lists)))
			continue;
		find_last(llast(rte->values_lists), &last);
		if (location >= 0 && location <= last)
			return true;
	}
	return false;
}

static bool
is_hoistable(const SupportRequestSimplify *r)
{
	return r->root != NULL && r->root->simple_rel_array == NULL &&
		has_rows(r->root->parse) && !in_values(r->root->parse, r->fcall) &&
		!varies((Node *) r->fcall->args, NULL) &&
		!contain_volatile_functions((Node *) r->fcall->args);
}

/* (SELECT call) */
static Node *
as_sub_select(SupportRequestSimplify *r)
{
	Query	   *q = makeNode(Query);
	SubLink    *link = makeNode(SubLink);

	q->commandType = CMD_SELECT;
	q->canSetTag = true;
	q->jointree = makeFromExpr(NIL, NULL);
	/* fcall is the planner's own node, and its args are new */
	q->targetList = list_make1(makeTargetEntry(copyObject((Expr *) r->fcall), 1, NULL, false));
	link->subLinkType = EXPR_SUBLINK;
	link->subselect = (Node *) q;
	link->location = -1;
	r->root->parse->hasSubLinks = true;
	return (Node *) link;
}

Datum
llm_pool_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);

	if (IsA(request, SupportRequestSimplify) && is_hoistable((SupportRequestSimplify *) request))
		PG_RETURN_POINTER(as_sub_select((SupportRequestSimplify *) request));
	PG_RETURN_POINTER(NULL);
}
