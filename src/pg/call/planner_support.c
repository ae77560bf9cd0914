/*
 * planner_support.c
 *	  llm_support: what the planner should think of a call of the llm_ functions.
 *
 * A generated token is by far the dearest thing a plan can do.  The estimate is tokens
 * times the time of one: tokens are the call's constant max_tokens, else the setting
 * vllm.default_max_tokens, else TOKENS_UNKNOWN; the time is what the running engine
 * took so far, over all models and batches.  It is rounded to a power of four: plans
 * shall not change because of a slow minute.  llm_generate_stream yields a row a
 * token.  Other functions keep the cost of their pg_proc entry.
 *
 * A boolean function that asks a model is taken to be true for half of the rows.
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

/* what the planner's price of an operator stands for, about 10 ns */
#define OPERATORS_PER_SECOND	1e8

/* tokens/s of an engine that has not computed MEASURE_TOKENS yet */
#define SPEED_UNKNOWN	1024.0
#define MEASURE_TOKENS	1000
#define TOKENS_UNKNOWN		1024

/* How many tokens will the call generate?  node: its expression, or NULL. */
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

/* Tokens/s of the engine that are read (rows of all steps) or generated, a power of four.
 * The arena is read as it is: no lock, and nothing in it is trusted. */
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
