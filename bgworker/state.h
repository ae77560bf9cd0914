/*
 * state.h
 *	  What PostgreSQL processes share about the engine (ordinary shared memory):
 *	  the supervisor's state, who owns which arena slot, and who waits for one.
 *
 * Field			written by					under
 * state..hint		supervisor					lock exclusive; read lock-free (state, epoch)
 * epoch			supervisor					lock exclusive, while no engine exists
 * worker_latch		supervisor					lock exclusive
 * owners[], free	backends, supervisor		lock exclusive
 * waiters			backends, supervisor		lock exclusive
 *
 * SLOT OWNERSHIP.  A slot is on the free list, or granted to a waiter, or owned
 * by a backend, or a ZOMBIE (its backend has gone on; the engine has not let go
 * yet).  vslot_claim() makes a backend owner, vslot_release() ends it on every
 * path: a finished conversation (state CLOSED or LOST) goes straight to the free
 * list; an unfinished one gets cancel = 1 and becomes a zombie which the
 * supervisor reaps when the engine has closed it or is dead.  The free list
 * hands a slot directly to the longest waiting backend, so nobody overtakes.
 */
#ifndef VLLM_BGWORKER_STATE_H
#define VLLM_BGWORKER_STATE_H

#include "postgres.h"

#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"

#include "wire/wire.h"

typedef enum VllmEngineState
{
	VLLM_DOWN = 0,				/* not started yet, or stopped by hand */
	VLLM_STARTING,				/* process spawned, hand-shake outstanding */
	VLLM_LOADING,				/* up; preloading vllm.preload_models */
	VLLM_READY,
	VLLM_DRAINING,				/* stopping on request */
	VLLM_BACKOFF,				/* died; restart_at says when next */
	VLLM_FAILED					/* can't start (bad binary, version mismatch): see last_error */
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
	int			next_free;		/* free list link, -1 = end */
	uint32		gen;
	uint16		msg_kind;		/* WireKind */
	char		model[NAMEDATALEN];
	TimestampTz since;
	int64		request_id;		/* unique in the cluster's life */
} VllmOwner;

typedef struct VllmShared
{
	LWLock	   *lock;
	/* supervisor */
	pg_atomic_uint32 state;		/* VllmEngineState */
	pg_atomic_uint32 epoch;
	int			engine_pid;		/* 0 = none */
	int			supervisor_pid;
	int			supervisor_procno;
	int64		restarts;
	TimestampTz started_at;
	TimestampTz restart_at;
	char		last_error[512];
	bool		restart_requested;	/* llm_engine_restart() */
	/* slots */
	int			n_slots;
	int			free_head;		/* -1 = none */
	int			n_free;
	int			n_zombies;
	int64		next_request_id;
	int64		claims, cancels, queue_timeouts;
	/* waiters for a slot: circular array of procnos, oldest first; -1 = gone */
	int			wait_head, wait_len, wait_cap;
	int			first_waiter_off;	/* int[wait_cap] behind owners[] */
	VllmOwner	owners[FLEXIBLE_ARRAY_MEMBER];
} VllmShared;

/* Set by the shmem start-up hook; NULL when the library was not preloaded. */
extern VllmShared *vllm_shared;
extern char *vllm_arena;		/* the mapping, same address in every process */
extern int	vllm_arena_fd;		/* valid in postmaster and its children */

Size		vllm_shared_size(void);
void		vllm_shared_init(void); /* shmem_startup_hook: struct, lock, arena */

const char *vllm_state_name(VllmEngineState s);	/* "ready", ... */

#endif
