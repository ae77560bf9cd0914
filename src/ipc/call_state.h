/*
 * call_state.h
 *	  Private state of a conversation on each side: the states, and which transitions are legal.
 *
 * Both sides use these states: ClientCall in a backend (pg/client/client.c), and Channel, which is part
 * of ServerCall in the engine and of RemoteServerCall in the remote program (ipc_server/channel.c).  They
 * are private memory, unlike the words of the slot, which the other side can overwrite and which readers
 * check (wire.h).
 *
 *	state		backend								program
 *	NONE		has no slot							before chan_init()
 *	CLAIMED		has a slot							-
 *	SENDING		writes the message to the ring		receives the message
 *	RUNNING		waits for frames					works on it
 *	FINAL		has the last frame, or an error		the last frame is queued, but not all in the ring
 *	CLOSED		has released the slot				has released the slot, or lost it
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

/* Return true if a conversation may go from one state to the other. */
static inline bool
wire_call_may_follow(WireCallState from, WireCallState to)
{
#define TO(s) (1u << WC_##s)
	static const unsigned next[WC_N_STATES] = {
		[WC_NONE] = TO(CLAIMED),
		[WC_CLAIMED] = TO(SENDING) | TO(CLOSED),
		/* FINAL: the message is rejected before all of it has arrived; CLOSED: the slot is lost */
		[WC_SENDING] = TO(RUNNING) | TO(FINAL) | TO(CLOSED),
		[WC_RUNNING] = TO(FINAL) | TO(CLOSED),
		[WC_FINAL] = TO(CLOSED),
		/* a ClientCall can be reused */
		[WC_CLOSED] = TO(CLAIMED)
	};
#undef TO

	return from < WC_N_STATES && to < WC_N_STATES && (next[from] & 1u << to) != 0;
}

#endif
