/*
 * http_process.c
 *	  The supervisor keeps the HTTP server running: vllm_pg_http, a separate program (src/httpd) that
 *	  speaks HTTP to clients and libpq to this server.
 *
 *	state		means							leaves when
 *	no process	vllm.http_port = 0, or ended	port set and next_start reached -> running
 *	running										settings changed -> leaving; process ends -> no process
 *
 * A process that leaves is sent SIGTERM START_TIME after its successor was started, when that waits
 * for the port.  Then it stops listening and completes its requests, until it ends or kill_at is
 * reached.  Meanwhile its successor serves, so a reload refuses no client.  At most one process is
 * leaving.
 *
 * An HTTP server that ends by itself is restarted after a back-off of RETRY_MIN, doubling up to
 * RETRY_MAX.  One that can't use its settings (its port is taken, a bad certificate) is restarted
 * after RETRY_MAX, or when the settings are read again.  It is a client like any other: its failure
 * does not affect the database.
 *
 * Tests: tests/t/083_http.pl.
 */
#include "postgres.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "postmaster/postmaster.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

#include "base/assert.h"
#include "pg/supervisor/http_process.h"
#include "pg/supervisor/spawn.h"
#include "pg/util/program_path.h"
#include "pg/vllm_pg.h"

#define RETRY_MIN		100		/* ms */
#define RETRY_MAX		30000
#define HEALTHY_AFTER	10000	/* ms; after this lifetime a process resets the back-off */
#define START_TIME		200		/* ms that a new process takes until it waits for its port */
#define DRAIN_TIMEOUT	15000	/* ms from SIGTERM to SIGKILL; the program gives its requests 10 s */
#define HTTP_EXIT_SETTINGS	2	/* src/httpd/main.c: a restart with the same settings won't help */
#define MAX_ARGS		128

static ChildLog http_process_log = {.who = "HTTP server"};
static ChildLog leaving_log;

static struct
{
	EngineProcess proc;
	char	   *config;			/* the configuration that it was started with; in TopMemoryContext */
	TimestampTz started_at;
	TimestampTz next_start;
	int			backoff;		/* ms */
	bool		moved;			/* the process was moved to `leaving`, which http_process_poll() has not
								 * reported yet */
} httpd = {.proc = {.control_fd = -1,.log_fd = -1,.log = &http_process_log}};

static struct
{
	EngineProcess proc;
	TimestampTz term_at;		/* 0 = SIGTERM has been sent */
	TimestampTz kill_at;
} leaving = {.proc = {.control_fd = -1,.log_fd = -1,.log = &leaving_log}};

const char *
http_process_path(void)
{
	static char *path = NULL;

	if (path == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		path = program_path("vllm_pg_http");
		MemoryContextSwitchTo(old);
	}
	return path;
}

/* Return a host at which this machine can reach the database server. */
static char *
server_host(void)
{
	char	   *raw = pstrdup(Unix_socket_directories);
	List	   *dirs = NIL;

	if (SplitDirectoriesString(raw, ',', &dirs) && dirs != NIL)
		return linitial(dirs);
	return "localhost";
}

/*
 * Return the whole configuration of the HTTP server as lines; for files, values that change when the
 * file is replaced.
 */
static char *
wanted_config(void)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfo(&s, "server_host=%s\nserver_port=%d\n%s", server_host(), PostPortNumber,
					 vllm_guc_http_config());
	for (const char *const *f = vllm_guc_http_files(); *f != NULL; f++)
	{
		struct stat st;

		if ((*f)[0] != '\0' && stat(*f, &st) == 0)
			appendStringInfo(&s, "stamp=%lld.%ld.%lld\n", (long long) st.st_mtim.tv_sec,
							 (long) st.st_mtim.tv_nsec, (long long) st.st_ino);
	}
	return s.data;
}

static void
start_httpd(void)
{
	char	   *argv[MAX_ARGS];
	char	   *config = wanted_config();
	char	   *save = NULL;
	char	   *why = NULL;
	int			n = 0;
	char	   *line;

	ASSERT(httpd.proc.pid == 0);
	if (httpd.config != NULL)
		pfree(httpd.config);
	httpd.config = MemoryContextStrdup(TopMemoryContext, config);
	argv[n++] = (char *) http_process_path();
	for (line = strtok_r(config, "\n", &save); line != NULL && n < MAX_ARGS - 2;
		 line = strtok_r(NULL, "\n", &save))
	{
		argv[n++] = "--set";
		argv[n++] = line;
	}
	/* the program would use the defaults of the settings that don't fit */
	ASSERT(line == NULL);
	argv[n] = NULL;
	childlog_reset(&http_process_log);
	httpd.started_at = GetCurrentTimestamp();
	if (spawn_program(&httpd.proc, argv, &why))
		return;
	ereport(LOG, (errmsg("could not start the HTTP server"), errdetail("%s", why)));
	httpd.next_start = TimestampTzPlusMilliseconds(httpd.started_at, RETRY_MAX);
}

/* The process has ended. */
static void
http_process_ended(int status)
{
	TimestampTz now = GetCurrentTimestamp();
	int			code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

	if (TimestampDifferenceExceeds(httpd.started_at, now, HEALTHY_AFTER))
		httpd.backoff = 0;
	httpd.backoff = Min(Max(httpd.backoff * 2, RETRY_MIN), RETRY_MAX);
	if (code == HTTP_EXIT_SETTINGS || code == 126 || code == 127)
		httpd.backoff = RETRY_MAX;
	httpd.next_start = TimestampTzPlusMilliseconds(now, httpd.backoff);
	if (WIFSIGNALED(status))
		ereport(LOG, (errmsg("the HTTP server was terminated by signal %d%s", WTERMSIG(status),
							 spawn_signal_note(WTERMSIG(status))),
					  errdetail("It will be restarted in %d ms.", httpd.backoff)));
	else
		ereport(LOG, (errmsg("the HTTP server exited with status %d", code),
					  errdetail("It will be restarted in %d ms.", httpd.backoff)));
}

/* Ask the leaving process to end; it completes its requests first. */
static void
end_leaving(void)
{
	/* process 0 is the supervisor's whole group */
	ASSERT(leaving.proc.pid > 0);
	(void) kill(leaving.proc.pid, SIGTERM);
	leaving.term_at = 0;
	leaving.kill_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), DRAIN_TIMEOUT);
}

static void
end_httpd(void)
{
	ASSERT(httpd.proc.pid != 0);
	spawn_kill(&leaving.proc);
	/* its descriptors are closed, and not lost below */
	ASSERT(leaving.proc.pid == 0 && leaving.proc.log_fd < 0);
	leaving_log = http_process_log;
	leaving.proc = httpd.proc;
	leaving.proc.log = &leaving_log;
	httpd.proc.pid = 0;
	httpd.proc.log_fd = -1;
	httpd.backoff = 0;
	httpd.moved = true;
	leaving.term_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), START_TIME);
	if (vllm_http_port == 0)
		end_leaving();
}

/* Handle the process that leaves. */
static void
poll_leaving(void)
{
	int			status;

	if (leaving.proc.pid == 0)
		return;
	if (leaving.proc.log_fd >= 0 && !childlog_read(&leaving_log, leaving.proc.log_fd))
		spawn_close(&leaving.proc.log_fd);
	if (spawn_reap(&leaving.proc, &status))
		return;
	if (leaving.term_at != 0 && GetCurrentTimestamp() >= leaving.term_at)
		end_leaving();
	if (leaving.term_at != 0 || GetCurrentTimestamp() < leaving.kill_at)
		return;
	ereport(LOG, (errmsg("killing the HTTP server, which does not end")));
	spawn_kill(&leaving.proc);
}

void
http_process_reload(void)
{
	/* what failed may work with the new settings */
	httpd.next_start = 0;
	if (httpd.proc.pid != 0 &&
		(vllm_http_port == 0 || strcmp(httpd.config, wanted_config()) != 0))
		end_httpd();
}

bool
http_process_poll(void)
{
	bool		changed = httpd.moved;
	int			status;

	httpd.moved = false;
	poll_leaving();
	if (httpd.proc.log_fd >= 0 && !childlog_read(&http_process_log, httpd.proc.log_fd))
	{
		spawn_close(&httpd.proc.log_fd);
		changed = true;
	}
	if (spawn_reap(&httpd.proc, &status))
	{
		http_process_ended(status);
		changed = true;
	}
	if (httpd.proc.pid == 0 && vllm_http_port != 0 && GetCurrentTimestamp() >= httpd.next_start)
	{
		start_httpd();
		changed = true;
	}
	return changed;
}

int
http_process_log_fd(void)
{
	return httpd.proc.log_fd;
}

long
http_process_timeout(void)
{
	if (httpd.proc.pid == 0 && vllm_http_port != 0)
		return TimestampDifferenceMilliseconds(GetCurrentTimestamp(), httpd.next_start) + 1;
	/* no event wakes the supervisor for the log of the leaving process */
	return leaving.proc.pid == 0 ? 1000 : leaving.term_at != 0 ? 10 : 100;
}

void
http_process_kill(void)
{
	spawn_kill(&httpd.proc);
	spawn_kill(&leaving.proc);
}
