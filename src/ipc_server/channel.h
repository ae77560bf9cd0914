/*
 * channel.h
 *	  The server's end of a conversation: receives a slot's request message and sends its reply frames.
 *	  Shared by the engine and the remote program.
 *
 * A channel is open until its final frame is completely in the reply ring or it is dropped (cancel,
 * corrupt slot); from then on it never touches the slot.  Only one thread, the one that polls the slots,
 * may receive; any thread may call the other functions.
 */
#ifndef VLLM_IPC_SERVER_CHANNEL_H
#define VLLM_IPC_SERVER_CHANNEL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/err.h"
#include "ipc/call_state.h"
#include "ipc/wire.h"

/* A program's view of the arena, and its link to the supervisor. */
typedef struct Link
{
	WireArena	arena;
	WireHeader *hdr;			/* in the arena; its geometry is arena.geo */
	int			control_fd;
	pthread_mutex_t wake_lock;	/* serializes writes to the to_worker ring */
} Link;

void		link_init(Link *l, const WireArena *arena, int control_fd);
WireSlot   *link_slot(const Link *l, uint32_t slot);
/*
 * Return true if no backend waits for this generation's conversation any more: the backend has cancelled
 * it, or the program has released the slot.  A released slot is open only if it was damaged, and may be
 * free already.
 */
bool		link_slot_over(const WireSlot *w, uint32_t gen);
/* Wake the thread that sleeps on the doorbell; any thread. */
void		link_ring_doorbell(Link *l);
/* Write one line to the supervisor; the line is dropped if the socket is full. */
void		link_send_line(Link *l, const char *line);

typedef struct Channel
{
	Link	   *link;
	uint32_t	slot;
	uint32_t	gen;
	int64_t		deadline_us;	/* CLOCK_MONOTONIC, 0 = none */
	int			timeout_ms;
	int64_t		arrival_us;
	/* used by the receiving thread only */
	int			kind;			/* WireKind, once the head has arrived */
	uint32_t	req_tail;		/* private copy; the shared one is only published */
	WireMsg		msg;
	size_t		msg_have;
	char	   *in;				/* message body, msg.len bytes when complete */
	size_t		in_len, in_cap;
	/* protected by lock */
	pthread_mutex_t lock;
	WireCallState	state;
	bool		dropped;		/* closed without its final frame */
	uint32_t	rep_head;		/* private copy */
	Buf			out;
	size_t		out_at;			/* bytes of out already in the ring */
} Channel;

typedef enum ChanRead
{
	CHAN_MORE,					/* the message has not arrived completely */
	CHAN_COMPLETE,				/* msg and in[0..msg.len) are complete */
	CHAN_BAD					/* the message is invalid: see *e */
} ChanRead;

/* Start a conversation; c is zeroed memory of the caller. */
void		chan_init(Channel *c, Link *l, uint32_t slot, uint32_t gen);
/* Move to a state that may follow (call_state.h); the caller holds c->lock. */
void		chan_set_state(Channel *c, WireCallState to);
/* Free the buffers of a channel that is closed or will not be used again. */
void		chan_destroy(Channel *c);
ChanRead	chan_receive(Channel *c, Err *e);
/*
 * Return true if the channel was closed without its final frame: it was dropped, or its slot is damaged
 * or has another owner.
 */
bool		chan_was_dropped(Channel *c);
bool		chan_is_open(Channel *c);
/* Return true if the channel is open without a final frame, so the request is worth computing. */
bool		chan_is_active(Channel *c);
/* Move reply bytes into the ring; wakes the backend if it must act. */
void		chan_pump(Channel *c);
/* Queue a frame; wake: wake the backend now. */
void		chan_frame(Channel *c, WireFrame kind, const Buf *fields, bool wake);
/* Queue the final frame; returns false if one was queued already. */
bool		chan_end(Channel *c, WireFrame kind, const Buf *fields);
bool		chan_end_error(Channel *c, const Err *e);
/* Release the slot at once, without a frame (cancelled, corrupt). */
void		chan_drop(Channel *c);
/*
 * Return the reply bytes that the backend has not read yet.  A caller that streams stops reading from
 * its source when this is large.
 */
size_t		chan_backlog(Channel *c);

/*
 * Counters of llm_requests; a negative number leaves a counter unchanged.  chan_live() returns false if
 * the backend has left.
 */
typedef struct ChanLive
{
	int			phase;			/* WirePhase */
	int			prompt_tokens, cached_tokens, computed_tokens, output_tokens, preemptions;
	int64_t		first_token_us;
} ChanLive;
bool		chan_live(Channel *c, const ChanLive *v);

/* Return a WireOut that appends to a Buf. */
WireOut		chan_out(Buf *b);
/* Append SQLSTATE, MESSAGE, DETAIL and HINT. */
void		chan_put_error(Buf *fields, const Err *e);

#endif
