/*
 * server_call.h
 *	  One server call: the request message of a slot, its reply frames (ipc_server/channel.h), and the
 *	  state of the request in the engine.
 *
 * Field				owner
 * ch					see channel.h; the server thread receives
 * id, emit*			constant
 * stage ..			server thread; the caller in req is constant and may be read by any thread
 * text, ids, last		the thread that calls sinks, from submission to the finishing event
 * answer				the same; before, the job that makes it
 * in_core				set by the server before submission, cleared by the step
 *					thread as its last access: then the server may free the call
 *
 * A call is OPEN until its final frame is completely in the reply ring, or until it is dropped
 * (cancelled, corrupt slot).  After that the slot is never accessed.
 */
#ifndef VLLM_SERVER_SERVER_CALL_H
#define VLLM_SERVER_SERVER_CALL_H

#include "server/request_histograms.h"
#include "ipc_server/channel.h"

typedef struct ServerCall ServerCall;
struct Server;
struct Request;
struct ModelEntry;

/*
 * Receives the frames of an inner call; kind 0: the call was dropped.  Any thread, under the call's
 * lock; must not block.
 */
typedef void (*ServerCallEmit) (ServerCall *c, int kind, const Buf *fields, bool final);

typedef enum ServerCallStage
{
	SCALL_RECEIVING = 0,
	SCALL_PLACE,				/* waits until the registry has a place for its model */
	SCALL_LOADING,				/* waits for its model's load */
	SCALL_LORA,					/* waits for its adapter's load */
	SCALL_ASLEEP,				/* waits for its model to wake */
	SCALL_BUSY,					/* a job processes it */
	SCALL_RUNNING				/* submitted to the backend */
} ServerCallStage;

struct ServerCall
{
	Channel		ch;
	uint64_t	id;				/* unique in the engine process */

	/* server thread */
	struct Server *srv;
	ServerCall *next;			/* list closed_pending */
	ServerCallStage stage;
	struct Request *req;
	struct ModelEntry *entry;		/* holds a reference */
	/*
	 * RUNNING: the pinned instance that it stayed on after an update (weight_update.c); NULL = its
	 * entry's instance
	 */
	struct ModelInstance *on;
	struct Lora *lora;			/* pinned while RUNNING; NULL = no adapter */
	const struct LoraAdapter *adapter;	/* the adapter of lora, for the core */
	ServerCall *lora_next;		/* list of requests that wait for an adapter */
	char	   *lora_print;		/* fingerprint of the adapter's files while it waits for a place */
	int64_t		lora_bytes;		/* size of the adapter's file */
	int64_t		lora_waiting_us; /* time since when there is no memory for the adapter; 0 = there is */
	bool		job_busy;		/* a job has a pointer to this call */
	int64_t		place_us;		/* PLACE: since when it waits */
	int64_t		progress_us;	/* time of the last WF_PROGRESS */
	double		progress_sent;	/* its value */

	/* owned by the thread that calls sinks */
	Buf			text;			/* output so far (if not streamed) */
	IntVec		ids;
	struct Answer *answer;		/* splits the output; NULL: it is not split */
	struct Replies *replies;	/* used instead for several choices or log-probabilities; else NULL */
	struct StreamHold *hold;	/* merges events; NULL: each event is sent */
	ServerCall *dirty_next;
	bool		dirty;
	bool		stream;			/* set by the server before submission */
	bool		want_ids;
	HistState	hist;
	Buf			last;			/* fields of the staged final frame */
	int			last_kind;		/* WireFrame, 0 = none; -1 = close without a frame */

	_Atomic bool in_core;

	/* inner call, of an API call: it has no slot, and its frames go to emit() */
	ServerCallEmit emit;			/* NULL: it has a slot */
	void	   *emit_ctx;
	int			emit_item;
	struct ApiCall *api;		/* for WK_API; server thread only */
};

ServerCall *scall_new(Link *l, uint32_t slot, uint32_t gen, uint64_t id);
/* Make a call without a slot, whose message is complete. */
ServerCall *scall_new_inner(Link *l, uint64_t id, ServerCallEmit emit, void *ctx, int item);
void		scall_free(ServerCall *c);	/* the call must be closed and unused */

/* The functions below may be called on any thread. */
bool		scall_is_open(ServerCall *c);
/* Is it open and without a final frame, so that it is worth processing? */
bool		scall_is_active(ServerCall *c);
/* Move reply bytes into the ring; wake the backend if it has to act. */
void		scall_pump(ServerCall *c);
/* Queue a frame.  wake: wake the backend now. */
void		scall_frame(ServerCall *c, WireFrame kind, const Buf *fields, bool wake);
/* Queue the final frame, unless one is queued already.  Returns false if it was. */
bool		scall_end(ServerCall *c, WireFrame kind, const Buf *fields);
bool		scall_end_error(ServerCall *c, const Err *e);
/* Release the slot at once, without a frame (cancelled, corrupt). */
void		scall_drop(ServerCall *c);
void		scall_phase(ServerCall *c, WirePhase phase);

/* Update the live counters.  Returns false if no client is interested any more. */
bool		scall_live(ServerCall *c, const ChanLive *v);

#endif
