/*
 * ring.c
 *	  Rows of the batch node: pulled ahead, advanced, emitted in their order.
 *
 * Each row is a small state machine.  A call of the row's stage starts when the results it depends on
 * have arrived and its guards are true.  When no call of the stage is open, the stage's qual is
 * evaluated, once; the row goes to the next stage or is rejected.  The only functions here that sleep
 * are the child below and, for the head row when nothing is in flight, the wait for a slot.
 *
 * Results that other calls or quals use are converted when they arrive, into chunks that the row
 * owns.  The others are converted from the reply when the row is emitted.
 *
 * If the calls of a node don't depend on each other (one_wave), its rows are not looked at between
 * the start of their calls and their emission.  The head row's requests are polled when it is due;
 * batch_pool_wait() polls the rest before it sleeps.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "base/assert.h"
#include "pg/batch/node.h"

#define RING_MAX	4096		/* rows */
#define SLOW_ROW	200			/* us: if a row takes longer than this, the engine is notified of its
								 * requests at once */

/* ---- memory ---- */

void
batch_ring_init(BatchNode *n)
{
	n->rows_cxt = AllocSetContextCreate(n->css.ss.ps.state->es_query_cxt,
										"LLM batch rows", ALLOCSET_DEFAULT_SIZES);
	n->ring_size = 16;
	n->ring = MemoryContextAlloc(n->rows_cxt, sizeof(BatchRow *) * n->ring_size);
}

static inline BatchRow *
row_at(const BatchNode *n, int i)
{
	ASSERT(i >= 0 && i < n->count);
	return n->ring[(n->first + i) & (n->ring_size - 1)];
}

BatchRow *
batch_ring_row(const BatchNode *n, int i)
{
	return row_at(n, i);
}

BatchRow *
batch_ring_head(const BatchNode *n)
{
	return n->count > 0 ? row_at(n, 0) : NULL;
}

static BatchRow *
new_row(BatchNode *n)
{
	BatchRow   *row = n->free_rows;

	if (row != NULL)
		n->free_rows = row->next_free;
	else
	{
		EState	   *estate = n->css.ss.ps.state;
		MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);

		row = palloc(offsetof(BatchRow, calls) + sizeof(RowCall) * n->n_sites);
		row->slot = ExecInitExtraTupleSlot(estate, ExecGetResultType(outerPlanState(n)),
										   &TTSOpsMinimalTuple);
		MemoryContextSwitchTo(old);
	}
	row->next_free = NULL;
	row->bytes = 0;
	row->state = ROW_OPEN;
	row->stage = 0;
	row->group = NULL;
	row->begun = row->alone = row->candidate = false;
	memset(row->calls, 0, sizeof(RowCall) * n->n_sites);
	return row;
}

/* Free a row's requests, values and tuple. */
static void
empty_row(BatchNode *n, BatchRow *row)
{
	for (int i = 0; i < n->n_sites; i++)
	{
		RowCall    *rc = &row->calls[i];

		if (rc->request != NULL)
			batch_request_release(rc->request);
		rc->request = NULL;
		if (rc->owned)
			pfree(DatumGetPointer(rc->value));
		rc->owned = false;
		if (n->sites[i].pending == row)
			n->sites[i].pending = NULL;
	}
	ExecClearTuple(row->slot);
	ASSERT(n->ring_bytes >= row->bytes);
	n->ring_bytes -= row->bytes;
	row->bytes = 0;
}

static void
free_row(BatchNode *n, BatchRow *row)
{
	empty_row(n, row);
	batch_match_leave(row);
	row->next_free = n->free_rows;
	n->free_rows = row;
}

static void
grow_ring(BatchNode *n)
{
	int			size = n->ring_size * 2;
	BatchRow  **ring = MemoryContextAlloc(n->rows_cxt, sizeof(BatchRow *) * size);

	for (int i = 0; i < n->count; i++)
		ring[i] = row_at(n, i);
	pfree(n->ring);
	n->ring = ring;
	n->ring_size = size;
	n->first = 0;
}

/* Append a row of the child to the ring. */
static BatchRow *
push_row(BatchNode *n, TupleTableSlot *from)
{
	BatchRow   *row;

	if (n->count == n->ring_size)
		grow_ring(n);
	row = new_row(n);
	ExecCopySlot(row->slot, from);
	row->bytes = offsetof(BatchRow, calls) + sizeof(RowCall) * n->n_sites +
		((MinimalTupleTableSlot *) row->slot)->mintuple->t_len;
	n->ring_bytes += row->bytes;
	n->ring[(n->first + n->count) & (n->ring_size - 1)] = row;
	n->count++;
	return row;
}

static BatchRow *
take_head(BatchNode *n)
{
	BatchRow   *row = row_at(n, 0);

	n->first = (n->first + 1) & (n->ring_size - 1);
	n->count--;
	return row;
}

/* Remove the head from the ring; it stays valid until batch_ring_drop_emitted(). */
static void
batch_ring_pop(BatchNode *n)
{
	batch_ring_drop_emitted(n);
	n->emitted = take_head(n);
}

void
batch_ring_drop_emitted(BatchNode *n)
{
	BatchRow   *row = n->emitted;

	n->emitted = NULL;
	if (row != NULL)
		free_row(n, row);
}

void
batch_ring_clear(BatchNode *n)
{
	batch_ring_drop_emitted(n);
	while (n->count > 0)
		free_row(n, take_head(n));
	n->first = 0;
	batch_match_clear(n);
}

/* ---- a row's values ---- */

/* Load child columns and results into a virtual slot. */
static void
load_row(const BatchNode *n, BatchRow *row, TupleTableSlot *slot, int natts)
{
	ExecClearTuple(slot);
	if (natts > 0)
	{
		slot_getsomeattrs(row->slot, natts);
		memcpy(slot->tts_values, row->slot->tts_values, sizeof(Datum) * natts);
		memcpy(slot->tts_isnull, row->slot->tts_isnull, sizeof(bool) * natts);
	}
	for (int i = 0; i < n->n_sites; i++)
	{
		const RowCall *rc = &row->calls[i];
		bool		there = rc->phase == CALL_DONE && rc->request == NULL;

		slot->tts_values[n->n_child + i] = there ? rc->value : (Datum) 0;
		slot->tts_isnull[n->n_child + i] = !there || rc->isnull;
	}
	if (row->alone)
		batch_match_hide(n, slot);
	ExecStoreVirtualTuple(slot);
}

static void
load_ahead(BatchNode *n, BatchRow *row)
{
	load_row(n, row, n->ahead_slot, n->early_natts);
	n->ahead->ecxt_scantuple = n->ahead_slot;
}

/*
 * Convert a result that is used before its row is emitted.  Return false if it is not a valid value,
 * which is an error of its row.
 */
static bool
convert_early(BatchNode *n, const BatchSite *s, RowCall *rc)
{
	MemoryContext old;
	ErrorData  *refused;
	BatchRequest *failed = NULL;
	Datum		value;

	ResetExprContext(n->ahead);
	old = MemoryContextSwitchTo(n->ahead->ecxt_per_tuple_memory);
	value = batch_request_try_value(rc->request, s->rettype, &rc->isnull, &refused);
	if (refused != NULL)
		failed = batch_request_failed(n->pool, refused, false);
	else if (!rc->isnull)
	{
		MemoryContextSwitchTo(n->rows_cxt);
		rc->value = datumCopy(value, s->typbyval, s->typlen);
		rc->owned = !s->typbyval;
	}
	MemoryContextSwitchTo(old);
	batch_request_release(rc->request);
	rc->request = failed;
	return failed == NULL;
}

/* ---- advancing a row ---- */

static void
land(BatchNode *n, const BatchSite *s, RowCall *rc)
{
	/* FAILED: its arguments were refused, so that nothing was sent */
	ASSERT(rc->request != NULL && (rc->phase == CALL_FLIGHT || rc->phase == CALL_FAILED));
	if (n->timed)
	{
		INSTR_TIME_SET_CURRENT(n->busy);
		INSTR_TIME_SUBTRACT(n->busy, n->begun);
	}
	if (batch_request_forgive(rc->request))
	{
		batch_request_release(rc->request);
		rc->request = NULL;
		rc->isnull = true;
		rc->phase = CALL_DONE;
		return;
	}
	if (batch_request_error(rc->request) != NULL)
	{
		rc->phase = CALL_FAILED;
		return;
	}
	rc->phase = s->early && !convert_early(n, s, rc) ? CALL_FAILED : CALL_DONE;
}

static bool
deps_are_there(const BatchSite *s, const BatchRow *row)
{
	for (int i = 0; i < s->n_deps; i++)
		if (row->calls[s->deps[i]].phase <= CALL_FLIGHT)
			return false;
	return true;
}

/*
 * Return true if one more request may start.  Asks the pool only when the room of the last look is
 * used up.
 */
static bool
have_room(BatchNode *n)
{
	if (n->room <= 0)
		n->room = batch_pool_room(n->pool);
	return n->room > 0;
}

static void
set_flying(BatchNode *n, BatchSite *s, RowCall *rc, BatchRequest *request)
{
	ASSERT(rc->phase == CALL_WAIT && rc->request == NULL);
	n->room--;
	rc->request = request;
	rc->phase = CALL_FLIGHT;
	if (batch_request_poll(request))
		land(n, s, rc);
}

/* Send the request that the site has evaluated; return true if none is pending any more. */
static bool
send_pending(BatchNode *n, BatchSite *s)
{
	BatchRow   *row = s->pending;
	BatchRequest *request;

	if (row == NULL)
		return true;
	if (!have_room(n))
		return false;
	request = batch_site_send(n, s, row == batch_ring_head(n));
	if (request == NULL)
		return false;
	set_flying(n, s, &row->calls[s->index], request);
	return true;
}

static void
start_call(BatchNode *n, BatchSite *s, BatchRow *row)
{
	RowCall    *rc = &row->calls[s->index];

	/*
	 * only the head row may make the request head, so a row that got here first gives up its place;
	 * it is evaluated again
	 */
	if (row == batch_ring_head(n) && s->pending != row && !s->have_head)
		s->pending = NULL;
	if (!send_pending(n, s) || !have_room(n))
	{
		n->starved = true;
		return;
	}
	if (rc->phase != CALL_WAIT)
		return;
	load_ahead(n, row);
	switch (batch_site_eval(n, s, row, &rc->request))
	{
		case SITE_SKIP:
			rc->phase = CALL_SKIP;
			n->skipped++;
			break;
		case SITE_NULL:
			rc->phase = CALL_DONE;
			rc->isnull = true;
			break;
		case SITE_REFUSED:
			rc->phase = CALL_FAILED;
			if (batch_request_is_forgiven(rc->request))
				land(n, s, rc);
			break;
		case SITE_PENDING:
			if (!send_pending(n, s))
				n->starved = true;
			break;
	}
}

/*
 * Poll and start the calls of the row's stage.  A call after a failed one never starts.  Row by row,
 * a call never starts before the previous one has ended.  Return true if a call is open.
 */
static bool
move_calls(BatchNode *n, BatchRow *row)
{
	bool		open = false;
	bool		failed = false;

	for (int i = 0; i < n->n_sites; i++)
	{
		BatchSite  *s = &n->sites[i];
		RowCall    *rc = &row->calls[i];

		if (s->call->stage > row->stage)
			continue;
		if (rc->phase == CALL_FLIGHT && batch_request_poll(rc->request))
			land(n, s, rc);
		if (rc->phase == CALL_WAIT)
		{
			if (failed)
				rc->phase = CALL_VOID;
			else if (deps_are_there(s, row) && !(open && n->serial))
				start_call(n, s, row);
		}
		failed |= rc->phase == CALL_FAILED;
		open |= rc->phase <= CALL_FLIGHT;
	}
	return open;
}

static bool
row_failed(const BatchNode *n, const BatchRow *row)
{
	for (int i = 0; i < n->n_sites; i++)
		if (row->calls[i].phase == CALL_FAILED)
			return true;
	return false;
}

static bool
qual_passes(BatchNode *n, BatchRow *row)
{
	ResetExprContext(n->ahead);
	load_ahead(n, row);
	return ExecQual(n->quals[row->stage], n->ahead);
}

static void
reject(BatchNode *n, BatchRow *row)
{
	ASSERT(row->state == ROW_OPEN || row->state == ROW_FAILED);
	row->state = ROW_REJECTED;
	empty_row(n, row);
	n->consumed++;
}

static void
pass_or_reject(BatchNode *n, BatchRow *row)
{
	bool		wanted;

	ASSERT(row->stage < n->n_quals);
	if (qual_passes(n, row))
	{
		row->stage++;
		wanted = !batch_has_match(n) || batch_match_passed(n, row);
	}
	else
		wanted = batch_has_match(n) && !batch_match_rejected(n, row);
	if (!wanted)
		reject(n, row);
}

/*
 * Return true if the row failed but an earlier pair of its group matched: serial execution would not
 * have made its calls.
 */
static bool
failed_after_match(BatchNode *n, BatchRow *row)
{
	return row->state == ROW_FAILED && batch_has_match(n) && batch_match_step(n, row) == MATCH_REJECT;
}

static void
advance(BatchNode *n, BatchRow *row)
{
	while (row->state == ROW_OPEN)
	{
		MatchStep	step = batch_has_match(n) ? batch_match_step(n, row) : MATCH_GO;

		if (step == MATCH_REJECT)
			reject(n, row);
		if (step != MATCH_GO || move_calls(n, row))
			return;
		if (row_failed(n, row))
			row->state = ROW_FAILED;
		else if (row->stage == n->n_quals)
			row->state = ROW_READY;
		else
			pass_or_reject(n, row);
	}
}

/* ---- the ring ---- */

/* Advance all rows in order, from the oldest on. */
static void
advance_all(BatchNode *n)
{
	n->seen = batch_pool_finished(n->pool);
	n->starved = false;
	n->room = 0;
	for (int i = 0; i < n->count; i++)
		advance(n, row_at(n, i));
}

/*
 * Return true if the child must not be asked for a row now.  A batch node right below would sleep for
 * its next row while this node has requests in flight, or would raise that row's error before this
 * node has emitted the rows that it holds.
 */
static bool
child_holds_up(const BatchNode *n)
{
	BatchNode  *below = batch_node_below(outerPlanState(n));

	if (below == NULL)
		return false;
	switch (batch_ring_look(below))
	{
		case RING_BLOCKED:
			return batch_pool_stats(n->pool)->in_flight > 0;
		case RING_ROW:
			return batch_ring_head(below)->state == ROW_FAILED;
		default:
			return false;
	}
}

static bool
may_pull(BatchNode *n)
{
	if (n->eof || batch_match_waits(n))
		return false;
	if (n->count == 0 || (n->count == 1 && batch_match_wants_next(row_at(n, 0))))
		return true;
	return !n->serial && !n->starved && n->count < RING_MAX &&
		n->pulled < batch_node_allowed(n) &&
		n->ring_bytes + batch_pool_held_bytes(n->pool) < (Size) work_mem * 1024 &&
		have_room(n) &&
		!child_holds_up(n);
}

static bool
is_slow(instr_time before, instr_time after)
{
	INSTR_TIME_SUBTRACT(after, before);
	return INSTR_TIME_GET_MICROSEC(after) > SLOW_ROW;
}

/* A candidate waits until the next row, or the end of the input, is known. */
static void
decide(BatchNode *n, BatchRow *row)
{
	if (row->candidate)
		advance(n, row);
}

static void
push_and_start(BatchNode *n, TupleTableSlot *slot)
{
	BatchRow   *row = push_row(n, slot);

	if (batch_has_match(n))
	{
		batch_match_push(n, row);
		if (n->count > 1)
			decide(n, row_at(n, n->count - 2));
	}
	advance(n, row);
}

/* Return the child's next row, then the rows that a join has left over. */
static TupleTableSlot *
next_row(BatchNode *n)
{
	TupleTableSlot *slot = n->match.child_done ? NULL : ExecProcNode(outerPlanState(n));

	if (!TupIsNull(slot))
		return slot;
	n->match.child_done = true;
	return batch_match_next_left(n);
}

static void
batch_ring_fill(BatchNode *n)
{
	instr_time	before;
	instr_time	after;

	n->room = 0;
	INSTR_TIME_SET_CURRENT(before);
	while (may_pull(n))
	{
		TupleTableSlot *slot = next_row(n);

		CHECK_FOR_INTERRUPTS();
		if (TupIsNull(slot) && batch_match_waits(n))
			break;
		if (TupIsNull(slot))
		{
			n->eof = true;
			batch_match_end(n);
			if (n->count > 0)
				decide(n, row_at(n, n->count - 1));
			break;
		}
		n->pulled++;
		push_and_start(n, slot);
		/* rows that arrive slowly must not wait for each other */
		INSTR_TIME_SET_CURRENT(after);
		if (n->pulled > 1 && is_slow(before, after))
			batch_pool_flush();
		before = after;
	}
}

/*
 * The head row is ready.  Rows that are pulled in groups cost fewer doorbells.  But a statement that
 * needs no more rows than this one must not start more requests.
 */
void
batch_ring_top_up(BatchNode *n)
{
	if (n->eof || batch_node_is_lazy(n) || !batch_pool_room_for_many(n->pool))
		return;
	if (n->starved)
		advance_all(n);
	batch_ring_fill(n);
}

/*
 * Before the node sleeps, process all requests that have finished since it last looked at the rows.
 * More may finish during the look: equal requests serve several rows, and other nodes poll, too.
 */
static void
look_again(BatchNode *n)
{
	if (n->starved)
		advance_all(n);
	if (n->one_wave)
		advance(n, batch_ring_head(n));
	else
		while (n->seen != batch_pool_finished(n->pool))
			advance_all(n);
}

RingHead
batch_ring_look(BatchNode *n)
{
	batch_node_start(n);
	n->room = 0;
	for (;;)
	{
		BatchRow   *head = batch_ring_head(n);

		if (head != NULL)
			advance(n, head);
		if (head != NULL && failed_after_match(n, head))
			reject(n, head);
		if (head != NULL && head->state == ROW_REJECTED)
		{
			free_row(n, take_head(n));
			InstrCountFiltered1(&n->css, 1);
			batch_pool_row_done(n->pool);
			continue;
		}
		if (head != NULL && head->state != ROW_OPEN)
			return RING_ROW;
		batch_ring_fill(n);
		if (n->count == 0)
			return RING_END;
		if (head == NULL)
			continue;
		look_again(n);
		if (head->state == ROW_OPEN)
			return RING_BLOCKED;
	}
}

BatchRequest *
batch_ring_due(const BatchNode *n)
{
	const BatchRow *row = batch_ring_head(n);

	for (int i = 0; i < n->n_sites; i++)
		if (row->calls[i].phase == CALL_FLIGHT)
			return row->calls[i].request;
	return NULL;
}

static void
throw_first_error(const BatchNode *n, const BatchRow *row)
{
	for (int i = 0; i < n->n_sites; i++)
		if (row->calls[i].phase == CALL_FAILED)
			ThrowErrorData(batch_request_error(row->calls[i].request));
}

TupleTableSlot *
batch_ring_emit(BatchNode *n)
{
	ScanState  *ss = &n->css.ss;
	ExprContext *econtext = ss->ps.ps_ExprContext;
	TupleTableSlot *slot = ss->ss_ScanTupleSlot;
	BatchRow   *row = batch_ring_head(n);
	MemoryContext old;

	ASSERT(row != NULL && (row->state == ROW_READY || row->state == ROW_FAILED));
	if (row->state == ROW_FAILED)
		throw_first_error(n, row);
	n->consumed++;
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	load_row(n, row, slot, n->emit_natts);
	for (int i = 0; i < n->n_sites; i++)
	{
		RowCall    *rc = &row->calls[i];

		if (rc->phase == CALL_DONE && rc->request != NULL && n->sites[i].emitted)
			slot->tts_values[n->n_child + i] =
				batch_request_value(rc->request, n->sites[i].rettype,
									&slot->tts_isnull[n->n_child + i]);
	}
	MemoryContextSwitchTo(old);
	batch_ring_pop(n);
	batch_pool_row_done(n->pool);
	econtext->ecxt_scantuple = slot;
	return ss->ps.ps_ProjInfo ? ExecProject(ss->ps.ps_ProjInfo) : slot;
}
