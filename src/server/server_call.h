/*
 * conv.h
 *	  One conversation: a slot's request message coming in, its reply frames
 *	  going out (talk/chan.h), and what the engine does in between.
 *
 * Field				owner
 * ch					as chan.h says; who receives is the server thread
 * id, tell*			constant
 * stage ..				server thread
 * text, ids, last		the thread that calls sinks, from submit to the finishing event
 * in_core				set by the server before submit, cleared by the step
 *						thread as its last touch: then the server may free
 *
 * A conversation is OPEN until its final frame is wholly in the reply ring or it
 * is dropped (cancel, corrupt slot); from then on the slot is never touched.
 */
#ifndef VLLM_ENGINE_CONV_H
#define VLLM_ENGINE_CONV_H

#include "engine/hist.h"
#include "talk/chan.h"
#include "wire/traceparent.h"

typedef struct Conv Conv;
struct Server;
struct Request;
struct Entry;

/*
 * A frame of an inner conversation; kind 0: it was dropped.  Any thread, under the
 * conversation's lock; must not block.
 */
typedef void (*ConvTell) (Conv *c, int kind, const Buf *fields, bool final);

typedef enum ConvStage
{
	CONV_RECEIVING = 0,
	CONV_LOADING,				/* waits for its model's load */
	CONV_LORA,					/* ... for its adapter's */
	CONV_ASLEEP,				/* waits for its model to wake */
	CONV_BUSY,					/* a job works for it */
	CONV_RUNNING				/* submitted to the backend */
} ConvStage;

struct Conv
{
	Chan		ch;
	uint64_t	id;				/* unique in the engine's life */

	/* server thread */
	struct Server *srv;
	Conv	   *next;			/* limbo list */
	ConvStage	stage;
	struct Request *req;
	struct Entry *entry;		/* holds a reference */
	struct Loaded *on;			/* RUNNING: pinned, it was left behind there (update.c); NULL = on its entry's */
	struct Lora *lora;			/* likewise; NULL = the model alone */
	Conv	   *lora_next;		/* while it waits for one */
	char	   *lora_print;		/* ... for a place: what it has found at the path, */
	int64_t		lora_bytes;		/* ... how large the file is, */
	int64_t		lora_asked_us;	/* ... and since when there has been no room for it; 0 = there was */
	bool		job_busy;		/* a job points here */
	int64_t		told_us;		/* last WF_PROGRESS */
	double		told;			/* its figure */

	/* the thread that calls sinks */
	Buf			text;			/* answer so far (not streamed) */
	IntVec		ids;
	struct Answer *answer;		/* takes the text apart; NULL: text is text */
	struct Replies *replies;	/* instead, of several answers or with log-probabilities; else NULL */
	struct StreamHold *hold;	/* puts events together; NULL: each is told */
	Conv	   *dirty_next;
	bool		dirty;
	bool		stream;			/* set by the server before submit */
	bool		want_ids;
	HistState	hist;
	char		traceparent[TRACEPARENT_LEN + 1];	/* set by the server before submit; '' = none */
	char		lora_name[WIRE_NAME_LEN];	/* likewise */
	int			pid;			/* likewise: of the session */
	Buf			last;			/* fields of the final frame, staged */
	int			last_kind;		/* WireFrame, 0 = none; -1 = close without a frame */

	_Atomic bool in_core;

	/* an inner conversation, of an API call: it has no slot, its frames go to tell() */
	ConvTell	tell;			/* NULL: it has a slot */
	void	   *tell_ctx;
	int			tell_item;
	struct ApiCall *api;		/* WK_API; server thread */
};

Conv	   *conv_new(Link *l, uint32_t slot, uint32_t gen, uint64_t id);
/* One without a slot, whose message is whole. */
Conv	   *conv_new_inner(Link *l, uint64_t id, ConvTell tell, void *ctx, int item);
void		conv_free(Conv *c);	/* closed and not referenced by anyone */

/* All below: any thread. */
bool		conv_is_open(Conv *c);
/* Open and without a final frame: worth working for. */
bool		conv_is_active(Conv *c);
/* Move reply bytes into the ring; wakes the backend when it has to act. */
void		conv_pump(Conv *c);
/* Queue a frame; wake: tell the backend now. */
void		conv_frame(Conv *c, WireFrame kind, const Buf *fields, bool wake);
/* Queue the final frame, unless one is queued already.  False: it was. */
bool		conv_end(Conv *c, WireFrame kind, const Buf *fields);
bool		conv_end_error(Conv *c, const Err *e);
/* Let go of the slot at once, without a frame (cancelled, corrupt). */
void		conv_drop(Conv *c);
void		conv_phase(Conv *c, WirePhase phase);

/* False: nobody is interested any more. */
bool		conv_live(Conv *c, const ChanLive *v);

#endif
