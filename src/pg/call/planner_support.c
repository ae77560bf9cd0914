/*
 * planner_support.c
 *	  llm_support: the planner's estimates for calls of the llm_ functions.
 *
 * Generating tokens is by far the most expensive thing that a plan can do.  The estimate is the
 * number of tokens times the time of one.  The number is the call's constant max_tokens, else the
 * setting vllm.default_max_tokens, else TOKENS_UNKNOWN.  The time is what the running engine has
 * needed so far, over all models and batches, rounded to a power of four: a slow minute must not
 * change plans.  llm_generate_stream returns one row for each token.  Other functions keep the cost
 * of their pg_proc entry.
 *
 * A boolean function that asks a model is estimated to be true for half of the rows.
 *
 * Tests: tests/sql/10_statements.sql.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"

#include "pg/util/named_args.h"
#include "pg/call/options.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_support);

/* one planner cost unit of an operator stands for about 10 ns */
#define OPERATORS_PER_SECOND	1e8

/* tokens/s of an engine that has not yet computed MEASURE_TOKENS */
#define SPEED_UNKNOWN	1024.0
#define MEASURE_TOKENS	1000
#define TOKENS_UNKNOWN		1024

/* Return how many tokens the call will generate.  node: its expression, or NULL. */
static double
estimate_tokens(Node *node)
{
	List	   *args = node && IsA(node, FuncExpr) ? ((FuncExpr *) node)->args : NIL;
	int			at = args != NIL ? fn_arg_of(((FuncExpr *) node)->funcid, "max_tokens") : -1;

	if (at >= 0 && at < list_length(args))
	{
		Node	   *arg = list_nth(args, at);

		if (IsA(arg, Const) && !((Const *) arg)->constisnull &&
			((Const *) arg)->consttype == INT4OID)
			return Max(DatumGetInt32(((Const *) arg)->constvalue), 1);
	}
	return vllm_default_max_tokens > 0 ? vllm_default_max_tokens : TOKENS_UNKNOWN;
}

/*
 * Return the engine's tokens/s, read (rows of all steps) or generated, as a power of four.  Reads the
 * arena without a lock and trusts none of its values.
 */
static double
engine_speed(bool prompt)
{
	double		speed = SPEED_UNKNOWN;

	if (vllm_shared != NULL && pg_atomic_read_u32(&vllm_shared->state) == VLLM_READY)
	{
		const volatile WireStats *st = wire_stats(vllm_serving_arena());
		double		tokens = prompt ? st->step_rows : st->output_tokens;
		double		seconds = (prompt ? st->step_us : st->generate_us) / 1e6;

		if (tokens >= MEASURE_TOKENS && seconds > 0)
			speed = tokens / seconds;
	}
	return pow(4, rint(log(Min(Max(speed, 1), prompt ? 1e7 : 1e6)) / log(4)));
}

double
vllm_cost_of_tokens(double tokens, bool prompt)
{
	return tokens / engine_speed(prompt) * OPERATORS_PER_SECOND * cpu_operator_cost;
}

Datum
llm_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);

	if (IsA(request, SupportRequestCost))
	{
		SupportRequestCost *cost = (SupportRequestCost *) request;

		cost->startup = 0;
		cost->per_tuple = vllm_cost_of_tokens(estimate_tokens(cost->node), false);
		PG_RETURN_POINTER(request);
	}
	if (IsA(request, SupportRequestRows) &&
		get_func_retset(((SupportRequestRows *) request)->funcid))
	{
		SupportRequestRows *rows = (SupportRequestRows *) request;

		rows->rows = estimate_tokens(rows->node);
		PG_RETURN_POINTER(request);
	}
	if (IsA(request, SupportRequestSelectivity))
	{
		((SupportRequestSelectivity *) request)->selectivity = 0.5;
		PG_RETURN_POINTER(request);
	}
	PG_RETURN_POINTER(NULL);
}
