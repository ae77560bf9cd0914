/*
 * node.h
 *	  The batch node's state: call sites, rows, the ring.
 *
 *	execute.c	the executor's callbacks, how far to read ahead
 *	ring.c	rows: pulled from the child, moved on, let go
 *	match.c	rows that decide an outer, semi or anti join
 *	site.c	call sites: from arguments to a request
 *	explain.c	EXPLAIN
 */
#ifndef VLLM_PG_BATCH_NODE_H
#define VLLM_PG_BATCH_NODE_H

#include "postgres.h"

#include "fmgr.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "utils/timestamp.h"

#include "pg/batch/batch.h"
#include "pg/batch/row_request.h"

/* Of one row's call. */
typedef enum CallPhase
{
	CALL_WAIT = 0,				/* not started */
	CALL_FLIGHT,
	CALL_DONE,
	CALL_SKIP,					/* a guard says that it is not reached */
	CALL_FAILED,				/* the request holds the error */
	CALL_VOID					/* behind a failed one of its row */
} CallPhase;

typedef struct RowCall
{
	CallPhase	phase;
	bool		isnull;
	bool		owned;			/* value is a chunk of ours */
	Datum		value;			/* DONE and needed by other calls or quals, or NULL */
	BatchRequest *request;		/* FLIGHT, FAILED, DONE without value */
} RowCall;

typedef enum RowState
{
	ROW_OPEN = 0,
	ROW_READY,					/* all quals passed, all results there */
	ROW_REJECTED,				/* by a qual; its memory has been let go */
	ROW_FAILED					/* a call has failed */
} RowState;

typedef struct MatchGroup MatchGroup;
typedef struct MatchLeft MatchLeft;

typedef struct BatchRow
{
	struct BatchRow *next_free;
	TupleTableSlot *slot;		/* the child's row, a minimal tuple */
	Size		bytes;
	RowState	state;
	int			stage;
	/* in a node with a match */
	MatchGroup *group;
	int64		number;			/* among all rows pulled */
	bool		begun;			/* counted among the group's */
	bool		alone;			/* an outer row without a partner */
	bool		candidate;		/* rejected, but may become such a row */
	RowCall		calls[FLEXIBLE_ARRAY_MEMBER];
} BatchRow;

/* What else than its arguments a head depends on. */
typedef struct HeadSettings
{
	Oid			role;
	CommandId	cid;
	int			max_tokens;
	char	   *model;
	char	   *embedding_model;
	char	   *rerank_model;
	char	   *params;
	TimestampTz at;
} HeadSettings;

typedef struct BatchSite
{
	const BatchCall *call;
	const EngineFunc *engine;
	int			index;			/* its place in the node's list of calls */
	FmgrInfo	flinfo;
	FunctionCallInfo fcinfo;
	int			nargs;
	ExprState **args;			/* NULL: constant, stands in fcinfo already */
	ExprState  *guards;			/* NULL = none */
	int			n_deps;
	int		   *deps;			/* calls whose results it uses */
	Oid			rettype;
	int16		typlen;
	bool		typbyval;
	bool		early;			/* its result is used before the row is emitted */
	bool		emitted;		/* its result is used by the target list */
	/*
	 * A row whose arguments have been evaluated, but whose request could not be sent
	 * yet: its input's fields.  No other row of the site goes before it, but for the
	 * head row if there is no head yet.
	 */
	BatchRow   *pending;
	StringInfoData input;
	/* the last head (engine_func.h), in head_cxt */
	MemoryContext head_cxt;
	bool		fixed_head;		/* all arguments that it depends on are constants */
	bool		have_head;
	SqlRequest	head;
	HeadSettings head_settings;
	NullableDatum *head_args;
	int16	   *arg_len;
	bool	   *arg_byval;
} BatchSite;

/* Of a node that decides a join (match.c). */
typedef struct MatchRun
{
	MatchGroup *group;			/* of the row that was pulled last */
	MatchLeft  *left;			/* of JOIN_RIGHT */
	TupleTableSlot *left_slot;
	bool		child_done;		/* it has no more rows, but we may */
} MatchRun;

typedef struct BatchNode
{
	CustomScanState css;
	BatchPlan  *plan;
	int			n_child;
	int			n_sites;
	BatchSite  *sites;
	int			n_quals;
	ExprState **quals;
	ExprState  *limit_count;
	ExprState  *limit_offset;
	bool		one_wave;		/* no call waits for another, no quals: nothing happens
								 * to a row between the start of its calls and its turn */
	/* early evaluation */
	ExprContext *ahead;
	TupleTableSlot *ahead_slot; /* virtual, like the scan tuple */
	int			early_natts;	/* child columns that arguments, guards and quals need */
	int			emit_natts;		/* child columns that the target list needs */
	MemoryContext rows_cxt;
	StringInfoData body;		/* of the request under construction */
	/* the run */
	BatchPool  *pool;
	bool		started;
	bool		serial;
	int64		bound;			/* rows that will be asked for, -1 = unknown */
	bool		eof;
	int64		pulled;			/* rows */
	int64		consumed;		/* rows that a qual has rejected, or that have been handed out */
	bool		may_wait;		/* the head row is due: may wait for a slot */
	int			room;			/* requests that may start, as last asked */
	bool		starved;		/* some row waits for room */
	uint64		seen;			/* batch_pool_finished() when all rows were looked at */
	/* the ring */
	BatchRow  **ring;
	int			ring_size;		/* power of two */
	int			first;
	int			count;
	Size		ring_bytes;
	BatchRow   *free_rows;
	BatchRow   *emitted;		/* the row that the last tuple was made of */
	MatchRun	match;
	/* EXPLAIN */
	BatchStats	stats;
	int64		skipped;
	bool		timed;
	instr_time	begun;			/* first request */
	instr_time	busy;			/* from there to the last reply */
} BatchNode;

/* ---- site.c ---- */

void		batch_site_init(BatchNode *n, BatchSite *s, const BatchCall *call, int index);

/* What became of an attempt to start a call. */
typedef enum SiteStart
{
	SITE_SKIP,					/* a guard says no */
	SITE_NULL,					/* an input is NULL */
	SITE_PENDING,				/* evaluated: to be sent by batch_site_send() */
	SITE_REFUSED				/* the request is finished and holds the error */
} SiteStart;
/* Evaluate guards and arguments of the row that stands in n->ahead_slot. */
SiteStart	batch_site_eval(BatchNode *n, BatchSite *s, BatchRow *row, BatchRequest **request);
/* Send what is pending; NULL: not yet (no slot; or it needs to be the head row's). */
BatchRequest *batch_site_send(BatchNode *n, BatchSite *s, bool is_head);

/* ---- ring.c ---- */

void		batch_ring_init(BatchNode *n);
/* All rows and their requests. */
void		batch_ring_clear(BatchNode *n);
void		batch_ring_drop_emitted(BatchNode *n);

typedef enum RingHead
{
	RING_END,					/* no more rows */
	RING_ROW,					/* the head row is READY or FAILED */
	RING_BLOCKED				/* it waits for the engine */
} RingHead;
/* Move everything on without blocking, but for the child. */
RingHead	batch_ring_look(BatchNode *n);
BatchRow   *batch_ring_head(const BatchNode *n);
/* The i'th row from the head on. */
BatchRow   *batch_ring_row(const BatchNode *n, int i);
/* The request that the head row is held up by, or NULL. */
BatchRequest *batch_ring_due(const BatchNode *n);
/* Rows from the child; a head that is ready may wait until it is worth the while. */
void		batch_ring_top_up(BatchNode *n);
/* The head row's tuple, or its ERROR. */
TupleTableSlot *batch_ring_emit(BatchNode *n);

/* ---- match.c ---- */

static inline bool
batch_has_match(const BatchNode *n)
{
	return n->plan->match.type != JOIN_INNER;
}

/* What an open row may do now. */
typedef enum MatchStep
{
	MATCH_GO,
	MATCH_HOLD,					/* it waits for other rows of its group */
	MATCH_REJECT
} MatchStep;
MatchStep	batch_match_step(BatchNode *n, BatchRow *row);
void		batch_match_push(BatchNode *n, BatchRow *row);
/* There are no more rows. */
void		batch_match_end(BatchNode *n);
void		batch_match_clear(BatchNode *n);
void		batch_match_leave(BatchRow *row);
bool		batch_match_passed(BatchNode *n, BatchRow *row);
bool		batch_match_rejected(BatchNode *n, BatchRow *row);
/* Can't it be decided before the child's next row is known? */
bool		batch_match_wants_next(const BatchRow *row);
/* Does JOIN_RIGHT have to decide its pairs before there may be more rows? */
bool		batch_match_waits(const BatchNode *n);
/* Of JOIN_RIGHT when the child is done: the next row without a match, or NULL. */
TupleTableSlot *batch_match_next_left(BatchNode *n);
/* NULLs for the columns of the other side. */
void		batch_match_hide(const BatchNode *n, TupleTableSlot *slot);

/* ---- execute.c ---- */

/* Settings and bounds of this run, once per scan. */
void		batch_node_start(BatchNode *n);
/* How many rows may have been pulled in all. */
int64		batch_node_allowed(const BatchNode *n);
bool		batch_node_is_lazy(const BatchNode *n);
bool		batch_is_node(const PlanState *ps);
/* NULL: not a node of ours, as far as one can see through plain nodes. */
BatchNode  *batch_node_below(PlanState *ps);

/* ---- estimate.c ---- */

typedef struct BatchEstimate
{
	double		calls,
				prompt_tokens,
				output_tokens,
				cost,			/* in the currency of the prices */
				known_cost;		/* without answers whose length nothing is known of */
	bool		priced;
} BatchEstimate;
/* Before it runs.  False: nothing is known but the number of calls. */
bool		batch_estimate(const BatchNode *n, BatchEstimate *e);

/*
 * ERROR 53400 if a statement that is about to run, or to go on for so many rows (0 = all), is expected to ask
 * more than the settings allow.
 */
void		batch_check_limits(PlanState *ps, uint64 count);

/* ---- explain.c ---- */

void		batch_node_explain(CustomScanState *css, List *ancestors, struct ExplainState *es);

#endif
