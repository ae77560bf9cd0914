/*
 * shared_state.h
 *	  What PostgreSQL processes share about the engine (ordinary shared memory):
 *	  the supervisor's state, who owns which arena slot, and who waits for one.
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
 * SLOT OWNERSHIP.  A slot is on the free list, or granted to a waiter, or owned by a backend, or a ZOMBIE
 * (its backend has gone on; the engine has not let go yet).  vslot_try_claim() and vslot_wait_claim() make a
 * backend owner, vslot_release() ends it on every path: a finished conversation (final frame read, or let go
 * of by the engine) goes straight to the free list; an unfinished one gets cancel = 1 and becomes a zombie
 * which the supervisor reaps when the engine has closed it or is dead.  A freed slot is handed directly to
 * the longest waiting backend, so no other overtakes it.
 *
 * DAMAGE.  A stray write into the arena may change a slot's words.  What a slot is and who has it stands
 * here, out of the engine's reach, so the words can be told from damage and written anew: an owner whose
 * words are damaged gives the slot up with an error, and the supervisor asks again, under a new generation,
 * for each zombie of which the engine does not let go (pg/supervisor/slot_care.c).  The slot is free when the
 * engine has let go of that generation.
 *
 * SIDES.  There are three arenas.  Two are the engine's, so that two engines can live at once: the one that
 * serves, and a second one that is being made ready to follow it, or that has served and finishes what it has
 * (llm_engine_upgrade(), src/pg/supervisor/standby_engine.c).  The third one, VLLM_REMOTE_SIDE, is always the
 * remote program's (src/pg/supervisor/remote_process.c).  A slot is one number in all of them; while it is
 * owned its conversation is in the arena of VllmOwner.side: the remote program's, or the engine's that served
 * when it was claimed.
 *
 * SHARES.  The slots are one pool.  An endpoint may keep its requests waiting for minutes, so while there is
 * an engine they have three quarters of the slots at most; and the engine's requests leave them a quarter
 * while there are any.
 *
 * SPARES.  One model's requests may have all of these, and its endpoint may never answer.  So that other
 * models are asked all the same there are slots behind the pool, a quarter as many: a request to an endpoint
 * for which the pool has none takes one of these, if its model has fewer slots than there are spares left.
 * So a model that has the pool has no spare, and the next one never has all of them.  In the same way a role
 * of which all others' requests to the engine keep the pool has some of them, if it has fewer slots than
 * there are spares left.  A slot is a spare or the pool's only while it is taken: there is one free list, and
 * n_free and n_spare_free count what of it is whose.
 *
 * A slot is claimed only while its side's `serving` holds, and the supervisor marks every
 * OPEN slot of the side LOST in the critical section that clears it: a conversation can't
 * begin between a program's death and the marking, so none waits for the dead.
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
	VLLM_DRAINING,				/* stopping on request */
	VLLM_BACKOFF,				/* died; restart_at says when next */
	VLLM_FAILED,				/* can't start (bad binary, version mismatch): see last_error */
	VLLM_OFF,					/* the engine: vllm.engine = off */
	VLLM_MISSING				/* the remote program: there is no such file, and none is asked for */
} VllmEngineState;

typedef enum VllmOwnerKind
{
	VO_FREE = 0, VO_GRANTED, VO_OWNED, VO_ZOMBIE
} VllmOwnerKind;

typedef struct VllmOwner
{
	VllmOwnerKind kind;
	int			procno;			/* index in ProcGlobal->allProcs; stale is harmless (spurious wake) */
	int			pid;
	Oid			dbid;
	Oid			roleid;
	Oid			limited;		/* VslotClaim's */
	Oid			login;			/* VslotClaim's */
	int			next_free;		/* free list link, -1 = end */
	uint32		gen;			/* the slot's gen of this claim */
	int			side;			/* whose arena has the conversation */
	bool		remote;			/* the slot counts for the remote program: granted, owned or a zombie */
	bool		spare;			/* the slot is no pool slot while it is granted, owned or a zombie */
	uint16		of_model;		/* of a remote one: its place in VllmShared.model_slots */
	uint16		msg_kind;		/* WireKind */
	bool		rung;			/* the engine has been told since the claim */
	bool		cancelled;		/* by llm_cancel() */
	bool		posted;			/* a zombie that the engine shall finish */
	/* the arena's words of the slot are not what was written: its owner shall give it up */
	bool		damaged;
	bool		retired;		/* the damage of the slot is in the server log; reset when the slot is free */
	uint8		doubts;			/* VSD_* that the last look at the slot left (pg/supervisor/slot_care.c) */
	int			priority;
	char		model[NAMEDATALEN];
	char		lora[NAMEDATALEN];	/* '' = none */
	char		traceparent[TRACEPARENT_LEN + 1];	/* '' = none */
	TimestampTz since;
	int64		request_id;		/* unique in the cluster's life */
} VllmOwner;

/* A backend's place in the queue for a slot; indexed by its procno. */
typedef struct VllmWaiter
{
	int			prev;			/* procnos, -1 = end */
	int			next;
	int			granted;		/* slot handed over, -1 = none yet */
	bool		queued;
	bool		remote;			/* for the remote program */
	uint16		of_model;		/* VllmOwner's */
	Oid			limited;		/* VslotClaim's */
	Oid			login;			/* VslotClaim's */
} VllmWaiter;

/* What the engine shall forget: one version of a model, or (hash 0, no name) all of a database. */
typedef struct VllmForget
{
	Oid			dbid;
	uint64		hash;			/* wire_model_hash() */
	bool		remote;			/* it is the remote program that shall */
	char		name[WIRE_NAME_LEN];	/* UTF-8 */
} VllmForget;

#define VLLM_MAX_FORGETS	64

/* Models whose names' hashes fall together share what one may have of the spares. */
#define VLLM_MODEL_PLACES	16384

#define VLLM_SIDES	3
#define VLLM_REMOTE_SIDE	2	/* the others are the engine's: one of them is VllmShared.side */

/* How far llm_engine_upgrade() is; W: who sets it. */
typedef enum VllmUpgrade
{
	VUP_NONE = 0,				/* backend, supervisor */
	VUP_WANTED,					/* backend: a second engine is wanted */
	VUP_STARTING,				/* supervisor: it is on its way */
	VUP_READY,					/* supervisor: it can be told to load models */
	VUP_SWITCH,					/* backend: it has them; requests shall go to it */
	VUP_DONE,					/* supervisor: they do */
	VUP_FAILED,					/* supervisor: upgrade_error says why */
	VUP_CANCELLED				/* backend: it shall go */
} VllmUpgrade;

/* The remote program as the fields of VllmShared are the engine; its epoch is epochs[VLLM_REMOTE_SIDE]. */
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

/* counters of models' clearings; models share them */
#define VLLM_CACHE_CLEARS	64

typedef struct VllmShared
{
	LWLock	   *lock;
	slock_t		submit_lock;
	/* supervisor */
	pg_atomic_uint32 state;		/* VllmEngineState */
	pg_atomic_uint32 epoch;		/* +1 per attempt to start an engine; as in the arena's header */
	bool		serving;		/* conversations may begin (state READY) */
	int			engine_pid;		/* 0 = none */
	int			supervisor_pid; /* 0 = none */
	int			supervisor_procno;
	int64		restarts;		/* engines started after the first one */
	TimestampTz started_at;		/* of the engine that runs, 0 = none */
	TimestampTz restart_at;		/* BACKOFF, FAILED: the next attempt */
	char		last_error[512];	/* of the last failure, '' = none so far */
	TimestampTz last_error_at;	/* 0 = none so far */
	bool		failing;		/* it has not been READY since */
	bool		restart_requested;	/* llm_engine_restart() */
	pg_atomic_uint32 side;		/* whose arena serves */
	/* epoch of the engine on each side; the remote program's counts by itself */
	pg_atomic_uint32 epochs[VLLM_SIDES];
	VllmUpgrade upgrade;		/* under the lock, as the next ones */
	int			upgrade_drain_ms;	/* what the old engine has for its requests */
	int			retiring_pid;	/* the old engine, 0 = none */
	bool		second_up;		/* there is an engine on the side that doesn't serve */
	char		upgrade_error[512];
	ConditionVariable state_cv;
	VllmRemote	remote;
	/* slots */
	int			n_slots;		/* of the pool: vllm.max_queued_requests */
	int			n_all;			/* size of owners[]: the pool's slots and spares */
	int			free_head;		/* -1 = none */
	int			n_free;			/* of the pool */
	int			n_remote;		/* of those of the pool that are not free: VllmOwner.remote */
	int			n_spare_free;
	int			n_spare_engine; /* spares that requests to the engine have */
	/* slots that requests to endpoints have, spares too, by the model's hash */
	int			model_slots[VLLM_MODEL_PLACES];
	TimestampTz remote_at;		/* when the last one was claimed or waited for, 0 = never */
	int			n_zombies;
	int64		next_request_id;
	int64		claims, cancels, queue_timeouts;
	/* how often kept answers were cleared: result_cache.c, by model */
	pg_atomic_uint32 cache_clears[VLLM_CACHE_CLEARS];
	/* the queue for a slot: oldest at wait_head, newest at wait_tail */
	int			wait_head, wait_tail, wait_len;
	int			n_waiters;		/* size of the array behind owners[] */
	/* due when no slot was free; the supervisor posts them (model_invalidate.c) */
	int			n_forgets;
	VllmForget	forgets[VLLM_MAX_FORGETS];
	VllmOwner	owners[FLEXIBLE_ARRAY_MEMBER];
} VllmShared;

/* Set by the shmem start-up hook; NULL when the library was not preloaded. */
extern VllmShared *vllm_shared;
/* the mapping, same address in every process, and the geometry, which every process
 * has by fork: what the engine writes over the arena's header changes nothing here */
extern WireArena vllm_arenas[VLLM_SIDES];
extern int	vllm_arena_fds[VLLM_SIDES]; /* valid in postmaster and its children */

/* All have the same. */
#define vllm_geometry (vllm_arenas[0].geo)

/* The arena of the engine that serves. */
static inline const WireArena *
vllm_serving_arena(void)
{
	return &vllm_arenas[pg_atomic_read_u32(&vllm_shared->side)];
}

Size		vllm_shared_size(void);
void		vllm_shared_init(void); /* shmem_startup_hook: struct, lock, arena */

const char *vllm_state_name(VllmEngineState s);	/* "ready", ... */

/* Wake the supervisor, if there is one. */
void		vllm_wake_supervisor(void);

/* _PG_init: the static background worker */
void		vllm_supervisor_register(void);
/* its bgw_main (supervisor.c) */
extern PGDLLEXPORT void vllm_supervisor_main(Datum arg);

#endif
