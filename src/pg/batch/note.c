/*
 * note.c
 *	  Plan nodes that pass rows on: one that shows in EXPLAIN which calls are made row by row, and
 *	  one that numbers rows.
 *
 * PostgreSQL lets an extension add lines to EXPLAIN only for the extension's own plan nodes.  So a
 * statement that EXPLAIN plans gets a node "LLM Inline" above each plan node that makes calls
 * itself.  It passes rows on unchanged: forwards, backwards and from a mark.  Other statements are
 * planned without it.
 *
 * A plan that was cached before (EXPLAIN EXECUTE) and auto_explain show no such nodes.
 *
 * "LLM Row Number" adds a column that identifies a join's outer rows (insert.c).  A function in a
 * target list could do that, but each function needs the EXECUTE privilege, which a site may have
 * revoked.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "tcop/utility.h"
#include "utils/ruleutils.h"

#include "base/assert.h"
#include "pg/batch/note.h"

#define PROCESS_UTILITY_ARGS \
	PlannedStmt *pstmt, const char *query, bool read_only_tree, ProcessUtilityContext context, \
	ParamListInfo params, QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc
#define PROCESS_UTILITY_PASS	pstmt, query, read_only_tree, context, params, env, dest, qc

static ProcessUtility_hook_type prev_process_utility = NULL;
static bool explaining = false;

/* ---- both nodes ---- */

static void
hand_on_begin(CustomScanState *css, EState *estate, int eflags)
{
	outerPlanState(css) = ExecInitNode(outerPlan(css->ss.ps.plan), estate, eflags);
}

/*
 * Store the child's next row into the first columns of the node's slot, which has been cleared;
 * return false if there is none.
 */
static bool
take_row(CustomScanState *css, int natts)
{
	TupleTableSlot *from = ExecProcNode(outerPlanState(css));
	TupleTableSlot *to = css->ss.ps.ps_ResultTupleSlot;

	ExecClearTuple(to);
	if (TupIsNull(from))
		return false;
	ASSERT(natts <= from->tts_tupleDescriptor->natts && natts <= to->tts_tupleDescriptor->natts);
	slot_getsomeattrs(from, natts);
	memcpy(to->tts_values, from->tts_values, sizeof(Datum) * natts);
	memcpy(to->tts_isnull, from->tts_isnull, sizeof(bool) * natts);
	return true;
}

static void
hand_on_end(CustomScanState *css)
{
	ExecEndNode(outerPlanState(css));
}

static void
hand_on_rescan(CustomScanState *css)
{
	if (outerPlanState(css)->chgParam == NULL)
		ExecReScan(outerPlanState(css));
}

static CustomScan *
hand_on_above(Plan *child, const CustomScanMethods *methods, int plan_node_id)
{
	CustomScan *scan = makeNode(CustomScan);
	Plan	   *plan = &scan->scan.plan;
	ListCell   *lc;

	batch_plan_above(plan, child, plan_node_id);
	foreach(lc, child->targetlist)
	{
		TargetEntry *tle = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));
		Var		   *below = makeVarFromTargetEntry(OUTER_VAR, tle);

		scan->custom_scan_tlist = lappend(scan->custom_scan_tlist,
										  makeTargetEntry((Expr *) below, tle->resno, NULL, false));
		tle->expr = (Expr *) makeVarFromTargetEntry(INDEX_VAR, tle);
		plan->targetlist = lappend(plan->targetlist, tle);
	}
	scan->methods = methods;
	return scan;
}

/* ---- numbers ---- */

/*
 * No two rows of a session have the same number.  Nor have the rows of a statement's parallel
 * workers, which exchange rows through the files of a shared hash join.
 */
static int64
next_number(void)
{
	static int64 last = 0;

	return ((int64) (ParallelWorkerNumber + 1) << 48) + ++last;
}

static TupleTableSlot *
number_exec(CustomScanState *css)
{
	TupleTableSlot *slot = css->ss.ps.ps_ResultTupleSlot;
	int			natts = slot->tts_tupleDescriptor->natts - 1;

	if (!take_row(css, natts))
		return slot;
	slot->tts_values[natts] = Int64GetDatum(next_number());
	slot->tts_isnull[natts] = false;
	return ExecStoreVirtualTuple(slot);
}

static const CustomExecMethods number_exec_methods = {
	.CustomName = "LLM Row Number",
	.BeginCustomScan = hand_on_begin,
	.ExecCustomScan = number_exec,
	.EndCustomScan = hand_on_end,
	.ReScanCustomScan = hand_on_rescan,
};

static Node *
number_create_state(CustomScan *scan)
{
	CustomScanState *css = makeNode(CustomScanState);

	css->methods = &number_exec_methods;
	return (Node *) css;
}

static const CustomScanMethods number_methods = {
	.CustomName = "LLM Row Number",
	.CreateCustomScanState = number_create_state,
};

Plan *
batch_number_rows(Plan *child, int plan_node_id)
{
	CustomScan *scan = hand_on_above(child, &number_methods, plan_node_id);
	Plan	   *plan = &scan->scan.plan;
	int			resno = list_length(plan->targetlist) + 1;
	Expr	   *number = (Expr *) makeNullConst(INT8OID, -1, InvalidOid);
	Expr	   *column = (Expr *) makeVar(INDEX_VAR, resno, INT8OID, -1, InvalidOid, 0);

	scan->custom_scan_tlist = lappend(scan->custom_scan_tlist, makeTargetEntry(number, resno, NULL, false));
	plan->targetlist = lappend(plan->targetlist, makeTargetEntry(column, resno, NULL, false));
	return plan;
}

bool
batch_plan_numbers(const Plan *plan)
{
	return IsA(plan, CustomScan) && ((const CustomScan *) plan)->methods == &number_methods;
}

/* ---- notes ---- */

static TupleTableSlot *
note_exec(CustomScanState *css)
{
	TupleTableSlot *slot = css->ss.ps.ps_ResultTupleSlot;

	return take_row(css, slot->tts_tupleDescriptor->natts) ? ExecStoreVirtualTuple(slot) : slot;
}

static void
note_mark(CustomScanState *css)
{
	ExecMarkPos(outerPlanState(css));
}

static void
note_restore(CustomScanState *css)
{
	ExecRestrPos(outerPlanState(css));
}

static void
note_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	Plan	   *plan = css->ss.ps.plan;
	Rewrite		rw = {.stmt = es->pstmt};
	InlineCalls inlined;
	List	   *context;
	List	   *texts = NIL;
	StringInfoData why;
	ListCell   *lc;

	rw.subplan_facts = palloc0(list_length(es->pstmt->subplans) * sizeof(SubplanFacts));
	if (!batch_inline_calls(&rw, outerPlan(plan), &inlined))
		return;
	context = set_deparse_context_plan(es->deparse_cxt, outerPlan(plan), lcons(plan, list_copy(ancestors)));
	foreach(lc, inlined.calls)
		texts = lappend(texts, batch_call_text(lfirst(lc), context, es));
	ExplainPropertyList("LLM Calls", texts, es);
	initStringInfo(&why);
	foreach(lc, inlined.reasons)
		appendStringInfo(&why, "%s%s", why.len > 0 ? "; " : "", strVal(lfirst(lc)));
	ExplainPropertyText("Batching", psprintf("off (%s)", why.data), es);
}

static const CustomExecMethods note_exec_methods = {
	.CustomName = "LLM Inline",
	.BeginCustomScan = hand_on_begin,
	.ExecCustomScan = note_exec,
	.EndCustomScan = hand_on_end,
	.ReScanCustomScan = hand_on_rescan,
	.MarkPosCustomScan = note_mark,
	.RestrPosCustomScan = note_restore,
	.ExplainCustomScan = note_explain,
};

static Node *
note_create_state(CustomScan *scan)
{
	CustomScanState *css = makeNode(CustomScanState);

	css->methods = &note_exec_methods;
	return (Node *) css;
}

static const CustomScanMethods note_methods = {
	.CustomName = "LLM Inline",
	.CreateCustomScanState = note_create_state,
};

/* ---- insertion into the plan ---- */

typedef struct Noter
{
	Rewrite		rw;
	int			next_id;
} Noter;

static Plan *
note_plan(Plan *plan, void *context)
{
	Noter	   *n = context;
	InlineCalls inlined;

	CHECK_FOR_INTERRUPTS();
	check_stack_depth();
	if (plan == NULL)
		return NULL;
	replace_children(plan, note_plan, n);

	/* a HashJoin needs a Hash directly below it, and has the same keys */
	if (IsA(plan, Hash) || !batch_inline_calls(&n->rw, plan, &inlined))
		return plan;
	return (Plan *) hand_on_above(plan, &note_methods, n->next_id++);
}

void
batch_note_calls(PlannedStmt *stmt)
{
	Noter		n = {.rw = {.stmt = stmt}};

	if (stmt->planTree == NULL)
		return;
	n.next_id = max_plan_node_id(stmt) + 1;
	n.rw.subplan_facts = palloc0(list_length(stmt->subplans) * sizeof(SubplanFacts));
	stmt->planTree = note_plan(stmt->planTree, &n);
	for (int i = 0; i < list_length(stmt->subplans); i++)
	{
		ListCell   *lc = list_nth_cell(stmt->subplans, i);

		lfirst(lc) = note_plan(lfirst(lc), &n);
	}
}

/* ---- when EXPLAIN plans ---- */

bool
batch_note_explaining(bool now)
{
	bool		before = explaining;

	explaining = now;
	return before;
}

/*
 * Return true if the command plans a statement to show its plan.  EXECUTE with arguments doesn't
 * count: functions in its arguments may run first, and the plans of their statements aren't shown.
 */
static bool
explains(const Node *statement)
{
	const Query *q;

	if (!IsA(statement, ExplainStmt))
		return false;
	q = castNode(Query, ((const ExplainStmt *) statement)->query);
	return q->commandType != CMD_UTILITY || !IsA(q->utilityStmt, ExecuteStmt) ||
		((const ExecuteStmt *) q->utilityStmt)->params == NIL;
}

static void
note_utility(PROCESS_UTILITY_ARGS)
{
	bool		before = batch_note_explaining(explains(pstmt->utilityStmt));

	PG_TRY();
	{
		if (prev_process_utility)
			prev_process_utility(PROCESS_UTILITY_PASS);
		else
			standard_ProcessUtility(PROCESS_UTILITY_PASS);
	}
	PG_FINALLY();
	{
		(void) batch_note_explaining(before);
	}
	PG_END_TRY();
}

void
batch_note_init(void)
{
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = note_utility;
	RegisterCustomScanMethods(&note_methods);
	RegisterCustomScanMethods(&number_methods);
}
