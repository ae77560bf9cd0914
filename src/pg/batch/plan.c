/*
 * plan.c
 *	  BatchPlan <-> CustomScan.
 *
 * custom_scan_tlist	the child's columns, then one FuncExpr for each call
 * custom_exprs			for each call its args and its guards; limit count and offset
 * custom_private		integer lists only, so that copyObject() and the text form
 *						that parallel workers get need no functions of ours:
 *						(n_child ahead bounded has_count has_offset safe, the match), then
 *						(nargs nguards stage) for each call
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pg_list.h"

#include "base/assert.h"
#include "pg/batch/batch.h"

/* EXPLAIN shows a call as the user wrote it: leave out trailing arguments that are NULL by default. */
static List *
shown_args(const BatchCall *c)
{
	List	   *args = copyObject(c->args);

	while (list_length(args) > 1 && IsA(llast(args), Const) && castNode(Const, llast(args))->constisnull)
		args = list_delete_last(args);
	return args;
}

static List *
scan_tlist(const BatchPlan *bp, Plan *child)
{
	List	   *tlist = NIL;
	ListCell   *lc;

	foreach(lc, child->targetlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Var		   *v = makeVarFromTargetEntry(OUTER_VAR, tle);

		tlist = lappend(tlist, makeTargetEntry((Expr *) v, list_length(tlist) + 1, NULL, false));
	}
	foreach(lc, bp->calls)
	{
		BatchCall  *c = lfirst(lc);
		FuncExpr   *f = makeNode(FuncExpr);

		*f = *c->func;
		f->args = shown_args(c);
		tlist = lappend(tlist, makeTargetEntry((Expr *) f, list_length(tlist) + 1, NULL, false));
	}
	return tlist;
}

static List *
match_numbers(const BatchMatch *m)
{
	List	   *numbers = list_make5_int(m->type, m->first_only, m->n_quals, m->outer_id, m->marker);

	return list_concat(numbers, m->nulled);
}

static void
read_match(const List *head, BatchMatch *m)
{
	m->type = list_nth_int(head, 6);
	m->first_only = list_nth_int(head, 7);
	m->n_quals = list_nth_int(head, 8);
	m->outer_id = list_nth_int(head, 9);
	m->marker = list_nth_int(head, 10);
	m->nulled = list_copy_tail(head, 11);
}

void
batch_plan_above(Plan *plan, Plan *child, int plan_node_id)
{
	plan->startup_cost = child->startup_cost;
	plan->total_cost = child->total_cost;
	plan->plan_rows = child->plan_rows;
	plan->plan_width = child->plan_width;
	plan->parallel_safe = child->parallel_safe;
	plan->plan_node_id = plan_node_id;
	plan->lefttree = child;
	plan->extParam = bms_copy(child->extParam);
	plan->allParam = bms_copy(child->allParam);

	/* only direct children of an Append may be asynchronous */
	child->async_capable = false;
}

void
batch_plan_hand_on(Plan *plan, const Plan *child)
{
	ListCell   *lc;

	foreach(lc, child->targetlist)
	{
		TargetEntry *tle = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));

		tle->expr = (Expr *) makeVarFromTargetEntry(OUTER_VAR, tle);
		plan->targetlist = lappend(plan->targetlist, tle);
	}
}

CustomScan *
batch_plan_make(const BatchPlan *bp, Plan *child, List *tlist, List *qual, int plan_node_id)
{
	CustomScan *scan = makeNode(CustomScan);
	Plan	   *plan = &scan->scan.plan;
	List	   *head;
	ListCell   *lc;

	ASSERT(bp->n_child == list_length(child->targetlist));
	batch_plan_above(plan, child, plan_node_id);
	plan->targetlist = tlist;
	plan->qual = qual;

	scan->custom_scan_tlist = scan_tlist(bp, child);
	head = list_make3_int(bp->n_child, bp->ahead, bp->bounded);
	head = lappend_int(head, bp->limit_count != NULL);
	head = lappend_int(head, bp->limit_offset != NULL);
	head = lappend_int(head, bp->safe);
	head = list_concat(head, match_numbers(&bp->match));
	scan->custom_private = list_make1(head);
	foreach(lc, bp->calls)
	{
		BatchCall  *c = lfirst(lc);

		scan->custom_exprs = list_concat(scan->custom_exprs, c->args);
		scan->custom_exprs = list_concat(scan->custom_exprs, c->guards);
		scan->custom_private = lappend(scan->custom_private,
									   list_make3_int(list_length(c->args), list_length(c->guards),
													  c->stage));
	}
	if (bp->limit_count)
		scan->custom_exprs = lappend(scan->custom_exprs, bp->limit_count);
	if (bp->limit_offset)
		scan->custom_exprs = lappend(scan->custom_exprs, bp->limit_offset);
	scan->methods = &batch_scan_methods;
	return scan;
}

/* Return the next n members of a list, and advance *pos, the number of members read. */
static List *
take(List *list, int *pos, int n)
{
	List	   *part = NIL;

	for (int i = 0; i < n; i++)
		part = lappend(part, list_nth(list, (*pos)++));
	return part;
}

BatchPlan *
batch_plan_read(const CustomScan *scan)
{
	BatchPlan  *bp = palloc0(sizeof(BatchPlan));
	List	   *head = linitial(scan->custom_private);
	int			pos = 0;

	bp->n_child = list_nth_int(head, 0);
	bp->ahead = list_nth_int(head, 1);
	bp->bounded = list_nth_int(head, 2);
	bp->safe = list_nth_int(head, 5);
	read_match(head, &bp->match);
	for (int i = 1; i < list_length(scan->custom_private); i++)
	{
		List	   *numbers = list_nth(scan->custom_private, i);
		TargetEntry *tle = list_nth_node(TargetEntry, scan->custom_scan_tlist, bp->n_child + i - 1);
		BatchCall  *c = palloc(sizeof(BatchCall));

		c->func = castNode(FuncExpr, tle->expr);
		c->args = take(scan->custom_exprs, &pos, list_nth_int(numbers, 0));
		c->guards = take(scan->custom_exprs, &pos, list_nth_int(numbers, 1));
		c->stage = list_nth_int(numbers, 2);
		bp->calls = lappend(bp->calls, c);
	}
	if (list_nth_int(head, 3))
		bp->limit_count = list_nth(scan->custom_exprs, pos++);
	if (list_nth_int(head, 4))
		bp->limit_offset = list_nth(scan->custom_exprs, pos++);
	return bp;
}

bool
batch_plan_is_ours(const Plan *plan)
{
	return IsA(plan, CustomScan) && ((const CustomScan *) plan)->methods == &batch_scan_methods;
}
