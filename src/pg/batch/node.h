/*
 * node.h
 *	  The batch node's state: call sites, rows, the ring.
 *
 *	execute.c	the executor's callbacks, how far to read ahead
 *	ring.c	rows: pulled from the child, advanced, freed
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

/* Phase of one row's call. */
typedef enum CallPhase
{
	CALL_WAIT = 0,				/* not started */
	CALL_FLIGHT,
	CALL_DONE,
	CALL_SKIP,					/* a guard is false: serial execution would not reach the call */
	CALL_FAILED,				/* the request has the error */
	CALL_VOID					/* comes after a failed call of the same row */
} CallPhase;

typedef struct RowCall
{
	CallPhase	phase;
	bool		isnull;
	bool		owned;			/* value is a palloc'd chunk that the row owns */
	Datum		value;			/* DONE and needed by other calls or quals, else NULL */
	BatchRequest *request;		/* in FLIGHT, in FAILED, in DONE without value */
} RowCall;

typedef enum RowState
{
	ROW_OPEN = 0,
	ROW_READY,					/* all quals passed, all results have arrived */
	ROW_REJECTED,				/* a qual rejected it; its memory has been freed */
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
	/* in a node that decides a join */
	MatchGroup *group;
	int64		number;			/* its position among all rows pulled */
	bool		begun;			/* counted in the group's started */
	bool		alone;			/* an outer row without a partner */
	bool		candidate;		/* rejected, but becomes such a row if no pair of its group matches */
	RowCall		calls[FLEXIBLE_ARRAY_MEMBER];
} BatchRow;

/* What a request's head depends on besides its arguments. */
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
	int			index;			/* position in the node's list of calls */
	FmgrInfo	flinfo;
	FunctionCallInfo fcinfo;
	int			nargs;
	ExprState **args;			/* NULL: a constant, already in fcinfo */
	ExprState  *guards;			/* NULL = none */
	int			n_deps;
	int		   *deps;			/* indexes of the calls whose results it uses */
	Oid			rettype;
	int16		typlen;
	bool		typbyval;
	bool		early;			/* its result is used before the row is emitted */
	bool		emitted;		/* its result is used by the target list */
	/*
	 * A row whose arguments have been evaluated, but whose request could not be sent yet; input holds
	 * its input's fields.  No other row of the site is sent before it, except the head row as long as
	 * the site has no request head.
	 */
	BatchRow   *pending;
	StringInfoData input;
	/* the last head (engine_func.h), in head_cxt */
	MemoryContext head_cxt;
	bool		fixed_head;		/* all arguments that the head depends on are constants */
	bool		have_head;
	SqlRequest	head;
	HeadSettings head_settings;
	NullableDatum *head_args;
	int16	   *arg_len;
	bool	   *arg_byval;
} BatchSite;

/* State of a node that decides a join (match.c). */
typedef struct MatchRun
{
	MatchGroup *group;			/* the group of the row that was pulled last */
	MatchLeft  *left;			/* for JOIN_RIGHT */
	TupleTableSlot *left_slot;
	bool		child_done;		/* the child has no more rows, but the node may have */
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
	bool		one_wave;		/* no call depends on another and there are no quals: nothing happens to
								 * a row between the start of its calls and its emission */
	/* early evaluation */
	ExprContext *ahead;
	TupleTableSlot *ahead_slot; /* virtual, like the scan tuple */
	int			early_natts;	/* child columns that arguments, guards and quals need */
	int			emit_natts;		/* child columns that the target list needs */
	MemoryContext rows_cxt;
	StringInfoData body;		/* body of the request under construction */
	/* state of the run */
	BatchPool  *pool;
	bool		started;
	bool		serial;
	int64		bound;			/* rows that the parent will ask for, -1 = unknown */
	bool		eof;
	int64		pulled;			/* rows pulled from the child */
	int64		consumed;		/* rows that a qual has rejected or that have been emitted */
	bool		may_wait;		/* the parent waits for the head row: its request may wait for a slot */
	int			room;			/* requests that may still start, from the last look at the pool */
	bool		starved;		/* some row waits for room */
	uint64		seen;			/* batch_pool_finished() when all rows were looked at */
	/* the ring */
	BatchRow  **ring;
	int			ring_size;		/* power of two */
	int			first;
	int			count;
	Size		ring_bytes;
	BatchRow   *free_rows;
	BatchRow   *emitted;		/* the row that the last tuple was built from */
	MatchRun	match;
	/* EXPLAIN */
	BatchStats	stats;
	int64		skipped;
	bool		timed;
	instr_time	begun;			/* when the first request started */
	instr_time	busy;			/* time from begun to the last reply */
} BatchNode;

/* ---- site.c ---- */

void		batch_site_init(BatchNode *n, BatchSite *s, const BatchCall *call, int index);

/* Result of an attempt to start a call. */
typedef enum SiteStart
{
	SITE_SKIP,					/* a guard is false */
	SITE_NULL,					/* an input is NULL */
	SITE_PENDING,				/* evaluated; batch_site_send() sends it */
	SITE_REFUSED				/* the request is finished and holds the error */
} SiteStart;
/* Evaluate guards and arguments for the row in n->ahead_slot. */
SiteStart	batch_site_eval(BatchNode *n, BatchSite *s, BatchRow *row, BatchRequest **request);
/*
 * Send the pending row's request.  Return NULL if it can't be sent yet: no slot is free, or only the
 * head row may make the site's request head.
 */
BatchRequest *batch_site_send(BatchNode *n, BatchSite *s, bool is_head);

/* ---- ring.c ---- */

void		batch_ring_init(BatchNode *n);
/* Free all rows and their requests. */
void		batch_ring_clear(BatchNode *n);
void		batch_ring_drop_emitted(BatchNode *n);

typedef enum RingHead
{
	RING_END,					/* no more rows */
	RING_ROW,					/* the head row is READY or FAILED */
	RING_BLOCKED				/* the head row waits for the engine */
} RingHead;
/* Advance all rows.  Only the child may block. */
RingHead	batch_ring_look(BatchNode *n);
BatchRow   *batch_ring_head(const BatchNode *n);
/* Return the i'th row, counted from the head. */
BatchRow   *batch_ring_row(const BatchNode *n, int i);
/* Return the request that the head row waits for, or NULL. */
BatchRequest *batch_ring_due(const BatchNode *n);
/* Pull rows from the child if there is room for many requests, although the head row is ready. */
void		batch_ring_top_up(BatchNode *n);
/* Return the head row's tuple, or raise its error. */
TupleTableSlot *batch_ring_emit(BatchNode *n);

/* ---- match.c ---- */

static inline bool
batch_has_match(const BatchNode *n)
{
	return n->plan->match.type != JOIN_INNER;
}

/* What an undecided row may do now. */
typedef enum MatchStep
{
	MATCH_GO,
	MATCH_HOLD,					/* it waits for other rows of its group */
	MATCH_REJECT
} MatchStep;
MatchStep	batch_match_step(BatchNode *n, BatchRow *row);
void		batch_match_push(BatchNode *n, BatchRow *row);
/* The child has no more rows: the last group is complete. */
void		batch_match_end(BatchNode *n);
void		batch_match_clear(BatchNode *n);
void		batch_match_leave(BatchRow *row);
bool		batch_match_passed(BatchNode *n, BatchRow *row);
bool		batch_match_rejected(BatchNode *n, BatchRow *row);
/* Return true if the row can't be decided before the child's next row is known. */
bool		batch_match_wants_next(const BatchRow *row);
/* Return true if JOIN_RIGHT must decide pairs in the ring before it can emit rows without a match. */
bool		batch_match_waits(const BatchNode *n);
/* For JOIN_RIGHT, when the child is done: return the next row without a match, or NULL. */
TupleTableSlot *batch_match_next_left(BatchNode *n);
/* Set the columns of the other side to NULL. */
void		batch_match_hide(const BatchNode *n, TupleTableSlot *slot);

/* ---- execute.c ---- */

/* Evaluate the settings and bounds of this run; called once per scan. */
void		batch_node_start(BatchNode *n);
/* Return how many rows the node may have pulled in all. */
int64		batch_node_allowed(const BatchNode *n);
bool		batch_node_is_lazy(const BatchNode *n);
bool		batch_is_node(const PlanState *ps);
/*
 * Return the batch node below ps, looking through plan nodes that only pass rows on; NULL if there is
 * none.
 */
BatchNode  *batch_node_below(PlanState *ps);

/* ---- estimate.c ---- */

typedef struct BatchEstimate
{
	double		calls,
				prompt_tokens,
				output_tokens,
				cost,			/* in the currency of the prices */
				known_cost;		/* without outputs of unknown length */
	bool		priced;
} BatchEstimate;
/* Estimate the node's calls before it runs.  Return false if only the number of calls is known. */
bool		batch_estimate(const BatchNode *n, BatchEstimate *e);

/*
 * Raise ERROR 53400 if the estimates of a statement exceed the limits in the settings.  The statement
 * is about to run, or to go on, for count rows (0 = all).
 */
void		batch_check_limits(PlanState *ps, uint64 count);

/* ---- explain.c ---- */

void		batch_node_explain(CustomScanState *css, List *ancestors, struct ExplainState *es);

#endif
