/*
 * slots.h
 *	  Arena slots: who may use which, and telling the engine to look at one.
 *	  The rules of ownership stand in src/pg/shared_state.h.
 */
#ifndef VLLM_PG_CLIENT_SLOTS_H
#define VLLM_PG_CLIENT_SLOTS_H

#include "pg/shared_state.h"
#include "pg/client/request_tracking.h"

typedef enum VslotResult
{
	VSLOT_OK = 0,
	VSLOT_NONE,					/* all are taken */
	VSLOT_NO_ENGINE				/* nobody serves on that side: see vclient_require_engine() */
} VslotResult;

/* What a claim is for (llm_requests shows it) and what came of it. */
typedef struct VslotClaim
{
	WireKind	kind;
	const char *model;			/* NULL = none */
	const RequestTracking *note;	/* NULL = none */
	int			for_side;		/* -1 = the side of the engine that serves */
	/* the role that it counts for, if that has limits: it has at most half of the slots */
	Oid			limited;
	Oid			login;			/* the role that it counts for in any case; none: it takes no spare */
	uint16		of_model;		/* of a remote one: set when it is tried */
	/* out */
	int			slot;
	int			side;
	uint32		gen;
	uint32		epoch;
	int64		request_id;
} VslotClaim;

/* Take a free slot, at once or not at all; never overtakes a waiter that may have it. */
VslotResult vslot_try_claim(VslotClaim *c);
/* The id of a request that needs no slot, as it is answered already. */
int64		vslot_new_request_id(void);
/*
 * How many free slots requests to the remote program, or to the engine, may take now, if `leave` of the pool
 * are left: a guess, nothing is locked.  of_model, of the remote program's: vslot_of_model() of the model's
 * name (NULL = none).
 */
int			vslot_room(bool remote, uint16 of_model, int leave);
uint16		vslot_of_model(const char *model);
/* Slots that requests to endpoints have, spares too; with the lock held. */
int			vslot_remote_used(void);

/*
 * Stand in the queue until a slot is handed over; VSLOT_NONE after timeout_ms.
 * Handles interrupts; on any way out the place in the queue is given up.
 */
VslotResult vslot_wait_claim(VslotClaim *c, int timeout_ms);

/*
 * Called at every wake of vslot_wait_claim(): frees what this backend holds without
 * need (replies that it has not read), else it could wait for itself.  A module that sets it calls the
 * previous one, as with PostgreSQL's hooks.
 */
extern void (*vslot_drain) (void);

typedef enum VslotEnd
{
	VSLOT_FINISHED = 0,			/* the final frame was read: the engine has let go */
	VSLOT_CANCEL,				/* cancel what is unfinished */
	VSLOT_POST					/* let the engine finish, nobody reads the reply */
} VslotEnd;

/*
 * End the ownership that claim `gen` of the slot began.  Neither throws nor
 * allocates; a slot that has changed hands since is left alone.
 */
void		vslot_release(int slot, uint32 gen, VslotEnd end);

/* Everything of this backend: its place in the queue and its slots. */
void		vslot_release_all_mine(void);

/* Tell the engine to look at the slot. */
void		vslot_ring_engine(int slot);
/*
 * For who has many: one doorbell for several slots, by vslot_ring_now() at the latest
 * before the caller sleeps or turns to something else.  (After an ERROR the calls
 * are cancelled, which rings.)
 */
void		vslot_ring_later(int slot);
void		vslot_ring_now(void);

/*
 * The owner of a slot looks at it by itself for a while (quiet), or wants to be woken
 * again: then it has to look once more before it sleeps, behind vslot_listening().
 */
void		vslot_set_polling(int slot, bool quiet);
void		vslot_listening(void);

/* ---- the supervisor's part ---- */

/* Pop the to_worker ring: wake owners, reap zombies; number of slots seen. */
int			vslot_drain_wakes(int side);
/*
 * Look for slots whose words in the arena are damaged, and mend them; does something once a second
 * (slot_care.c).
 */
void		vslot_care_turn(void);
/* Free every zombie that the engine has closed (or that is LOST). */
void		vslot_reap_zombies(void);
/*
 * With the lock held and no engine process alive on that side: its OPEN slots become LOST,
 * its zombies are freed, the slot rings and the list of what to forget emptied.  Owners are woken.
 */
void		vslot_engine_gone_locked(int side);
/* With the lock held: does anybody have a conversation on that side? */
bool		vslot_side_in_use_locked(int side);

/* ---- for slot_care.c ---- */

/*
 * With the lock held: a zombie is claimed anew, of the next generation, and cancelled at once.  What the
 * engine still has of the old one is none of the slot's any more, and what it lets go of is the new one.  The
 * caller rings.
 */
void		vslot_ask_again_locked(int slot);
/* Tell the engine to look at the slot, whatever the arena says of that having been done. */
void		vslot_ring_anyhow(int slot, int side);

#endif
