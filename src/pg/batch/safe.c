/*
 * safe.c
 *	  Which expressions can't raise an error.
 *
 * Reading ahead evaluates expressions of rows that serial execution would reach later or never.  With
 * vllm.batch_strict, a node reads ahead only if everything that it evaluates early is in the lists
 * below; an expression that isn't listed counts as unsafe.  Errors that end a statement whenever they
 * occur don't count: lack of memory, a value of more than 1 GB, a damaged page.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"

#include "pg/batch/split.h"
#include "pg/util/own_type.h"

/* Comparisons, concatenation, widening casts: defined for all values of their types. */
static const Oid safe_functions[] = {
	F_TEXTCAT, F_CONCAT, F_CONCAT_WS, F_LOWER_TEXT, F_UPPER_TEXT, F_INITCAP,
	F_BTRIM_TEXT, F_BTRIM_TEXT_TEXT, F_LTRIM_TEXT, F_LTRIM_TEXT_TEXT, F_RTRIM_TEXT, F_RTRIM_TEXT_TEXT,
	F_LENGTH_TEXT, F_OCTET_LENGTH_TEXT, F_REPLACE, F_LEFT, F_RIGHT, F_MD5_TEXT,
	F_STARTS_WITH, F_QUOTE_LITERAL_TEXT, F_QUOTE_IDENT, F_QUOTE_NULLABLE_TEXT,
	F_TEXTEQ, F_TEXTNE, F_TEXT_LT, F_TEXT_LE, F_TEXT_GT, F_TEXT_GE,
	F_BPCHAREQ, F_BPCHARNE, F_BPCHARLT, F_BPCHARLE, F_BPCHARGT, F_BPCHARGE,
	F_NAMEEQ, F_NAMENE, F_NAMEEQTEXT, F_TEXTEQNAME,
	F_BOOLEQ, F_BOOLNE, F_BOOLLT, F_BOOLLE, F_BOOLGT, F_BOOLGE,
	F_INT2EQ, F_INT2NE, F_INT2LT, F_INT2LE, F_INT2GT, F_INT2GE,
	F_INT4EQ, F_INT4NE, F_INT4LT, F_INT4LE, F_INT4GT, F_INT4GE,
	F_INT8EQ, F_INT8NE, F_INT8LT, F_INT8LE, F_INT8GT, F_INT8GE,
	F_INT24EQ, F_INT24NE, F_INT24LT, F_INT24LE, F_INT24GT, F_INT24GE,
	F_INT42EQ, F_INT42NE, F_INT42LT, F_INT42LE, F_INT42GT, F_INT42GE,
	F_INT48EQ, F_INT48NE, F_INT48LT, F_INT48LE, F_INT48GT, F_INT48GE,
	F_INT84EQ, F_INT84NE, F_INT84LT, F_INT84LE, F_INT84GT, F_INT84GE,
	F_OIDEQ, F_OIDNE, F_OIDLT, F_OIDLE, F_OIDGT, F_OIDGE,
	F_FLOAT4EQ, F_FLOAT4NE, F_FLOAT4LT, F_FLOAT4LE, F_FLOAT4GT, F_FLOAT4GE,
	F_FLOAT8EQ, F_FLOAT8NE, F_FLOAT8LT, F_FLOAT8LE, F_FLOAT8GT, F_FLOAT8GE,
	F_NUMERIC_EQ, F_NUMERIC_NE, F_NUMERIC_LT, F_NUMERIC_LE, F_NUMERIC_GT, F_NUMERIC_GE,
	F_DATE_EQ, F_DATE_NE, F_DATE_LT, F_DATE_LE, F_DATE_GT, F_DATE_GE,
	F_TIMESTAMP_EQ, F_TIMESTAMP_NE, F_TIMESTAMP_LT, F_TIMESTAMP_LE, F_TIMESTAMP_GT, F_TIMESTAMP_GE,
	F_TIMESTAMPTZ_EQ, F_TIMESTAMPTZ_NE, F_TIMESTAMPTZ_LT, F_TIMESTAMPTZ_LE,
	F_TIMESTAMPTZ_GT, F_TIMESTAMPTZ_GE,
	F_UUID_EQ, F_UUID_NE, F_UUID_LT, F_UUID_LE, F_UUID_GT, F_UUID_GE,
	F_INT4_INT2, F_INT8_INT2, F_INT8_INT4, F_FLOAT4_INT4, F_FLOAT8_INT2, F_FLOAT8_INT4, F_FLOAT8_INT8,
	F_FLOAT8_FLOAT4, F_NUMERIC_INT2, F_NUMERIC_INT4, F_NUMERIC_INT8, F_INT4_BOOL,
	F_TEXT_BPCHAR, F_TEXT_NAME, F_TEXT_CHAR, F_TEXT_BOOL, F_GEN_RANDOM_UUID,
};

static const Oid safe_aggregates[] = {
	F_COUNT_, F_COUNT_ANY, F_STRING_AGG_TEXT_TEXT, F_ARRAY_AGG_ANYNONARRAY,
	F_MIN_INT4, F_MIN_INT8, F_MIN_TEXT, F_MIN_FLOAT8, F_MIN_DATE, F_MIN_TIMESTAMPTZ,
	F_MAX_INT4, F_MAX_INT8, F_MAX_TEXT, F_MAX_FLOAT8, F_MAX_DATE, F_MAX_TIMESTAMPTZ,
	F_SUM_INT2, F_SUM_INT4, F_SUM_INT8, F_AVG_INT2, F_AVG_INT4, F_AVG_INT8, F_BOOL_AND, F_BOOL_OR,
};

/* Types whose output function can't fail for any value. */
static const Oid printable_types[] = {
	BOOLOID, INT2OID, INT4OID, INT8OID, OIDOID, FLOAT4OID, FLOAT8OID, NUMERICOID, TEXTOID, VARCHAROID,
	BPCHAROID, NAMEOID, DATEOID, TIMEOID, TIMETZOID, TIMESTAMPOID, TIMESTAMPTZOID, INTERVALOID, UUIDOID,
	JSONOID, JSONBOID,
};

static bool
listed(Oid oid, const Oid *list, int n)
{
	for (int i = 0; i < n; i++)
		if (list[i] == oid)
			return true;
	return false;
}

static bool
is_safe_function(Oid funcid)
{
	return listed(funcid, safe_functions, lengthof(safe_functions));
}

/* LIKE raises an error for a pattern that ends with its escape character. */
static bool
is_safe_like(OpExpr *op)
{
	Const	   *pattern;

	if (op->opfuncid != F_TEXTLIKE && op->opfuncid != F_TEXTNLIKE &&
		op->opfuncid != F_TEXTICLIKE && op->opfuncid != F_TEXTICNLIKE)
		return false;
	pattern = lsecond(op->args);
	return IsA(pattern, Const) && pattern->consttype == TEXTOID && !pattern->constisnull &&
		strchr(TextDatumGetCString(pattern->constvalue), '\\') == NULL;
}

static bool
is_safe_conversion(CoerceViaIO *c)
{
	Oid			from = exprType((Node *) c->arg);

	if (c->resulttype == TEXTOID || c->resulttype == VARCHAROID)
		return listed(from, printable_types, lengthof(printable_types));
	return from == JSONBOID && (c->resulttype == JSONOID || is_own_json(c->resulttype));
}

/* Check the node itself, not its operands. */
static bool
node_is_safe(Node *node)
{
	switch (nodeTag(node))
	{
		case T_List:
		case T_TargetEntry:
		case T_Var:
		case T_Const:
		case T_RelabelType:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_CoalesceExpr:
		case T_RowExpr:
		case T_ConvertRowtypeExpr:
		case T_GroupingFunc:
			return true;
		case T_Param:			/* the other kinds may run an init plan */
			return ((Param *) node)->paramkind == PARAM_EXTERN;
		case T_FuncExpr:
			return is_safe_function(((FuncExpr *) node)->funcid) ||
				is_own_conversion(((FuncExpr *) node)->funcid);
		case T_OpExpr:
			return is_safe_function(((OpExpr *) node)->opfuncid) || is_safe_like((OpExpr *) node);
		case T_DistinctExpr:
		case T_NullIfExpr:
			return is_safe_function(((OpExpr *) node)->opfuncid);
		case T_ScalarArrayOpExpr:
			return is_safe_function(((ScalarArrayOpExpr *) node)->opfuncid);
		case T_ArrayExpr:		/* nested arrays may differ in size */
			return !((ArrayExpr *) node)->multidims;
		case T_ArrayCoerceExpr: /* the expression that converts an element is an operand of the node */
			return true;
		case T_CoerceViaIO:
			return is_safe_conversion((CoerceViaIO *) node);
		case T_Aggref:
			return listed(((Aggref *) node)->aggfnoid, safe_aggregates, lengthof(safe_aggregates));
		case T_SortGroupClause:
			return true;
		default:
			return false;
	}
}

static bool
unsafe_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return !node_is_safe(node) || expression_tree_walker(node, unsafe_walker, context);
}

bool
batch_expr_is_safe(Node *expr)
{
	return !unsafe_walker(expr, NULL);
}

/* ---- plans ---- */

static bool
unsafe_expr(Node *expr, void *context)
{
	return !batch_expr_is_safe(expr);
}

static bool
param_exec_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
		return true;
	return expression_tree_walker(node, param_exec_walker, context);
}

static bool unsafe_plan(Plan *plan, void *context);

/*
 * Check each sub-plan once: a sub-plan may be referred to many times, also by others that are
 * themselves.
 */
static bool
unsafe_subplan(Rewrite *rw, int plan_id)
{
	SubplanFacts *known = &rw->subplan_facts[plan_id - 1];

	if (known->safe == FACT_UNKNOWN)
		known->safe = unsafe_plan(list_nth(rw->stmt->subplans, plan_id - 1), rw) ? FACT_NO : FACT_YES;
	return known->safe == FACT_NO;
}

static bool
unsafe_plan(Plan *plan, void *context)
{
	CHECK_FOR_INTERRUPTS();
	check_stack_depth();
	switch (nodeTag(plan))
	{
		case T_CteScan:
			if (unsafe_subplan(context, ((CteScan *) plan)->ctePlanId))
				return true;
			break;
		case T_FunctionScan:	/* evaluated at the first row, unless it is lateral */
			return param_exec_walker((Node *) ((FunctionScan *) plan)->functions, NULL) ||
				!batch_expr_is_safe((Node *) plan->targetlist) || !batch_expr_is_safe((Node *) plan->qual);
		case T_Result:
		case T_Append:
		case T_MergeAppend:
		case T_SeqScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapIndexScan:
		case T_BitmapHeapScan:
		case T_BitmapAnd:
		case T_BitmapOr:
		case T_SubqueryScan:
		case T_ValuesScan:
		case T_NamedTuplestoreScan:
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
		case T_Hash:
		case T_Material:
		case T_Memoize:
		case T_Sort:
		case T_IncrementalSort:
		case T_Group:
		case T_Agg:
		case T_Unique:
		case T_SetOp:
		case T_Gather:
		case T_GatherMerge:
			break;
		default:
			return true;
	}
	return walk_exprs(plan, unsafe_expr, NULL) || walk_children(plan, unsafe_plan, context);
}

bool
batch_plan_is_safe(Rewrite *rw, Plan *plan)
{
	return !unsafe_plan(plan, rw);
}
