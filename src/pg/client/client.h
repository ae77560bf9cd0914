/*
 * client.h
 *	  The backend's end of a conversation with the engine.
 *
 * A ClientCall is one request in flight.  The batch node keeps many; the plain functions keep one.
 * Every ClientCall belongs to a memory context.  A reset callback on the context cancels the
 * ClientCall on every path on which the context ends (ERROR, query cancel, statement_timeout,
 * ROLLBACK TO, closed cursor, end of query); before_shmem_exit covers FATAL.  The callback neither
 * throws nor allocates.
 *
 * Life: vcall_begin() claims a slot, vcall_poll() moves bytes both ways without blocking,
 * vcall_next() returns reply frames, vcall_end() releases the slot.  vcall_wait() waits for one call;
 * a caller with many in flight (wait.c) polls all of them and sleeps on the same latch.
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

/* A reply frame; its fields point into the call's memory until the next vcall_next(). */
typedef struct CallFrame
{
	WireFrame	kind;
	bool		final;
	const char *data;			/* fields: read with WireIn/wire_next */
	size_t		len;
} CallFrame;

/*
 * Wait (with interrupts) while the engine is starting, for at most vllm.engine_timeout.  ERROR if the
 * library is not preloaded, or if there is no engine then: 57P03 with the supervisor's last error as
 * detail and a hint to the server log.
 */
void		vclient_require_engine(void);
/* Check only that an engine may run: ERROR 55000 with vllm.engine = off. */
void		vclient_require_switched_on(void);
/*
 * Like vclient_require_engine(), for the program that serves the message: the remote program if
 * request_is_remote().
 */
void		vclient_require_for(const StringInfoData *body);
/* Return true if the program is ready.  Never waits. */
bool		vclient_is_ready(bool remote);
/*
 * Send conversations about local models that begin from now on to the engine on that side; -1 = the
 * engine that serves.
 */
void		vclient_select_side(int side);

/*
 * Start a conversation.  body has the message's fields (wire_put_* into a StringInfo, see
 * vclient_out()); it must stay valid until vcall_end().  Waits for a free slot for at most
 * vllm.queue_timeout (ERROR 53300 afterwards).  timeout_ms > 0: ERROR 57014 from vcall_wait() when
 * the call takes longer.  model is for llm_requests only.
 */
ClientCall *vcall_begin(MemoryContext cxt, WireKind kind, const StringInfoData *body,
						const char *model, int timeout_ms);

/*
 * Change the call's state.  All changes go through this function; a transition that is not allowed is
 * a bug in this library (ipc/call_state.h).
 */
void		vcall_set_state(ClientCall *c, WireCallState to);

/* Return true if a message is short enough to be sent; sending a longer one is an ERROR. */
bool		vcall_fits(const StringInfoData *body);

/*
 * vcall_begin() in two steps, for a caller that has many conversations one after the other.  A
 * ClientCall that is not in a conversation (new, or after vcall_end()) can be started again and again
 * without allocating a new one.  Without wait_slot: return false at once when no slot is free, and
 * defer the engine's doorbell to the next vslot_ring_now() (slots.h).
 */
ClientCall *vcall_make(MemoryContext cxt);
bool		vcall_start(ClientCall *c, WireKind kind, const StringInfoData *body,
						const char *model, int timeout_ms, bool wait_slot);

/*
 * Switch off wakes while the caller polls the call repeatedly without sleeping (quiet).  Before
 * sleeping, the caller must switch them on again, then call vslot_listening(), then vcall_poll().  No
 * effect while the request is still being sent.
 */
void		vcall_set_polling(ClientCall *c, bool quiet);

int64		vcall_request_id(const ClientCall *c);
/* Return true if the error that ended the call says that another model may serve the request. */
bool		vcall_error_is_fallbackable(const ClientCall *c);
/* Return true if an endpoint may have charged for the request. */
bool		vcall_charged(const ClientCall *c);
/* Return the cost of a call that has ended (spend.h). */
int64		vcall_cost(const ClientCall *c);

/* Move bytes; return true if a frame is ready for vcall_next() or the call has failed. */
bool		vcall_poll(ClientCall *c);

/*
 * Get the next frame; return false if none is complete yet.  A WF_ERROR frame, a lost engine (58000,
 * hint to retry) and a corrupt reply set *err, which the caller throws with ThrowErrorData() when the
 * row is due.
 */
bool		vcall_next(ClientCall *c, CallFrame *f, ErrorData **err);

/*
 * Block until vcall_poll(c) returns true.  Handles the latch, interrupts, postmaster death and the
 * deadline (ERROR), and sends NOTICEs about a model that is being loaded.
 */
void		vcall_wait(ClientCall *c);

/*
 * For a loop that waits for many calls with vcall_poll() instead of vcall_wait().
 *
 * vcall_report_loading(): send the NOTICE about a model that is being loaded, if one is due; return
 * true if the caller has to call again after LOADING_QUIET ms.  vcall_time_left(): return the ms
 * until the deadline, at most `most`.  vcall_check_deadline(): after the deadline, end the call and
 * return the error (for ThrowErrorData), else return NULL.  vcall_time_from_now(): start the timeout
 * of a call that was begun without timeout_ms.
 */
#define LOADING_QUIET	100		/* ms that a load may take before the first NOTICE */
bool		vcall_report_loading(ClientCall *c);
long		vcall_time_left(const ClientCall *c, long most);
ErrorData  *vcall_check_deadline(ClientCall *c);
void		vcall_time_from_now(ClientCall *c, int timeout_ms);

/*
 * Release the slot, and cancel the request if it is unfinished.  Safe to call twice; c is freed with
 * its context.
 */
void		vcall_end(ClientCall *c);

/* Submit a request, skip to the final frame and return it (text deltas are not collected). */
void		vcall_simple(WireKind kind, const StringInfoData *body, const char *model,
						 int timeout_ms, MemoryContext cxt, CallFrame *f, ClientCall **call);

/* Like vcall_simple(), but return the request's error. */
ErrorData  *vcall_simple_noerror(WireKind kind, const StringInfoData *body, const char *model,
								 int timeout_ms, MemoryContext cxt, CallFrame *f, ClientCall **call);

/*
 * Post a message whose reply no backend reads (WK_MODEL_FORGET at the end of a transaction).  Take a
 * slot if one is free, write the fields (at most half a ring), ring the doorbell and leave the slot
 * to the supervisor, which reaps it when the engine has closed it; the request is not cancelled.
 * Never throws, waits or allocates.  Return false if no slot is free or the message is too long; true
 * if there is no engine, as there is nothing to forget then.
 */
bool		vclient_post(WireKind kind, const char *body, size_t len);

/*
 * llm_cancel(): if may(role of its owner), set cancel on the slot that runs request `id` and ring the
 * doorbell; the owner's call then fails with 57014.  Setting it checks the slot again under the
 * slots' lock, as the slot may have changed hands.
 */
typedef enum VclientCancel
{
	VCANCEL_UNKNOWN = 0,		/* no such request is running */
	VCANCEL_DENIED,
	VCANCEL_DONE
} VclientCancel;
VclientCancel vclient_cancel_request(int64 id, bool (*may) (Oid role));

/* Return a WireOut that appends to a StringInfo. */
WireOut		vclient_out(StringInfo s);
/* Mark this process as one that sends requests for other roles, in the background: a job worker. */
void		vclient_set_background(void);
/* Append the role whose share and limits the request counts for, and those limits (role_limits.c). */
void		vclient_put_account(WireOut *o);
/* Return the largest max_tokens that the role may ask for; 0 = any number. */
int			vclient_role_max_tokens(void);
/*
 * Return the role whose limits apply to requests of this session; InvalidOid if no limit makes them
 * wait.
 */
Oid			vclient_limited_role(void);
/* Return the role that requests count for; InvalidOid for those of a job worker. */
Oid			vclient_login_role(void);
/*
 * Return the role whose account a request is charged to, and its budget (0 = none) in *most and
 * *window.  role: the request's; a job worker has looked up its budget when it made the request.
 */
Oid			vclient_cost_limits(Oid role, double *most, CostWindow *window);
bool		vclient_is_background(void);
/* Append the DATABASE, ROLE and SESSION fields, and those that the scheduler needs. */
void		vclient_put_identity(WireOut *o);

/*
 * Make the hint of a WK_GENERATE call's error; hint may be NULL.  Set by _PG_init().  detail:
 * "parameter=NAME..."
 */
extern const char *(*vcall_generate_hint) (const char *detail, const char *hint);
/* Called at the exit of the backend: futures.c ends its calls, which outlive transactions. */
extern void (*vclient_exit) (void);

#endif
