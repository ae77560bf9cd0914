/*
 * match.c
 *	  Outer, semi and anti joins on calls: which pairs decide each outer row.
 *
 * The join below emits each outer row with all its candidate pairs, adjacent and in the join's
 * order.  One column identifies the outer row; another one is NULL in outer rows without pairs
 * (insert.c).  The first quals of the node are the join's own.  A group is all pairs of one outer
 * row.  The node emits for a group:
 *
 *	 LEFT	its pairs that pass, or else the outer row with NULLs
 *	 SEMI	the first pair that passes
 *	 ANTI	the outer row with NULLs if no pair passes
 *	 RIGHT	like LEFT with the sides exchanged: a hash join whose hashed rows are kept.  Their pairs
 *			are scattered over the join's output, so hashed rows without a match come at the end, in the
 *			order of their first pairs; a hash join emits them in the order of its table
 *
 * The outer row with NULLs is built from the group's last pair.  That pair is the candidate: if a
 * qual rejects it, it stays in the ring until the group is decided.
 *
 * Where the first match ends the search, serial execution would make the calls of one pair after the
 * other.  Here a group may have one pair's calls in flight, and two more for each pair that was
 * rejected; other groups fill the window.  Pairs after a match are dropped.  A pair that matches
 * waits for the pairs before it: their errors are raised first, and one of them may match, too.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/tuplestore.h"

#include "base/assert.h"
#include "pg/batch/node.h"

/* The pairs of one outer row. */
struct MatchGroup
{
	int			refs;			/* rows of the group, +1 while it is the newest group */
	bool		complete;		/* the child has gone on to another outer row, or is done */
	int64		first;			/* number of its first pair among all rows pulled */
	int64		count;
	int64		frontier;		/* all pairs before this position are rejected */
	int64		matched;		/* position of the first pair that has passed, -1 = none yet */
	int64		started;
	int64		rejected;
	int64		outer;
};

/* A hashed row that has a pair. */
typedef struct LeftRow
{
	int64		id;				/* key */
	bool		matched;
} LeftRow;

struct MatchLeft
{
	HTAB	   *rows;
	Tuplestorestate *pairs;		/* each row's first pair: as many as the join hashes, so they may go to
								 * disk */
	int64		undecided;		/* pairs in the ring that no qual has decided yet */
};

static bool
is_right(const BatchNode *n)
{
	return n->plan->match.type == JOIN_RIGHT;
}

static void
unref(MatchGroup *g)
{
	ASSERT(g->refs > 0);
	if (--g->refs == 0)
		pfree(g);
}

void
batch_match_leave(BatchRow *row)
{
	if (row->group != NULL)
		unref(row->group);
	row->group = NULL;
}

void
batch_match_clear(BatchNode *n)
{
	if (n->match.group != NULL)
		unref(n->match.group);
	n->match.group = NULL;
	if (n->match.left != NULL)
	{
		ExecClearTuple(n->match.left_slot);
		tuplestore_end(n->match.left->pairs);
		hash_destroy(n->match.left->rows);
		pfree(n->match.left);
	}
	n->match.left = NULL;
}

void
batch_match_end(BatchNode *n)
{
	if (n->match.group != NULL)
	{
		n->match.group->complete = true;
		unref(n->match.group);
	}
	n->match.group = NULL;
}

static int64
place_in_group(const BatchRow *row)
{
	ASSERT(row->group != NULL && row->number >= row->group->first);
	return row->number - row->group->first;
}

/* The row has no partner: skip the join's quals and their calls. */
static void
without_partner(BatchNode *n, BatchRow *row)
{
	row->alone = true;
	row->stage = n->plan->match.n_quals;
	for (int i = 0; i < n->n_sites; i++)
		if (n->sites[i].call->stage < row->stage && row->calls[i].phase == CALL_WAIT)
			row->calls[i].phase = CALL_SKIP;
}

/* ---- hashed rows that the join keeps ---- */

static LeftRow *
left_row(const BatchNode *n, TupleTableSlot *slot, HASHACTION action, bool *found)
{
	bool		isnull;
	int64		id = DatumGetInt64(slot_getattr(slot, n->plan->match.outer_id, &isnull));

	return hash_search(n->match.left->rows, &id, action, found);
}

static MatchLeft *
left_begin(BatchNode *n)
{
	HASHCTL		ctl = {.keysize = sizeof(int64), .entrysize = sizeof(LeftRow), .hcxt = n->rows_cxt};
	MemoryContext old = MemoryContextSwitchTo(n->rows_cxt);
	MatchLeft  *left = palloc0(sizeof(MatchLeft));

	left->rows = hash_create("LLM batch pairs", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	left->pairs = tuplestore_begin_heap(false, false, work_mem);
	MemoryContextSwitchTo(old);
	return left;
}

/*
 * Rows without a match are emitted in the order in which their first pairs were read, not in the
 * order of replies.
 */
static void
left_push(BatchNode *n, const BatchRow *row)
{
	LeftRow    *r;
	bool		found;

	if (n->match.left == NULL)
		n->match.left = left_begin(n);
	n->match.left->undecided++;
	r = left_row(n, row->slot, HASH_ENTER, &found);
	if (found)
		return;
	r->matched = false;
	tuplestore_puttupleslot(n->match.left->pairs, row->slot);
}

static void
left_decided(BatchNode *n, const BatchRow *row, bool passed)
{
	bool		found;

	ASSERT(n->match.left != NULL && n->match.left->undecided > 0);
	left_row(n, row->slot, HASH_FIND, &found)->matched |= passed;
	n->match.left->undecided--;
}

bool
batch_match_waits(const BatchNode *n)
{
	return n->match.child_done && n->match.left != NULL && n->match.left->undecided > 0;
}

TupleTableSlot *
batch_match_next_left(BatchNode *n)
{
	const MatchLeft *left = n->match.left;
	TupleTableSlot *slot = n->match.left_slot;
	bool		found;

	if (left == NULL || left->undecided > 0)
		return NULL;
	while (tuplestore_gettupleslot(left->pairs, true, false, slot))
		if (!left_row(n, slot, HASH_FIND, &found)->matched)
			return slot;
	return NULL;
}

/* ---- groups ---- */

void
batch_match_push(BatchNode *n, BatchRow *row)
{
	const BatchMatch *m = &n->plan->match;
	bool		isnull;
	int64		outer = DatumGetInt64(slot_getattr(row->slot, m->outer_id, &isnull));

	if (is_right(n))
	{
		(void) slot_getattr(row->slot, m->marker, &isnull);
		if (isnull || n->match.child_done)
			without_partner(n, row);
		else
			left_push(n, row);
		return;
	}
	row->number = n->pulled - 1;
	if (n->match.group == NULL || n->match.group->outer != outer)
	{
		batch_match_end(n);
		n->match.group = MemoryContextAllocZero(n->rows_cxt, sizeof(MatchGroup));
		n->match.group->refs = 1;
		n->match.group->first = row->number;
		n->match.group->matched = -1;
		n->match.group->outer = outer;
	}
	n->match.group->count++;
	n->match.group->refs++;
	row->group = n->match.group;
	if (m->marker > 0)
	{
		(void) slot_getattr(row->slot, m->marker, &isnull);
		if (isnull)
			without_partner(n, row);
	}
}

/* Return true if all pairs of the group before this one are rejected. */
static bool
is_first_left(const BatchNode *n, const BatchRow *row)
{
	MatchGroup *g = row->group;
	int64		oldest = n->pulled - n->count;

	while (g->frontier < place_in_group(row))
	{
		int64		at = g->first + g->frontier - oldest;

		if (at >= 0 && batch_ring_row(n, at)->state != ROW_REJECTED)
			return false;
		g->frontier++;
	}
	return true;
}

/* The last pair is rejected: decide whether its outer row has no partner. */
static MatchStep
step_of_candidate(BatchNode *n, BatchRow *row)
{
	const MatchGroup *g = row->group;

	if (g->matched >= 0 || place_in_group(row) < g->count - 1)
		return MATCH_REJECT;
	if (!g->complete || !is_first_left(n, row))
		return MATCH_HOLD;
	row->candidate = false;
	without_partner(n, row);
	return MATCH_GO;
}

MatchStep
batch_match_step(BatchNode *n, BatchRow *row)
{
	MatchGroup *g = row->group;
	bool		is_head = row == batch_ring_head(n);

	if (row->candidate)
		return step_of_candidate(n, row);
	if (n->serial && !is_head)
		return MATCH_HOLD;
	if (row->alone || !n->plan->match.first_only)
		return MATCH_GO;
	if (g->matched >= 0 && g->matched < place_in_group(row))
		return MATCH_REJECT;
	if (row->stage >= n->plan->match.n_quals)
		return is_first_left(n, row) ? MATCH_GO : MATCH_HOLD;
	if (!row->begun)
	{
		if (!is_head && g->started > 2 * g->rejected)
			return MATCH_HOLD;
		row->begun = true;
		g->started++;
	}
	return MATCH_GO;
}

/* The row has passed a qual.  Return false if it is to be dropped for that. */
bool
batch_match_passed(BatchNode *n, BatchRow *row)
{
	MatchGroup *g = row->group;

	if (row->alone || row->stage != n->plan->match.n_quals)
		return true;
	if (is_right(n))
	{
		left_decided(n, row, true);
		return true;
	}
	if (g->matched < 0 || place_in_group(row) < g->matched)
		g->matched = place_in_group(row);
	return n->plan->match.type != JOIN_ANTI;
}

/* The row has failed a qual.  Return false if it stays as a candidate. */
bool
batch_match_rejected(BatchNode *n, BatchRow *row)
{
	MatchGroup *g = row->group;

	if (row->alone || row->stage >= n->plan->match.n_quals)
		return true;
	if (is_right(n))
	{
		left_decided(n, row, false);
		return true;
	}
	g->rejected++;
	row->candidate = n->plan->match.type != JOIN_SEMI && g->matched < 0 &&
		place_in_group(row) == g->count - 1;
	return !row->candidate;
}

bool
batch_match_wants_next(const BatchRow *row)
{
	return row->candidate && !row->group->complete;
}

void
batch_match_hide(const BatchNode *n, TupleTableSlot *slot)
{
	ListCell   *lc;

	foreach(lc, n->plan->match.nulled)
		slot->tts_isnull[lfirst_int(lc) - 1] = true;
}
