/*
 * slots.c
 *	  Arena slots: the free list and its spares, the queue for a slot, zombies; the arena itself.
 *
 * Ownership is in VllmShared (src/pg/shared_state.h has the rules), under one LWLock that is never
 * held during anything slow.  Every critical section below is O(1), with four exceptions: the
 * supervisor's pass over all slots when an engine has died, a backend's pass at its exit, a pass for
 * a role with limits while half of the slots are taken, and a pass for a role while the whole pool is
 * taken.  The arena's slot words are shared with the engine and follow wire.h; a backend resets a
 * slot's words while it claims it, state last.  attn and wake are not reset: a left-over entry in a
 * slot ring is harmless (the slot is looked at once too often), a lost one is not.
 *
 * There are three arenas (src/pg/shared_state.h).  The postmaster creates a memfd for each and maps
 * it before any fork, so that it has the same address everywhere and the engine can inherit the
 * descriptor.  After a crash restart the same postmaster runs this code again: the engine has ended
 * with the supervisor (PDEATHSIG), and the pages are released and read as zeros.
 *
 * Tests: tests/t/003_cancel_leaks.pl, tests/t/005_queue.pl, tests/t/110_remote_program.pl,
 * tests/t/117_remote_shares.pl.
 */
#include "postgres.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "base/assert.h"
#include "pg/compat.h"
#include "pg/client/slots.h"
#include "pg/vllm_pg.h"

VllmShared *vllm_shared = NULL;
WireArena	vllm_arenas[VLLM_SIDES];
int			vllm_arena_fds[VLLM_SIDES] = {-1, -1, -1};
void		(*vslot_drain) (void) = NULL;

#define WAKE_BATCH	256			/* slots popped before their owners are looked up */
#define MAX_DEFERRED_WAKES	32		/* slots that one doorbell may be deferred for */
#define REMOTE_RECENT	60000	/* ms after the last remote request in which the engine leaves slots to
								 * such requests */

static inline WireHeader *
header(int side)
{
	return wire_header(&vllm_arenas[side]);
}

/* Return an owned slot's words in the arena of its conversation. */
static inline WireSlot *
slot_of(int slot)
{
	return wire_slot(&vllm_arenas[vllm_shared->owners[slot].side], slot);
}

static inline VllmWaiter *
waiters(void)
{
	return (VllmWaiter *) &vllm_shared->owners[vllm_shared->n_all];
}

/* ---- start-up ---- */

/* Return the number of spares, beyond the pool (src/pg/shared_state.h, SPARES). */
static int
spares(void)
{
	return Max(vllm_max_queued_requests / 4, 1);
}

Size
vllm_shared_size(void)
{
	Size		size = offsetof(VllmShared, owners);

	size = add_size(size, mul_size(vllm_max_queued_requests + spares(), sizeof(VllmOwner)));
	return add_size(size, mul_size(MaxBackends, sizeof(VllmWaiter)));
}

/* Compute the arena's geometry from the settings; both sizes are rounded up to powers of two. */
static void
arena_layout(WireGeometry *g)
{
	uint32		n_slots = pg_nextpower2_32(vllm_max_queued_requests + spares());
	uint32		ring_size = pg_nextpower2_32((uint32) vllm_ring_size * 1024);
	/* a message has texts and a few fields; conversion to UTF-8 may lengthen the texts */
	uint64		max_request = (uint64) vllm_max_prompt_bytes * 1024 * 4 + 1024 * 1024;

	if (!wire_layout(g, n_slots, ring_size, max_request))
		elog(FATAL, "vllm_pg: can't lay out an arena of %u slots with rings of %u bytes",
			 n_slots, ring_size);
}

/*
 * The size is sealed, because the engine has the file open: if it truncated the file, other processes
 * would get SIGBUS for the mapped pages.
 */
static void
arena_create(int side, const WireGeometry *g)
{
	WireArena  *a = &vllm_arenas[side];
	int			fd = memfd_create("vllm_pg arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	vllm_arena_fds[side] = fd;
	if (fd < 0 || ftruncate(fd, g->total_size) != 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not create the arena of vllm_pg: %m")));
	a->base = mmap(NULL, g->total_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (a->base == MAP_FAILED)
		ereport(FATAL,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not map the arena of vllm_pg (%zu bytes): %m",
						(Size) g->total_size),
				 errhint("Reduce vllm.max_queued_requests or vllm.ring_size.")));
	a->geo = *g;
}

static void
arena_init(int side)
{
	WireArena  *a = &vllm_arenas[side];
	WireGeometry g;

	arena_layout(&g);
	if (a->base == NULL)
		arena_create(side, &g);
	else
	{
		/* crash restart in the same postmaster: the PGC_POSTMASTER sizes have not changed */
		ASSERT(g.total_size == a->geo.total_size);
		if (fallocate(vllm_arena_fds[side], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					  0, g.total_size) != 0)
			memset(a->base, 0, g.total_size);
	}
	wire_header(a)->geo = a->geo;
}

static void
shared_reset(VllmShared *s)
{
	memset(s, 0, vllm_shared_size());
	s->lock = &(GetNamedLWLockTranche("vllm_pg"))->lock;
	SpinLockInit(&s->submit_lock);
	pg_atomic_init_u32(&s->state, VLLM_DOWN);
	pg_atomic_init_u32(&s->epoch, 0);
	pg_atomic_init_u32(&s->side, 0);
	pg_atomic_init_u32(&s->remote.state, VLLM_DOWN);
	for (int i = 0; i < VLLM_SIDES; i++)
		pg_atomic_init_u32(&s->epochs[i], 0);
	for (int i = 0; i < VLLM_CACHE_CLEARS; i++)
		pg_atomic_init_u32(&s->cache_clears[i], 0);
	ConditionVariableInit(&s->state_cv);
	s->n_slots = vllm_max_queued_requests;
	s->n_free = s->n_slots;
	s->n_spare_free = spares();
	s->n_all = s->n_slots + s->n_spare_free;
	for (int i = 0; i < s->n_all; i++)
		s->owners[i].next_free = i + 1 < s->n_all ? i + 1 : -1;
	s->next_request_id = 1;
	s->wait_head = s->wait_tail = -1;
	s->n_waiters = MaxBackends;
	for (int i = 0; i < s->n_waiters; i++)
		((VllmWaiter *) &s->owners[s->n_all])[i].granted = -1;
}

void
vllm_shared_init(void)
{
	bool		found;
	VllmShared *s;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	s = ShmemInitStruct("vllm_pg", vllm_shared_size(), &found);
	if (!found)
	{
		shared_reset(s);
		for (int side = 0; side < VLLM_SIDES; side++)
			arena_init(side);
	}
	vllm_shared = s;
	LWLockRelease(AddinShmemInitLock);
}

const char *
vllm_state_name(VllmEngineState s)
{
	static const char *const names[] = {
		[VLLM_DOWN] = "down",
		[VLLM_STARTING] = "starting",
		[VLLM_LOADING] = "loading",
		[VLLM_READY] = "ready",
		[VLLM_DRAINING] = "draining",
		[VLLM_BACKOFF] = "backoff",
		[VLLM_FAILED] = "failed",
		[VLLM_OFF] = "off",
		[VLLM_MISSING] = "not installed",
	};

	return (unsigned) s < lengthof(names) ? names[s] : "unknown";
}

void
vllm_wake_supervisor(void)
{
	if (vllm_shared->supervisor_pid != 0)
		SetLatch(compat_proc_latch(vllm_shared->supervisor_procno));
}

/* ---- free list and queue; all with the lock held ---- */

static void
queue_remove(int procno)
{
	VllmShared *s = vllm_shared;
	VllmWaiter *all = waiters();
	VllmWaiter *w = &all[procno];

	if (!w->queued)
		return;
	if (w->prev >= 0)
		all[w->prev].next = w->next;
	else
		s->wait_head = w->next;
	if (w->next >= 0)
		all[w->next].prev = w->prev;
	else
		s->wait_tail = w->prev;
	w->queued = false;
	s->wait_len--;
}

static bool
is_remote(const VslotClaim *c)
{
	return c->for_side == VLLM_REMOTE_SIDE;
}

uint16
vslot_of_model(const char *model)
{
	Size		len = model ? strlen(model) : 0;

	return hash_bytes_extended((const unsigned char *) model, len, MyDatabaseId) % VLLM_MODEL_PLACES;
}

static void
queue_append(int procno, const VslotClaim *c)
{
	VllmShared *s = vllm_shared;
	VllmWaiter *all = waiters();

	all[procno] = (VllmWaiter)
	{
		.prev = s->wait_tail,.next = -1,.granted = -1,.queued = true,.remote = is_remote(c),
			.of_model = c->of_model,.limited = c->limited,.login = c->login
	};
	if (s->wait_tail >= 0)
		all[s->wait_tail].next = procno;
	else
		s->wait_head = procno;
	s->wait_tail = procno;
	s->wait_len++;
}

/*
 * Return the most slots of the pool that the remote program, or the engine, may have; the rest is for
 * the other one.
 */
static int
most_of_side(bool remote)
{
	const VllmShared *s = vllm_shared;
	bool		alone = remote ? !vllm_engine :
		vslot_remote_used() == 0 &&
			(s->remote_at == 0 || TimestampDifferenceExceeds(s->remote_at, GetCurrentTimestamp(),
															 REMOTE_RECENT));

	return alone ? s->n_slots : Max(s->n_slots * 3 / 4, 1);
}

static int
held_by_side(bool remote)
{
	const VllmShared *s = vllm_shared;

	return remote ? s->n_remote : s->n_slots - s->n_free - s->n_remote;
}

static int
pool_room(bool remote)
{
	return Min(vllm_shared->n_free, most_of_side(remote) - held_by_side(remote));
}

/*
 * Return how many of the spares requests to a model's endpoints may take.  Each one taken also
 * reduces the number that is left.
 */
static int
spare_room(uint16 of_model)
{
	return (vllm_shared->n_spare_free - vllm_shared->model_slots[of_model] + 1) / 2;
}

int
vslot_room(bool remote, uint16 of_model, int leave)
{
	return Max(Max(pool_room(remote) - leave, remote ? spare_room(of_model) : 0), 0);
}

int
vslot_remote_used(void)
{
	const VllmShared *s = vllm_shared;

	return s->n_remote + s->n_all - s->n_slots - s->n_spare_free - s->n_spare_engine;
}

/*
 * Return true if the role may have a spare.  Other roles' requests may fill the pool and keep it for
 * as long as they run; a role with fewer slots than there are spares left gets one of these.
 */
static bool
role_has_spare(Oid login)
{
	const VllmShared *s = vllm_shared;
	int			n = 0;

	if (!OidIsValid(login) || s->n_spare_free == 0)
		return false;
	for (int i = 0; i < s->n_all && n <= s->n_spare_free; i++)
		n += s->owners[i].kind != VO_FREE && s->owners[i].login == login;
	return n < s->n_spare_free + 1 - n;
}

/*
 * Return true if the role may have one more slot.  A request that waits for a limit of its role holds
 * its slot.  So a role with limits has at most half of the slots, which leaves some to others.
 */
static bool
role_may_have(Oid limited)
{
	const VllmShared *s = vllm_shared;
	int			most = Max(s->n_slots / 2, 1);
	int			n = 0;

	if (!OidIsValid(limited) || s->n_slots - s->n_free < most)
		return true;
	for (int i = 0; i < s->n_all; i++)
		n += s->owners[i].kind != VO_FREE && s->owners[i].limited == limited;
	return n < most;
}

/* Return the backend that has waited longest among those that may have a slot; -1 = none. */
static int
next_waiter(void)
{
	VllmWaiter *all = waiters();
	Oid			has_enough = InvalidOid;
	Oid			no_spare = InvalidOid;
	bool		room[2] = {false, false};

	if (vllm_shared->wait_head < 0)
		return -1;
	for (int remote = 0; remote < 2; remote++)
		room[remote] = pool_room(remote) > 0;
	if (!room[false] && !room[true] && vllm_shared->n_spare_free == 0)
		return -1;
	for (int i = vllm_shared->wait_head; i >= 0; i = all[i].next)
	{
		const VllmWaiter *w = &all[i];

		if (!room[w->remote] && w->remote && spare_room(w->of_model) <= 0)
			continue;
		if (!room[w->remote] && !w->remote && (w->login == no_spare || !role_has_spare(w->login)))
		{
			no_spare = w->login;
			continue;
		}
		if (OidIsValid(has_enough) && w->limited == has_enough)
			continue;
		if (role_may_have(w->limited))
			return i;
		has_enough = w->limited;
	}
	return -1;
}

/*
 * Take the first slot of the free list: as one of the pool if it has room for the claim, else as a
 * spare.
 */
static int
take_free(bool remote, uint16 of_model, Oid login)
{
	VllmShared *s = vllm_shared;
	int			slot = s->free_head;
	VllmOwner  *o;

	/* the caller has found room, so the list is not empty */
	ASSERT(LWLockHeldByMeInMode(s->lock, LW_EXCLUSIVE) && slot >= 0);
	o = &s->owners[slot];
	ASSERT(o->kind == VO_FREE);
	o->spare = pool_room(remote) <= 0;
	o->login = login;
	o->remote = remote;
	o->of_model = of_model;
	s->free_head = o->next_free;
	if (o->spare)
	{
		s->n_spare_free--;
		s->n_spare_engine += !remote;
	}
	else
	{
		s->n_free--;
		s->n_remote += remote;
	}
	if (remote)
		s->model_slots[of_model]++;
	return slot;
}

/* Undo take_free(). */
static void
give_back(int slot)
{
	VllmShared *s = vllm_shared;
	VllmOwner  *o = &s->owners[slot];

	if (o->remote)
		s->model_slots[o->of_model]--;
	if (o->spare)
	{
		s->n_spare_free++;
		s->n_spare_engine -= !o->remote;
	}
	else
	{
		s->n_free++;
		s->n_remote -= o->remote;
	}
	ASSERT(s->n_free <= s->n_slots && s->n_spare_free <= s->n_all - s->n_slots);
	o->remote = o->spare = false;
	o->next_free = s->free_head;
	s->free_head = slot;
}

/* Free the slot, and hand it and any other free slots to the backends that have waited longest. */
static void
slot_freed(int slot)
{
	VllmOwner  *o = &vllm_shared->owners[slot];
	int			procno;

	atomic_store_explicit(&slot_of(slot)->state, WS_FREE, memory_order_release);
	o->kind = VO_FREE;
	o->pid = 0;
	o->request_id = 0;
	give_back(slot);
	while ((procno = next_waiter()) >= 0)
	{
		VllmWaiter *w = &waiters()[procno];

		queue_remove(procno);
		w->granted = take_free(w->remote, w->of_model, w->login);
		o = &vllm_shared->owners[w->granted];
		o->kind = VO_GRANTED;
		o->procno = procno;
		o->limited = w->limited;
		SetLatch(compat_proc_latch(procno));
	}
}

/*
 * Return true if the claim's program serves.  This is checked like `serving`, under the lock: a claim
 * made after an engine's conversations were marked LOST would wait for a dead process.
 */
static bool
has_engine(const VslotClaim *c)
{
	if (is_remote(c))
		return vllm_shared->remote.serving;
	return c->for_side < 0 || c->for_side == (int) pg_atomic_read_u32(&vllm_shared->side) ?
		vllm_shared->serving : vllm_shared->second_up;
}

/* Write the slot's words for a conversation of the next generation; state last. */
static void
write_words(int slot, bool cancel)
{
	VllmOwner  *o = &vllm_shared->owners[slot];
	WireSlot   *w = slot_of(slot);

	o->gen++;
	o->notified = false;
	vslot_set_polling(slot, false);
	atomic_store_explicit(&w->gen, o->gen, memory_order_relaxed);
	/* no other process writes it now; a damaged value can't equal this generation */
	atomic_store_explicit(&w->let_go, o->gen - 1, memory_order_relaxed);
	atomic_store_explicit(&w->cancel, cancel, memory_order_relaxed);
	atomic_store_explicit(&w->req_head, 0, memory_order_relaxed);
	atomic_store_explicit(&w->req_tail, 0, memory_order_relaxed);
	atomic_store_explicit(&w->rep_head, 0, memory_order_relaxed);
	atomic_store_explicit(&w->rep_tail, 0, memory_order_relaxed);
	atomic_store_explicit(&w->phase, WP_NONE, memory_order_relaxed);
	atomic_store_explicit(&w->prompt_tokens, 0, memory_order_relaxed);
	atomic_store_explicit(&w->cached_tokens, 0, memory_order_relaxed);
	atomic_store_explicit(&w->computed_tokens, 0, memory_order_relaxed);
	atomic_store_explicit(&w->output_tokens, 0, memory_order_relaxed);
	atomic_store_explicit(&w->preemptions, 0, memory_order_relaxed);
	atomic_store_explicit(&w->arrival_us, 0, memory_order_relaxed);
	atomic_store_explicit(&w->first_token_us, 0, memory_order_relaxed);
	atomic_store_explicit(&w->deadline_us, 0, memory_order_relaxed);
	/* partner: the engine's acquire load of state before it reads the slot */
	atomic_store_explicit(&w->state, WS_OPEN, memory_order_release);
}

void
vslot_new_generation_locked(int slot)
{
	write_words(slot, true);
}

/* Make a slot without owner this backend's, and OPEN. */
static void
slot_open(int slot, VslotClaim *c)
{
	VllmShared *s = vllm_shared;
	VllmOwner  *o = &s->owners[slot];

	o->side = c->for_side >= 0 ? c->for_side : (int) pg_atomic_read_u32(&s->side);
	o->kind = VO_OWNED;
	o->cancelled = o->posted = o->damaged = false;
	o->procno = compat_my_procno();
	o->pid = MyProcPid;
	o->dbid = MyDatabaseId;
	o->roleid = GetUserId();
	o->limited = c->limited;
	o->msg_kind = c->kind;
	strlcpy(o->model, c->model ? c->model : "", sizeof(o->model));
	o->priority = c->note ? c->note->priority : 0;
	strlcpy(o->lora, c->note ? c->note->lora : "", sizeof(o->lora));
	strlcpy(o->traceparent, c->note ? c->note->traceparent : "", sizeof(o->traceparent));
	o->since = GetCurrentTimestamp();
	o->request_id = s->next_request_id++;
	s->claims++;

	write_words(slot, false);

	c->slot = slot;
	c->gen = o->gen;
	c->side = o->side;
	c->epoch = pg_atomic_read_u32(&s->epochs[o->side]);
	c->request_id = o->request_id;
}

/* ---- claim ---- */

static VslotResult
claim_locked(VslotClaim *c)
{
	if (!has_engine(c))
		return VSLOT_NO_ENGINE;
	if (is_remote(c))
	{
		vllm_shared->remote_at = GetCurrentTimestamp();
		c->of_model = vslot_of_model(c->model);
	}
	if (vslot_room(is_remote(c), c->of_model, 0) == 0 && (is_remote(c) || !role_has_spare(c->login)))
		return VSLOT_NONE;
	if (!role_may_have(c->limited))
		return VSLOT_NONE;
	slot_open(take_free(is_remote(c), c->of_model, c->login), c);
	return VSLOT_OK;
}

int64
vslot_new_request_id(void)
{
	int64		id;

	LWLockAcquire(vllm_shared->lock, LW_EXCLUSIVE);
	id = vllm_shared->next_request_id++;
	LWLockRelease(vllm_shared->lock);
	return id;
}

VslotResult
vslot_try_claim(VslotClaim *c)
{
	VslotResult result;

	LWLockAcquire(vllm_shared->lock, LW_EXCLUSIVE);
	result = claim_locked(c);
	LWLockRelease(vllm_shared->lock);
	return result;
}

/* Take the slot that was granted; if the program does not serve, hand the slot to the next waiter. */
static VslotResult
take_grant(VslotClaim *c)
{
	VllmShared *s = vllm_shared;
	VllmWaiter *w = &waiters()[compat_my_procno()];
	VslotResult result = VSLOT_NONE;

	LWLockAcquire(s->lock, LW_EXCLUSIVE);
	if (w->granted >= 0)
	{
		int			slot = w->granted;

		w->granted = -1;
		if (has_engine(c))
		{
			slot_open(slot, c);
			result = VSLOT_OK;
		}
		else
		{
			slot_freed(slot);
			result = VSLOT_NO_ENGINE;
		}
	}
	LWLockRelease(s->lock);
	return result;
}

/* Leave the queue, and free a slot that was granted. */
static void
leave_queue(bool timed_out)
{
	VllmShared *s = vllm_shared;
	VllmWaiter *w = &waiters()[compat_my_procno()];

	LWLockAcquire(s->lock, LW_EXCLUSIVE);
	queue_remove(compat_my_procno());
	if (w->granted >= 0)
	{
		int			slot = w->granted;

		w->granted = -1;
		slot_freed(slot);
	}
	if (timed_out)
		s->queue_timeouts++;
	LWLockRelease(s->lock);
}

static VslotResult
queue_loop(VslotClaim *c, int timeout_ms)
{
	static uint32 wait_event = 0;
	TimestampTz give_up = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms);

	for (;;)
	{
		VslotResult result;
		long		left;

		/* a slot that it frees goes to the backend that has waited longest, which may be this one */
		if (vslot_drain)
			vslot_drain();
		result = take_grant(c);
		if (result != VSLOT_NONE)
			return result;
		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), give_up);
		if (left <= 0)
			return VSLOT_NONE;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, left,
						 compat_wait_event(&wait_event, "VllmSlot"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

VslotResult
vslot_wait_claim(VslotClaim *c, int timeout_ms)
{
	VllmShared *s = vllm_shared;
	int			me = compat_my_procno();
	volatile VslotResult result = VSLOT_NONE;

	if (me >= s->n_waiters)
		elog(ERROR, "process number %d is out of range", me);
	/* the engine must be notified of the slots that this backend holds, or none of them becomes free */
	vslot_ring_now();
	LWLockAcquire(s->lock, LW_EXCLUSIVE);
	/*
	 * a slot may have been freed, or the engine may have ended, since the caller looked; slots that
	 * are free already are not handed out
	 */
	result = claim_locked(c);
	if (result == VSLOT_NONE)
		queue_append(me, c);
	LWLockRelease(s->lock);
	if (result != VSLOT_NONE)
		return result;

	PG_TRY();
	{
		result = queue_loop(c, timeout_ms);
		if (result == VSLOT_NONE)
			leave_queue(true);
	}
	PG_CATCH();
	{
		leave_queue(false);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return result;
}

/* ---- release ---- */

static bool
vslot_engine_let_go(int slot)
{
	WireSlot   *w = slot_of(slot);

	return atomic_load_explicit(&w->state, memory_order_acquire) == WS_LOST ||
		atomic_load_explicit(&w->let_go, memory_order_acquire) == vllm_shared->owners[slot].gen;
}

/* End the ownership; return true if the engine has to be notified.  The caller holds the lock. */
static bool
slot_release(int slot, VslotEnd end)
{
	VllmShared *s = vllm_shared;
	VllmOwner  *o = &s->owners[slot];
	WireSlot   *w = slot_of(slot);

	if (end == VSLOT_FINISHED || vslot_engine_let_go(slot))
	{
		slot_freed(slot);
		return false;
	}
	if (end == VSLOT_CANCEL)
	{
		atomic_store_explicit(&w->cancel, 1, memory_order_release);
		s->cancels++;
	}
	/* from here on the engine must wake the supervisor when it lets go */
	vslot_set_polling(slot, false);
	vslot_listening();
	if (vslot_engine_let_go(slot))
	{
		slot_freed(slot);
		return false;
	}
	o->kind = VO_ZOMBIE;
	o->posted = end == VSLOT_POST;
	s->n_zombies++;
	return true;
}

void
vslot_release(int slot, uint32 gen, VslotEnd end)
{
	VllmShared *s = vllm_shared;
	VllmOwner  *o = &s->owners[slot];
	bool		notify = false;

	LWLockAcquire(s->lock, LW_EXCLUSIVE);
	if (o->kind == VO_OWNED && o->gen == gen && o->pid == MyProcPid)
		notify = slot_release(slot, end);
	LWLockRelease(s->lock);
	if (notify)
		vslot_ring_engine(slot);
}

void
vslot_release_all_own(void)
{
	VllmShared *s = vllm_shared;

	leave_queue(false);
	for (int i = 0; i < s->n_all; i++)
		if (s->owners[i].kind == VO_OWNED && s->owners[i].pid == MyProcPid)
			vslot_release(i, s->owners[i].gen, VSLOT_CANCEL);
}

/* slots in a side's to_engine ring that the engine has not been notified of */
static int	wakes_deferred[VLLM_SIDES] = {0};

/*
 * Push the slot into the to_engine ring; return true if the engine has to be notified.  anyhow: push
 * it even if attn says that it is in the ring, unless the ring is full, because attn, or the entry,
 * may be damaged.  It is harmless if the engine looks once too often.
 */
static bool
push_attention(int slot, int side, bool anyhow)
{
	const WireRing *r = &header(side)->to_engine;
	WireSlot   *w = wire_slot(&vllm_arenas[side], slot);
	bool		pushed = false;

	/* attn changes together with the ring, else a reset of both could come in between */
	SpinLockAcquire(&vllm_shared->submit_lock);
	if (atomic_exchange(&w->attn, 1) == 0 ||
		(anyhow && atomic_load(&r->head) - atomic_load(&r->tail) < vllm_geometry.n_slots))
	{
		(void) wire_push(&vllm_arenas[side], WQ_TO_ENGINE, slot);
		pushed = true;
	}
	SpinLockRelease(&vllm_shared->submit_lock);
	return pushed;
}

/*
 * push_attention() for a slot's owner: the first push of an owner is not suppressed by an attn that
 * an earlier owner left.
 */
static bool
push_own(int slot)
{
	VllmOwner  *o = &vllm_shared->owners[slot];
	bool		first = !o->notified;

	o->notified = true;
	return push_attention(slot, o->side, first);
}

static void
bell(int side)
{
	WireHeader *h = header(side);

	wakes_deferred[side] = 0;
	/* sequentially consistent; partner: the engine sets engine_sleeping, then looks again */
	atomic_fetch_add(&h->doorbell, 1);
	if (atomic_load(&h->engine_sleeping) != 0)
		syscall(SYS_futex, &h->doorbell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void
vslot_ring_engine(int slot)
{
	int			side = vllm_shared->owners[slot].side;

	if (push_own(slot) || wakes_deferred[side] > 0)
		bell(side);
}

void
vslot_ring_later(int slot)
{
	int			side = vllm_shared->owners[slot].side;

	if (push_own(slot) && ++wakes_deferred[side] >= MAX_DEFERRED_WAKES)
		bell(side);
}

void
vslot_ring_anyhow(int slot, int side)
{
	if (push_attention(slot, side, true))
		bell(side);
}

void
vslot_ring_now(void)
{
	for (int side = 0; side < VLLM_SIDES; side++)
		if (wakes_deferred[side] > 0)
			bell(side);
}

void
vslot_set_polling(int slot, bool quiet)
{
	uint32		from = quiet ? WW_IDLE : WW_QUIET;

	/* QUEUED stays: the supervisor finds the slot in its ring */
	(void) atomic_compare_exchange_strong(&slot_of(slot)->wake, &from,
										  quiet ? WW_QUIET : WW_IDLE);
}

void
vslot_listening(void)
{
	/* partner: the engine's fence between its data and its load of wake */
	atomic_thread_fence(memory_order_seq_cst);
}

/* ---- the supervisor's part ---- */

static void
zombie_reap(int slot)
{
	VllmShared *s = vllm_shared;

	if (s->owners[slot].kind == VO_ZOMBIE && vslot_engine_let_go(slot))
	{
		s->n_zombies--;
		slot_freed(slot);
	}
}

void
vslot_reap_zombies(void)
{
	VllmShared *s = vllm_shared;

	if (s->n_zombies == 0)
		return;
	LWLockAcquire(s->lock, LW_EXCLUSIVE);
	for (int i = 0; i < s->n_all && s->n_zombies > 0; i++)
		zombie_reap(i);
	LWLockRelease(s->lock);
}

static int
drain_batch(int side)
{
	VllmShared *s = vllm_shared;
	int			procno[WAKE_BATCH];
	int			n_wake = 0;
	int			n = 0;
	uint32		slots[WAKE_BATCH];
	bool		zombies = false;

	while (n < WAKE_BATCH && wire_pop(&vllm_arenas[side], WQ_TO_WORKER, &slots[n]))
	{
		/* before the owner is woken; partner: the engine's exchange after its data */
		atomic_exchange(&wire_slot(&vllm_arenas[side], slots[n])->wake, WW_IDLE);
		n++;
	}
	if (n == 0)
		return 0;
	LWLockAcquire(s->lock, LW_SHARED);
	for (int i = 0; i < n; i++)
	{
		VllmOwner  *o;

		if (slots[i] >= (uint32) s->n_all)
			continue;
		o = &s->owners[slots[i]];
		if (o->kind == VO_OWNED)
			procno[n_wake++] = o->procno;
		else if (o->kind == VO_ZOMBIE)
			zombies = true;
	}
	LWLockRelease(s->lock);
	for (int i = 0; i < n_wake; i++)
		SetLatch(compat_proc_latch(procno[i]));
	if (zombies)
	{
		LWLockAcquire(s->lock, LW_EXCLUSIVE);
		for (int i = 0; i < n; i++)
			if (slots[i] < (uint32) s->n_all)
				zombie_reap(slots[i]);
		LWLockRelease(s->lock);
	}
	return n;
}

int
vslot_drain_wakes(int side)
{
	int			total = 0;
	int			n;

	/* bounded, so that a faulty engine can't hold the supervisor here */
	while (total < 4 * WIRE_MAX_SLOTS && (n = drain_batch(side)) > 0)
		total += n;
	return total;
}

/* Drop the pending messages for the remote program, or for the engine, about models to forget. */
static void
drop_forgets(bool remote)
{
	VllmShared *s = vllm_shared;
	int			n = 0;

	for (int i = 0; i < s->n_forgets; i++)
		if (s->forgets[i].remote != remote)
			s->forgets[n++] = s->forgets[i];
	s->n_forgets = n;
}

void
vslot_engine_ended_locked(int side)
{
	VllmShared *s = vllm_shared;
	WireHeader *h = header(side);

	SpinLockAcquire(&s->submit_lock);
	/* whatever the dead process wrote there: the next one reads the geometry */
	h->geo = vllm_arenas[side].geo;
	atomic_store(&h->to_engine.head, 0);
	atomic_store(&h->to_engine.tail, 0);
	atomic_store(&h->to_worker.head, 0);
	atomic_store(&h->to_worker.tail, 0);
	atomic_store(&h->engine_sleeping, 0);
	atomic_store(&h->busy, 0);
	for (uint32 i = 0; i < vllm_geometry.n_slots; i++)
	{
		atomic_store_explicit(&wire_slot(&vllm_arenas[side], i)->attn, 0, memory_order_relaxed);
		atomic_store_explicit(&wire_slot(&vllm_arenas[side], i)->wake, WW_IDLE, memory_order_relaxed);
	}
	SpinLockRelease(&s->submit_lock);
	atomic_store(&wire_stats(&vllm_arenas[side])->seq, 0);
	/* the next process has no models to forget */
	if (side == VLLM_REMOTE_SIDE || side == (int) pg_atomic_read_u32(&s->side))
		drop_forgets(side == VLLM_REMOTE_SIDE);

	for (int i = 0; i < s->n_all; i++)
	{
		WireSlot   *w = wire_slot(&vllm_arenas[side], i);

		if (s->owners[i].side != side)
			continue;
		if (s->owners[i].kind == VO_OWNED)
		{
			/*
			 * The owner still reads a final frame that is complete in the ring.  Every slot that is
			 * not both CLOSED and let go becomes LOST, else its owner would wait for the next engine.
			 */
			if (atomic_load(&w->state) != WS_CLOSED || !vslot_engine_let_go(i))
				atomic_store(&w->state, WS_LOST);
			SetLatch(compat_proc_latch(s->owners[i].procno));
		}
		else if (s->owners[i].kind == VO_ZOMBIE)
		{
			s->n_zombies--;
			slot_freed(i);
		}
	}
}

bool
vslot_side_in_use_locked(int side)
{
	VllmShared *s = vllm_shared;

	for (int i = 0; i < s->n_all; i++)
		if (s->owners[i].side == side && (s->owners[i].kind == VO_OWNED || s->owners[i].kind == VO_ZOMBIE))
			return true;
	return false;
}
