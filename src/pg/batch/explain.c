/*
 * explain.c
 *	  EXPLAIN's output for a batch node.
 *
 * A node's counters are sums over its rescans; the counters of parallel workers are not added.  Lines
 * that depend on the clock alone (waits, times, rates) are shown only with TIMING, so that tests can
 * compare the rest.
 */
#include "postgres.h"

#include "catalog/pg_proc.h"
#include "commands/explain.h"
#include "funcapi.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "pg/batch/node.h"
#include "pg/batch/note.h"
#include "pg/compat.h"
#include "pg/client/spend.h"
#include "pg/vllm_pg.h"

/* Return the names of the function's input arguments; NULL if fewer than n_args have one. */
static char **
input_names(Oid funcid, int n_args)
{
	HeapTuple	tup = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	bool		no_names;
	bool		no_modes;
	Datum		names;
	Datum		modes;
	char	  **result = NULL;

	if (!HeapTupleIsValid(tup))
		return NULL;
	names = SysCacheGetAttr(PROCOID, tup, Anum_pg_proc_proargnames, &no_names);
	modes = SysCacheGetAttr(PROCOID, tup, Anum_pg_proc_proargmodes, &no_modes);
	if (!no_names && get_func_input_arg_names(names, no_modes ? (Datum) 0 : modes, &result) < n_args)
		result = NULL;
	for (int i = 0; result != NULL && i < n_args; i++)
		if (result[i] == NULL)
			result = NULL;
	ReleaseSysCache(tup);
	return result;
}

static Node *
named_arg(Node *arg, char **names, int i)
{
	NamedArgExpr *na = makeNode(NamedArgExpr);

	na->arg = (Expr *) arg;
	na->name = names[i];
	na->argnumber = i;
	na->location = -1;
	return (Node *) na;
}

static bool
is_null_const(Node *arg)
{
	return IsA(arg, Const) && ((Const *) arg)->constisnull;
}

/* An aggregate's arguments are target list entries, and its ORDER BY refers to some of them. */
static void
name_agg_args(Aggref *agg)
{
	char	  **names = agg->aggvariadic ? NULL : input_names(agg->aggfnoid, list_length(agg->aggargtypes));
	List	   *args = NIL;
	bool		named = false;
	ListCell   *lc;

	if (names == NULL || agg->aggdirectargs != NIL)
		return;
	foreach(lc, agg->args)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (!tle->resjunk && tle->ressortgroupref == 0 && is_null_const((Node *) tle->expr))
		{
			named = true;
			continue;
		}
		if (named && !tle->resjunk)
			tle->expr = (Expr *) named_arg((Node *) tle->expr, names, foreach_current_index(lc));
		args = lappend(args, tle);
	}
	agg->args = args;
}

/*
 * Show an engine function's arguments as a user would write them: leave out NULL arguments, and name
 * all arguments after the first one that is left out.  The trailing ones may have been left out
 * already.  context: the batch node, or NULL; results of its other calls are shown as those calls.
 */
static Node *
named_args_mutator(Node *node, void *context)
{
	FuncExpr   *func;
	List	   *args = NIL;
	char	  **names;
	bool		named = false;
	ListCell   *lc;

	if (node == NULL)
		return NULL;
	if (context != NULL && IsA(node, Var) && ((Var *) node)->varno == INDEX_VAR)
	{
		const BatchNode *n = context;
		CustomScan *scan = (CustomScan *) n->css.ss.ps.plan;
		int			at = ((Var *) node)->varattno;

		if (at <= n->n_child)
			return node;
		return named_args_mutator((Node *) list_nth_node(TargetEntry, scan->custom_scan_tlist, at - 1)->expr,
								  context);
	}
	node = expression_tree_mutator(node, named_args_mutator, context);
	if (IsA(node, Aggref) && batch_calls_engine(((Aggref *) node)->aggfnoid))
		name_agg_args((Aggref *) node);
	if (!IsA(node, FuncExpr) || !batch_calls_engine(((FuncExpr *) node)->funcid))
		return node;
	func = (FuncExpr *) node;
	names = func->funcvariadic ? NULL : input_names(func->funcid, list_length(func->args));
	if (names == NULL)
		return node;
	foreach(lc, func->args)
	{
		Node	   *arg = lfirst(lc);

		if (is_null_const(arg))
		{
			named = true;
			continue;
		}
		args = lappend(args, named ? named_arg(arg, names, foreach_current_index(lc)) : arg);
	}
	func->args = args;
	return node;
}

static char *
call_text(Node *call, const BatchNode *n, List *context, ExplainState *es)
{
	bool		prefix = list_length(es->rtable) > 1 || es->verbose;

	return deparse_expression(named_args_mutator(call, (void *) n), context, prefix, false);
}

char *
batch_call_text(Node *call, List *context, ExplainState *es)
{
	return call_text(call, NULL, context, es);
}

static void
explain_calls(const BatchNode *n, List *ancestors, ExplainState *es)
{
	CustomScan *scan = (CustomScan *) n->css.ss.ps.plan;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, (Plan *) scan, ancestors);
	List	   *calls = NIL;

	for (int i = 0; i < n->n_sites; i++)
	{
		TargetEntry *te = list_nth(scan->custom_scan_tlist, n->n_child + i);
		char	   *text = call_text((Node *) te->expr, n, context, es);

		if (n->sites[i].call->guards != NIL)
			text = psprintf("%s [conditional]", text);
		calls = lappend(calls, text);
	}
	ExplainPropertyList("LLM Calls", calls, es);
}

static const char *
look_ahead(const BatchNode *n)
{
	if (n->started ? n->serial : !vllm_batch || (vllm_batch_strict && !n->plan->safe))
		return "row by row";
	if (n->started ? n->bound >= 0 : n->plan->bounded && n->plan->limit_count != NULL)
		return "exact limit";
	return n->plan->ahead == BATCH_RAMP ? "ramp" : "full window";
}

/* Count generated tokens, or prompt tokens if the calls generate none. */
static double
tokens_per_second(const BatchNode *n)
{
	double		seconds = INSTR_TIME_GET_DOUBLE(n->busy);
	int64		tokens = n->stats.output_tokens > 0 ? n->stats.output_tokens : n->stats.prompt_tokens;

	return seconds > 0 ? tokens / seconds : 0;
}

/* Return the part of the prompt tokens that came from the prefix cache. */
static double
percent_cached(const BatchNode *n)
{
	return n->stats.prompt_tokens > 0 ? 100.0 * n->stats.cached_tokens / n->stats.prompt_tokens : 0;
}

/* Requests still in flight at the end of the run are cancelled with the node. */
static int64
cancelled(const BatchNode *n)
{
	return n->stats.cancelled + n->stats.in_flight;
}

static void
explain_text(const BatchNode *n, ExplainState *es)
{
	const BatchStats *s = &n->stats;

	appendStringInfoSpaces(es->str, es->indent * 2);
	appendStringInfo(es->str, "Requests: " INT64_FORMAT "  Deduplicated: " INT64_FORMAT
					 "  Cancelled: " INT64_FORMAT "  Skipped: " INT64_FORMAT "  Max In Flight: %d",
					 s->calls, s->deduplicated, cancelled(n), n->skipped, s->max_in_flight);
	if (s->cache_hits > 0)
		appendStringInfo(es->str, "  Cache Hits: " INT64_FORMAT, s->cache_hits);
	if (s->fallbacks > 0)
		appendStringInfo(es->str, "  Fallbacks: " INT64_FORMAT, s->fallbacks);
	if (s->cascaded > 0)
		appendStringInfo(es->str, "  Cascaded: " INT64_FORMAT, s->cascaded);
	if (s->failed > 0)
		appendStringInfo(es->str, "  Failed: " INT64_FORMAT, s->failed);
	appendStringInfoChar(es->str, '\n');
	appendStringInfoSpaces(es->str, es->indent * 2);
	appendStringInfo(es->str, "Prompt Tokens: " INT64_FORMAT "  Cached Tokens: " INT64_FORMAT,
					 s->prompt_tokens, s->cached_tokens);
	if (s->cached_tokens > 0)
		appendStringInfo(es->str, " (%.1f%%)", percent_cached(n));
	appendStringInfo(es->str, "  Output Tokens: " INT64_FORMAT "\n", s->output_tokens);
	if (s->cost > 0)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "Cost: %s\n", cost_text(s->cost));
	}
	if (!es->timing)
		return;
	appendStringInfoSpaces(es->str, es->indent * 2);
	appendStringInfo(es->str, "Waits: " INT64_FORMAT "  Wait Time: %.3f ms  Queue Time: %.3f ms  Tokens/s: "
													 "%.1f\n",
					 s->waits, INSTR_TIME_GET_MILLISEC(s->wait_time),
					 s->calls > 0 ? s->queue_us / 1000.0 / s->calls : 0, tokens_per_second(n));
}

static void
explain_properties(const BatchNode *n, ExplainState *es)
{
	const BatchStats *s = &n->stats;

	ExplainPropertyInteger("Requests", NULL, s->calls, es);
	ExplainPropertyInteger("Deduplicated", NULL, s->deduplicated, es);
	ExplainPropertyInteger("Cancelled", NULL, cancelled(n), es);
	ExplainPropertyInteger("Skipped", NULL, n->skipped, es);
	ExplainPropertyInteger("Max In Flight", NULL, s->max_in_flight, es);
	ExplainPropertyInteger("Cache Hits", NULL, s->cache_hits, es);
	ExplainPropertyInteger("Fallbacks", NULL, s->fallbacks, es);
	ExplainPropertyInteger("Cascaded", NULL, s->cascaded, es);
	ExplainPropertyInteger("Failed", NULL, s->failed, es);
	ExplainPropertyInteger("Prompt Tokens", NULL, s->prompt_tokens, es);
	ExplainPropertyInteger("Cached Tokens", NULL, s->cached_tokens, es);
	ExplainPropertyInteger("Output Tokens", NULL, s->output_tokens, es);
	if (s->cost > 0)
		ExplainPropertyFloat("Cost", NULL, s->cost / 1e12, COST_DIGITS, es);
	ExplainPropertyFloat("Prefix Hits", "%", percent_cached(n), 1, es);
	if (!es->timing)
		return;
	ExplainPropertyInteger("Waits", NULL, s->waits, es);
	ExplainPropertyFloat("Wait Time", "ms", INSTR_TIME_GET_MILLISEC(s->wait_time), 3, es);
	ExplainPropertyFloat("Queue Time", "ms", s->calls > 0 ? s->queue_us / 1000.0 / s->calls : 0, 3, es);
	ExplainPropertyFloat("Tokens/s", NULL, tokens_per_second(n), 1, es);
}

/* Shown only together with the planner's own estimates (COSTS). */
static void
explain_estimate(const BatchNode *n, ExplainState *es)
{
	BatchEstimate e;
	StringInfoData s;
	bool		known = batch_estimate(n, &e);

	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyFloat("Estimated Calls", NULL, e.calls, 0, es);
		if (known)
			ExplainPropertyFloat("Estimated Prompt Tokens", NULL, e.prompt_tokens, 0, es);
		if (known)
			ExplainPropertyFloat("Estimated Output Tokens", NULL, e.output_tokens, 0, es);
		if (known && e.priced)
			ExplainPropertyFloat("Estimated Cost", NULL, e.cost, 6, es);
		return;
	}
	initStringInfo(&s);
	appendStringInfo(&s, "%.0f calls", e.calls);
	if (known)
		appendStringInfo(&s, ", %.0f prompt tokens, %.0f output tokens", e.prompt_tokens, e.output_tokens);
	if (known && e.priced)
		appendStringInfo(&s, ", cost %.6g", e.cost);
	ExplainPropertyText("LLM Estimate", s.data, es);
}

void
batch_node_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	const BatchNode *n = (const BatchNode *) css;

	explain_calls(n, ancestors, es);
	if (batch_has_match(n))
		ExplainPropertyText("Join Type", n->plan->match.type == JOIN_LEFT ? "Left" :
							n->plan->match.type == JOIN_RIGHT ? "Right" :
							n->plan->match.type == JOIN_SEMI ? "Semi" : "Anti", es);
	if (plan_depends_on_outer(es->pstmt, css->ss.ps.plan))
		ExplainPropertyText("Batching", "the rows of one outer row at a time", es);
	ExplainPropertyText("Look-Ahead", look_ahead(n), es);
	ExplainPropertyText("Deduplication", vllm_batch_dedup ? "on" : "off", es);
	if (!es->analyze)
	{
		if (es->costs)
			explain_estimate(n, es);
		return;
	}
	if (es->format == EXPLAIN_FORMAT_TEXT)
		explain_text(n, es);
	else
		explain_properties(n, es);
}
