/*
 * batch.h
 *	  The batch node: one statement, many rows in flight.
 *
 * PostgreSQL evaluates a function where it stands, one row after the other, so that a
 * session would keep one request in flight.  After planning we cut the engine's calls
 * out of the finished plan and put a CustomScan "LLM Batch" in their place: it
 * reads rows ahead, keeps their calls in flight together and emits the rows in the
 * order in which they came.  Whatever is not recognised stays an inline call with
 * the same result; vllm.batch = off leaves plans alone.
 *
 * Files, in the order of a statement's life:
 *	  recognise.c	which functions are the engine's (pg_proc row -> EngineFunc)
 *	  rewrite.c	planner_hook, the walk over the plan
 *	  insert.c	a node above a plan node (A) or below it (B)
 *	  lateral.c	a node beside a lateral item (D)
 *	  append.c	one node for all branches of an Append
 *	  values.c	calls in VALUES lists
 *	  template.c	one expression for many of the same shape
 *	  split.c		cutting calls out of expressions: arguments, guards, stages
 *	  walk.c		where a plan keeps its children and expressions
 *	  safe.c		which expressions can't raise an error (vllm.batch_strict)
 *	  plan.c		BatchPlan <-> CustomScan
 *	  execute.c	the node: the executor's callbacks, how far to read ahead
 *	  ring.c		its rows, a ring of machines
 *	  match.c		its rows as pairs of an outer, semi or anti join
 *	  site.c		its call sites: from a row's arguments to a request
 *	  row_request.c	requests in flight: slots, window
 *	  dedup.c		equal requests of one pool have one answer
 *	  wait.c		waiting for them
 *	  explain.c	what EXPLAIN says of it
 *	  inline.c	which calls a plan node makes itself, and why
 *	  note.c		what EXPLAIN says of those; numbers for a join's outer rows
 *	  estimate.c	what it expects before a run, and statements that expect too much
 *	  progress.c	llm_progress and the NOTICEs of vllm.progress_interval
 *
 * COLUMNS.  The node's scan tuple is: its child's columns 1..n_child, then the
 * result of call 1, 2, ...  custom_scan_tlist describes it (child columns as
 * Var(OUTER_VAR), results as the original FuncExpr; types and EXPLAIN, never
 * executed).  Every other expression of the node refers to it by INDEX_VAR: target list,
 * qual, arguments, guards.
 *
 * STAGES.  plan.qual is the suffix of the child's qual, from the first one with a call
 * on, in the planner's order (security!).  A call of stage s starts when the quals
 * 0..s-1 have passed; calls of the target list have stage list_length(qual).
 *
 * GUARDS.  A call under CASE, COALESCE, AND, OR starts only if all its guards are
 * true: the conditions under which serial execution would reach it.
 */
#ifndef VLLM_PG_BATCH_BATCH_H
#define VLLM_PG_BATCH_BATCH_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/plannodes.h"

#include "pg/call/engine_func.h"

/* How far a node may read ahead. */
typedef enum BatchAhead
{
	BATCH_RAMP = 0,				/* under LIMIT, EXISTS, ...: 1 + 2 * rows consumed */
	BATCH_FETCH_ALL = 1,		/* all rows, if the whole statement is fetched
								 * (ExecutorRun(count = 0)); else ramp */
	BATCH_FULL = 2,				/* all rows are needed before the parent's first */
	BATCH_ALL_OR_ONE = 3		/* to read a row is to write it: all rows, if the whole
								 * statement is fetched; else none ahead */
} BatchAhead;

typedef struct BatchCall
{
	FuncExpr   *func;			/* as in custom_scan_tlist; args are those below */
	List	   *args;			/* over the scan tuple; may use results of earlier calls */
	List	   *guards;			/* over the scan tuple, bool; all must be true */
	int			stage;
} BatchCall;

/* Of a node that decides an outer, semi or anti join (match.c); columns are the child's, from 1 on. */
typedef struct BatchMatch
{
	JoinType	type;			/* JOIN_LEFT, _SEMI, _ANTI, _RIGHT; JOIN_INNER: no such node */
	bool		first_only;		/* the first match ends the search */
	int			n_quals;		/* so many quals of the node are the join's */
	int			outer_id;		/* column that differs between outer rows; of RIGHT, hashed rows */
	int			marker;			/* column that is NULL in rows without a partner, 0 = none */
	List	   *nulled;			/* columns of the side that a row without a partner lacks */
} BatchMatch;

typedef struct BatchPlan
{
	int			n_child;		/* columns of the child */
	List	   *calls;			/* BatchCall *, a call after those it depends on */
	BatchAhead	ahead;
	bool		bounded;		/* no filter, and a Limit above: at most limit_count +
								 * limit_offset rows are asked for; NULL: absent */
	Node	   *limit_count;
	Node	   *limit_offset;
	bool		safe;			/* nothing that runs ahead of its row can raise an error */
	BatchMatch	match;
} BatchPlan;

/* ---- recognise.c ---- */

/* NULL: not an engine function.  Cached, invalidated by changes of pg_proc. */
const EngineFunc *batch_recognise(Oid funcid);
/* Does the function ask the engine, whether or not the batch node can take it? */
bool		batch_asks_engine(Oid funcid);

/* ---- plan.c ---- */

/*
 * A node over child with the given target list and qual (both INDEX_VAR) and plan_node_id.
 * custom_exprs holds args, guards and limits, custom_private integers only.
 */
/* plan, a new node, goes above child: its costs are the child's, its target list is empty. */
void		batch_plan_above(Plan *plan, Plan *child, int plan_node_id);
/* Its columns are the child's, of a node that is no scan. */
void		batch_plan_hand_on(Plan *plan, const Plan *child);
CustomScan *batch_plan_make(const BatchPlan *bp, Plan *child, List *tlist, List *qual, int plan_node_id);
BatchPlan  *batch_plan_read(const CustomScan *scan);
bool		batch_plan_is_ours(const Plan *plan);

/* ---- safe.c ---- */

/* Can't the expression (or the list) raise an error? */
bool		batch_expr_is_safe(Node *expr);

/* ---- execute.c ---- */

extern const CustomScanMethods batch_scan_methods;

/* ExecutorRun_hook, RegisterCustomScanMethods; called by batch_init() */
void		batch_execute_init(void);

/* ---- all of it ---- */

/* _PG_init: planner_hook, ExecutorRun_hook, RegisterCustomScanMethods */
void		batch_init(void);

/* ---- progress.c ---- */

Size		batch_progress_shared_size(void);
void		batch_progress_shared_init(void);

#endif
