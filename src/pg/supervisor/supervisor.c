/*
 * supervisor.c
 *	  The background worker that keeps the engine process running.
 *
 *	state		means								leaves when
 *	DOWN		no process							at once -> STARTING
 *	STARTING	spawned, "hello" outstanding		hello -> LOADING; START_TIMEOUT -> BACKOFF
 *	LOADING		right version, "ready" outstanding	ready -> READY
 *	READY		serving								process ends -> BACKOFF
 *	DRAINING	llm_engine_restart()				process ends -> STARTING
 *	BACKOFF		ended; restart_at says when next	time -> STARTING
 *	FAILED		can't run (no program, version)		FAILED_RETRY or llm_engine_restart() -> STARTING
 *	OFF			vllm.engine = off					never
 *
 * The supervisor also passes on wakes (from the engine to backends' latches), reaps zombie slots,
 * sends messages that backends could not send, and writes the engine's log lines to the server log.
 * It kills an engine that has work but makes no step for vllm.hang_timeout, or whose server thread is
 * silent for that time.  standby_engine.c handles a second engine beside the one that serves.  The
 * supervisor keeps the remote program and the HTTP server running, too (remote_process.c,
 * http_process.c).  It raises no ERROR itself, ignores SIGINT (pg_cancel_backend must not cause a
 * reload of the models) and ends on SIGTERM with status 1, so that the postmaster restarts it.
 *
 * Tests: tests/t/001_lifecycle.pl, 002_kill_matrix.pl, 004_hang.pl, 006_missing_engine.pl.
 */
#include "postgres.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/assert.h"
#include "pg/supervisor/http_process.h"
#include "pg/supervisor/remote_process.h"
#include "pg/supervisor/spawn.h"
#include "pg/supervisor/engine_process.h"
#include "pg/supervisor/stats_log.h"
#include "pg/client/spend.h"
#include "pg/ddl/model_invalidate.h"
#include "pg/client/slots.h"
#include "pg/vllm_pg.h"
#include "ipc/control_protocol.h"

#define BACKOFF_MIN		10		/* ms */
#define BACKOFF_MAX		5000
#define FAILED_RETRY	60000
#define HEALTHY_AFTER	10000	/* ms; an engine that lived this long resets the back-off */
#define MAX_EVENTS		9
#define READ_MAX		65536	/* bytes read from the engine in one iteration */

typedef struct Supervisor
{
	Engine		e;				/* the engine that serves, or is to serve */
	WaitEventSet *set;			/* NULL: has to be made again */
	TimestampTz next_start;
	int			backoff;		/* ms */
} Supervisor;

static Supervisor sup = {.e = {.proc = {.control_fd = -1,.log_fd = -1,.log = &engine_log}}};
static volatile sig_atomic_t got_child = false;

static void
child_handler(SIGNAL_ARGS)
{
	int			save_errno = errno;

	got_child = true;
	SetLatch(MyLatch);
	errno = save_errno;
}

static WireHeader *
header(void)
{
	return wire_header(&vllm_arenas[sup.e.side]);
}

static VllmEngineState
state(void)
{
	return pg_atomic_read_u32(&vllm_shared->state);
}

/*
 * Publish a state.  error: a failure's, or NULL.  If there is no process any more, its conversations
 * are marked lost in the same critical section that stops new ones.
 */
static void
set_state(VllmEngineState st, const char *error)
{
	VllmShared *s = vllm_shared;

	ASSERT(sup.e.proc.pid != 0 || (st != VLLM_STARTING && st != VLLM_LOADING && st != VLLM_READY));
	LWLockAcquire(s->lock, LW_EXCLUSIVE);
	s->serving = st == VLLM_READY;
	pg_atomic_write_u32(&s->state, st);
	s->engine_pid = sup.e.proc.pid;
	s->restart_at = sup.next_start;
	if (error != NULL)
	{
		strlcpy(s->last_error, error, sizeof(s->last_error));
		s->last_error_at = GetCurrentTimestamp();
		s->failing = true;
	}
	if (st == VLLM_READY)
	{
		s->started_at = GetCurrentTimestamp();
		s->failing = false;
	}
	if (st == VLLM_STARTING)
	{
		if (pg_atomic_add_fetch_u32(&s->epoch, 1) > 1)
			s->restarts++;
		pg_atomic_write_u32(&s->epochs[sup.e.side], pg_atomic_read_u32(&s->epoch));
		atomic_store(&header()->epoch, pg_atomic_read_u32(&s->epoch));
	}
	if (sup.e.proc.pid == 0)
	{
		s->started_at = 0;
		vslot_engine_ended_locked(sup.e.side);
	}
	LWLockRelease(s->lock);
	ConditionVariableBroadcast(&s->state_cv);
}

/* ---- starting and ending ---- */

static void
drop_wait_set(void)
{
	if (sup.set != NULL)
		FreeWaitEventSet(sup.set);
	sup.set = NULL;
}

/* The engine process has ended: every open conversation is lost. */
static void
engine_has_ended(VllmEngineState next, int delay_ms, const char *error)
{
	/* else its conversations would not be marked lost */
	ASSERT(sup.e.proc.pid == 0);
	drop_wait_set();
	sup.next_start = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), delay_ms);
	set_state(next, error);
}

static void
start_engine(void)
{
	char	   *why = NULL;

	/* two engines would write to one arena */
	ASSERT(sup.e.proc.pid == 0);
	drop_wait_set();
	childlog_reset(sup.e.proc.log);
	sup.e.ctl_len = 0;
	if (!spawn_engine(&sup.e.proc, sup.e.side, &why))
	{
		ereport(LOG, (errmsg("could not start the inference engine"), errdetail("%s", why)));
		sup.next_start = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), FAILED_RETRY);
		/* this counts as an attempt, since llm_engine_restart() waits for one */
		pg_atomic_fetch_add_u32(&vllm_shared->epoch, 1);
		set_state(VLLM_FAILED, why);
		return;
	}
	sup.e.drain_at = 0;
	sup.e.spawned_at = sup.e.step_seen_at = sup.e.beat_seen_at = GetCurrentTimestamp();
	set_state(VLLM_STARTING, NULL);
}

/* The process has ended by itself or was killed from outside. */
static void
engine_ended(int status)
{
	char		why[512];
	const char *last = sup.e.proc.log->last;
	int			code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

	if (WIFSIGNALED(status))
		snprintf(why, sizeof(why), "The engine process was terminated by signal %d%s%s%s.",
				 WTERMSIG(status), spawn_signal_note(WTERMSIG(status)), last[0] ? ": " : "", last);
	else if (code == 127 || code == 126)
		snprintf(why, sizeof(why), "The engine program could not be executed.");
	else
		snprintf(why, sizeof(why), "The engine process exited with status %d%s%s.",
				 code, last[0] ? ": " : "", last);
	/* with too little memory a program can't even report what is missing */
	if (spawn_memory_limit() != 0 && state() == VLLM_STARTING)
		snprintf(why + strlen(why), sizeof(why) - strlen(why),
				 " Setting vllm.engine_memory_limit is %d MB.", vllm_engine_memory_limit);
	if (state() == VLLM_DRAINING)
	{
		engine_has_ended(VLLM_DOWN, 0, NULL);
		return;
	}
	ereport(LOG, (errmsg("the inference engine ended"), errdetail("%s", why)));
	if (code == 127 || code == 126 || code == ENGINE_EXIT_USAGE || code == ENGINE_EXIT_VERSION)
	{
		engine_has_ended(VLLM_FAILED, FAILED_RETRY, why);
		return;
	}
	if (TimestampDifferenceExceeds(sup.e.spawned_at, GetCurrentTimestamp(), HEALTHY_AFTER))
		sup.backoff = 0;
	sup.backoff = Min(Max(sup.backoff * 2, BACKOFF_MIN), BACKOFF_MAX);
	engine_has_ended(VLLM_BACKOFF, sup.backoff, why);
}

static void
kill_engine(const char *why)
{
	ereport(LOG, (errmsg("killing the inference engine"), errdetail("%s", why)));
	spawn_kill(&sup.e.proc);
	sup.backoff = Min(Max(sup.backoff * 2, BACKOFF_MIN), BACKOFF_MAX);
	engine_has_ended(VLLM_BACKOFF, sup.backoff, why);
}

int
engine_stop_timeout(void)
{
	return vllm_kv_offload_directory[0] != '\0' ? ENGINE_KEEP_TIMEOUT : ENGINE_DRAIN_TIMEOUT;
}

/* At an orderly end, let the engine write the data that it keeps over a restart. */
static void
let_engine_keep(void)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), engine_stop_timeout());
	int			status;

	if (vllm_kv_offload_directory[0] == '\0')
		return;
	engine_send(&sup.e, CONTROL_STOP "\n");
	while (!spawn_reap(&sup.e.proc, &status) && GetCurrentTimestamp() < until)
		pg_usleep(5000);
}

/* before_shmem_exit: end the engine with the supervisor, and inform waiting backends */
static void
supervisor_exit(int code, Datum arg)
{
	/* an error may have led here */
	LWLockReleaseAll();
	if (sup.e.proc.pid != 0)
	{
		if (ShutdownRequestPending)
			let_engine_keep();
		spawn_kill(&sup.e.proc);
	}
	standby_kill();
	remote_program_kill();
	http_process_kill();
	set_state(vllm_engine ? VLLM_DOWN : VLLM_OFF, NULL);
	vllm_shared->supervisor_pid = 0;
}

/* ---- the control socket ---- */

void
engine_send(Engine *e, const char *text)
{
	/* if the socket is full, the engine has not read thousands of lines; the health check will notice */
	if (e->proc.control_fd >= 0 &&
		send(e->proc.control_fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t) strlen(text))
		ereport(LOG, (errmsg("could not send \"%.40s\" to the %s: %m", text, e->proc.log->who)));
}

static void
control_line(Engine *e, char *line)
{
	int			version;
	int			pid;

	if (strcmp(line, CONTROL_WAKE) == 0)
		return;					/* the wake only ends the sleep: engine_read() drains the ring after
								 * every read */
	if (strcmp(line, CONTROL_READY) == 0)
	{
		/* only once, after its version has been checked */
		if (state() != VLLM_LOADING)
			return;
		ereport(LOG, (errmsg("the inference engine is ready, pid %d", (int) sup.e.proc.pid)));
		set_state(VLLM_READY, NULL);
	}
	else if (state() == VLLM_STARTING && sscanf(line, CONTROL_HELLO " %d %d", &version, &pid) == 2)
	{
		if (version == WIRE_VERSION)
			set_state(VLLM_LOADING, NULL);
		else
		{
			char		why[200];

			snprintf(why, sizeof(why), "The engine program speaks wire version %d, this library %d.",
					 version, WIRE_VERSION);
			ereport(LOG, (errmsg("could not use the inference engine"), errdetail("%s", why)));
			spawn_kill(&sup.e.proc);
			engine_has_ended(VLLM_FAILED, FAILED_RETRY, why);
		}
	}
}

bool
engine_read(Engine *e, void (*line) (Engine *e, char *line))
{
	char		buf[4096];
	ssize_t		n = -1;
	bool		open = true;

	for (int total = 0; total < READ_MAX && e->proc.control_fd >= 0; total += n)
	{
		n = recv(e->proc.control_fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n && e->proc.control_fd >= 0; i++)
		{
			if (buf[i] == '\n')
			{
				e->ctl[e->ctl_len] = '\0';
				e->ctl_len = 0;
				line(e, e->ctl);
			}
			else if (e->ctl_len < CONTROL_LINE - 1)
				e->ctl[e->ctl_len++] = buf[i];
		}
	}
	if (n == 0 && e->proc.control_fd >= 0)
	{
		/*
		 * the engine is ending, or faulty: stop waiting for the socket, and wait for the process to
		 * end
		 */
		spawn_close(&e->proc.control_fd);
		e->drain_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ENGINE_DRAIN_TIMEOUT);
		open = false;
	}
	(void) vslot_drain_wakes(e->side);
	return open;
}

/* Exchange two engines that are both ready, so the state does not change. */
void
engine_swap(Engine *other)
{
	Engine		e = sup.e;

	sup.e = *other;
	*other = e;
	/* the new engine's health was not checked so far, so the last values may be as old as the process */
	sup.e.step_seen_at = sup.e.beat_seen_at = GetCurrentTimestamp();
	sup.backoff = 0;
	LWLockAcquire(vllm_shared->lock, LW_EXCLUSIVE);
	vllm_shared->engine_pid = sup.e.proc.pid;
	vllm_shared->started_at = GetCurrentTimestamp();
	LWLockRelease(vllm_shared->lock);
	drop_wait_set();
}

/* ---- health ---- */

const char *
engine_failure(Engine *e, VllmEngineState st)
{
	TimestampTz now = GetCurrentTimestamp();
	WireHeader *h = wire_header(&vllm_arenas[e->side]);
	uint64		step = atomic_load(&h->step_counter);
	int64		beat = atomic_load(&h->heartbeat_us);

	if (e->proc.pid == 0)
		return NULL;
	if (st == VLLM_STARTING || st == VLLM_LOADING)
		return TimestampDifferenceExceeds(e->spawned_at, now, ENGINE_START_TIMEOUT) ?
			"It did not become ready in time." : NULL;
	if (st != VLLM_READY)
		return NULL;
	if (step != e->last_step || atomic_load(&h->busy) == 0)
	{
		e->last_step = step;
		e->step_seen_at = now;
	}
	else if (TimestampDifferenceExceeds(e->step_seen_at, now, vllm_hang_timeout))
		return "It has work but made no step for longer than vllm.hang_timeout.";
	/* the server thread changes the heartbeat about once a second; the value itself is not trusted */
	if (beat != e->last_beat)
	{
		e->last_beat = beat;
		e->beat_seen_at = now;
	}
	else if (TimestampDifferenceExceeds(e->beat_seen_at, now, vllm_hang_timeout + 5000))
		return "Its server thread is silent for longer than vllm.hang_timeout.";
	return NULL;
}

static void
check_health(void)
{
	const char *why = engine_failure(&sup.e, state());

	if (why != NULL)
		kill_engine(why);
}

/* ---- the loop ---- */

static void
reload_config(void)
{
	char	   *save = NULL;

	ProcessConfigFile(PGC_SIGHUP);
	/* what failed may work with the new settings */
	if (state() == VLLM_FAILED)
		sup.next_start = 0;
	for (char *l = strtok_r(vllm_guc_engine_config(), "\n", &save); l != NULL;
		 l = strtok_r(NULL, "\n", &save))
	{
		char	   *line = psprintf("%s %s\n", CONTROL_CONFIG, l);

		engine_send(&sup.e, line);
		standby_send(line);
	}
	remote_program_reload();
	http_process_reload();
}

static void
take_restart_request(void)
{
	bool		wanted;

	LWLockAcquire(vllm_shared->lock, LW_EXCLUSIVE);
	wanted = vllm_shared->restart_requested;
	vllm_shared->restart_requested = false;
	LWLockRelease(vllm_shared->lock);
	if (!wanted || !vllm_engine)
		return;
	sup.backoff = 0;
	if (sup.e.proc.pid == 0)
	{
		sup.next_start = 0;
		return;
	}
	set_state(VLLM_DRAINING, NULL);
	engine_send(&sup.e, CONTROL_STOP "\n");
	sup.e.drain_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), engine_stop_timeout());
}

/* One iteration: handle events, and do what is due. */
static void
supervise(void)
{
	TimestampTz now;
	int			status;

	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		reload_config();
	}
	if (sup.e.proc.log_fd >= 0 && !childlog_read(sup.e.proc.log, sup.e.proc.log_fd))
	{
		drop_wait_set();
		spawn_close(&sup.e.proc.log_fd);
	}
	if (!engine_read(&sup.e, control_line))
		drop_wait_set();
	got_child = false;
	if (spawn_reap(&sup.e.proc, &status))
		engine_ended(status);
	take_restart_request();
	now = GetCurrentTimestamp();
	if (sup.e.proc.pid != 0 && sup.e.drain_at != 0 && now >= sup.e.drain_at)
	{
		if (state() != VLLM_DRAINING)
			kill_engine("It closed its control socket but did not end.");
		else
		{
			spawn_kill(&sup.e.proc);
			engine_has_ended(VLLM_DOWN, 0, NULL);
		}
	}
	if (sup.e.proc.pid == 0 && vllm_engine && now >= sup.next_start)
		start_engine();
	check_health();
	if (standby_poll())
		drop_wait_set();
	if (remote_program_poll())
		drop_wait_set();
	if (http_process_poll())
		drop_wait_set();
	vslot_reap_zombies();
	vslot_care_poll();
	release_post_queued();
	statlog_poll();
	cost_poll();
}

static void
make_wait_set(void)
{
	sup.set = compat_wait_event_set(MAX_EVENTS);
	AddWaitEventToSet(sup.set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(sup.set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	if (sup.e.proc.control_fd >= 0)
		AddWaitEventToSet(sup.set, WL_SOCKET_READABLE, sup.e.proc.control_fd, NULL, NULL);
	if (sup.e.proc.log_fd >= 0)
		AddWaitEventToSet(sup.set, WL_SOCKET_READABLE, sup.e.proc.log_fd, NULL, NULL);
	if (standby_engine()->proc.control_fd >= 0)
		AddWaitEventToSet(sup.set, WL_SOCKET_READABLE, standby_engine()->proc.control_fd, NULL, NULL);
	if (standby_engine()->proc.log_fd >= 0)
		AddWaitEventToSet(sup.set, WL_SOCKET_READABLE, standby_engine()->proc.log_fd, NULL, NULL);
	if (remote_program()->proc.control_fd >= 0)
		AddWaitEventToSet(sup.set, WL_SOCKET_READABLE, remote_program()->proc.control_fd, NULL, NULL);
	if (remote_program()->proc.log_fd >= 0)
		AddWaitEventToSet(sup.set, WL_SOCKET_READABLE, remote_program()->proc.log_fd, NULL, NULL);
	if (http_process_log_fd() >= 0)
		AddWaitEventToSet(sup.set, WL_SOCKET_READABLE, http_process_log_fd(), NULL, NULL);
}

static long
next_timeout(void)
{
	long		t = 1000;

	if (sup.e.proc.pid == 0 && vllm_engine)
		t = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), sup.next_start) + 1;
	else if (sup.e.drain_at != 0)
		t = 20;
	if (vllm_shared->n_zombies > 0 || vllm_shared->n_forgets > 0)
		t = Min(t, 50);
	t = Min(t, Min(Min(http_process_timeout(), standby_timeout()), remote_program_timeout()));
	t = Min(t, statlog_timeout());
	return Max(1, Min(t, Min(1000, vllm_hang_timeout / 4)));
}

/* Run supervise() and recover from any ERROR, which must not end the worker and its engine. */
static void
supervise_safely(MemoryContext loop)
{
	MemoryContextSwitchTo(loop);
	PG_TRY();
	{
		supervise();
	}
	PG_CATCH();
	{
		LWLockReleaseAll();
		ConditionVariableCancelSleep();
		MemoryContextSwitchTo(loop);
		EmitErrorReport();
		FlushErrorState();
		drop_wait_set();
		pg_usleep(100000);
	}
	PG_END_TRY();
	MemoryContextReset(loop);
}

void
vllm_supervisor_main(Datum arg)
{
	MemoryContext loop;
	uint32		wait_event = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGINT, SIG_IGN);
	pqsignal(SIGCHLD, child_handler);
	BackgroundWorkerUnblockSignals();
	/* connects to no database, but makes the process visible in pg_stat_activity */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	pgstat_report_appname("vllm_pg supervisor");

	LWLockAcquire(vllm_shared->lock, LW_EXCLUSIVE);
	vllm_shared->supervisor_pid = MyProcPid;
	vllm_shared->supervisor_procno = compat_my_procno();
	/* no engine has outlived an earlier supervisor, on either side */
	pg_atomic_write_u32(&vllm_shared->side, sup.e.side);
	vllm_shared->upgrade = VUP_NONE;
	vllm_shared->retiring_pid = 0;
	vllm_shared->second_up = false;
	LWLockRelease(vllm_shared->lock);
	before_shmem_exit(supervisor_exit, (Datum) 0);
	set_state(vllm_engine ? VLLM_DOWN : VLLM_OFF, NULL);
	remote_program_init();

	loop = AllocSetContextCreate(TopMemoryContext, "vllm_pg supervisor", ALLOCSET_DEFAULT_SIZES);
	while (!ShutdownRequestPending)
	{
		WaitEvent	ev[MAX_EVENTS];

		supervise_safely(loop);
		if (sup.set == NULL)
			make_wait_set();
		(void) WaitEventSetWait(sup.set, next_timeout(), ev, lengthof(ev),
								compat_wait_event(&wait_event, "VllmSupervisor"));
		ResetLatch(MyLatch);
		/* process barriers: DROP DATABASE waits until every process has accepted one */
		CHECK_FOR_INTERRUPTS();
	}
	/* exit code 1: the postmaster restarts the supervisor, unless the server is shutting down */
	proc_exit(1);
}

void
vllm_supervisor_register(void)
{
	BackgroundWorker w;

	memset(&w, 0, sizeof(w));
	w.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	w.bgw_start_time = BgWorkerStart_ConsistentState;
	w.bgw_restart_time = 1;
	strlcpy(w.bgw_library_name, "vllm_pg", sizeof(w.bgw_library_name));
	strlcpy(w.bgw_function_name, "vllm_supervisor_main", sizeof(w.bgw_function_name));
	strlcpy(w.bgw_name, "vllm_pg supervisor", sizeof(w.bgw_name));
	strlcpy(w.bgw_type, "vllm_pg supervisor", sizeof(w.bgw_type));
	RegisterBackgroundWorker(&w);
}
