/*
 * execute.c
 *	  The batch node: the executor's callbacks, and how far to read ahead.
 *
 * How far: if a bound is known (LIMIT without a filter), that many rows; if all rows will be fetched,
 * as many as the pool has room for; else a ramp of 1 + 2 * rows that were rejected or emitted, so
 * that a statement that wants one row starts few requests.  Requests of rows that the parent never
 * asks for are cancelled at the end.
 *
 * A node runs row by row if its plan was made before vllm.batch was switched off, or with
 * vllm.batch_strict if its expressions may fail.  Then it processes one row at a time and one call
 * after the other, as the calls would run where they stood.
 *
 * Memory of an emitted tuple: results are in the per-tuple context, the child's columns in the row,
 * which the node frees when its parent asks for the next tuple.
 *
 * Requests belong to the pool of the EState, whose memory context ends them on every path
 * (row_request.c).  So an ERROR needs no cleanup here.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"

#include "base/assert.h"
#include "pg/batch/node.h"
#include "pg/batch/note.h"
#include "pg/compat.h"
#include "pg/vllm_pg.h"

/* ---- which run fetches all rows ---- */

/* ExecutorRun()s in progress, innermost first. */
typedef struct RunFrame
{
	const EState *estate;
	bool		all;			/* count = 0 */
	struct RunFrame *outer;
} RunFrame;

static RunFrame *runs = NULL;
static ExecutorStart_hook_type prev_executor_start = NULL;
static ExecutorRun_hook_type prev_executor_run = NULL;

/*
 * The start may evaluate functions to prune partitions.  The statements that those functions plan are
 * not being explained.
 */
static void
executor_start(QueryDesc *queryDesc, int eflags)
{
	bool		explaining = batch_note_explaining(false);

	PG_TRY();
	{
		if (prev_executor_start)
			prev_executor_start(queryDesc, eflags);
		else
			standard_ExecutorStart(queryDesc, eflags);
	}
	PG_FINALLY();
	{
		(void) batch_note_explaining(explaining);
	}
	PG_END_TRY();
}

static void
executor_run(COMPAT_EXECUTOR_RUN_ARGS)
{
	RunFrame	frame = {queryDesc->estate, count == 0, runs};

	batch_check_limits(queryDesc->planstate, count);
	/* statements that this run executes, those of its triggers too, are not being explained */
	(void) batch_note_explaining(false);
	runs = &frame;
	PG_TRY();
	{
		if (prev_executor_run)
			prev_executor_run(COMPAT_EXECUTOR_RUN_PASS);
		else
			standard_ExecutorRun(COMPAT_EXECUTOR_RUN_PASS);
	}
	PG_FINALLY();
	{
		/* runs end in the reverse order of their starts, after an ERROR too */
		ASSERT(runs == &frame);
		runs = frame.outer;
	}
	PG_END_TRY();
	if (runs == NULL)
		on_error_report();
}

static bool
fetches_all(const EState *estate)
{
	for (const RunFrame *f = runs; f != NULL; f = f->outer)
		if (f->estate == estate)
			return f->all;
	return false;
}

/* ---- how far ---- */

int64
batch_node_allowed(const BatchNode *n)
{
	if (n->bound >= 0)
		return n->bound;
	if (n->plan->ahead == BATCH_FULL ||
		(n->plan->ahead != BATCH_RAMP && fetches_all(n->css.ss.ps.state)))
		return PG_INT64_MAX;
	return n->plan->ahead == BATCH_ALL_OR_ONE ? 1 + n->consumed : 1 + 2 * n->consumed;
}

/* Return true if the node should emit a row that is ready before it asks for others. */
bool
batch_node_is_lazy(const BatchNode *n)
{
	return n->serial || (n->bound < 0 && n->plan->ahead == BATCH_RAMP) ||
		(n->plan->ahead == BATCH_ALL_OR_ONE && !fetches_all(n->css.ss.ps.state));
}

/* Return limit + offset, -1 if there is no limit. */
static int64
eval_bound(BatchNode *n)
{
	ExprContext *econtext = n->css.ss.ps.ps_ExprContext;
	bool		isnull;
	int64		limit;
	int64		offset = 0;

	if (n->limit_count == NULL)
		return -1;
	limit = DatumGetInt64(ExecEvalExprSwitchContext(n->limit_count, econtext, &isnull));
	if (isnull || limit < 0)
		return -1;
	if (n->limit_offset != NULL)
		offset = DatumGetInt64(ExecEvalExprSwitchContext(n->limit_offset, econtext, &isnull));
	if (n->limit_offset != NULL && isnull)
		offset = 0;
	if (offset < 0 || limit > PG_INT64_MAX - offset)
		return -1;
	return limit + offset;
}

void
batch_node_start(BatchNode *n)
{
	if (n->started)
		return;
	n->pool = batch_pool_of(n->css.ss.ps.state);
	n->serial = !vllm_batch || (vllm_batch_strict && !n->plan->safe);
	n->bound = n->plan->bounded ? eval_bound(n) : -1;

	/* a Limit passes its bound to a Sort, but can't see through the batch node */
	if (n->plan->bounded)
		ExecSetTupleBound(n->bound, outerPlanState(n));
	n->timed = n->css.ss.ps.instrument != NULL && n->css.ss.ps.instrument->need_timer;
	n->started = true;
}

/* ---- nodes on top of each other ---- */

static TupleTableSlot *batch_exec(CustomScanState *css);

bool
batch_is_node(const PlanState *ps)
{
	return IsA(ps, CustomScanState) && ((const CustomScanState *) ps)->methods->ExecCustomScan == batch_exec;
}

/*
 * Look only where a look can't disturb anything: through nodes that pass rows on, and not where a
 * node will be rescanned.
 */
BatchNode *
batch_node_below(PlanState *ps)
{
	while (ps != NULL && ps->chgParam == NULL)
	{
		if (IsA(ps, SubqueryScanState) && ps->qual == NULL)
			ps = ((SubqueryScanState *) ps)->subplan;
		else if (IsA(ps, ResultState) && ps->qual == NULL && ((ResultState *) ps)->resconstantqual == NULL)
			ps = outerPlanState(ps);
		else if (batch_is_node(ps))
			return (BatchNode *) ps;
		else
			return NULL;
	}
	return NULL;
}

/* ---- Begin ---- */

/* Return the highest child column that the expression uses; add the results it uses to *results. */
static int
columns_of(const BatchNode *n, Node *expr, Bitmapset **results)
{
	Bitmapset  *used = NULL;
	int			max = 0;
	int			i = -1;

	pull_varattnos(expr, INDEX_VAR, &used);
	while ((i = bms_next_member(used, i)) >= 0)
	{
		int			attno = i + FirstLowInvalidHeapAttributeNumber;

		if (attno > n->n_child)
			*results = bms_add_member(*results, attno - n->n_child - 1);
		else if (attno > 0)
			max = Max(max, attno);
		else
			max = n->n_child;	/* whole row */
	}
	bms_free(used);
	return max;
}

static void
init_sites(BatchNode *n)
{
	ListCell   *lc;
	int			i = 0;

	n->n_sites = list_length(n->plan->calls);
	n->sites = palloc0(sizeof(BatchSite) * n->n_sites);
	foreach(lc, n->plan->calls)
	{
		batch_site_init(n, &n->sites[i], lfirst(lc), i);
		i++;
	}
}

static void
init_quals(BatchNode *n, List *quals)
{
	ListCell   *lc;

	n->quals = palloc(sizeof(ExprState *) * list_length(quals));
	foreach(lc, quals)
		n->quals[n->n_quals++] = ExecInitQual(list_make1(lfirst(lc)), &n->css.ss.ps);
}

/* Find out which columns and results are needed early, and which for the target list. */
static void
init_columns(BatchNode *n, CustomScan *scan)
{
	Bitmapset  *early = NULL;
	Bitmapset  *late = NULL;
	bool		deps = false;

	n->early_natts = columns_of(n, (Node *) scan->scan.plan.qual, &early);
	for (int i = 0; i < n->n_sites; i++)
	{
		const BatchCall *call = n->sites[i].call;

		n->early_natts = Max(n->early_natts, columns_of(n, (Node *) call->args, &early));
		n->early_natts = Max(n->early_natts, columns_of(n, (Node *) call->guards, &early));
		deps |= n->sites[i].n_deps > 0;
	}
	n->emit_natts = columns_of(n, (Node *) scan->scan.plan.targetlist, &late);
	if (n->css.ss.ps.ps_ProjInfo == NULL)
		n->emit_natts = n->n_child;
	for (int i = 0; i < n->n_sites; i++)
	{
		n->sites[i].early = bms_is_member(i, early);
		n->sites[i].emitted = n->css.ss.ps.ps_ProjInfo == NULL || bms_is_member(i, late);
	}
	n->one_wave = !deps && n->n_quals == 0;
}

static void
batch_begin(CustomScanState *css, EState *estate, int eflags)
{
	BatchNode  *n = (BatchNode *) css;
	CustomScan *scan = (CustomScan *) css->ss.ps.plan;
	TupleDesc	desc = css->ss.ss_ScanTupleSlot->tts_tupleDescriptor;

	n->plan = batch_plan_read(scan);
	n->n_child = n->plan->n_child;
	outerPlanState(css) = ExecInitNode(outerPlan(scan), estate,
									   eflags & ~(EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK));
	init_sites(n);
	init_quals(n, scan->scan.plan.qual);
	if (n->plan->limit_count)
		n->limit_count = ExecInitExpr((Expr *) n->plan->limit_count, &css->ss.ps);
	if (n->plan->limit_offset)
		n->limit_offset = ExecInitExpr((Expr *) n->plan->limit_offset, &css->ss.ps);
	init_columns(n, scan);
	n->ahead = CreateExprContext(estate);
	n->ahead_slot = ExecInitExtraTupleSlot(estate, desc, &TTSOpsVirtual);
	memset(n->ahead_slot->tts_isnull, true, sizeof(bool) * desc->natts);
	memset(css->ss.ss_ScanTupleSlot->tts_isnull, true, sizeof(bool) * desc->natts);
	if (n->plan->match.type == JOIN_RIGHT)
		n->match.left_slot = ExecInitExtraTupleSlot(estate, ExecGetResultType(outerPlanState(css)),
											  &TTSOpsMinimalTuple);
	batch_ring_init(n);
}

/* ---- Exec ---- */

static TupleTableSlot *
batch_exec(CustomScanState *css)
{
	BatchNode  *n = (BatchNode *) css;
	RingHead	head;

	batch_ring_drop_emitted(n);
	ResetExprContext(css->ss.ps.ps_ExprContext);
	n->may_wait = true;
	while ((head = batch_ring_look(n)) == RING_BLOCKED)
		batch_pool_wait(n->pool, batch_ring_due(n), &n->stats);
	n->may_wait = false;
	if (head == RING_END)
		return ExecClearTuple(css->ss.ps.ps_ResultTupleSlot);
	if (batch_ring_head(n)->state == ROW_READY)
		batch_ring_top_up(n);
	batch_pool_flush();
	return batch_ring_emit(n);
}

static void
batch_end(CustomScanState *css)
{
	BatchNode  *n = (BatchNode *) css;

	batch_ring_clear(n);
	ExecEndNode(outerPlanState(css));
	if (n->pool != NULL)
		batch_pool_keep(n->pool);
}

static void
batch_rescan(CustomScanState *css)
{
	BatchNode  *n = (BatchNode *) css;
	PlanState  *child = outerPlanState(css);

	batch_ring_clear(n);
	ASSERT(n->count == 0 && n->emitted == NULL && n->ring_bytes == 0);
	n->started = false;
	n->eof = n->match.child_done = false;
	n->pulled = n->consumed = 0;
	n->starved = false;
	n->room = 0;

	/* the next bound may be larger: a Sort must not keep only the rows of this one */
	if (n->plan->bounded)
		ExecSetTupleBound(-1, child);
	if (child->chgParam == NULL)
		ExecReScan(child);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "LLM Batch",
	.BeginCustomScan = batch_begin,
	.ExecCustomScan = batch_exec,
	.EndCustomScan = batch_end,
	.ReScanCustomScan = batch_rescan,
	.ExplainCustomScan = batch_node_explain,
};

static Node *
batch_create_state(CustomScan *scan)
{
	BatchNode  *n = (BatchNode *) newNode(sizeof(BatchNode), T_CustomScanState);

	n->css.methods = &exec_methods;
	return (Node *) n;
}

const CustomScanMethods batch_scan_methods = {
	.CustomName = "LLM Batch",
	.CreateCustomScanState = batch_create_state,
};

void
batch_execute_init(void)
{
	prev_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	prev_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	RegisterCustomScanMethods(&batch_scan_methods);
	batch_request_init();
}
