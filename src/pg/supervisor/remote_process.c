/*
 * remote_process.c
 *	  The supervisor keeps the remote program running: vllm_pg_remote (src/remote), which sends requests
 *	  to the endpoints of remote models.
 *
 * For the supervisor it is an engine on a side of its own: the same arena, control lines and health
 * checks, and the states of supervisor.c's table.  The differences:
 *
 *	MISSING		the file does not exist beside the library, and vllm.remote_path names none: this build is
 *				without libcurl.  This is no error; the file is looked up again after FAILED_RETRY, or when
 *				the settings are read again
 *	DRAINING	vllm.remote_path has changed: "stop" was sent to the running process
 *
 * There is never a second process: it holds no models, so a new one is ready at once.  Changed
 * settings are sent to it.  Its failure does not affect the engine, nor the other way round; with
 * vllm.engine = off it runs alone.
 *
 * Tests: tests/t/110_remote_program.pl.
 */
#include "postgres.h"

#include <sys/wait.h>
#include <unistd.h>

#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/assert.h"
#include "pg/supervisor/remote_process.h"
#include "pg/supervisor/spawn.h"
#include "pg/client/slots.h"
#include "pg/util/program_path.h"
#include "pg/vllm_pg.h"
#include "ipc/control_protocol.h"

#define BACKOFF_MIN		10		/* ms */
#define BACKOFF_MAX		5000
#define FAILED_RETRY	60000
#define HEALTHY_AFTER	10000	/* a process that lived this long resets the back-off */
#define MAX_ARGS		32

static ChildLog remote_log = {.who = "remote program"};
static Engine prog = {.proc = {.control_fd = -1,.log_fd = -1,.log = &remote_log},.side = VLLM_REMOTE_SIDE};
static char *running_path;		/* path of the running program; in TopMemoryContext */
static TimestampTz next_start;
static int	backoff;			/* ms */
static bool stale;				/* the wait set does not have its present sockets */

const Engine *
remote_program(void)
{
	return &prog;
}

static VllmEngineState
state(void)
{
	return pg_atomic_read_u32(&vllm_shared->remote.state);
}

/*
 * Like supervisor.c's set_state().  error: a failure's, or NULL.  Without a process, the
 * conversations are marked lost in the same critical section.
 */
static void
set_state(VllmEngineState st, const char *error)
{
	VllmShared *s = vllm_shared;
	VllmRemote *r = &s->remote;

	ASSERT(prog.proc.pid != 0 || (st != VLLM_STARTING && st != VLLM_LOADING && st != VLLM_READY));
	LWLockAcquire(s->lock, LW_EXCLUSIVE);
	r->serving = st == VLLM_READY;
	pg_atomic_write_u32(&r->state, st);
	r->pid = prog.proc.pid;
	r->restart_at = next_start;
	if (error != NULL)
	{
		strlcpy(r->last_error, error, sizeof(r->last_error));
		r->last_error_at = GetCurrentTimestamp();
		r->failing = true;
	}
	if (st == VLLM_READY)
	{
		r->started_at = GetCurrentTimestamp();
		r->failing = false;
	}
	if (st == VLLM_STARTING)
	{
		uint32		epoch = pg_atomic_add_fetch_u32(&s->epochs[VLLM_REMOTE_SIDE], 1);

		r->restarts += epoch > 1;
		atomic_store(&wire_header(&vllm_arenas[VLLM_REMOTE_SIDE])->epoch, epoch);
	}
	if (prog.proc.pid == 0)
	{
		r->started_at = 0;
		vslot_engine_ended_locked(VLLM_REMOTE_SIDE);
	}
	LWLockRelease(s->lock);
	ConditionVariableBroadcast(&s->state_cv);
}

static void
process_ended(VllmEngineState next, int delay_ms, const char *error)
{
	/* else its conversations would not be marked lost */
	ASSERT(prog.proc.pid == 0);
	stale = true;
	prog.drain_at = 0;
	next_start = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), delay_ms);
	set_state(next, error);
}

static void
back_off(const char *why)
{
	if (TimestampDifferenceExceeds(prog.spawned_at, GetCurrentTimestamp(), HEALTHY_AFTER))
		backoff = 0;
	backoff = Min(Max(backoff * 2, BACKOFF_MIN), BACKOFF_MAX);
	process_ended(VLLM_BACKOFF, backoff, why);
}

static char **
build_argv(char *path)
{
	char	  **argv = palloc0(sizeof(char *) * MAX_ARGS);
	int			n = 0;
	char	   *save = NULL;
	char	   *line;

	argv[n++] = path;
	argv[n++] = "--arena-fd";
	argv[n++] = psprintf("%d", ARENA_FD);
	argv[n++] = "--control-fd";
	argv[n++] = psprintf("%d", CONTROL_FD);
	for (line = strtok_r(vllm_guc_remote_config(), "\n", &save);
		 line != NULL && n < MAX_ARGS - 2; line = strtok_r(NULL, "\n", &save))
	{
		argv[n++] = "--set";
		argv[n++] = line;
	}
	/* the program would use the defaults of the settings that don't fit */
	ASSERT(line == NULL);
	return argv;
}

static void
start(void)
{
	char	   *path = remote_program_path();
	char	   *why = NULL;

	if (vllm_remote_path[0] == '\0' && access(path, F_OK) != 0)
	{
		process_ended(VLLM_MISSING, FAILED_RETRY, NULL);
		return;
	}
	if (running_path != NULL)
		pfree(running_path);
	running_path = MemoryContextStrdup(TopMemoryContext, path);
	childlog_reset(&remote_log);
	prog.ctl_len = 0;
	prog.drain_at = 0;
	if (!spawn_server(&prog.proc, build_argv(path), VLLM_REMOTE_SIDE, &why))
	{
		ereport(LOG, (errmsg("could not start the remote program"), errdetail("%s", why)));
		process_ended(VLLM_FAILED, FAILED_RETRY, why);
		return;
	}
	prog.spawned_at = prog.step_seen_at = prog.beat_seen_at = GetCurrentTimestamp();
	stale = true;
	set_state(VLLM_STARTING, NULL);
}

/* The process has ended by itself or was killed from outside. */
static void
ended(int status)
{
	const char *last = remote_log.last;
	int			code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	char	   *why;

	if (state() == VLLM_DRAINING)
	{
		process_ended(VLLM_DOWN, 0, NULL);
		return;
	}
	if (WIFSIGNALED(status))
		why = psprintf("The process was terminated by signal %d%s%s%s.", WTERMSIG(status),
					   spawn_signal_note(WTERMSIG(status)), last[0] ? ": " : "", last);
	else if (code == 127 || code == 126)
		why = psprintf("The program \"%s\" could not be executed.", running_path);
	else
		why = psprintf("The process exited with status %d%s%s.", code, last[0] ? ": " : "", last);
	ereport(LOG, (errmsg("the remote program ended"), errdetail("%s", why)));
	if (code == 127 || code == 126 || code == ENGINE_EXIT_USAGE || code == ENGINE_EXIT_VERSION)
		process_ended(VLLM_FAILED, FAILED_RETRY, why);
	else
		back_off(why);
}

static void
kill_it(const char *why)
{
	ereport(LOG, (errmsg("killing the remote program"), errdetail("%s", why)));
	spawn_kill(&prog.proc);
	back_off(why);
}

static void
take_line(Engine *e, char *line)
{
	int			version;
	int			pid;

	if (strcmp(line, CONTROL_READY) == 0 && state() == VLLM_LOADING)
	{
		ereport(LOG, (errmsg("the remote program is ready, pid %d", (int) e->proc.pid)));
		set_state(VLLM_READY, NULL);
	}
	else if (state() == VLLM_STARTING && sscanf(line, CONTROL_HELLO " %d %d", &version, &pid) == 2)
	{
		if (version == WIRE_VERSION)
			set_state(VLLM_LOADING, NULL);
		else
		{
			char	   *why = psprintf("The remote program speaks wire version %d, this library %d.", version,
									   WIRE_VERSION);

			ereport(LOG, (errmsg("could not use the remote program"), errdetail("%s", why)));
			spawn_kill(&prog.proc);
			process_ended(VLLM_FAILED, FAILED_RETRY, why);
		}
	}
}

void
remote_program_reload(void)
{
	char	   *save = NULL;

	/* what failed may work with the new settings */
	if (prog.proc.pid == 0)
		next_start = 0;
	else if (strcmp(running_path, remote_program_path()) != 0 && state() != VLLM_DRAINING)
	{
		set_state(VLLM_DRAINING, NULL);
		engine_send(&prog, CONTROL_STOP "\n");
		prog.drain_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ENGINE_DRAIN_TIMEOUT);
	}
	else
		for (char *l = strtok_r(vllm_guc_remote_config(), "\n", &save); l != NULL;
			 l = strtok_r(NULL, "\n", &save))
			engine_send(&prog, psprintf("%s %s\n", CONTROL_CONFIG, l));
}

bool
remote_program_poll(void)
{
	const char *why;
	bool		was_stale;
	int			status;

	if (prog.proc.log_fd >= 0 && !childlog_read(&remote_log, prog.proc.log_fd))
	{
		spawn_close(&prog.proc.log_fd);
		stale = true;
	}
	if (prog.proc.pid != 0 && !engine_read(&prog, take_line))
		stale = true;
	if (spawn_reap(&prog.proc, &status))
		ended(status);
	if (prog.proc.pid != 0 && prog.drain_at != 0 && GetCurrentTimestamp() >= prog.drain_at)
	{
		if (state() != VLLM_DRAINING)
			kill_it("It closed its control socket but did not end.");
		else
		{
			spawn_kill(&prog.proc);
			process_ended(VLLM_DOWN, 0, NULL);
		}
	}
	if (prog.proc.pid == 0 && GetCurrentTimestamp() >= next_start)
		start();
	why = engine_failure(&prog, state());
	if (why != NULL)
		kill_it(why);
	was_stale = stale;
	stale = false;
	return was_stale;
}

long
remote_program_timeout(void)
{
	if (prog.proc.pid == 0)
		return TimestampDifferenceMilliseconds(GetCurrentTimestamp(), next_start) + 1;
	return prog.drain_at != 0 ? 20 : 1000;
}

void
remote_program_init(void)
{
	set_state(VLLM_DOWN, NULL);
}

void
remote_program_kill(void)
{
	spawn_kill(&prog.proc);
	set_state(VLLM_DOWN, NULL);
}
