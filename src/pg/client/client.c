/*
 * client.c
 *	  The backend's end of a conversation with the engine, or with the remote program.
 *
 * The message decides which program serves it: one with a URL among its fields goes to the remote
 * program (request_tracking.c), which uses the same protocol.  In this file "the engine" means
 * either.
 *
 * A ClientCall streams its message into the slot's request ring and collects reply bytes in a buffer
 * of its own, which it splits into frames.  vcall_poll() does both without blocking, so that one
 * backend can have many calls in flight.  The call, its buffer and its errors live in the memory
 * context given to vcall_begin().  The reset callback of that context is the only release path for
 * every kind of abort; before_shmem_exit covers the end of the backend.
 *
 * Barriers: a cursor is stored with release after the bytes and loaded with acquire before them
 * (partners: server_call.c in the engine).  Replies are drained before the slot's state is checked:
 * after CLOSED or LOST without a complete final frame, no final frame will come.
 *
 * The wait loop (vcall_wait) is PostgreSQL's: poll, WaitLatch, ResetLatch, CHECK_FOR_INTERRUPTS, poll
 * again.  A set latch never means "my reply has arrived": nested executions and other calls share the
 * latch.
 *
 * The engine is not trusted.  Geometry, generation, epoch and the two cursors that the backend
 * advances are kept in its own memory, and every other word of the arena is loaded once.  A frame
 * must belong to this conversation and to its position in the stream, and frames are split and parsed
 * in the backend's own memory.  An engine that sends frames without end can neither fill that memory
 * nor keep a statement from being cancelled (tests/t/007_mad_engine.pl).
 *
 * Tests: tests/t/002_kill_matrix.pl, 003_cancel_leaks.pl, 005_queue.pl, 110_remote_program.pl.
 */
#include "postgres.h"

#include <time.h>

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/assert.h"
#include "ipc/call_state.h"
#include "pg/client/client.h"
#include "pg/client/request_tracking.h"
#include "pg/client/slots.h"
#include "pg/util/program_path.h"
#include "pg/vllm_pg.h"

const char *(*vcall_generate_hint) (const char *detail, const char *hint);

/* longest reply frame that the backend collects; palloc's limit is 1 GB */
#define MAX_FRAME	((uint64) 512 * 1024 * 1024)

/* bytes of an error's message, detail or hint that are kept */
#define MAX_ERROR_TEXT	((size_t) 16 * 1024)

/* bytes of a buffer that a ClientCall keeps for its next conversation */
#define KEEP_BUFFER	(64 * 1024)

struct ClientCall
{
	int			slot;			/* -1 once released */
	WireCallState	state;
	const volatile VllmOwner *owner;	/* the slot's owner entry */
	int			side;			/* the side whose arena has the conversation */
	uint32		gen;			/* generation of this claim */
	uint32		epoch;			/* epoch of the engine that serves the slot */
	int64		request_id;
	MemoryContext cxt;			/* owns the call */
	MemoryContextCallback cb;
	WireMsg		head;
	const char *body;			/* caller's memory */
	uint64		sum;			/* the body's checksum, in builds that send one */
	uint64		sent;			/* bytes of head and body in the ring so far: the request's head cursor */
	uint32		taken;			/* bytes read from the reply ring so far: the reply's tail cursor */
	StringInfoData in;			/* reply bytes; frames not yet returned start at in.cursor */
	StringInfoData frame;		/* the frame that was returned last */
	uint32		unnotified;		/* reply bytes taken since the engine was last notified */
	bool		final_read;		/* the final frame has been returned */
	bool		broken;			/* the reply stream is invalid */
	bool		damaged;		/* the stream is invalid because the slot's words were overwritten */
	bool		lost;			/* the engine has ended, or the slot was closed without a final frame */
	bool		elsewhere;		/* the call's error is its endpoint's fault: another model may serve the
								 * request */
	bool		charged;		/* the endpoint may have charged for the failed request */
	bool		cancelled;		/* closed without a final frame because of llm_cancel() */
	TimestampTz deadline;		/* 0 = none */
	int			timeout_ms;
	char		model[NAMEDATALEN];
	RequestTracking note;
	bool		noted;			/* request_note_end() has been called */
	/* the engine is loading the request's model */
	bool		loading;
	TimestampTz loading_since;
	double		progress;
	double		reported;		/* progress of the last NOTICE, -1 = none yet */
	TimestampTz reported_at;
};

/*
 * The side for conversations about local models: that of the next engine while it is prepared; -1:
 * that of the engine that serves.
 */
static int	call_side = -1;

void
vclient_select_side(int side)
{
	call_side = side;
}

/* ---- release ---- */

void		(*vclient_exit) (void) = NULL;

static void
exit_callback(int code, Datum arg)
{
	if (vllm_shared == NULL || MyProc == NULL)
		return;
	/*
	 * end calls that outlive transactions one by one, so that they are counted; the rest is a safety
	 * net
	 */
	if (vclient_exit != NULL)
		vclient_exit();
	vslot_release_all_own();
}

/* Cancel every call of this backend (before_shmem_exit). */
static void
vclient_install_exit_hook(void)
{
	static bool installed = false;

	if (!installed)
		before_shmem_exit(exit_callback, (Datum) 0);
	installed = true;
}

void
vcall_set_state(ClientCall *c, WireCallState to)
{
	ASSERT(wire_call_may_follow(c->state, to));
	c->state = to;
}

/* Record how the call has ended, once.  reply: its final frame, or NULL. */
static void
report_end(ClientCall *c, RequestEnd end, const CallFrame *reply)
{
	RequestEnded e = {
		.end = end,.id = c->request_id,.model = c->model,
		.live = c->slot >= 0 ? wire_slot(&vllm_arenas[c->side], c->slot) : NULL
	};

	if (reply != NULL)
	{
		e.reply = reply->data;
		e.reply_len = reply->len;
		e.message = c->body;
		e.message_len = wire_fields_len(&c->head);
	}
	c->noted = true;
	request_note_end(&c->note, &e);
}

/* Reset callback of the memory context: end the call, whatever its state.  Never throws. */
static void
call_reset(void *arg)
{
	ClientCall *c = arg;

	if (c->slot >= 0 && !c->final_read && !c->noted)
		report_end(c, c->broken || (c->lost && !c->cancelled) ? REQUEST_FAILED : REQUEST_CANCELLED, NULL);
	if (c->slot >= 0)
	{
		vslot_release(c->slot, c->gen, c->final_read ? VSLOT_FINISHED : VSLOT_CANCEL);
		vcall_set_state(c, WC_CLOSED);
	}
	/* for a call that never got a slot */
	cost_release(&c->note.cost);
	c->slot = -1;
}

void
vcall_end(ClientCall *c)
{
	call_reset(c);
}

/* ---- waiting for the engine ---- */

static void
require_preload(void)
{
	if (vllm_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("vllm_pg must be loaded when the server starts"),
				 errhint("Add shared_preload_libraries = 'vllm_pg' to postgresql.conf and restart the "
						 "server.")));
}

static VllmEngineState
state_of(bool remote)
{
	return pg_atomic_read_u32(remote ? &vllm_shared->remote.state : &vllm_shared->state);
}

void
vclient_require_switched_on(void)
{
	require_preload();
	if (!vllm_engine)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the inference engine is switched off"),
				 errdetail("Setting vllm.engine is off: only remote models can be used."),
				 errhint("Set vllm.engine to on and restart the server.")));
}

static void
report_no_engine(bool remote, VllmEngineState state)
{
	VllmShared *s = vllm_shared;
	char		why[sizeof(s->last_error)];

	if (!remote)
		vclient_require_switched_on();
	if (state == VLLM_MISSING)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("the remote program is not installed"),
				 errdetail("There is no program \"%s\": it was not built, or its package is not installed.",
						   remote_program_path()),
				 errhint("Install the package postgresql-" PG_MAJORVERSION "-vllm-pg-remote; or install the "
						 "headers of libcurl, build vllm_pg again and install it; or set "
						 "vllm.remote_path.")));
	/* report no error from before it was last ready */
	LWLockAcquire(s->lock, LW_SHARED);
	if (remote)
		strlcpy(why, s->remote.failing ? s->remote.last_error : "", sizeof(why));
	else
		strlcpy(why, s->failing ? s->last_error : "", sizeof(why));
	LWLockRelease(s->lock);
	ereport(ERROR,
			(errcode(ERRCODE_CANNOT_CONNECT_NOW),
			 remote ? errmsg("the remote program is not available (state \"%s\")", vllm_state_name(state)) :
			 errmsg("the inference engine is not available (state \"%s\")", vllm_state_name(state)),
			 why[0] ? errdetail("%s", why) : 0,
			 remote ? errhint("See the server log. The setting vllm.engine_timeout limits how long a call "
							  "waits; a reload of the configuration restarts the program.") :
			 errhint("See the server log. The setting vllm.engine_timeout limits how long a call waits; "
					 "llm_engine_restart() restarts the engine.")));
}

/* Wait for the engine, or the remote program; return false if the deadline (0 = none) came first. */
static bool
wait_engine(bool remote, TimestampTz deadline)
{
	static uint32 wait_event = 0;
	TimestampTz start = 0;
	bool		ready;

	require_preload();
	vclient_install_exit_hook();
	for (;;)
	{
		VllmEngineState state = state_of(remote);
		TimestampTz now;

		ready = state == VLLM_READY;
		if (ready)
			break;
		now = GetCurrentTimestamp();
		if (start == 0)
			start = now;
		if (deadline != 0 && now >= deadline)
			break;
		if (state == VLLM_FAILED || state == VLLM_MISSING || (!remote && !vllm_engine) ||
			TimestampDifferenceExceeds(start, now, vllm_engine_timeout))
		{
			ConditionVariableCancelSleep();
			report_no_engine(remote, state);
		}
		(void) ConditionVariableTimedSleep(&vllm_shared->state_cv,
										   deadline == 0 ? 100 :
										   Min(100, TimestampDifferenceMilliseconds(now, deadline) + 1),
											   compat_wait_event(&wait_event, "VllmEngineStart"));
	}
	ConditionVariableCancelSleep();
	return ready;
}

void
vclient_require_engine(void)
{
	(void) wait_engine(false, 0);
}

void
vclient_require_for(const StringInfoData *body)
{
	(void) wait_engine(request_is_remote(body->data, body->len), 0);
}

bool
vclient_is_ready(bool remote)
{
	return vllm_shared != NULL && state_of(remote) == VLLM_READY;
}

/* ---- begin ---- */

long
vcall_time_left(const ClientCall *c, long most)
{
	if (c->deadline == 0)
		return most;
	return Min(most, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), c->deadline));
}

static ErrorData *
make_error(ClientCall *c, int sqlstate, const char *message, const char *detail, const char *hint)
{
	MemoryContext old = MemoryContextSwitchTo(c->cxt);
	ErrorData  *e = palloc0(sizeof(ErrorData));

	e->elevel = ERROR;
	e->sqlerrcode = sqlstate;
	e->message = pstrdup(message);
	e->detail = detail ? pstrdup(detail) : NULL;
	e->hint = hint ? pstrdup(hint) : NULL;
	e->assoc_context = c->cxt;
	MemoryContextSwitchTo(old);
	return e;
}

static ErrorData *
late_error(ClientCall *c)
{
	return make_error(c, ERRCODE_QUERY_CANCELED, WIRE_TIMED_OUT,
					  psprintf("The request took longer than %d ms.", c->timeout_ms), NULL);
}

/* Return VSLOT_OK, or VSLOT_NONE if no slot is free and the caller does not want to wait. */
static VslotResult
claim_slot(ClientCall *c, VslotClaim *claim, bool wait_slot)
{
	for (;;)
	{
		VslotResult r;

		if (!wait_engine(c->note.remote, c->deadline))
			ThrowErrorData(late_error(c));
		r = vslot_try_claim(claim);
		if (r == VSLOT_NONE && wait_slot)
			r = vslot_wait_claim(claim, (int) vcall_time_left(c, vllm_queue_timeout));
		if (r == VSLOT_OK || (r == VSLOT_NONE && !wait_slot))
			return r;
		if (r == VSLOT_NO_ENGINE && claim->for_side >= 0 && !c->note.remote)
			ereport(ERROR,
					(errcode(ERRCODE_CANNOT_CONNECT_NOW),
					 errmsg("the new inference engine has ended"),
					 errhint("The previous engine continues to serve; see the server log.")));
		if (vcall_time_left(c, 1) <= 0)
			ThrowErrorData(late_error(c));
		if (r == VSLOT_NONE)
			ereport(ERROR,
					(errcode(ERRCODE_TOO_MANY_CONNECTIONS),
					 errmsg("too many LLM requests are queued"),
					 OidIsValid(claim->limited) ?
					 errdetail("No request slot of %d became free within %d ms. A role with limits can use "
							   "at most half of them.", vllm_shared->n_slots, vllm_queue_timeout) :
					 c->note.remote && vllm_engine ?
					 errdetail("No request slot of %d became free within %d ms. Remote models can use at "
							   "most three quarters of them.", vllm_shared->n_slots, vllm_queue_timeout) :
					 errdetail("No request slot of %d became free within %d ms.",
							   vllm_shared->n_slots, vllm_queue_timeout),
					 errhint("Raise vllm.max_queued_requests or vllm.queue_timeout.")));
	}
}

ClientCall *
vcall_make(MemoryContext cxt)
{
	MemoryContext old = MemoryContextSwitchTo(cxt);
	ClientCall *c = palloc0(sizeof(ClientCall));

	initStringInfo(&c->in);
	initStringInfo(&c->frame);
	MemoryContextSwitchTo(old);
	c->slot = -1;
	c->cxt = cxt;
	c->cb.func = call_reset;
	c->cb.arg = c;
	MemoryContextRegisterResetCallback(cxt, &c->cb);
	return c;
}

/* Empty the buffer for the next conversation; free the memory of a large reply. */
static void
empty_buffer(StringInfo s, MemoryContext cxt)
{
	if (s->maxlen > KEEP_BUFFER)
	{
		MemoryContext old = MemoryContextSwitchTo(cxt);
		char	   *large = s->data;

		initStringInfo(s);
		pfree(large);
		MemoryContextSwitchTo(old);
	}
	resetStringInfo(s);
}

static void
forget_conversation(ClientCall *c)
{
	empty_buffer(&c->in, c->cxt);
	empty_buffer(&c->frame, c->cxt);
	c->sent = 0;
	c->taken = 0;
	c->unnotified = 0;
	c->final_read = c->broken = c->damaged = c->lost = c->cancelled = c->elsewhere = c->charged = false;
	c->loading = false;
	c->progress = 0;
	c->reported = -1;
	c->deadline = 0;
}

static bool pump_request(ClientCall *c);

/*
 * Write the deadline to the slot, so that the engine ends the request also if the backend is not
 * polling then.
 */
static void
put_deadline(ClientCall *c)
{
	WireSlot   *w = wire_slot(&vllm_arenas[c->side], c->slot);
	struct timespec ts;

	if (c->deadline == 0)
		return;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	atomic_store_explicit(&w->timeout_ms, c->timeout_ms, memory_order_relaxed);
	atomic_store_explicit(&w->deadline_us,
						  (int64) ts.tv_sec * 1000000 + ts.tv_nsec / 1000 + 1000 * (int64) vcall_time_left(c,
							  INT_MAX),
						  memory_order_relaxed);
}

bool
vcall_fits(const StringInfoData *body)
{
	return (uint64) body->len + sizeof(WireMsg) + WIRE_TRAILER <= vllm_geometry.max_request;
}

bool
vcall_start(ClientCall *c, WireKind kind, const StringInfoData *body, const char *model,
			int timeout_ms, bool wait_slot)
{
	VslotClaim	claim = {.kind = kind,.model = model,.note = &c->note,.limited = vclient_limited_role(),
						 .login = vclient_login_role()};

	ASSERT(c->slot < 0);
	require_preload();
	if (!vcall_fits(body))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("request of %d bytes is too long", body->len),
				 errhint("Setting vllm.max_prompt_bytes is %d kB.", vllm_max_prompt_bytes)));
	/* everything that can run out of memory comes before the claim */
	forget_conversation(c);
	strlcpy(c->model, model ? model : "", sizeof(c->model));
	request_note_begin(&c->note, kind, body->data, body->len);
	claim.for_side = c->note.remote ? VLLM_REMOTE_SIDE : call_side;
	c->noted = false;
	c->timeout_ms = timeout_ms;
	if (timeout_ms > 0)
		c->deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms);
	if (!cost_reserve(&c->note.cost, kind, c->model, wait_slot))
		return false;
	if (claim_slot(c, &claim, wait_slot) != VSLOT_OK)
	{
		cost_release(&c->note.cost);
		return false;
	}
	c->slot = claim.slot;
	vcall_set_state(c, WC_CLAIMED);
	c->side = claim.side;
	c->owner = &vllm_shared->owners[claim.slot];
	c->gen = claim.gen;
	c->epoch = claim.epoch;
	c->request_id = claim.request_id;
	c->head = wire_head(kind, 0, body->len, c->gen, 0);
	c->body = body->data;
	if (WIRE_CHECKED)
		c->sum = wire_sum(&c->head, c->body);
	put_deadline(c);
	vcall_set_state(c, WC_SENDING);
	/* no reply can have arrived yet */
	(void) pump_request(c);
	if (wait_slot)
		vslot_ring_engine(c->slot);
	else
		vslot_ring_later(c->slot);
	return true;
}

ClientCall *
vcall_begin(MemoryContext cxt, WireKind kind, const StringInfoData *body,
			const char *model, int timeout_ms)
{
	ClientCall *c = vcall_make(cxt);

	(void) vcall_start(c, kind, body, model, timeout_ms, true);
	return c;
}

void
vcall_set_polling(ClientCall *c, bool quiet)
{
	if (c->slot >= 0 && (!quiet || c->sent == sizeof(c->head) + c->head.len))
		vslot_set_polling(c->slot, quiet);
}

bool
vcall_error_is_fallbackable(const ClientCall *c)
{
	return c->elsewhere;
}

bool
vcall_charged(const ClientCall *c)
{
	return c->charged;
}

int64
vcall_cost(const ClientCall *c)
{
	return c->note.cost.cost;
}

int64
vcall_request_id(const ClientCall *c)
{
	return c->request_id;
}

/* ---- moving bytes ---- */

/* The slot's words, or a frame, are not what was written: the call ends with an error.  Returns false. */
static bool
damage(ClientCall *c)
{
	c->broken = c->damaged = true;
	return false;
}

/* Write the part of the message that fits into the ring; return true if anything was written. */
static bool
pump_request(ClientCall *c)
{
	uint32		size = vllm_geometry.ring_size;
	WireSlot   *w = wire_slot(&vllm_arenas[c->side], c->slot);
	char	   *ring = wire_req_ring(&vllm_arenas[c->side], c->slot);
	uint64		total = sizeof(c->head) + c->head.len;
	bool		wrote = false;

	while (c->sent < total)
	{
		uint32		head = (uint32) c->sent;
		/* partner: the engine's release store after it copied the bytes out */
		uint32		tail = atomic_load_explicit(&w->req_tail, memory_order_acquire);
		int			n;

		if (c->sent < sizeof(c->head))
			n = wire_ring_write(ring, size, head, tail,
								(char *) &c->head + c->sent, sizeof(c->head) - c->sent);
		else if (c->sent < total - WIRE_TRAILER)
			n = wire_ring_write(ring, size, head, tail,
								c->body + (c->sent - sizeof(c->head)), total - WIRE_TRAILER - c->sent);
		else
			n = wire_ring_write(ring, size, head, tail,
								(char *) &c->sum + (WIRE_TRAILER - (total - c->sent)), total - c->sent);
		/* the engine has taken more bytes than were written, or released more space than it had taken */
		if (n < 0)
			return damage(c);
		if (n == 0)
			break;
		/* if req_head is not our value, the engine may have read bytes that were not written yet */
		if (atomic_load_explicit(&w->req_head, memory_order_relaxed) != head)
			return damage(c);
		atomic_store_explicit(&w->req_head, head + n, memory_order_release);
		c->sent += n;
		wrote = true;
		if (c->sent == total)
			vcall_set_state(c, WC_RUNNING);
	}
	return wrote;
}

/*
 * Read the bytes in the ring; return true if the engine may be waiting for space.  It waits only if
 * the ring was full by the cursor that it saw, and the backend reads all of those bytes later.  So it
 * is enough to notify the engine after every quarter of a ring.
 */
static bool
pump_reply(ClientCall *c)
{
	uint32		size = vllm_geometry.ring_size;
	WireSlot   *w = wire_slot(&vllm_arenas[c->side], c->slot);
	uint32		tail = c->taken;
	/* partner: the engine's release store after it wrote the bytes */
	uint32		head = atomic_load_explicit(&w->rep_head, memory_order_acquire);
	uint32		n = head - tail;

	if (n == 0)
		return false;
	if (n > size || (uint64) c->in.len + n > MAX_FRAME * 2 - 1)
	{
		c->broken = true;
		return false;
	}
	enlargeStringInfo(&c->in, n);
	(void) wire_ring_read(wire_rep_ring(&vllm_arenas[c->side], c->slot), size, head, tail,
						  c->in.data + c->in.len, n);
	/*
	 * if rep_tail was not our value, the engine may have overwritten bytes while they were read; the
	 * fence makes this load come after them
	 */
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&w->rep_tail, memory_order_relaxed) != tail)
		return damage(c);
	c->in.len += n;
	c->in.data[c->in.len] = '\0';
	c->taken = tail + n;
	atomic_store_explicit(&w->rep_tail, c->taken, memory_order_release);
	c->unnotified += n;
	if (c->unnotified < size / 4)
		return false;
	c->unnotified = 0;
	return true;
}

static bool
head_ok(const WireMsg *m)
{
	bool		last = m->kind == WF_DONE || m->kind == WF_ERROR;

	return m->magic == WIRE_MSG_MAGIC && m->len <= MAX_FRAME &&
		m->kind >= WF_ACCEPTED && m->kind <= WF_ERROR &&
		((m->flags & WIRE_SUMMED) == 0 || m->len >= WIRE_SUM_BYTES) &&
		last == ((m->flags & WIRE_FINAL) != 0);
}

/* Return true if the buffer has a whole frame; its head goes to *m. */
static bool
frame_ready(ClientCall *c, WireMsg *m)
{
	int			left = c->in.len - c->in.cursor;

	if (c->damaged || left < (int) sizeof(*m))
		return false;
	memcpy(m, c->in.data + c->in.cursor, sizeof(*m));
	if (!head_ok(m))
	{
		c->broken = true;
		return false;
	}
	/* a frame read twice, or left by the previous conversation */
	if (!wire_in_place(m, c->gen, c->taken - left))
		return damage(c);
	if ((uint64) left - sizeof(*m) < m->len)
		return false;
	if (!wire_intact(m, c->in.data + c->in.cursor + sizeof(*m)))
		return damage(c);
	return true;
}

/* The frame at in.cursor has been used: reuse its space. */
static void
drop_frame(ClientCall *c, size_t len)
{
	c->in.cursor += sizeof(WireMsg) + len;
	if (c->in.cursor == c->in.len)
		resetStringInfo(&c->in);
	else if (c->in.cursor > c->in.len / 2)
	{
		c->in.len -= c->in.cursor;
		memmove(c->in.data, c->in.data + c->in.cursor, c->in.len);
		c->in.cursor = 0;
	}
}

/* Consume a WF_PROGRESS frame, which has the progress of loading the model. */
static void
take_progress(ClientCall *c, const WireMsg *m)
{
	WireIn		in;
	WireField	f;

	in.p = c->in.data + c->in.cursor + sizeof(*m);
	in.end = in.p + wire_fields_len(m);
	if (!c->loading)
		c->loading_since = GetCurrentTimestamp();
	c->loading = true;
	while (wire_next(&in, &f) > 0)
		if (f.tag == WTAG_PROGRESS)
			c->progress = f.num >= 0 && f.num <= 1 ? f.num : 0;
	drop_frame(c, m->len);
}

/* Return true if the slot's words belong to this conversation.  If not, the call can't go on. */
static bool
words_ok(const ClientCall *c, const WireSlot *w, uint32 state)
{
	return state >= WS_OPEN && state <= WS_LOST && !c->owner->damaged &&
		atomic_load_explicit(&w->gen, memory_order_relaxed) == c->gen &&
		atomic_load_explicit(&w->req_head, memory_order_relaxed) == (uint32) c->sent &&
		atomic_load_explicit(&w->rep_tail, memory_order_relaxed) == c->taken;
}

bool
vcall_poll(ClientCall *c)
{
	WireSlot   *w;
	WireMsg		m;
	uint32		state;
	bool		ring;

	if (c->final_read || c->broken || c->lost)
		return true;
	w = wire_slot(&vllm_arenas[c->side], c->slot);
	ring = pump_request(c);
	/* partner: the engine publishes the last bytes after it has set CLOSED */
	state = atomic_load(&w->state);
	ring |= pump_reply(c);
	if (ring)
		vslot_ring_engine(c->slot);
	while (frame_ready(c, &m))
	{
		if (m.kind != WF_PROGRESS)
		{
			c->loading = false; /* any other frame means that the load is over */
			return true;
		}
		take_progress(c, &m);
	}
	if (!words_ok(c, w, state))
		(void) damage(c);
	else if (state == WS_LOST || c->epoch != pg_atomic_read_u32(&vllm_shared->epochs[c->side]))
		c->lost = true;
	else if (state == WS_CLOSED && atomic_load(&w->let_go) == c->gen)
	{
		/*
		 * the engine has written everything: either more bytes are in the ring, or no final frame
		 * will come
		 */
		(void) pump_reply(c);
		if (frame_ready(c, &m))
			return true;
		if (atomic_load(&w->rep_head) == c->taken)
		{
			/* without llm_cancel() on this slot, the program has read a damaged cancel word */
			if (c->owner->cancelled)
				c->lost = c->cancelled = true;
			else
				(void) damage(c);
		}
	}
	return c->lost || c->broken;
}

/* ---- frames and errors ---- */

/*
 * Convert a text of the engine (UTF-8) to the database's encoding.  A character without an equivalent
 * must not turn one error into another.  The text goes to the server log, too.
 */
static char *
field_text(const WireField *f)
{
	size_t		n = Min(f->n, MAX_ERROR_TEXT);
	char	   *s;

	while (n > 0 && n < f->n && ((unsigned char) f->s[n] & 0xC0) == 0x80)
		n--;
	s = pnstrdup(f->s, n);

	for (char *p = s; *p; p++)
		if (GetDatabaseEncoding() != PG_UTF8 && IS_HIGHBIT_SET(*p))
			*p = '?';
	if (!pg_verify_mbstr(GetDatabaseEncoding(), s, strlen(s), true))
		for (char *p = s; *p; p++)
			if (IS_HIGHBIT_SET(*p))
				*p = '?';
	return s;
}

static ErrorData *
frame_error(ClientCall *c, const char *p, size_t len)
{
	WireIn		in = {p, p + len};
	WireField	f;
	int			sqlstate = ERRCODE_INTERNAL_ERROR;
	const char *message = c->note.remote ? "the remote program reported an error" :
		"the inference engine reported an error";
	const char *detail = NULL;
	const char *hint = NULL;

	while (wire_next(&in, &f) > 0)
	{
		if (f.tag == WTAG_SQLSTATE && f.n == 5 && strspn(f.s, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") >= 5)
			sqlstate = MAKE_SQLSTATE(f.s[0], f.s[1], f.s[2], f.s[3], f.s[4]);
		else if (f.tag == WTAG_MESSAGE)
			message = field_text(&f);
		else if (f.tag == WTAG_ELSEWHERE)
			c->elsewhere = f.i == 1;
		else if (f.tag == WTAG_CHARGED_TRIES)
			c->charged = f.i > 0;
		else if (f.tag == WTAG_DETAIL && f.n > 0)
			detail = field_text(&f);
		else if (f.tag == WTAG_HINT && f.n > 0)
			hint = field_text(&f);
	}
	if (c->note.kind == WK_GENERATE && vcall_generate_hint != NULL)
		hint = vcall_generate_hint(detail, hint);
	return make_error(c, sqlstate, message, detail, hint);
}

/* Return the error of a call that will get no more frames. */
static ErrorData *
dead_error(ClientCall *c)
{
	if (c->damaged)
		return make_error(c, ERRCODE_SYSTEM_ERROR,
						  c->note.remote ? "the conversation with the remote program was damaged" :
						  "the conversation with the inference engine was damaged",
							  "The shared memory of its request slot was overwritten.",
						  "The slot is reused when both sides have released it; repeat the statement.");
	if (c->broken)
		return make_error(c, ERRCODE_PROTOCOL_VIOLATION,
						  c->note.remote ? "invalid reply from the remote program" :
						  "invalid reply from the inference engine", NULL, NULL);
	if (c->cancelled)
		return make_error(c, ERRCODE_QUERY_CANCELED,
						  "canceling LLM request due to llm_cancel()", NULL, NULL);
	c->charged = c->note.remote;
	if (c->note.remote)
		return make_error(c, ERRCODE_SYSTEM_ERROR,
						  "lost connection to the remote program",
						  "What the endpoint has done for the request may be charged.",
						  "The program is being restarted; repeat the statement.");
	return make_error(c, ERRCODE_SYSTEM_ERROR,
					  "the inference engine was lost during the request", NULL,
					  "The engine is being restarted; repeat the statement.");
}

/*
 * Move the frame after in.cursor to c->frame, since vcall_poll() may read further bytes while the
 * caller still uses the fields.  If the frame is alone in the buffer, as large results are, the two
 * buffers are swapped instead of copied.
 */
static const char *
take_frame(ClientCall *c, size_t len)
{
	StringInfoData old = c->frame;

	if (c->in.cursor == 0 && c->in.len == (int) (sizeof(WireMsg) + len))
	{
		c->frame = c->in;
		c->in = old;
		resetStringInfo(&c->in);
		return c->frame.data + sizeof(WireMsg);
	}
	resetStringInfo(&c->frame);
	appendBinaryStringInfo(&c->frame, c->in.data + c->in.cursor + sizeof(WireMsg), len);
	drop_frame(c, len);
	return c->frame.data;
}

bool
vcall_next(ClientCall *c, CallFrame *f, ErrorData **err)
{
	WireMsg		m;

	*err = NULL;
	if (c->final_read)
		elog(ERROR, "LLM call read past its final frame");
	if (!frame_ready(c, &m))
	{
		if (!c->broken && !c->lost)
			return false;
		*err = dead_error(c);
		vcall_end(c);
		return false;
	}
	f->kind = m.kind;
	f->final = (m.flags & WIRE_FINAL) != 0 || m.kind == WF_ERROR;
	f->data = take_frame(c, m.len);
	f->len = wire_fields_len(&m);
	if (f->final)
	{
		/* the engine has let go of the slot: another call may use it while the caller reads this frame */
		c->final_read = true;
		vcall_set_state(c, WC_FINAL);
		if (m.kind == WF_ERROR)
			report_end(c, REQUEST_FAILED, f); /* before the slot is released, as its counters are needed */
		vcall_end(c);
		if (m.kind != WF_ERROR)
			report_end(c, REQUEST_DONE, f);
	}
	if (m.kind == WF_ERROR)
	{
		*err = frame_error(c, f->data, f->len);
		return false;
	}
	return true;
}

/* ---- waiting ---- */

/*
 * Send a NOTICE to a statement that waits for a model: after LOADING_QUIET ms and then every 5
 * seconds.
 */
bool
vcall_report_loading(ClientCall *c)
{
	TimestampTz now;

	if (!c->loading)
		return false;
	now = GetCurrentTimestamp();
	if (c->reported < 0 && !TimestampDifferenceExceeds(c->loading_since, now, LOADING_QUIET))
		return true;
	if (c->reported < 0)
		ereport(NOTICE,
				(errmsg("loading model \"%s\"", c->model)));
	else if (c->progress > c->reported && TimestampDifferenceExceeds(c->reported_at, now, 5000))
		ereport(NOTICE,
				(errmsg("loading model \"%s\": %d %%", c->model, (int) (c->progress * 100))));
	else
		return true;
	c->reported = c->progress;
	c->reported_at = now;
	return true;
}

ErrorData *
vcall_check_deadline(ClientCall *c)
{
	if (vcall_time_left(c, 1) > 0)
		return NULL;
	vcall_end(c);
	return late_error(c);
}

void
vcall_time_from_now(ClientCall *c, int timeout_ms)
{
	c->timeout_ms = timeout_ms;
	c->deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms);
}

/* Wait for a frame; after the deadline return the error. */
static ErrorData *
wait_or_late(ClientCall *c)
{
	static uint32 wait_event = 0;

	for (;;)
	{
		long		timeout = 1000;
		ErrorData  *late;

		/* also if there is always something to read */
		CHECK_FOR_INTERRUPTS();
		if (vcall_poll(c))
			return NULL;
		if (vcall_report_loading(c))
			timeout = LOADING_QUIET;
		late = vcall_check_deadline(c);
		if (late != NULL)
			return late;
		timeout = Max(vcall_time_left(c, timeout), 1);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout,
						 compat_wait_event(&wait_event, "VllmReply"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

void
vcall_wait(ClientCall *c)
{
	ErrorData  *late = wait_or_late(c);

	if (late != NULL)
		ThrowErrorData(late);
}

ErrorData *
vcall_simple_noerror(WireKind kind, const StringInfoData *body, const char *model,
					 int timeout_ms, MemoryContext cxt, CallFrame *f, ClientCall **call)
{
	ClientCall *c = vcall_begin(cxt, kind, body, model, timeout_ms);
	ErrorData  *err;

	*call = c;
	for (;;)
	{
		err = wait_or_late(c);
		if (err == NULL && vcall_next(c, f, &err) && f->final)
			return NULL;
		/* an engine that sends frames without end must not prevent the timeout */
		if (err == NULL)
			err = vcall_check_deadline(c);
		if (err != NULL)
			return err;
	}
}

void
vcall_simple(WireKind kind, const StringInfoData *body, const char *model,
			 int timeout_ms, MemoryContext cxt, CallFrame *f, ClientCall **call)
{
	ErrorData  *err = vcall_simple_noerror(kind, body, model, timeout_ms, cxt, f, call);

	if (err != NULL)
		ThrowErrorData(err);
}

/* ---- without a ClientCall ---- */

static bool
post_to(int side, WireKind kind, const char *body, size_t len)
{
	uint32		size = vllm_geometry.ring_size;
	WireMsg		m;
	uint64		sum;
	VslotClaim	claim = {.kind = kind,.for_side = side};
	VslotResult r = vslot_try_claim(&claim);
	WireSlot   *w;
	char	   *ring;

	if (r == VSLOT_NO_ENGINE)
		return true;			/* a new engine has nothing to forget */
	if (r != VSLOT_OK)
		return false;
	m = wire_head(kind, 0, len, claim.gen, 0);
	sum = WIRE_CHECKED ? wire_sum(&m, body) : 0;
	w = wire_slot(&vllm_arenas[claim.side], claim.slot);
	ring = wire_req_ring(&vllm_arenas[claim.side], claim.slot);
	(void) wire_ring_write(ring, size, 0, 0, &m, sizeof(m));
	(void) wire_ring_write(ring, size, sizeof(m), 0, body, len);
	(void) wire_ring_write(ring, size, sizeof(m) + len, 0, &sum, WIRE_TRAILER);
	atomic_store_explicit(&w->req_head, sizeof(m) + m.len, memory_order_release);
	vslot_release(claim.slot, claim.gen, VSLOT_POST);
	return true;
}

bool
vclient_post(WireKind kind, const char *body, size_t len)
{
	VllmShared *s = vllm_shared;
	int			side;
	bool		both;

	if (s == NULL || MyProc == NULL || sizeof(WireMsg) + len + WIRE_TRAILER > vllm_geometry.ring_size / 2)
		return false;
	if (request_is_remote(body, len))
		return post_to(VLLM_REMOTE_SIDE, kind, body, len);
	LWLockAcquire(s->lock, LW_SHARED);
	side = (int) pg_atomic_read_u32(&s->side);
	/* the engine that is being prepared may have the model by now, too */
	both = s->second_up && (s->upgrade == VUP_READY || s->upgrade == VUP_SWITCH);
	LWLockRelease(s->lock);
	/* to forget twice does no harm */
	return post_to(side, kind, body, len) && (!both || post_to(1 - side, kind, body, len));
}

VclientCancel
vclient_cancel_request(int64 id, bool (*may) (Oid role))
{
	VllmShared *s = vllm_shared;
	int			slot = -1;
	Oid			role = InvalidOid;
	bool		found;

	LWLockAcquire(s->lock, LW_SHARED);
	for (int i = 0; i < s->n_all && slot < 0; i++)
		if (s->owners[i].kind == VO_OWNED && s->owners[i].request_id == id)
		{
			slot = i;
			role = s->owners[i].roleid;
		}
	LWLockRelease(s->lock);
	if (slot < 0)
		return VCANCEL_UNKNOWN;
	/* reads the catalogs, so not under the lock */
	if (!may(role))
		return VCANCEL_DENIED;
	LWLockAcquire(s->lock, LW_EXCLUSIVE);
	found = s->owners[slot].kind == VO_OWNED && s->owners[slot].request_id == id;
	if (found)
	{
		s->owners[slot].cancelled = true;
		atomic_store(&wire_slot(&vllm_arenas[s->owners[slot].side], slot)->cancel, 1);
		s->cancels++;
	}
	LWLockRelease(s->lock);
	if (!found)
		return VCANCEL_UNKNOWN;
	vslot_ring_engine(slot);
	return VCANCEL_DONE;
}

/* ---- messages ---- */

static void
append_stringinfo(void *ctx, const void *data, size_t n)
{
	appendBinaryStringInfo((StringInfo) ctx, data, n);
}

WireOut
vclient_out(StringInfo s)
{
	WireOut		o = {append_stringinfo, s};

	return o;
}

void
vclient_put_identity(WireOut *o)
{
	wire_put_int(o, WTAG_DATABASE, MyDatabaseId);
	wire_put_int(o, WTAG_ROLE, GetUserId());
	/* a pid may be reused, hence the start time */
	wire_put_int(o, WTAG_SESSION, (int64) MyProcPid << 32 ^ (MyStartTimestamp & 0xffffffff));
	if (vllm_sleep_requests[0] == 'w')
		wire_put_int(o, WTAG_SLEEP_WAIT, 1);
	vclient_put_account(o);
	request_note_put_trace(o);
}
