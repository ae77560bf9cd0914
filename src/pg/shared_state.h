/*
 * shared_state.h
 *	  State of the engine that PostgreSQL processes share (ordinary shared memory):
 *	  the supervisor's state, the owners of arena slots, and the queue for slots.
 *
 * Field			written by					under
 * state, epoch		supervisor					lock exclusive; may be read without
 * engine_pid..		supervisor					lock exclusive
 * ..failing		supervisor					lock exclusive
 * restart_requested backends set, supervisor clears	lock exclusive
 * state_cv			supervisor broadcasts		after every change of state
 * remote			supervisor					lock exclusive; its state may be read without
 * owners[], free	backends, supervisor		lock exclusive
 * waiters[]		backends, supervisor		lock exclusive
 * forgets[]		backends, supervisor		lock exclusive
 * submit_lock		backends					a spinlock: one writer of the to_engine ring
 *
 * SLOT OWNERSHIP.  A slot is on the free list, or granted to a waiter, or owned by a backend, or a
 * ZOMBIE: its backend has gone on, but the engine has not let go of it yet.  vslot_try_claim() and
 * vslot_wait_claim() make a backend the owner; vslot_release() ends the ownership on every path.  The
 * slot of a finished conversation (final frame read, or the engine has let go) goes straight to the
 * free list.  An unfinished one gets cancel = 1 and becomes a zombie, which the supervisor reaps when
 * the engine has closed it or is dead.  A freed slot is handed directly to the backend that has
 * waited longest, so no other backend can overtake it.
 *
 * DAMAGE.  A stray write into the arena may change a slot's words.  The slot's state and owner are
 * kept here, out of the engine's reach, so damaged words can be recognised and rewritten.  An owner
 * whose words are damaged gives the slot up with an error.  For each zombie that the engine does not
 * let go of, the supervisor opens a conversation of a new generation, which it cancels at once
 * (pg/supervisor/slot_care.c); the slot is free when the engine has let go of that generation.
 *
 * SIDES.  There are three arenas.  Two are the engine's, so that two engines can run at once: the one
 * that serves, and a second one that is being prepared to replace it, or that was replaced and
 * finishes its requests (llm_engine_upgrade(), src/pg/supervisor/standby_engine.c).  The third one,
 * VLLM_REMOTE_SIDE, is always the remote program's (src/pg/supervisor/remote_process.c).  A slot has
 * the same number in all arenas.  While it is owned, its conversation is in the arena of
 * VllmOwner.side: the remote program's, or that of the engine that served when the slot was claimed.
 *
 * SHARES.  The slots are one pool.  An endpoint may keep its requests waiting for minutes, so while
 * there is an engine, requests to endpoints have at most three quarters of the slots; and requests to
 * the engine leave them a quarter while there are any.
 *
 * SPARES.  One model's requests may have all of the endpoints' slots, and its endpoint may never
 * reply.  So that requests to other models get slots nevertheless, there are spare slots in addition
 * to the pool, a quarter as many.  A request to an endpoint for which the pool has no slot takes a
 * spare if its model has fewer slots than there are spares left.  So a model that has filled the pool
 * gets no spare, and the next model never gets all of them.  In the same way, if the requests of
 * other roles to the engine fill the pool, a role gets a spare if it has fewer slots than there are
 * spares left.  A slot is a spare or the pool's only while it is taken: there is one free list, and
 * n_free and n_spare_free count how many of its slots are for the pool and for spares.
 *
 * A slot is claimed only while its side's `serving` holds.  The supervisor clears that and marks
 * every OPEN slot of the side LOST in one critical section.  So a conversation can't begin between a
 * program's death and the marking, and none waits for a dead program.
 */
#ifndef VLLM_PG_SHARED_STATE_H
#define VLLM_PG_SHARED_STATE_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

#include "ipc/traceparent.h"
#include "ipc/wire.h"

typedef enum VllmEngineState
{
	VLLM_DOWN = 0,				/* not started yet, or the supervisor is away */
	VLLM_STARTING,				/* process spawned, hand-shake outstanding */
	VLLM_LOADING,				/* hand-shake done, not serving yet */
	VLLM_READY,
	VLLM_DRAINING,				/* stopping because it was asked to */
	VLLM_BACKOFF,				/* died; restart_at has the time of the next start */
	VLLM_FAILED,				/* can't start (bad binary, version mismatch): see last_error */
	VLLM_OFF,					/* the engine: vllm.engine = off */
	VLLM_MISSING				/* the remote program: the file does not exist, and vllm.remote_path
								 * names none */
} VllmEngineState;

typedef enum VllmOwnerKind
{
	VO_FREE = 0, VO_GRANTED, VO_OWNED, VO_ZOMBIE
} VllmOwnerKind;

typedef struct VllmOwner
{
	VllmOwnerKind kind;
	int			procno;			/* index in ProcGlobal->allProcs; a stale value only causes a spurious
								 * wake */
	int			pid;
	Oid			dbid;
	Oid			roleid;
	Oid			limited;		/* VslotClaim.limited */
	Oid			login;			/* VslotClaim.login */
	int			next_free;		/* free list link, -1 = end */
	uint32		gen;			/* the slot's gen of this claim */
	int			side;			/* the side whose arena has the conversation */
	bool		remote;			/* granted, owned or a zombie for the remote program */
	bool		spare;			/* granted, owned or a zombie as a spare, not a slot of the pool */
	uint16		of_model;		/* if remote: its index in VllmShared.model_slots */
	uint16		msg_kind;		/* WireKind */
	bool		notified;		/* the engine was notified of the slot since the claim */
	bool		cancelled;		/* by llm_cancel() */
	bool		posted;			/* a zombie that the engine is to finish, not to cancel */
	/* the arena's words of the slot are not those that were written; its owner has to give it up */
	bool		damaged;
	bool		retired;		/* the damage has been logged; reset when the slot is free */
	uint8		doubts;			/* VSD_*: doubts of the last look at the slot (pg/supervisor/slot_care.c) */
	int			priority;
	char		model[NAMEDATALEN];
	char		lora[NAMEDATALEN];	/* '' = none */
	char		traceparent[TRACEPARENT_LEN + 1];	/* '' = none */
	TimestampTz since;
	int64		request_id;		/* unique until shared memory is created anew */
} VllmOwner;

/* A backend's entry in the queue for a slot; indexed by its procno. */
typedef struct VllmWaiter
{
	int			prev;			/* procnos, -1 = end */
	int			next;
	int			granted;		/* slot handed over to the backend, -1 = none yet */
	bool		queued;
	bool		remote;			/* it waits for a slot for the remote program */
	uint16		of_model;		/* VllmOwner.of_model */
	Oid			limited;		/* VslotClaim.limited */
	Oid			login;			/* VslotClaim.login */
} VllmWaiter;

/*
 * Something that the engine has to forget: one version of a model, or (hash 0, no name) all models of
 * a database.
 */
typedef struct VllmForget
{
	Oid			dbid;
	uint64		hash;			/* wire_model_hash() */
	bool		remote;			/* the remote program has to forget it */
	char		name[WIRE_NAME_LEN];	/* UTF-8 */
} VllmForget;

#define VLLM_MAX_FORGETS	64

/* Size of model_slots.  Models whose hashes collide share a model's limit of spares. */
#define VLLM_MODEL_PLACES	16384

#define VLLM_SIDES	3
#define VLLM_REMOTE_SIDE	2	/* the other two are the engine's; VllmShared.side is the one that serves */

/* Progress of llm_engine_upgrade(), with the process that sets each state. */
typedef enum VllmUpgrade
{
	VUP_NONE = 0,				/* backend or supervisor */
	VUP_WANTED,					/* backend: a second engine is wanted */
	VUP_STARTING,				/* supervisor: the second engine is starting */
	VUP_READY,					/* supervisor: it can be asked to load models */
	VUP_SWITCH,					/* backend: it has the models; new requests are to go to it */
	VUP_DONE,					/* supervisor: new requests go to it */
	VUP_FAILED,					/* supervisor: upgrade_error says why */
	VUP_CANCELLED				/* backend: the second engine is to end */
} VllmUpgrade;

/*
 * State of the remote program, like the engine's fields in VllmShared; its epoch is
 * epochs[VLLM_REMOTE_SIDE].
 */
typedef struct VllmRemote
{
	pg_atomic_uint32 state;		/* VllmEngineState */
	bool		serving;
	bool		failing;
	int			pid;			/* 0 = none */
	int64		restarts;
	TimestampTz started_at;
	TimestampTz restart_at;
	char		last_error[512];
	TimestampTz last_error_at;
} VllmRemote;

/* number of counters of cleared results; models share them */
#define VLLM_CACHE_CLEARS	64

typedef struct VllmShared
{
	LWLock	   *lock;
	slock_t		submit_lock;
	/* written by the supervisor */
	pg_atomic_uint32 state;		/* VllmEngineState */
	pg_atomic_uint32 epoch;		/* +1 for each attempt to start an engine; also in the arena's header */
	bool		serving;		/* conversations may begin (state READY) */
	int			engine_pid;		/* 0 = none */
	int			supervisor_pid; /* 0 = none */
	int			supervisor_procno;
	int64		restarts;		/* engines started after the first one */
	TimestampTz started_at;		/* start of the running engine, 0 = none */
	TimestampTz restart_at;		/* BACKOFF, FAILED: the next attempt */
	char		last_error[512];	/* the last failure, '' = none so far */
	TimestampTz last_error_at;	/* 0 = none so far */
	bool		failing;		/* it has not been READY since the last failure */
	bool		restart_requested;	/* llm_engine_restart() */
	pg_atomic_uint32 side;		/* the side whose engine serves */
	/* epoch of the engine on each side; the remote program has a count of its own */
	pg_atomic_uint32 epochs[VLLM_SIDES];
	VllmUpgrade upgrade;		/* under the lock, like the next fields */
	int			upgrade_drain_ms;	/* ms that the old engine has for its requests */
	int			retiring_pid;	/* pid of the old engine, 0 = none */
	bool		second_up;		/* there is an engine on the side that doesn't serve */
	char		upgrade_error[512];
	ConditionVariable state_cv;
	VllmRemote	remote;
	/* slots */
	int			n_slots;		/* slots of the pool: vllm.max_queued_requests */
	int			n_all;			/* size of owners[]: slots of the pool and spares */
	int			free_head;		/* -1 = none */
	int			n_free;			/* free slots of the pool */
	int			n_remote;		/* the pool's slots that requests to endpoints have (VllmOwner.remote) */
	int			n_spare_free;
	int			n_spare_engine; /* spares that requests to the engine have */
	/* slots that requests to endpoints have, including spares, by the model's hash */
	int			model_slots[VLLM_MODEL_PLACES];
	TimestampTz remote_at;		/* when the last one was claimed or waited for, 0 = never */
	int			n_zombies;
	int64		next_request_id;
	int64		claims, cancels, queue_timeouts;
	/* how often cached results were cleared (result_cache.c), by the model's hash */
	pg_atomic_uint32 cache_clears[VLLM_CACHE_CLEARS];
	/* the queue for a slot: oldest at wait_head, newest at wait_tail */
	int			wait_head, wait_tail, wait_len;
	int			n_waiters;		/* size of the array of waiters after owners[] */
	/* messages for which no slot was free; the supervisor sends them (model_invalidate.c) */
	int			n_forgets;
	VllmForget	forgets[VLLM_MAX_FORGETS];
	VllmOwner	owners[FLEXIBLE_ARRAY_MEMBER];
} VllmShared;

/* Set by the shmem startup hook; NULL if the library was not preloaded. */
extern VllmShared *vllm_shared;
/*
 * The mappings, at the same address in every process, and their geometry, which every process
 * inherits by fork: what the engine writes into the arena's header does not change it.
 */
extern WireArena vllm_arenas[VLLM_SIDES];
extern int	vllm_arena_fds[VLLM_SIDES]; /* valid in the postmaster and its children */

/* All arenas have the same geometry. */
#define vllm_geometry (vllm_arenas[0].geo)

/* Return the arena of the engine that serves. */
static inline const WireArena *
vllm_serving_arena(void)
{
	return &vllm_arenas[pg_atomic_read_u32(&vllm_shared->side)];
}

Size		vllm_shared_size(void);
void		vllm_shared_init(void); /* shmem_startup_hook: create struct, lock and arenas */

const char *vllm_state_name(VllmEngineState s);	/* "ready", ... */

/* Wake the supervisor, if there is one. */
void		vllm_wake_supervisor(void);

/* _PG_init: the static background worker */
void		vllm_supervisor_register(void);
/* the worker's bgw_main (supervisor.c) */
extern PGDLLEXPORT void vllm_supervisor_main(Datum arg);

#endif
