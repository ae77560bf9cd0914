/*
 * batch.h
 *	  The batch node: one statement, many rows in flight.
 *
 * PostgreSQL evaluates a function where it stands in the plan, one row after the other, so a session
 * would keep only one request in flight.  After planning, we cut the calls of engine functions out of
 * the finished plan and insert a CustomScan "LLM Batch" that makes them.  The node reads rows ahead,
 * keeps the requests of many rows in flight together and emits the rows in their input order.  A call
 * that is not recognised stays an inline call with the same result.  vllm.batch = off leaves plans
 * unchanged.
 *
 * Files, in the order of a statement's life:
 *	  recognise.c	which functions are engine functions (pg_proc row -> EngineFunc)
 *	  rewrite.c	planner_hook, the walk over the plan
 *	  insert.c	inserts a node above a plan node (A) or below it (B)
 *	  lateral.c	inserts a node beside a lateral item (D)
 *	  append.c	one node for all branches of an Append
 *	  values.c	calls in VALUES lists
 *	  template.c	merges many expressions of the same shape into one
 *	  split.c		cuts calls out of expressions: arguments, guards, stages
 *	  walk.c		where a plan keeps its children and expressions
 *	  safe.c		which expressions can't raise an error (vllm.batch_strict)
 *	  plan.c		BatchPlan <-> CustomScan
 *	  execute.c	the node: the executor's callbacks, how far to read ahead
 *	  ring.c		the node's rows: a ring of state machines
 *	  match.c		the node's rows as pairs of an outer, semi or anti join
 *	  site.c		the node's call sites: from a row's arguments to a request
 *	  row_request.c	requests in flight: slots, window
 *	  dedup.c		equal requests of one pool share one result
 *	  wait.c		waiting for requests in flight
 *	  explain.c	the node's lines in EXPLAIN
 *	  inline.c	which calls a plan node makes itself, and why
 *	  note.c		EXPLAIN's nodes for such inline calls; row numbers for a join's outer rows
 *	  estimate.c	estimates before a run; refuses statements whose estimates exceed the limits
 *	  progress.c	llm_progress and the NOTICEs of vllm.progress_interval
 *
 * COLUMNS.  The node's scan tuple has its child's columns 1..n_child, then the results of calls 1, 2,
 * ...  custom_scan_tlist describes it: child columns as Var(OUTER_VAR), results as the original
 * FuncExpr.  It serves types and EXPLAIN and is never executed.  Every other expression of the node
 * (target list, qual, arguments, guards) refers to the scan tuple by INDEX_VAR.
 *
 * STAGES.  plan.qual is the suffix of the child's qual list that begins with the first qual that has
 * a call.  The planner's order is kept, because security barriers rely on it.  A call of stage s
 * starts when quals 0..s-1 have passed; calls of the target list have stage list_length(qual).
 *
 * GUARDS.  A call under CASE, COALESCE, AND or OR starts only if all its guards are true.  The guards
 * are the conditions under which serial execution would reach the call.
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
	BATCH_ALL_OR_ONE = 3		/* reading a row writes it: all rows, if the whole statement is fetched;
								 * else none ahead */
} BatchAhead;

typedef struct BatchCall
{
	FuncExpr   *func;			/* as in custom_scan_tlist; its arguments are args below */
	List	   *args;			/* over the scan tuple; may use results of earlier calls */
	List	   *guards;			/* over the scan tuple, bool; all must be true */
	int			stage;
} BatchCall;

/*
 * A node that decides an outer, semi or anti join (match.c).  Columns are numbers of child columns,
 * from 1.
 */
typedef struct BatchMatch
{
	JoinType	type;			/* JOIN_LEFT, _SEMI, _ANTI, _RIGHT; JOIN_INNER: the node decides no join */
	bool		first_only;		/* the first match ends the search */
	int			n_quals;		/* the node's first n_quals quals are the join's */
	int			outer_id;		/* column with the outer row's number; for JOIN_RIGHT the hashed row's */
	int			marker;			/* column that is NULL in rows without a partner, 0 = none */
	List	   *nulled;			/* columns of the side that is NULL in a row without a partner */
} BatchMatch;

typedef struct BatchPlan
{
	int			n_child;		/* columns of the child */
	List	   *calls;			/* BatchCall *; a call comes after those it depends on */
	BatchAhead	ahead;
	bool		bounded;		/* no filter, and a Limit above: its parent asks for at most limit_count
								 * + limit_offset rows; NULL: absent */
	Node	   *limit_count;
	Node	   *limit_offset;
	bool		safe;			/* no expression that runs ahead of its row can raise an error */
	BatchMatch	match;
} BatchPlan;

/* ---- recognise.c ---- */

/*
 * Return NULL if the function is not an engine function.  Results are cached; a change of pg_proc
 * invalidates them.
 */
const EngineFunc *batch_recognise(Oid funcid);
/* Return true if the function asks the engine, whether or not the batch node can take it. */
bool		batch_calls_engine(Oid funcid);
/* Return true if this aggregate asks the engine for each row, not for each group. */
bool		batch_asks_for_rows(Oid aggfnoid);

/* What a plan node that evaluates an aggregate asks the engine for. */
typedef enum AggregateCalls
{
	AGGREGATE_NO_CALLS, AGGREGATE_ROW_CALLS, AGGREGATE_GROUP_CALLS
} AggregateCalls;
/*
 * A parallel aggregate calls its final function where the partial results are combined, and its
 * transition function where they are made.
 */
AggregateCalls batch_aggregate_calls(const Aggref *agg);

/* ---- plan.c ---- */

/*
 * Make a node over child with the given target list and qual (both over INDEX_VAR) and plan_node_id.
 * custom_exprs holds arguments, guards and limits; custom_private holds integers only.
 */
/* Make plan, a new node, the parent of child: it gets the child's costs and an empty target list. */
void		batch_plan_above(Plan *plan, Plan *child, int plan_node_id);
/* Give plan, which is no scan, a target list that passes the child's columns on. */
void		batch_plan_hand_on(Plan *plan, const Plan *child);
CustomScan *batch_plan_make(const BatchPlan *bp, Plan *child, List *tlist, List *qual, int plan_node_id);
BatchPlan  *batch_plan_read(const CustomScan *scan);
bool		batch_plan_is_ours(const Plan *plan);

/* ---- safe.c ---- */

/* Return true if the expression (or list) can't raise an error. */
bool		batch_expr_is_safe(Node *expr);

/* ---- execute.c ---- */

extern const CustomScanMethods batch_scan_methods;

/* ExecutorRun_hook, RegisterCustomScanMethods; called by batch_init() */
void		batch_execute_init(void);

/* ---- start-up ---- */

/* _PG_init: planner_hook, ExecutorRun_hook, RegisterCustomScanMethods */
void		batch_init(void);

/* ---- progress.c ---- */

Size		batch_progress_shared_size(void);
void		batch_progress_shared_init(void);

#endif
