/*
 * client.h
 *	  A backend's side of a conversation with the engine.
 *
 * A Call is one request in flight.  The batch node keeps many; the plain
 * functions keep one.  Every ClientCall is owned by a memory context: a reset callback
 * on it cancels the ClientCall on whatever path the context dies (ERROR, query cancel,
 * statement_timeout, ROLLBACK TO, closed cursor, end of query), and
 * before_shmem_exit covers FATAL.  The callback neither throws nor allocates.
 *
 * Life: vcall_begin() claims a slot, vcall_poll()
 * moves bytes both ways without blocking, vcall_next() hands out reply frames,
 * vcall_end() releases.  vcall_wait() waits for one call; who has many in flight
 * (wait.c) polls all of them and sleeps on the same latch.
 */
#ifndef VLLM_PG_CLIENT_CLIENT_H
#define VLLM_PG_CLIENT_CLIENT_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/palloc.h"

#include "pg/compat.h"
#include "pg/client/spend.h"
#include "ipc/call_state.h"
#include "ipc/wire.h"

typedef struct ClientCall ClientCall;

/* A reply frame; fields point into the call's memory until the next vcall_next(). */
typedef struct CallFrame
{
	WireFrame	kind;
	bool		final;
	const char *data;			/* fields: read with WireIn/wire_next */
	size_t		len;
} CallFrame;

/*
 * Errors out unless the library is preloaded and an engine is there: waits (with
 * interrupts) while it is starting, at most vllm.engine_timeout, then ERROR 57P03
 * with the supervisor's last error as detail and a hint to the server log.
 */
void		vclient_require_engine(void);
/* Checks only that there will be an engine: ERROR 55000 with vllm.engine = off. */
void		vclient_require_switched_on(void);
/* The engine, or the remote program, for a message that request_is_remote(). */
void		vclient_require_for(const StringInfoData *body);
/* Is it there?  Never waits. */
bool		vclient_is_ready(bool remote);
/*
 * Whom conversations about local models are for that begin from now on: the engine on that side; -1 = the one
 * that serves.
 */
void		vclient_select_side(int side);

/*
 * Start a conversation.  body: the message's fields (wire_put_* into a
 * StringInfo, see vclient_out()); it must stay valid until vcall_end().
 * Waits for a free slot at most vllm.queue_timeout (ERROR 53300 afterwards).
 * timeout_ms: > 0: ERROR 57014 from vcall_wait() when the call takes longer.
 * model: for llm_requests only.
 */
ClientCall *vcall_begin(MemoryContext cxt, WireKind kind, const StringInfoData *body,
						const char *model, int timeout_ms);

/* The only way to another state; one that may not follow is a bug of ours (ipc/call_state.h). */
void		vcall_set_state(ClientCall *c, WireCallState to);

/* Is a message short enough to be sent?  ERROR otherwise when it is. */
bool		vcall_fits(const StringInfoData *body);

/*
 * The same in two steps, for who has many conversations one after the other: a
 * Call that is not in one (new, or after vcall_end()) can be started, again and
 * again, without taking memory.  Without wait_slot: false at once when no slot is free,
 * and the engine hears of the call with the next vslot_ring_now() (slots.h).
 */
ClientCall *vcall_make(MemoryContext cxt);
bool		vcall_start(ClientCall *c, WireKind kind, const StringInfoData *body,
						const char *model, int timeout_ms, bool wait_slot);

/*
 * For who looks at the call again and again without sleeping: no wakes, please; to be
 * taken back, and followed by vslot_listening() and a vcall_poll(), before sleeping.
 * A request that is still being sent stays as it is.
 */
void		vcall_set_polling(ClientCall *c, bool quiet);

int64		vcall_request_id(const ClientCall *c);
/* Does the error that it has ended with say that another model may well answer? */
bool		vcall_error_is_fallbackable(const ClientCall *c);
/* May an endpoint have charged for the request? */
bool		vcall_charged(const ClientCall *c);
/* Of one that has ended (spend.h). */
int64		vcall_cost(const ClientCall *c);

/* Move bytes; true if a frame is ready for vcall_next() or the call has failed. */
bool		vcall_poll(ClientCall *c);

/*
 * The next frame, false if none is complete yet.  A WF_ERROR frame, a lost engine (58000, hint to retry)
 * and a corrupt reply are *err, to be thrown with ThrowErrorData() when the row is due.
 */
bool		vcall_next(ClientCall *c, CallFrame *f, ErrorData **err);

/* Block until vcall_poll(c): latch, interrupts, postmaster death, deadline,
 * NOTICEs about a model that is being loaded. */
void		vcall_wait(ClientCall *c);

/*
 * For a loop that waits for many calls, with vcall_poll(), instead of vcall_wait().
 * vcall_tell_loading(): the NOTICE about a model that is being loaded, if one is due;
 * true: look again after LOADING_QUIET ms.  vcall_time_left(): ms until the deadline,
 * at most `most`.  vcall_check_deadline(): past the deadline the call is ended and the error
 * returned (for ThrowErrorData), else NULL.  vcall_time_from_now(): the time of a call
 * that was begun without timeout_ms counts from now on.
 */
#define LOADING_QUIET	100		/* ms that a load may take without a NOTICE */
bool		vcall_tell_loading(ClientCall *c);
long		vcall_time_left(const ClientCall *c, long most);
ErrorData  *vcall_check_deadline(ClientCall *c);
void		vcall_time_from_now(ClientCall *c, int timeout_ms);

/* Release; cancels if unfinished.  Safe to call twice; c is freed with its context. */
void		vcall_end(ClientCall *c);

/* Submit, skip to the final frame, return it (text deltas are not collected). */
void		vcall_simple(WireKind kind, const StringInfoData *body, const char *model,
						 int timeout_ms, MemoryContext cxt, CallFrame *f, ClientCall **call);

/* The same; an error of the request is returned. */
ErrorData  *vcall_simple_noerror(WireKind kind, const StringInfoData *body, const char *model,
								 int timeout_ms, MemoryContext cxt, CallFrame *f, ClientCall **call);

/*
 * Post a message nobody waits for (WK_MODEL_FORGET at the end of a transaction):
 * takes a slot if one is free, writes the fields (at most half a ring), rings and
 * leaves the slot to the supervisor, which reaps it when the engine has closed
 * it; it is not cancelled.  Never throws, never waits, never allocates; false:
 * no slot or no engine.  An engine that is not there has nothing to forget.
 */
bool		vclient_post(WireKind kind, const char *body, size_t len);

/*
 * llm_cancel(): set cancel on the slot that runs request `id` and ring, if
 * may(role of its owner); the owner's call then fails with 57014.  All under the
 * slots' lock, so that the slot can't change hands.
 */
typedef enum VclientCancel
{
	VCANCEL_UNKNOWN = 0,		/* no such request is running */
	VCANCEL_DENIED,
	VCANCEL_DONE
} VclientCancel;
VclientCancel vclient_cancel_request(int64 id, bool (*may) (Oid role));

/* A WireOut that appends to a StringInfo. */
WireOut		vclient_out(StringInfo s);
/* This process asks for others, in the background: a worker of jobs. */
void		vclient_set_background(void);
/* Whose share and limits the request counts for (role_limits.c). */
void		vclient_put_account(WireOut *o);
/* The most max_tokens that it may ask for; 0 = any number. */
int			vclient_role_max_tokens(void);
/* The role whose limits hold for requests of this session; InvalidOid: none wait for any. */
Oid			vclient_limited_role(void);
/* The role that requests count for; none: those of a worker of jobs. */
Oid			vclient_login_role(void);
/*
 * Whose account it is, and what it may spend: 0 = any sum.  role: as the request says; a worker of jobs has
 * looked when it made the request.
 */
Oid			vclient_cost_limits(Oid role, double *most, CostWindow *window);
bool		vclient_is_for_others(void);
/* DATABASE, ROLE, SESSION fields, and what the scheduler has to know. */
void		vclient_put_identity(WireOut *o);

/*
 * The hint of a WK_GENERATE call's error, which may be NULL; set by _PG_init().  detail:
 * "parameter=NAME..."
 */
extern const char *(*vcall_generate_hint) (const char *detail, const char *hint);
/* At the end of the backend: futures.c ends its calls, which outlive transactions. */
extern void (*vclient_exit) (void);

#endif
