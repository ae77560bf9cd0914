/*
 * estimate.c
 *	  What is expected of a batch node's calls, by EXPLAIN and by limits.c: how many, how many tokens, what
 *	  they cost.
 *
 * Calls are the rows that the planner expects of the child, or, where the node's quals don't need them, those
 * behind these.  A prompt is as long as the columns that it is made of are on average, by their tables'
 * statistics.  An answer is what the model's answers have been on average (spend.c), or max_tokens.
 *
 * Options that differ from row to row are not known beforehand: of such calls the default is taken that heads
 * without them have, and there is no estimate where the head is refused, which is an error of the statement
 * when it runs.
 *
 * Tests: tests/sql/36_cost.sql.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "pg/batch/node.h"
#include "pg/compat.h"
#include "pg/client/spend.h"
#include "pg/vllm_pg.h"

typedef struct WidthContext
{
	const BatchNode *n;
	double		bytes;
} WidthContext;

static double
const_width(const Const *c)
{
	if (c->constisnull)
		return 0;
	if (c->constlen == -1)
		return VARSIZE_ANY_EXHDR(DatumGetPointer(c->constvalue));
	return c->constlen == -2 ? strlen(DatumGetCString(c->constvalue)) : c->constlen;
}

/* Of a column of a plan below the node: as the table that it comes from has it, or as the type has it. */
static double
column_width(const BatchNode *n, const Plan *plan, int attno)
{
	EState	   *estate = n->css.ss.ps.state;

	while (plan != NULL && attno > 0 && attno <= list_length(plan->targetlist))
	{
		const Node *e = (Node *) ((TargetEntry *) list_nth(plan->targetlist, attno - 1))->expr;
		const Var  *v = (const Var *) e;
		int32		width = 0;

		if (IsA(e, Var) && (v->varno == OUTER_VAR || v->varno == INNER_VAR))
		{
			plan = v->varno == OUTER_VAR ? outerPlan(plan) : innerPlan(plan);
			attno = v->varattno;
			continue;
		}
		if (IsA(e, Var) && v->varno > 0 && v->varno <= list_length(estate->es_range_table) &&
			v->varattno > 0 && exec_rt_fetch(v->varno, estate)->rtekind == RTE_RELATION)
			width = get_attavgwidth(exec_rt_fetch(v->varno, estate)->relid, v->varattno);
		return width > 0 ? width : get_typavgwidth(exprType(e), exprTypmod(e));
	}
	return 32;
}

static bool
add_width(Node *node, WidthContext *w)
{
	if (node == NULL)
		return false;
	if (IsA(node, Const))
		w->bytes += const_width((Const *) node);
	else if (IsA(node, Var) && ((Var *) node)->varno == INDEX_VAR && ((Var *) node)->varattno > 0 &&
			 ((Var *) node)->varattno <= w->n->n_child)
		w->bytes += column_width(w->n, outerPlan(w->n->css.ss.ps.plan), ((Var *) node)->varattno);
	else if (IsA(node, Var) || IsA(node, Param))
		w->bytes += get_typavgwidth(exprType(node), exprTypmod(node));
	return expression_tree_walker(node, add_width, w);
}

/* The fields of one call's message, with a prompt of that width; false: its head is refused. */
static bool
note_of(const BatchNode *n, const BatchSite *s, SpendRecord *note, SqlRequest *r)
{
	WidthContext w = {n, 0};
	WireIn		in;
	WireField	f;

	memset(r, 0, sizeof(*r));
	initStringInfo(&r->body);
	if (engine_func_head(s->engine, r, s->fcinfo) != NULL)
		return false;
	cost_note_begin(note);
	in = (WireIn) {r->body.data, r->body.data + r->body.len};
	while (wire_next(&in, &f) > 0)
		cost_note_field(note, &f);
	for (int i = 0; i < s->engine->n_inputs; i++)
		(void) add_width(list_nth(s->call->args, i), &w);
	note->prompt_bytes += (int64) w.bytes;
	if (r->model != NULL)
		cost_learn(note, r->model);
	return true;
}

typedef struct SiteContext
{
	AttrNumber	attno;
} SiteContext;

static bool
needs_site(Node *node, SiteContext *c)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var) && ((Var *) node)->varno == INDEX_VAR && ((Var *) node)->varattno == c->attno)
		return true;
	return expression_tree_walker(node, needs_site, c);
}

/*
 * Do only rows that the node's quals let through need the i'th call?  One that others need is taken to be for
 * all.
 */
static bool
is_behind_quals(const BatchNode *n, int i)
{
	SiteContext c = {n->n_child + i + 1};

	for (int k = i + 1; k < n->n_sites; k++)
		if (needs_site((Node *) n->sites[k].call->args, &c))
			return false;
	return !needs_site((Node *) n->css.ss.ps.plan->qual, &c);
}

static double
limit_value(Node *limit, double otherwise)
{
	if (limit == NULL)
		return 0;
	return IsA(limit, Const) && !((Const *) limit)->constisnull ?
		(double) DatumGetInt64(((Const *) limit)->constvalue) : otherwise;
}

/* A Limit that is known beforehand asks for no more. */
static double
within_limit(const BatchNode *n, double rows)
{
	if (!n->plan->bounded || n->plan->limit_count == NULL)
		return rows;
	return Min(rows, limit_value(n->plan->limit_count, rows) + limit_value(n->plan->limit_offset, rows));
}

bool
batch_estimate(const BatchNode *n, BatchEstimate *e)
{
	const Plan *plan = n->css.ss.ps.plan;
	bool		known = true;

	memset(e, 0, sizeof(*e));
	for (int i = 0; i < n->n_sites; i++)
	{
		const BatchSite *s = &n->sites[i];
		SqlRequest	r;
		SpendRecord	note;
		CostTokens	t = {0};
		int64		seen;
		double		rows = within_limit(n,
										Max(is_behind_quals(n, i)
											? plan->plan_rows : outerPlan(plan)->plan_rows, 1));

		e->calls += rows;
		if (!s->fixed_head || !note_of(n, s, &note, &r))
		{
			known = false;
			continue;
		}
		t.prompt = cost_prompt_guess(&note);
		t.output = cost_output_guess(&note, r.kind);
		seen = r.model != NULL ? cost_seen_output(r.model) : -1;
		if (seen >= 0)
			t.output = Min(t.output, seen * note.answers);
		e->prompt_tokens += rows * (double) t.prompt;
		e->output_tokens += rows * (double) t.output;
		e->cost += note.priced ? rows * cost_money(&note, &t) : 0;
		t.output = seen >= 0 ? t.output : 0;
		e->known_cost += note.priced ? rows * cost_money(&note, &t) : 0;
		e->priced |= note.priced;
	}
	return known;
}
