/*
 * call_state.h
 *	  How far a conversation is, as each side keeps it privately: the states and which may follow which.
 *
 * Both ends go through them: ClientCall of a backend (pg/client/client.c), and the Channel of ServerCall in
 * the engine and of RemoteServerCall in the remote program (ipc_server/channel.c).  What the slot's words say
 * is another matter: these may have been written over, and are checked (wire.h).
 *
 *	state		backend								program
 *	NONE		has no slot							before chan_init()
 *	CLAIMED		has a slot							-
 *	SENDING		the message isn't all in the ring	the message isn't all here
 *	RUNNING		waits for frames					works on it
 *	FINAL		has the last frame, or an error		the last frame is queued, and not all in the ring
 *	CLOSED		the slot was given back				let go of the slot, or it was another's
 */
#ifndef VLLM_IPC_CALL_STATE_H
#define VLLM_IPC_CALL_STATE_H

#include <stdbool.h>

typedef enum WireCallState
{
	WC_NONE = 0,
	WC_CLAIMED,
	WC_SENDING,
	WC_RUNNING,
	WC_FINAL,
	WC_CLOSED,
	WC_N_STATES
} WireCallState;

/* May a conversation go from one to the other? */
static inline bool
wire_call_may_follow(WireCallState from, WireCallState to)
{
#define TO(s) (1u << WC_##s)
	static const unsigned next[WC_N_STATES] = {
		[WC_NONE] = TO(CLAIMED),
		[WC_CLAIMED] = TO(SENDING) | TO(CLOSED),
		/* a message that is refused before it is whole; a slot that is lost */
		[WC_SENDING] = TO(RUNNING) | TO(FINAL) | TO(CLOSED),
		[WC_RUNNING] = TO(FINAL) | TO(CLOSED),
		[WC_FINAL] = TO(CLOSED),
		/* a ClientCall may begin again */
		[WC_CLOSED] = TO(CLAIMED)
	};
#undef TO

	return from < WC_N_STATES && to < WC_N_STATES && (next[from] & 1u << to) != 0;
}

#endif
