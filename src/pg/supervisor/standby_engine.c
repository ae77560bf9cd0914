/*
 * standby_engine.c
 *	  The second engine: one that is to replace the engine that serves, or one that was replaced.
 *
 * llm_engine_upgrade() proceeds in steps, each the reply to the one before (VllmUpgrade in
 * shared_state.h):
 *
 *	WANTED		backend			-> start an engine on the other side
 *	STARTING	supervisor		... until it says that it is ready; if it fails, the old one stays
 *	READY		supervisor		the backend loads the models that are in service into it
 *	SWITCH		backend			-> in one critical section the side changes: new calls go to the new
 *								engine
 *	DONE		supervisor		the old one retires: it finishes its conversations, and ends when there are
 *								none any more or its time is over (then they are lost, as in a
 *								crash)
 *	CANCELLED	backend			-> the new one is ended; nothing has changed
 *
 * Until the switch the serving engine is not affected; after it the new one is an engine like any
 * other.  If the serving one ends before the switch, the upgrade fails, and it is restarted as usual.
 *
 * Tests: tests/t/094_upgrade_engine.pl.
 */
#include "postgres.h"

#include <sys/wait.h>

#include "utils/timestamp.h"

#include "base/assert.h"
#include "pg/supervisor/engine_process.h"
#include "pg/client/slots.h"
#include "pg/vllm_pg.h"

typedef enum StandbyEngineRole
{
	SB_NONE = 0,				/* no process */
	SB_STARTING,				/* "hello" outstanding, */
	SB_LOADING,					/* "ready" outstanding */
	SB_READY,
	SB_RETIRING					/* was replaced by the new one */
} StandbyEngineRole;

static ChildLog second_log = {.who = "inference engine"};
static Engine other = {.proc = {.control_fd = -1,.log_fd = -1,.log = &second_log},.side = 1};
static StandbyEngineRole role = SB_NONE;
static TimestampTz retire_by;	/* RETIRING: when its remaining conversations are given up */
static bool stale;				/* the wait set does not have its present sockets */

const Engine *
standby_engine(void)
{
	return &other;
}

long
standby_timeout(void)
{
	return role == SB_NONE ? 1000 : 20;
}

void
standby_send(const char *text)
{
	if (role != SB_NONE)
		engine_send(&other, text);
}

/* Publish the state of the upgrade.  error: for VUP_FAILED */
static void
set_upgrade(VllmUpgrade to, const char *error)
{
	VllmShared *s = vllm_shared;

	LWLockAcquire(s->lock, LW_EXCLUSIVE);
	/* a backend that has cancelled does not wait for a result */
	if (s->upgrade != VUP_CANCELLED || to == VUP_NONE)
		s->upgrade = to;
	if (error != NULL)
		strlcpy(s->upgrade_error, error, sizeof(s->upgrade_error));
	LWLockRelease(s->lock);
	ConditionVariableBroadcast(&s->state_cv);
}

static VllmUpgrade
upgrade(void)
{
	VllmUpgrade u;

	LWLockAcquire(vllm_shared->lock, LW_SHARED);
	u = vllm_shared->upgrade;
	LWLockRelease(vllm_shared->lock);
	return u;
}

/* The process has ended: its conversations are lost. */
static void
process_ended(void)
{
	VllmShared *s = vllm_shared;

	/* a process that still ran would write to an arena that is taken for free */
	ASSERT(other.proc.pid == 0);
	LWLockAcquire(s->lock, LW_EXCLUSIVE);
	vslot_engine_ended_locked(other.side);
	if (role == SB_RETIRING)
		s->retiring_pid = 0;
	s->second_up = false;
	LWLockRelease(s->lock);
	ConditionVariableBroadcast(&s->state_cv);
	role = SB_NONE;
	other.drain_at = 0;
	stale = true;
}

void
standby_kill(void)
{
	if (role == SB_NONE)
		return;
	spawn_kill(&other.proc);
	process_ended();
}

static void
fail(const char *why)
{
	ereport(LOG, (errmsg("could not upgrade the inference engine"), errdetail("%s", why)));
	standby_kill();
	set_upgrade(VUP_FAILED, why);
}

/* ---- before the switch ---- */

static void
begin(void)
{
	char	   *why = NULL;
	VllmShared *s = vllm_shared;

	/* an earlier second engine has not ended yet */
	if (role != SB_NONE)
		return;
	if (pg_atomic_read_u32(&s->state) != VLLM_READY)
	{
		fail("The current engine is not ready.");
		return;
	}
	/* two engines would write to one arena */
	ASSERT(other.proc.pid == 0 && other.side != (int) pg_atomic_read_u32(&s->side));
	childlog_reset(other.proc.log);
	other.ctl_len = 0;
	other.drain_at = 0;
	if (!spawn_engine(&other.proc, other.side, &why))
	{
		fail(why);
		return;
	}
	other.spawned_at = other.step_seen_at = other.beat_seen_at = GetCurrentTimestamp();
	other.last_step = 0;
	other.last_beat = 0;
	LWLockAcquire(s->lock, LW_EXCLUSIVE);
	pg_atomic_write_u32(&s->epochs[other.side], pg_atomic_add_fetch_u32(&s->epoch, 1));
	atomic_store(&wire_header(&vllm_arenas[other.side])->epoch, pg_atomic_read_u32(&s->epoch));
	s->second_up = true;
	LWLockRelease(s->lock);
	role = SB_STARTING;
	stale = true;
	set_upgrade(VUP_STARTING, NULL);
}

static void
take_line(Engine *e, char *line)
{
	int			version;
	int			pid;

	if (role == SB_STARTING && sscanf(line, CONTROL_HELLO " %d %d", &version, &pid) == 2)
	{
		if (version == WIRE_VERSION)
			role = SB_LOADING;
		else
			fail(psprintf("The engine program speaks wire version %d, this library %d.", version,
						  WIRE_VERSION));
	}
	else if (role == SB_LOADING && strcmp(line, CONTROL_READY) == 0)
	{
		role = SB_READY;
		set_upgrade(VUP_READY, NULL);
	}
}

static void
ended(int status)
{
	const char *last = other.proc.log->last;
	StandbyEngineRole was = role;

	process_ended();
	if (was == SB_RETIRING)
		ereport(LOG, (errmsg("the previous inference engine has ended")));
	else if (WIFSIGNALED(status))
		fail(psprintf("The new engine process was terminated by signal %d%s%s%s.", WTERMSIG(status),
					  spawn_signal_note(WTERMSIG(status)), last[0] ? ": " : "", last));
	else
		fail(psprintf("The new engine process exited with status %d%s%s.", WEXITSTATUS(status),
					  last[0] ? ": " : "", last));
}

/* ---- the switch, and after it ---- */

static void
switch_over(void)
{
	VllmShared *s = vllm_shared;
	int			drain_ms;

	ASSERT(role == SB_READY && other.proc.pid != 0);
	/* exchange the supervisor's engine with this one */
	engine_swap(&other);
	LWLockAcquire(s->lock, LW_EXCLUSIVE);
	pg_atomic_write_u32(&s->side, 1 - other.side);
	s->retiring_pid = other.proc.pid;
	drain_ms = s->upgrade_drain_ms;
	LWLockRelease(s->lock);
	role = SB_RETIRING;
	retire_by = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), drain_ms);
	stale = true;
	set_upgrade(VUP_DONE, NULL);
	ereport(LOG, (errmsg("a new inference engine serves; the old one with pid %d finishes its requests",
						 (int) other.proc.pid)));
}

static void
retire(TimestampTz now)
{
	bool		in_use;

	if (other.drain_at != 0)
		return;
	LWLockAcquire(vllm_shared->lock, LW_SHARED);
	in_use = vslot_side_in_use_locked(other.side);
	LWLockRelease(vllm_shared->lock);
	if (in_use && now < retire_by)
		return;
	if (in_use)
		ereport(LOG, (errmsg("the previous inference engine still has requests; they are abandoned")));
	engine_send(&other, CONTROL_STOP "\n");
	other.drain_at = TimestampTzPlusMilliseconds(now, engine_stop_timeout());
}

bool
standby_poll(void)
{
	TimestampTz now = GetCurrentTimestamp();
	VllmUpgrade u = upgrade();
	bool		was_stale;
	int			status;

	if (role != SB_NONE)
	{
		if (other.proc.log_fd >= 0 && !childlog_read(other.proc.log, other.proc.log_fd))
		{
			spawn_close(&other.proc.log_fd);
			stale = true;
		}
		if (!engine_read(&other, take_line))
			stale = true;
		if (spawn_reap(&other.proc, &status))
			ended(status);
		else if (role != SB_NONE && other.drain_at != 0 && now >= other.drain_at)
			ended((spawn_kill(&other.proc), SIGKILL));
		else if ((role == SB_STARTING || role == SB_LOADING) &&
				 TimestampDifferenceExceeds(other.spawned_at, now, ENGINE_START_TIMEOUT))
			fail("It did not become ready in time.");
		else if (role == SB_RETIRING)
			retire(now);
		else if (role != SB_NONE && pg_atomic_read_u32(&vllm_shared->state) != VLLM_READY)
			fail("The current engine has ended meanwhile.");
		u = upgrade();
	}
	if (u == VUP_WANTED)
		begin();
	else if (u == VUP_SWITCH && role == SB_READY)
		switch_over();
	else if (u == VUP_CANCELLED)
	{
		if (role != SB_NONE && role != SB_RETIRING)
			standby_kill();
		set_upgrade(VUP_NONE, NULL);
	}
	was_stale = stale;
	stale = false;
	return was_stale;
}
