/*
 * server_call.h
 *	  One conversation: a slot's request message coming in, its reply frames
 *	  going out (ipc_server/channel.h), and what the engine does in between.
 *
 * Field				owner
 * ch					as channel.h says; who receives is the server thread
 * id, tell*			constant
 * stage ..				server thread; who asks, as req has it, is constant and may be read by any
 * text, ids, last		the thread that calls sinks, from submit to the finishing event
 * answer				the same; before, the job's that makes it
 * in_core				set by the server before submit, cleared by the step
 *						thread as its last touch: then the server may free
 *
 * A conversation is OPEN until its final frame is wholly in the reply ring or it
 * is dropped (cancel, corrupt slot); from then on the slot is never touched.
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
 * A frame of an inner conversation; kind 0: it was dropped.  Any thread, under the
 * conversation's lock; must not block.
 */
typedef void (*ServerCallTell) (ServerCall *c, int kind, const Buf *fields, bool final);

typedef enum ServerCallStage
{
	SCALL_RECEIVING = 0,
	SCALL_LOADING,				/* waits for its model's load */
	SCALL_LORA,					/* waits for its adapter's load */
	SCALL_ASLEEP,				/* waits for its model to wake */
	SCALL_BUSY,					/* a job works for it */
	SCALL_RUNNING				/* submitted to the backend */
} ServerCallStage;

struct ServerCall
{
	Channel		ch;
	uint64_t	id;				/* unique in the engine's life */

	/* server thread */
	struct Server *srv;
	ServerCall *next;			/* in closed_pending */
	ServerCallStage stage;
	struct Request *req;
	struct ModelEntry *entry;		/* holds a reference */
	/* RUNNING: pinned, it was left behind there (weight_update.c); NULL = on its entry's */
	struct ModelInstance *on;
	struct Lora *lora;			/* pinned while RUNNING; NULL = the model alone */
	const struct LoraAdapter *adapter;	/* lora's, for the core */
	ServerCall *lora_next;		/* while it waits for one */
	char	   *lora_print;		/* fingerprint of the adapter's files while it waits for a place */
	int64_t		lora_bytes;		/* size of the adapter's file */
	int64_t		lora_asked_us;	/* time since when there is no memory for the adapter; 0 = there is */
	bool		job_busy;		/* a job points here */
	int64_t		told_us;		/* last WF_PROGRESS */
	double		told;			/* its figure */

	/* the thread that calls sinks */
	Buf			text;			/* answer so far (not streamed) */
	IntVec		ids;
	struct Answer *answer;		/* takes the text apart; NULL: text is text */
	struct Replies *replies;	/* instead, of several answers or with log-probabilities; else NULL */
	struct StreamHold *hold;	/* puts events together; NULL: each is told */
	ServerCall *dirty_next;
	bool		dirty;
	bool		stream;			/* set by the server before submit */
	bool		want_ids;
	HistState	hist;
	Buf			last;			/* fields of the final frame, staged */
	int			last_kind;		/* WireFrame, 0 = none; -1 = close without a frame */

	_Atomic bool in_core;

	/* an inner conversation, of an API call: it has no slot, its frames go to tell() */
	ServerCallTell tell;			/* NULL: it has a slot */
	void	   *tell_ctx;
	int			tell_item;
	struct ApiCall *api;		/* WK_API; server thread */
};

ServerCall *scall_new(Link *l, uint32_t slot, uint32_t gen, uint64_t id);
/* One without a slot, whose message is whole. */
ServerCall *scall_new_inner(Link *l, uint64_t id, ServerCallTell tell, void *ctx, int item);
void		scall_free(ServerCall *c);	/* closed and not referenced by anyone */

/* All below: any thread. */
bool		scall_is_open(ServerCall *c);
/* Open and without a final frame: worth working for. */
bool		scall_is_active(ServerCall *c);
/* Move reply bytes into the ring; wakes the backend when it has to act. */
void		scall_pump(ServerCall *c);
/* Queue a frame; wake: tell the backend now. */
void		scall_frame(ServerCall *c, WireFrame kind, const Buf *fields, bool wake);
/* Queue the final frame, unless one is queued already.  False: it was. */
bool		scall_end(ServerCall *c, WireFrame kind, const Buf *fields);
bool		scall_end_error(ServerCall *c, const Err *e);
/* Let go of the slot at once, without a frame (cancelled, corrupt). */
void		scall_drop(ServerCall *c);
void		scall_phase(ServerCall *c, WirePhase phase);

/* False: nobody is interested any more. */
bool		scall_live(ServerCall *c, const ChanLive *v);

#endif
