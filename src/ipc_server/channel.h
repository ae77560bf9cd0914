/*
 * channel.h
 *	  The program's end of a conversation: a slot's request message coming in, its reply
 *	  frames going out.  What the engine and the remote program have in common.
 *
 * A channel is OPEN until its final frame is wholly in the reply ring or it is dropped (cancel,
 * corrupt slot); from then on the slot is never touched.  Receiving is one thread's (the one
 * that looks at slots); the rest may be called from any thread.
 */
#ifndef VLLM_IPC_SERVER_CHANNEL_H
#define VLLM_IPC_SERVER_CHANNEL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/err.h"
#include "ipc/call_state.h"
#include "ipc/wire.h"

/* A program's end of the arena. */
typedef struct Link
{
	WireArena	arena;
	WireHeader *hdr;			/* in the arena; its geometry is arena.geo */
	int			control_fd;
	pthread_mutex_t wake_lock;	/* the to_worker ring has one writer at a time */
} Link;

void		link_init(Link *l, const WireArena *arena, int control_fd);
WireSlot   *link_slot(const Link *l, uint32_t slot);
/*
 * Does nobody wait any more for this generation's conversation?  The backend has cancelled it, or the
 * program has let go of it: a slot that was let go is open only by damage, and may be free already.
 */
bool		link_slot_over(const WireSlot *w, uint32_t gen);
/* Make the thread that sleeps on the doorbell look; any thread. */
void		link_ring_doorbell(Link *l);
/* Write one line to the supervisor; dropped if the socket is full. */
void		link_tell(Link *l, const char *line);

typedef struct Channel
{
	Link	   *link;
	uint32_t	slot;
	uint32_t	gen;
	int64_t		deadline_us;	/* CLOCK_MONOTONIC, 0 = none */
	int			timeout_ms;
	int64_t		arrival_us;
	/* the receiving thread */
	int			kind;			/* WireKind once the header is in */
	uint32_t	req_tail;		/* our copy: the shared one is only published */
	WireMsg		msg;
	size_t		msg_have;
	char	   *in;				/* message body, msg.len bytes when complete */
	size_t		in_len, in_cap;
	/* under lock */
	pthread_mutex_t lock;
	WireCallState	state;
	bool		dropped;		/* closed without its final frame */
	uint32_t	rep_head;		/* our copy */
	Buf			out;
	size_t		out_at;			/* bytes of out already in the ring */
} Channel;

typedef enum ChanRead
{
	CHAN_MORE,					/* nothing or not all there */
	CHAN_COMPLETE,				/* msg and in[0..msg.len) are whole */
	CHAN_BAD					/* *e says why */
} ChanRead;

/* Begin: c is zeroed memory of the caller's. */
void		chan_init(Channel *c, Link *l, uint32_t slot, uint32_t gen);
/* Under c->lock: goes on to a state that may follow. */
void		chan_set_state(Channel *c, WireCallState to);
/* Frees buffers; closed, or never to be used again. */
void		chan_destroy(Channel *c);
ChanRead	chan_receive(Channel *c, Err *e);
/* Was it closed without its final frame: dropped, or its slot is damaged or has another owner? */
bool		chan_was_dropped(Channel *c);
bool		chan_is_open(Channel *c);
/* Open and without a final frame: worth working for. */
bool		chan_is_active(Channel *c);
/* Move reply bytes into the ring; wakes the backend when it has to act. */
void		chan_pump(Channel *c);
/* Queue a frame; wake: tell the backend now. */
void		chan_frame(Channel *c, WireFrame kind, const Buf *fields, bool wake);
/* Queue the final frame, unless one is queued already.  False: it was. */
bool		chan_end(Channel *c, WireFrame kind, const Buf *fields);
bool		chan_end_error(Channel *c, const Err *e);
/* Let go of the slot at once, without a frame (cancelled, corrupt). */
void		chan_drop(Channel *c);
/*
 * Reply bytes that the backend has not taken yet: who streams stops reading from its source when this is
 * large.
 */
size_t		chan_backlog(Channel *c);

/* Counters of llm_requests; a negative number leaves a counter alone. False: the caller has left. */
typedef struct ChanLive
{
	int			phase;			/* WirePhase */
	int			prompt_tokens, cached_tokens, computed_tokens, output_tokens, preemptions;
	int64_t		first_token_us;
} ChanLive;
bool		chan_live(Channel *c, const ChanLive *v);

/* A WireOut that appends to a Buf. */
WireOut		chan_out(Buf *b);
/* SQLSTATE, MESSAGE, DETAIL, HINT. */
void		chan_put_error(Buf *fields, const Err *e);

#endif
