/*
 * slots.h
 *	  Arena slots: claims, releases, and notifying the engine of a slot.
 *	  src/pg/shared_state.h has the rules of ownership.
 */
#ifndef VLLM_PG_CLIENT_SLOTS_H
#define VLLM_PG_CLIENT_SLOTS_H

#include "pg/shared_state.h"
#include "pg/client/request_tracking.h"

typedef enum VslotResult
{
	VSLOT_OK = 0,
	VSLOT_NONE,					/* no slot is free for the claim */
	VSLOT_NO_ENGINE				/* no program serves on that side: see vclient_require_engine() */
} VslotResult;

/* The purpose of a claim (llm_requests shows it), and its result. */
typedef struct VslotClaim
{
	WireKind	kind;
	const char *model;			/* NULL = none */
	const RequestTracking *note;	/* NULL = none */
	int			for_side;		/* side, -1 = that of the engine that serves */
	/* the role that it counts for, if that has limits: such a role gets at most half of the slots */
	Oid			limited;
	Oid			login;			/* the role that it counts for in any case; InvalidOid: it gets no spare */
	uint16		of_model;		/* for a remote model: set by the claim */
	/* result */
	int			slot;
	int			side;
	uint32		gen;
	uint32		epoch;
	int64		request_id;
} VslotClaim;

/* Take a free slot, if there is one for the claim; never overtakes a waiter that may have it. */
VslotResult vslot_try_claim(VslotClaim *c);
/* Return a new id for a request that needs no slot, as its result is cached. */
int64		vslot_new_request_id(void);
/*
 * Return how many free slots requests to the remote program, or to the engine, may take now if
 * `leave` of the pool's have to stay free.  This is an estimate: the lock is not held.  of_model, for
 * the remote program: vslot_of_model() of the model's name (NULL = none).
 */
int			vslot_room(bool remote, uint16 of_model, int leave);
uint16		vslot_of_model(const char *model);
/*
 * Return the number of slots that requests to endpoints have, including spares.  The caller holds the
 * lock.
 */
int			vslot_remote_used(void);

/*
 * Wait in the queue until a slot is handed over; return VSLOT_NONE after timeout_ms.  Handles
 * interrupts; leaves the queue on every path.
 */
VslotResult vslot_wait_claim(VslotClaim *c, int timeout_ms);

/*
 * Called at every wake of vslot_wait_claim(): releases slots that this backend holds without need
 * (replies that it has not read), else the backend could wait for itself.  A module that sets this
 * hook calls the previous one, as with PostgreSQL's hooks.
 */
extern void (*vslot_drain) (void);

typedef enum VslotEnd
{
	VSLOT_FINISHED = 0,			/* the final frame was read: the engine has let go of the slot */
	VSLOT_CANCEL,				/* cancel the request if it is unfinished */
	VSLOT_POST					/* let the engine finish; no backend reads the reply */
} VslotEnd;

/*
 * End the ownership that began with claim `gen` of the slot.  Neither throws nor allocates.  Does
 * nothing if the slot has changed hands since.
 */
void		vslot_release(int slot, uint32 gen, VslotEnd end);

/* Release everything that this backend has: its place in the queue and its slots. */
void		vslot_release_all_own(void);

/* Notify the engine of the slot. */
void		vslot_ring_engine(int slot);
/*
 * One doorbell for several slots: notify the engine of the slot later.  The caller calls
 * vslot_ring_now() at the latest before it sleeps or does something else.  (After an ERROR the calls
 * are cancelled, which rings.)
 */
void		vslot_ring_later(int slot);
void		vslot_ring_now(void);

/*
 * Switch off wakes for a slot that its owner polls (quiet), or switch them on again.  In the latter
 * case the owner calls vslot_listening() and polls once more before it sleeps.
 */
void		vslot_set_polling(int slot, bool quiet);
void		vslot_listening(void);

/* ---- the supervisor's part ---- */

/* Pop the to_worker ring: wake owners, reap zombies.  Return the number of slots seen. */
int			vslot_drain_wakes(int side);
/* Find slots whose words in the arena are damaged, and repair them; runs once a second (slot_care.c). */
void		vslot_care_poll(void);
/* Free every zombie that the engine has closed (or that is LOST). */
void		vslot_reap_zombies(void);
/*
 * Mark the OPEN slots of a side LOST, free its zombies, empty its slot rings and the list of models
 * to forget, and wake the owners.  The caller holds the lock, and no engine process is alive on that
 * side.
 */
void		vslot_engine_ended_locked(int side);
/* Return true if any slot has a conversation on that side.  The caller holds the lock. */
bool		vslot_side_in_use_locked(int side);

/* ---- for slot_care.c ---- */

/*
 * Start a new generation of a zombie's conversation, cancelled at once.  The engine then owes the
 * slot only the release of the new generation, not of the old one.  The caller holds the lock, and
 * rings.
 */
void		vslot_new_generation_locked(int slot);
/* Notify the engine of the slot even if the arena says that it was notified already. */
void		vslot_ring_anyhow(int slot, int side);

#endif
