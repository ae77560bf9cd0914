/*
 * support.c
 *	  llm_support: what the planner should think of a call of the llm_ functions.
 *
 * A generated token is by far the dearest thing a plan can do.  The estimate is
 * tokens times a fixed price: the call's constant max_tokens, else the setting's
 * vllm.default_max_tokens, else TOKENS_UNKNOWN.  llm_generate_stream yields a row
 * a token.  Other functions keep the cost of their pg_proc entry.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"

#include "pg/options.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_support);

/* with the default of 256 tokens about procost's 100,000 operators a call */
#define OPERATORS_PER_TOKEN	400.0
#define TOKENS_UNKNOWN		1024
#define ARG_MAX_TOKENS		1

/* How many tokens will the call generate?  node: its expression, or NULL. */
static double
estimate_tokens(Node *node)
{
	List	   *args = node && IsA(node, FuncExpr) ? ((FuncExpr *) node)->args : NIL;

	if (list_length(args) > ARG_MAX_TOKENS)
	{
		Node	   *arg = list_nth(args, ARG_MAX_TOKENS);

		if (IsA(arg, Const) && !((Const *) arg)->constisnull &&
			((Const *) arg)->consttype == INT4OID)
			return Max(DatumGetInt32(((Const *) arg)->constvalue), 1);
	}
	return vllm_default_max_tokens > 0 ? vllm_default_max_tokens : TOKENS_UNKNOWN;
}

Datum
llm_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);

	if (IsA(request, SupportRequestCost))
	{
		SupportRequestCost *cost = (SupportRequestCost *) request;

		cost->startup = 0;
		cost->per_tuple = estimate_tokens(cost->node) * OPERATORS_PER_TOKEN * cpu_operator_cost;
		PG_RETURN_POINTER(request);
	}
	if (IsA(request, SupportRequestRows) &&
		get_func_retset(((SupportRequestRows *) request)->funcid))
	{
		SupportRequestRows *rows = (SupportRequestRows *) request;

		rows->rows = estimate_tokens(rows->node);
		PG_RETURN_POINTER(request);
	}
	PG_RETURN_POINTER(NULL);
}
