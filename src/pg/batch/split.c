/*
 * split.c
 *	  Cutting the calls of engine functions out of an expression.
 *
 * A call is cut out of its expression if serial execution is sure to reach it whenever its guards are
 * true; a column with its value takes its place.  So the split descends only into nodes for which it
 * is known which operands they evaluate, and when:
 *
 *	 all operands, always: function and operator calls (a strict function is skipped
 *		on NULL only after its arguments were computed), casts, ARRAY[], ROW(), field
 *		and element access (the container, not the subscripts), GREATEST, NULL and
 *		boolean tests, XML constructors
 *	 under guards: CASE, COALESCE, AND, OR
 *
 * In all other nodes (a sub-plan's arguments, the steps of an array cast, row comparison, SQL/JSON,
 * nodes of later versions) calls stay inline.  They also stay if their arguments or guards are
 * volatile: those would be evaluated at another time, or twice (split_is_good_guard).
 *
 * Nested calls need no special care: arguments are cut first, so the argument of the outer call holds
 * the inner call's column.
 */
#include "postgres.h"

#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"

#include "pg/batch/split.h"
#include "pg/compat.h"

#define MAX_GUARD_NODES	200000	/* upper bound for the nodes of all guards of one split */

/* ---- properties of expressions ---- */

static bool
call_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && batch_recognise(((FuncExpr *) node)->funcid))
		return true;
	return expression_tree_walker(node, call_walker, context);
}

bool
batch_has_call(Node *expr)
{
	return call_walker(expr, NULL);
}

static bool volatile_plan(Plan *plan, void *context);

/* Check each sub-plan once, however often it is referred to. */
static bool
volatile_subplan(Rewrite *rw, int plan_id)
{
	SubplanFacts *known = &rw->subplan_facts[plan_id - 1];

	if (known->steady == FACT_UNKNOWN)
		known->steady = volatile_plan(list_nth(rw->stmt->subplans, plan_id - 1), rw) ? FACT_NO : FACT_YES;
	return known->steady == FACT_NO;
}

/* Return true if a plan that the expression runs is volatile. */
static bool
volatile_subplan_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) && volatile_subplan(context, ((SubPlan *) node)->plan_id))
		return true;
	return expression_tree_walker(node, volatile_subplan_walker, context);
}

static bool
volatile_visitor(Node *expr, void *context)
{
	return contain_volatile_functions(expr) || volatile_subplan_walker(expr, context);
}

static bool
volatile_plan(Plan *plan, void *context)
{
	CHECK_FOR_INTERRUPTS();
	check_stack_depth();
	return plan && (IsA(plan, ModifyTable) || IsA(plan, LockRows) ||
					walk_exprs(plan, volatile_visitor, context) ||
					walk_children(plan, volatile_plan, context));
}

bool
batch_is_volatile(Rewrite *rw, Node *expr)
{
	return volatile_visitor(expr, rw);
}

static bool
is_volatile_func(Oid funcid, void *context)
{
	return func_volatile(funcid) == PROVOLATILE_VOLATILE;
}

static bool
otherwise_volatile_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) &&
		(batch_recognise(((FuncExpr *) node)->funcid) || batch_calls_engine(((FuncExpr *) node)->funcid)))
		return otherwise_volatile_walker((Node *) ((FuncExpr *) node)->args, context);
	if (IsA(node, SubPlan) || IsA(node, NextValueExpr))
		return batch_is_volatile(context, node);
	return check_functions_in_node(node, is_volatile_func, NULL) ||
		expression_tree_walker(node, otherwise_volatile_walker, context);
}

bool
batch_is_otherwise_volatile(Rewrite *rw, Node *expr)
{
	return otherwise_volatile_walker(expr, rw);
}

static bool
written_only_walker(Node *node, void *context)
{
	return node != NULL && (compat_is_modify_expr(node) ||
							expression_tree_walker(node, written_only_walker, context));
}

bool
batch_is_written_only(Node *expr)
{
	return written_only_walker(expr, NULL);
}

/* Return true if the expression has a hashed sub-plan whose table depends on parameters. */
static bool
hash_param_walker(Node *node, void *context)
{
	Rewrite    *rw = context;

	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) && ((SubPlan *) node)->useHashTable)
	{
		Plan	   *plan = list_nth(rw->stmt->subplans, ((SubPlan *) node)->plan_id - 1);

		if (!bms_is_empty(plan->extParam))
			return true;
	}
	return expression_tree_walker(node, hash_param_walker, context);
}

bool
batch_has_param_hash(Rewrite *rw, Node *expr)
{
	return hash_param_walker(expr, rw);
}

/*
 * Return true if the expression may be evaluated as a guard in addition to its original place.
 * Copies of a hashed sub-plan share the state of its plan.  When its parameters change, older minor
 * versions of PostgreSQL notice that in only one of the copies: the others would keep their old
 * tables.
 */
bool
split_is_good_guard(Rewrite *rw, Node *expr)
{
	return !batch_is_volatile(rw, expr) && !hash_param_walker(expr, rw);
}

/*
 * Return true if a CaseTestExpr refers to something outside of the expression.  It does unless it is
 * in a CASE with an argument or in the steps of an array cast.
 */
static bool
unbound_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, CaseTestExpr) || IsA(node, CoerceToDomainValue))
		return true;
	if (IsA(node, CaseExpr) && ((CaseExpr *) node)->arg)
		return unbound_walker((Node *) ((CaseExpr *) node)->arg, context);
	if (IsA(node, ArrayCoerceExpr))
		return unbound_walker((Node *) ((ArrayCoerceExpr *) node)->arg, context);
	return expression_tree_walker(node, unbound_walker, context);
}

/* ---- leaves ---- */

/* Make a reference to a column of the child (OUTER_VAR) or to the value of a call (INDEX_VAR). */
static Node *
column(int varno, int attno, Node *like)
{
	Var		   *v = makeVar(varno, attno, exprType(like), exprTypmod(like), exprCollation(like), 0);

	v->varnosyn = 0;
	v->varattnosyn = 0;
	return (Node *) v;
}

/* Equal leaves may share a column, unless the number of evaluations makes a difference. */
static bool
may_share(Node *leaf)
{
	return IsA(leaf, Var) || IsA(leaf, Aggref) || IsA(leaf, GroupingFunc) ||
		(IsA(leaf, WindowFunc) && !contain_volatile_functions(leaf));
}

static Node *
leaf_column(Split *s, Node *leaf)
{
	int			k = 0;
	ListCell   *lc;

	if (may_share(leaf))
		foreach(lc, s->leaves)
		{
			k++;
			if (equal(lfirst(lc), leaf))
				return column(OUTER_VAR, k, leaf);
		}
	s->leaves = lappend(s->leaves, copyObject(leaf));
	return column(OUTER_VAR, list_length(s->leaves), leaf);
}

/* Return true if the plan node itself computes the node, not from its input row alone. */
bool
split_is_leaf(Node *node)
{
	switch (nodeTag(node))
	{
		case T_Var:
		case T_Aggref:
		case T_WindowFunc:
		case T_GroupingFunc:
			return true;
		case T_FuncExpr:
			return ((FuncExpr *) node)->funcretset;
		case T_OpExpr:
			return ((OpExpr *) node)->opretset;
		default:
			return false;
	}
}

static Node *
lateral_column(Split *s, Param *param)
{
	ListCell   *lc;

	foreach(lc, s->nest_params)
	{
		NestLoopParam *nlp = lfirst(lc);

		if (nlp->paramno == param->paramid)
			return copyObject((Node *) nlp->paramval);
	}
	s->foreign_param = true;
	return copyObject((Node *) param);
}

/* ---- nodes ---- */

static Node *split_mutator(Node *node, void *context);

static bool
count_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	++*(int64 *) context;
	return expression_tree_walker(node, count_walker, context);
}

static int64
count_nodes(Node *node)
{
	int64		n = 0;

	(void) count_walker(node, &n);
	return n;
}

/*
 * Return true if no more calls are to be cut.  Each call gets a copy of its guards, which are all
 * tests before it; if there are very many, the later calls stay inline.
 */
static bool
split_is_enough(const Split *s)
{
	return s->guard_nodes > MAX_GUARD_NODES;
}

/* Descend into an expression whose calls stay inline. */
static Node *
split_in_place(Split *s, Node *expr)
{
	Node	   *result;

	s->no_hoist++;
	result = split_mutator(expr, s);
	s->no_hoist--;
	return result;
}

static Node *
split_inline(Split *s, Node *node)
{
	Node	   *result;

	s->no_hoist++;
	result = expression_tree_mutator(node, split_mutator, s);
	s->no_hoist--;
	return result;
}

static Node *
split_call(Split *s, FuncExpr *func)
{
	FuncExpr   *f = makeNode(FuncExpr);
	BatchCall  *c;

	*f = *func;
	f->args = (List *) expression_tree_mutator((Node *) func->args, split_mutator, s);
	if (s->no_hoist || split_is_enough(s) || batch_is_volatile(s->rw, (Node *) f->args) ||
		unbound_walker((Node *) f->args, NULL) || unbound_walker((Node *) s->guards, NULL))
		return (Node *) f;
	s->guard_nodes += s->here_nodes;
	c = palloc(sizeof(BatchCall));
	c->func = f;
	c->args = f->args;
	c->guards = copyObject(s->guards);
	c->stage = s->stage;
	s->calls = lappend(s->calls, c);
	return column(INDEX_VAR, list_length(s->calls), (Node *) f);
}

Node *
split_guarded(Split *s, Node *expr, Node *guard)
{
	List	   *outer = s->guards;
	int64		nodes = count_nodes(guard);
	bool		steady;
	Node	   *result;

	s->guard_nodes += nodes;
	steady = !split_is_enough(s) && split_is_good_guard(s->rw, guard);
	s->here_nodes += nodes;
	s->guards = lappend(list_copy(outer), guard);
	s->no_hoist += !steady;
	result = split_mutator(expr, s);
	s->no_hoist -= !steady;
	s->here_nodes -= nodes;
	s->guards = outer;
	return result;
}

Node *
split_truth(Node *expr, int booltesttype)
{
	BooleanTest *test = makeNode(BooleanTest);

	test->arg = (Expr *) copyObject(expr);
	test->booltesttype = booltesttype;
	test->location = -1;
	return (Node *) test;
}

/* Split an operand that is reached only after all of tests; with no tests, the guard is true. */
static Node *
split_after(Split *s, Node *expr, List *tests)
{
	if (tests == NIL)
		return split_mutator(expr, s);
	if (split_is_enough(s))
		return split_in_place(s, expr);
	return split_guarded(s, expr, list_length(tests) == 1 ? linitial(tests) :
						 (Node *) makeBoolExpr(AND_EXPR, list_copy(tests), -1));
}

static Node *
split_bool(Split *s, BoolExpr *bool_expr)
{
	List	   *args = NIL;
	List	   *tests = NIL;
	ListCell   *lc;

	foreach(lc, bool_expr->args)
	{
		Node	   *arg = split_after(s, lfirst(lc), tests);

		args = lappend(args, arg);
		if (bool_expr->boolop != NOT_EXPR)	/* after NULL, AND and OR evaluate the next operand */
			tests = lappend(tests,
							split_truth(arg, bool_expr->boolop == AND_EXPR ? IS_NOT_FALSE : IS_NOT_TRUE));
	}
	return (Node *) makeBoolExpr(bool_expr->boolop, args, bool_expr->location);
}

static Node *
split_coalesce(Split *s, CoalesceExpr *coalesce)
{
	CoalesceExpr *result = makeNode(CoalesceExpr);
	List	   *tests = NIL;
	ListCell   *lc;

	*result = *coalesce;
	result->args = NIL;
	foreach(lc, coalesce->args)
	{
		Node	   *arg = split_after(s, lfirst(lc), tests);
		NullTest   *test = makeNode(NullTest);

		result->args = lappend(result->args, arg);
		test->arg = (Expr *) copyObject(arg);
		test->nulltesttype = IS_NULL;
		test->argisrow = false;
		test->location = -1;
		tests = lappend(tests, test);
	}
	return (Node *) result;
}

/*
 * Make the condition under which CASE gets past the first n_passed branches and, with takes, takes
 * the next one: the same CASE with truth values as results.
 */
static Node *
case_guard(CaseExpr *c, List *whens, int n_passed, bool takes)
{
	CaseExpr   *guard = makeNode(CaseExpr);

	guard->casetype = BOOLOID;
	guard->arg = copyObject(c->arg);
	for (int i = 0; i < n_passed + takes; i++)
	{
		CaseWhen   *when = makeNode(CaseWhen);

		when->expr = copyObject(list_nth_node(CaseWhen, whens, i)->expr);
		when->result = (Expr *) makeBoolConst(i == n_passed, false);
		when->location = -1;
		guard->args = lappend(guard->args, when);
	}
	guard->defresult = (Expr *) makeBoolConst(!takes, false);
	guard->location = -1;
	return (Node *) guard;
}

/*
 * Split an expression that CASE evaluates if it gets past n_passed branches and, with takes, takes
 * the next one.
 */
static Node *
split_branch(Split *s, Node *expr, CaseExpr *c, int n_passed, bool takes)
{
	if (split_is_enough(s))
		return split_in_place(s, expr);
	return split_guarded(s, expr, case_guard(c, c->args, n_passed, takes));
}

static Node *
split_case(Split *s, CaseExpr *c)
{
	CaseExpr   *result = makeNode(CaseExpr);
	int			n = 0;
	ListCell   *lc;

	*result = *c;
	result->arg = (Expr *) split_mutator((Node *) c->arg, s);
	result->args = NIL;
	foreach(lc, c->args)
	{
		CaseWhen   *when = lfirst_node(CaseWhen, lc);
		CaseWhen   *w = makeNode(CaseWhen);

		*w = *when;
		w->expr = (Expr *) (n == 0 ? split_mutator((Node *) when->expr, s) :
							split_branch(s, (Node *) when->expr, result, n, false));
		result->args = lappend(result->args, w);
		w->result = (Expr *) split_branch(s, (Node *) when->result, result, n, true);
		n++;
	}
	if (c->defresult)
		result->defresult = (Expr *) split_branch(s, (Node *) c->defresult, result, n, false);
	return (Node *) result;
}

/* a[i]: the array is always evaluated, the subscripts only if it isn't NULL. */
static Node *
split_subscript(Split *s, SubscriptingRef *ref)
{
	SubscriptingRef *result;

	if (ref->refassgnexpr)
		return split_inline(s, (Node *) ref);
	result = makeNode(SubscriptingRef);
	*result = *ref;
	result->refexpr = (Expr *) split_mutator((Node *) ref->refexpr, s);
	s->no_hoist++;
	result->refupperindexpr = (List *) expression_tree_mutator((Node *) ref->refupperindexpr, split_mutator,
															   s);
	result->reflowerindexpr = (List *) expression_tree_mutator((Node *) ref->reflowerindexpr, split_mutator,
															   s);
	s->no_hoist--;
	return (Node *) result;
}

/* An array cast evaluates its array and then its steps, once per element. */
static Node *
split_array_cast(Split *s, ArrayCoerceExpr *cast)
{
	ArrayCoerceExpr *result = makeNode(ArrayCoerceExpr);

	*result = *cast;
	result->arg = (Expr *) split_mutator((Node *) cast->arg, s);
	s->no_hoist++;
	result->elemexpr = (Expr *) split_mutator((Node *) cast->elemexpr, s);
	s->no_hoist--;
	return (Node *) result;
}

/* Replace a column by its expression, which has been split once for all its readers. */
static Node *
substitute(Split *s, Node *node)
{
	Var		   *v = (Var *) node;

	if (!IsA(node, Var) || v->varno != s->subst_relid ||
		v->varattno <= 0 || v->varattno > list_length(s->subst))
		return NULL;
	return copyObject(list_nth(s->subst, v->varattno - 1));
}

static Node *
split_mutator(Node *node, void *context)
{
	Split	   *s = context;
	Node	   *result;

	if (node == NULL)
		return NULL;
	CHECK_FOR_INTERRUPTS();
	if (s->subst && (result = substitute(s, node)) != NULL)
		return result;
	if (s->gather_leaves && split_is_leaf(node))
		return leaf_column(s, node);
	switch (nodeTag(node))
	{
		case T_Var:
			if (s->nest_params)
				s->foreign_param = true;
			return copyObject(node);
		case T_Param:
			if (s->nest_params && ((Param *) node)->paramkind == PARAM_EXEC)
				return lateral_column(s, (Param *) node);
			return copyObject(node);
		case T_FuncExpr:
			if (batch_recognise(((FuncExpr *) node)->funcid))
				return split_call(s, (FuncExpr *) node);
			break;
		case T_BoolExpr:
			return split_bool(s, (BoolExpr *) node);
		case T_CoalesceExpr:
			return split_coalesce(s, (CoalesceExpr *) node);
		case T_CaseExpr:
			return split_case(s, (CaseExpr *) node);
		case T_SubscriptingRef:
			return split_subscript(s, (SubscriptingRef *) node);
		case T_ArrayCoerceExpr:
			return split_array_cast(s, (ArrayCoerceExpr *) node);
		case T_List:
		case T_TargetEntry:
		case T_Const:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_CoerceToDomain:
		case T_ConvertRowtypeExpr:
		case T_MinMaxExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_ArrayExpr:
		case T_RowExpr:
		case T_FieldSelect:
		case T_FieldStore:
		case T_XmlExpr:
			break;
		default:
			return split_inline(s, node);
	}
	return expression_tree_mutator(node, split_mutator, s);
}

Node *
split_expr(Split *s, Node *expr)
{
	return split_mutator(expr, s);
}

Node *
split_operands(Split *s, Node *expr)
{
	return expression_tree_mutator(expr, split_mutator, s);
}

/* ---- sub-selects that are expressions ---- */

typedef struct PullParams
{
	SubPlan    *subplan;
	bool		odd;			/* found something that can't be moved out */
} PullParams;

/* Return the expression of a sub-select with the outer row's values in place of its parameters. */
static Node *
pull_mutator(Node *node, void *context)
{
	PullParams *pull = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, SubPlan) || IsA(node, AlternativeSubPlan))
		pull->odd = true;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
	{
		ListCell   *lp,
				   *la;

		forboth(lp, pull->subplan->parParam, la, pull->subplan->args)
			if (lfirst_int(lp) == ((Param *) node)->paramid)
				return copyObject(lfirst(la));
	}
	return expression_tree_mutator(node, pull_mutator, context);
}

/* The arguments are existing values: it makes no difference how often they are read. */
static bool
args_are_plain(List *args)
{
	ListCell   *lc;

	foreach(lc, args)
		if (!IsA(lfirst(lc), Var) && !IsA(lfirst(lc), Param) && !IsA(lfirst(lc), Aggref) &&
			!IsA(lfirst(lc), GroupingFunc))
			return false;
	return true;
}

/*
 * Return expr under the one-time filter: evaluate the filter's members in order; if one is not true
 * the result is NULL, as the sub-select returns no row.
 */
static Node *
under_filter(Node *filter, Node *expr)
{
	List	   *members = filter == NULL || IsA(filter, List) ? (List *) filter : list_make1(filter);

	for (int i = list_length(members) - 1; i >= 0; i--)
	{
		CaseExpr   *c = makeNode(CaseExpr);
		CaseWhen   *when = makeNode(CaseWhen);

		when->expr = list_nth(members, i);
		when->result = (Expr *) expr;
		when->location = -1;
		c->casetype = exprType(expr);
		c->casecollid = exprCollation(expr);
		c->args = list_make1(when);
		c->defresult = (Expr *) makeNullConst(exprType(expr), exprTypmod(expr), exprCollation(expr));
		c->location = -1;
		expr = (Node *) c;
	}
	return expr;
}

/*
 * Return the expression of a sub-select without FROM, such as (SELECT llm_generate(d.body)); NULL if
 * the sub-select is more than that.
 */
static Node *
pull_scalar(Rewrite *rw, SubPlan *subplan)
{
	Plan	   *plan = list_nth(rw->stmt->subplans, subplan->plan_id - 1);
	PullParams	pull = {.subplan = subplan};
	Node	   *filter;
	Node	   *expr;

	if (subplan->subLinkType != EXPR_SUBLINK ||
		plan == NULL || !IsA(plan, Result) || plan->lefttree != NULL ||
		plan->initPlan != NIL || plan->qual != NIL || list_length(plan->targetlist) != 1 ||
		!batch_has_call((Node *) plan->targetlist) || !args_are_plain(subplan->args))
		return NULL;
	filter = pull_mutator(((Result *) plan)->resconstantqual, &pull);
	expr = pull_mutator((Node *) linitial_node(TargetEntry, plan->targetlist)->expr, &pull);
	return pull.odd ? NULL : under_filter(filter, expr);
}

static Node *
pull_scalars_mutator(Node *node, void *context)
{
	Node	   *expr;

	if (node == NULL)
		return NULL;
	if (IsA(node, SubPlan) && (expr = pull_scalar(context, (SubPlan *) node)) != NULL)
		return expr;
	return expression_tree_mutator(node, pull_scalars_mutator, context);
}

static bool
scalar_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) && pull_scalar(context, (SubPlan *) node) != NULL)
		return true;
	return expression_tree_walker(node, scalar_walker, context);
}

Node *
split_pull_scalars(Rewrite *rw, Node *expr)
{
	return scalar_walker(expr, rw) ? pull_scalars_mutator(expr, rw) : expr;
}

/* ---- final numbers ---- */

static Node *
finish_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
	{
		Var		   *v = copyObject((Var *) node);

		if (v->varno == OUTER_VAR)
			v->varno = INDEX_VAR;
		else if (v->varno == INDEX_VAR)
			v->varattno += *(int *) context;
		return (Node *) v;
	}
	return expression_tree_mutator(node, finish_mutator, context);
}

Node *
split_finish(Node *expr, int n_child)
{
	return finish_mutator(expr, &n_child);
}

static Node *
finish_above_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
	{
		Var		   *v = copyObject((Var *) node);

		if (v->varno == INDEX_VAR)
		{
			v->varno = OUTER_VAR;
			v->varattno += *(int *) context;
		}
		return (Node *) v;
	}
	return expression_tree_mutator(node, finish_above_mutator, context);
}

Node *
split_finish_above(Node *expr, int n_child)
{
	return finish_above_mutator(expr, &n_child);
}
