/*
 * spawn.c
 *	  Starting and ending the engine process, the remote program and the HTTP server.
 *
 * Between fork and execve only async-signal-safe calls are made: the child is a copy of a PostgreSQL
 * process and must not run any of its exit code.  The engine gets a session of its own, because
 * PostgreSQL signals process groups.  It gets three descriptors, and stdin/stdout on /dev/null; all
 * others (data files, WAL, other sockets and the postmaster's death-watch pipe) are closed.  It dies
 * with its supervisor (PDEATHSIG), and if memory runs out, the kernel kills it first.  No program
 * gains privileges by executing others (no_new_privs); each limits its own system calls
 * (src/base/sandbox/seccomp.h).
 */
#include "postgres.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/stringinfo.h"
#include "miscadmin.h"

#include "base/assert.h"
#include "pg/supervisor/spawn.h"
#include "pg/util/program_path.h"
#include "pg/vllm_pg.h"
#include "ipc/control_protocol.h"

#define MAX_ARGS 256
#define MAX_ENV 64

/* path of the engine program: vllm.engine_path or beside this library; palloc'ed */
static char *
spawn_engine_path(void)
{
	if (vllm_engine_path[0] != '\0')
		return pstrdup(vllm_engine_path);
	return program_path("vllm_pg_engine");
}

/* Return the number of processes that share models; 1 = only the engine. */
static int
world(void)
{
	return vllm_tensor_parallel_size * vllm_pipeline_parallel_size;
}

/* Return the number of groups of such processes; the engine is the first process of the first group. */
static int
groups(void)
{
	return world() > 1 ? vllm_data_parallel_size : 0;
}

/* Return argv of the engine, or of another rank of a replica, NULL-terminated, palloc'ed. */
static char **
build_argv(char *path, int rank, int replica)
{
	char	  **argv = palloc0(sizeof(char *) * MAX_ARGS);
	int			n = 0;
	char	   *save = NULL;
	char	   *line;

	argv[n++] = path;
	if (rank == 0)
	{
		argv[n++] = "--arena-fd";
		argv[n++] = psprintf("%d", ARENA_FD);
		argv[n++] = "--control-fd";
		argv[n++] = psprintf("%d", CONTROL_FD);
	}
	else
	{
		argv[n++] = "--rank";
		argv[n++] = psprintf("%d", rank);
		argv[n++] = "--replica";
		argv[n++] = psprintf("%d", replica);
	}
	if (world() > 1)
	{
		argv[n++] = "--group-fd";
		argv[n++] = psprintf("%d", GROUP_FD);
	}
	for (line = strtok_r(vllm_guc_engine_config(), "\n", &save);
		 line != NULL && n < MAX_ARGS - 3; line = strtok_r(NULL, "\n", &save))
	{
		argv[n++] = "--set";
		argv[n++] = line;
	}
	/* the engine would use the defaults of the settings that don't fit */
	ASSERT(line == NULL);
	/* last, so that they override the settings */
	for (char *arg = strtok_r(pstrdup(vllm_engine_args), " ", &save);
		 arg != NULL && n < MAX_ARGS - 1; arg = strtok_r(NULL, " ", &save))
		argv[n++] = arg;
	return argv;
}

/*
 * Return true for variables that CUDA and NCCL read; the engine gets nothing else of the server's
 * environment.
 */
static bool
env_passes(const char *var)
{
	if (strncmp(var, "CUDA_VISIBLE_DEVICES=", 21) == 0)
		return vllm_cuda_visible_devices[0] == '\0';
	return strncmp(var, "CUDA_DEVICE_ORDER=", 18) == 0 || strncmp(var, "NCCL_", 5) == 0;
}

/*
 * Return the environment, NULL-terminated, palloc'ed.  Programs that compute nothing get only the
 * first two variables.
 */
static char **
build_env(bool computes)
{
	char	  **env = palloc0(sizeof(char *) * MAX_ENV);
	int			n = 0;

	env[n++] = "PATH=/usr/bin:/bin";
	env[n++] = "LC_ALL=C";
	if (!computes)
		return env;
	if (vllm_cuda_visible_devices[0] != '\0')
		env[n++] = psprintf("CUDA_VISIBLE_DEVICES=%s", vllm_cuda_visible_devices);
	for (char **v = environ; *v != NULL && n < MAX_ENV - 1; v++)
		if (env_passes(*v))
			env[n++] = *v;
	return env;
}

/* Descriptors for a child; -1: none of that kind. */
typedef struct ChildFds
{
	int			control;
	int			arena;
	int			log;
	int			n_groups;
	int			groups[RANKS_MOST];
} ChildFds;

#define ABOVE_FDS	(GROUP_FD + RANKS_MOST) /* no well-known descriptor number from here on */

/*
 * Runs in the child: async-signal-safe calls only.  Descriptors are first duplicated above the
 * well-known numbers, where they can't overwrite each other.
 */
static void
child_fds(ChildFds fds)
{
	int			null = fcntl(open("/dev/null", O_RDWR), F_DUPFD, ABOVE_FDS);
	int			first = STDERR_FILENO + 1;

	fds.log = fcntl(fds.log, F_DUPFD, ABOVE_FDS);
	for (int i = 0; i < fds.n_groups; i++)
		fds.groups[i] = fcntl(fds.groups[i], F_DUPFD, ABOVE_FDS);
	if (fds.control >= 0)
	{
		fds.control = fcntl(fds.control, F_DUPFD, ABOVE_FDS);
		fds.arena = fcntl(fds.arena, F_DUPFD, ABOVE_FDS);
		if (dup2(fds.control, CONTROL_FD) < 0 || dup2(fds.arena, ARENA_FD) < 0)
			_exit(126);
		first = ARENA_FD + 1;
	}
	if (fds.n_groups > 0)
	{
		/* a rank has neither socket nor arena: close all descriptors below the groups */
		for (int i = 0; i < fds.n_groups; i++)
			if (dup2(fds.groups[i], GROUP_FD + i) < 0)
				_exit(126);
		for (int fd = first; fd < GROUP_FD; fd++)
			(void) close(fd);
		first = GROUP_FD + fds.n_groups;
	}
	if (null < 0 || fds.log < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(fds.log, 2) < 0)
		_exit(126);
	/* kernels before 5.9 have no close_range() */
	if (syscall(SYS_close_range, first, ~0U, 0) != 0)
		for (int fd = first; fd < 65536; fd++)
			(void) close(fd);
}

/*
 * Runs in the child: restrict the program's privileges, and keep its memory from being written.
 * Prompts, outputs and secrets are in its memory, so core files contain none of it, also if the
 * kernel passes cores to a program.  For debugging, wrap the program in a script that raises both
 * limits again.
 */
static void
child_confine(void)
{
	struct rlimit core;
	int			filter;

	/* a setuid program that it executes gets no more privileges; kernels before 3.5 ignore this */
	(void) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (getrlimit(RLIMIT_CORE, &core) == 0)
	{
		core.rlim_cur = 0;
		(void) setrlimit(RLIMIT_CORE, &core);
	}
	filter = open("/proc/self/coredump_filter", O_WRONLY);
	if (filter >= 0)
	{
		ssize_t		ignored = write(filter, "0", 1);

		(void) ignored;
		(void) close(filter);
	}
	(void) umask(S_IRWXG | S_IRWXO);
}

/* Runs in the child. */
static void
child_exec(char *const *argv, char *const *env, ChildFds fds, pid_t parent, rlim_t memory, int niceness)
{
	struct rlimit rl = {memory, memory};
	sigset_t	none;
	int			oom;

	(void) setsid();
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		_exit(1);				/* the parent died before PDEATHSIG was set */
	child_fds(fds);
	oom = open("/proc/self/oom_score_adj", O_WRONLY);
	if (oom >= 0)
	{
		/* not permitted in some containers: the value stays unchanged */
		ssize_t		ignored = write(oom, "900", 3);

		(void) ignored;
		(void) close(oom);
	}
	if (memory != 0 && setrlimit(RLIMIT_AS, &rl) != 0)
		_exit(126);
	child_confine();
	if (niceness > 0)
		(void) setpriority(PRIO_PROCESS, 0, niceness);
	/* ignored signals and the signal mask survive exec */
	for (int s = 1; s < NSIG; s++)
		(void) signal(s, SIG_DFL);
	sigemptyset(&none);
	(void) sigprocmask(SIG_SETMASK, &none, NULL);
	(void) execve(argv[0], argv, env);
	_exit(127);
}

void
spawn_close(int *fd)
{
	if (*fd >= 0)
		(void) close(*fd);
	*fd = -1;
}

/*
 * fork() and execute the program.  Signals are blocked meanwhile: a signal handler of the parent, run
 * in the child, would write to shared memory on the parent's behalf.
 */
static pid_t
fork_program(char *const *argv, char *const *env, ChildFds fds, rlim_t memory, int niceness)
{
	sigset_t	all;
	sigset_t	old;
	pid_t		me = getpid();
	pid_t		pid;

	sigfillset(&all);
	(void) sigprocmask(SIG_SETMASK, &all, &old);
	pid = fork();
	if (pid == 0)
		child_exec(argv, env, fds, me, memory, niceness);
	(void) sigprocmask(SIG_SETMASK, &old, NULL);
	return pid;
}

/* Ends of the connections to a child, the supervisor's first; -1 = closed, or none. */
typedef struct SpawnEnds
{
	int			control[2];
	int			log[2];
} SpawnEnds;

static void
close_ends(SpawnEnds *n)
{
	for (int i = 0; i < 2; i++)
	{
		spawn_close(&n->control[i]);
		spawn_close(&n->log[i]);
	}
}

static bool
make_ends(SpawnEnds *n, bool with_control, char **why)
{
	*n = (SpawnEnds) {{-1, -1}, {-1, -1}};
	if ((!with_control || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, n->control) == 0) &&
		pipe2(n->log, O_CLOEXEC) == 0 &&
		(!with_control || fcntl(n->control[0], F_SETFL, O_NONBLOCK) == 0) &&
		fcntl(n->log[0], F_SETFL, O_NONBLOCK) == 0)
		return true;
	*why = psprintf("could not create sockets for a program: %s", strerror(errno));
	close_ends(n);
	return false;
}

/* The child runs: store the supervisor's ends in p, close the child's. */
static void
keep_ends(EngineProcess *p, SpawnEnds *n)
{
	p->control_fd = n->control[0];
	p->log_fd = n->log[0];
	n->control[0] = n->log[0] = -1;
	close_ends(n);
}

/* side: the side whose arena the program gets, with a control socket; -1 = neither. */
static bool
spawn_plain(EngineProcess *p, char **argv, int side, char **why)
{
	SpawnEnds	ends;

	p->pid = 0;
	p->control_fd = p->log_fd = -1;
	if (access(argv[0], X_OK) != 0)
	{
		*why = psprintf("could not execute \"%s\": %s", argv[0], strerror(errno));
		return false;
	}
	if (!make_ends(&ends, side >= 0, why))
		return false;
	p->pid = fork_program(argv, build_env(false),
						  (ChildFds) {.control = ends.control[1],
									  .arena = side >= 0 ? vllm_arena_fds[side] : -1,.log = ends.log[1]}, 0,
									  0);
	if (p->pid > 0)
	{
		keep_ends(p, &ends);
		return true;
	}
	*why = psprintf("could not fork: %s", strerror(errno));
	p->pid = 0;
	close_ends(&ends);
	return false;
}

bool
spawn_program(EngineProcess *p, char **argv, char **why)
{
	return spawn_plain(p, argv, -1, why);
}

bool
spawn_server(EngineProcess *p, char **argv, int side, char **why)
{
	return spawn_plain(p, argv, side, why);
}

int
spawn_memory_limit(void)
{
	return strncmp(vllm_device, "cuda", 4) == 0 ? 0 : vllm_engine_memory_limit;
}

const char *
spawn_signal_note(int sig)
{
	return sig == SIGSYS ? " (a system call that its filter forbids: setting vllm.seccomp)" : "";
}

/*
 * Killed ranks that have not ended yet.  A driver may delay a rank's end for long, and the supervisor
 * must not wait for that.  Room for the ranks of two engines.
 */
static pid_t dying[2 * RANKS_MOST];
static int	n_dying;

/* Reap the killed ranks that have ended. */
static void
collect_ranks(void)
{
	int			status;
	int			n = 0;

	for (int i = 0; i < n_dying; i++)
		if (waitpid(dying[i], &status, WNOHANG) == 0)
			dying[n++] = dying[i];
	n_dying = n;
}

static void
kill_ranks(EngineProcess *p)
{
	collect_ranks();
	for (int i = 0; i < p->n_ranks; i++)
		if (p->ranks[i] != 0)
		{
			(void) kill(p->ranks[i], SIGKILL);
			/* if the list is full, the rank stays a zombie until the supervisor ends */
			if (n_dying < (int) lengthof(dying))
				dying[n_dying++] = p->ranks[i];
		}
	p->n_ranks = 0;
	collect_ranks();
}

/* Start the other ranks of all groups, which write to the engine's log. */
static bool
spawn_ranks(EngineProcess *p, char *path, const ChildFds *engine, rlim_t memory, char **why)
{
	p->ranks_each = world() - 1;
	for (int i = 0; i < engine->n_groups * p->ranks_each; i++)
	{
		int			rank = i % p->ranks_each + 1;
		int			replica = i / p->ranks_each;
		ChildFds	fds = {.control = -1, .arena = -1, .log = engine->log, .n_groups = 1,
						   .groups = {engine->groups[replica]}};

		ASSERT(i < (int) lengthof(p->ranks));
		p->ranks[i] = fork_program(build_argv(path, rank, replica), build_env(true), fds, memory,
								   vllm_engine_nice);
		if (p->ranks[i] < 0)
		{
			*why = psprintf("could not fork rank %d of the engine: %s", rank, strerror(errno));
			kill_ranks(p);
			return false;
		}
		p->n_ranks = i + 1;
	}
	return true;
}

static void
close_groups(ChildFds *fds)
{
	for (int i = 0; i < fds->n_groups; i++)
		spawn_close(&fds->groups[i]);
	fds->n_groups = 0;
}

/* Create the memory that the ranks of a group share, for each group. */
static bool
make_groups(ChildFds *fds, char **why)
{
	if (world() * vllm_data_parallel_size > RANKS_MOST)
	{
		*why = psprintf("Settings vllm.tensor_parallel_size, vllm.pipeline_parallel_size and "
						"vllm.data_parallel_size require %d ranks; the maximum is %d.",
							world() * vllm_data_parallel_size, RANKS_MOST);
		return false;
	}
	while (fds->n_groups < groups())
	{
		int			fd = memfd_create("vllm_pg group", MFD_CLOEXEC);

		if (fd < 0)
		{
			*why = psprintf("could not make memory for a group of ranks: %s", strerror(errno));
			close_groups(fds);
			return false;
		}
		fds->groups[fds->n_groups++] = fd;
	}
	return true;
}

static pid_t
fork_engine(char **argv, ChildFds *fds, int control, int arena, int log, rlim_t memory)
{
	fds->control = control;
	fds->arena = arena;
	fds->log = log;
	return fork_program(argv, build_env(true), *fds, memory, vllm_engine_nice);
}

bool
spawn_engine(EngineProcess *p, int side, char **why)
{
	char	   *path = spawn_engine_path();
	char	  **argv = build_argv(path, 0, 0);
	ChildFds	fds = {0};
	rlim_t		memory = (rlim_t) spawn_memory_limit() * 1024 * 1024;
	SpawnEnds	ends = {{-1, -1}, {-1, -1}};

	p->pid = 0;
	p->control_fd = p->log_fd = -1;
	if (access(path, X_OK) != 0)
	{
		*why = psprintf("could not execute \"%s\": %s", path, strerror(errno));
		return false;
	}
	if (spawn_memory_limit() != vllm_engine_memory_limit)
		ereport(WARNING,
				(errmsg("setting vllm.engine_memory_limit is ignored: vllm.device is \"%s\"", vllm_device),
				 errdetail("It limits address space, and CUDA reserves far more address space than "
						   "memory.")));
	if (memory != 0 && memory < vllm_geometry.total_size)
	{
		*why = psprintf("Setting vllm.engine_memory_limit is %d MB, but the arena alone takes %d MB.",
						vllm_engine_memory_limit, (int) (vllm_geometry.total_size / (1024 * 1024)) + 1);
		return false;
	}
	if (!make_groups(&fds, why))
		return false;
	if (make_ends(&ends, true, why) &&
		(p->pid = fork_engine(argv, &fds, ends.control[1], vllm_arena_fds[side], ends.log[1], memory)) < 0)
		*why = psprintf("could not fork the engine: %s", strerror(errno));
	else if (p->pid > 0 && !spawn_ranks(p, path, &fds, memory, why))
	{
		(void) kill(p->pid, SIGKILL);
		(void) waitpid(p->pid, NULL, 0);
	}
	else if (p->pid > 0)
	{
		close_groups(&fds);
		keep_ends(p, &ends);
		return true;
	}
	p->pid = 0;
	close_groups(&fds);
	close_ends(&ends);
	return false;
}

/* If a rank has ended, end the engine, as the other ranks can't go on. */
static void
reap_ranks(EngineProcess *p)
{
	/* process 0 is the supervisor's whole group */
	ASSERT(p->pid > 0);
	for (int i = 0; i < p->n_ranks; i++)
	{
		int			status;

		if (p->ranks[i] == 0 || waitpid(p->ranks[i], &status, WNOHANG) != p->ranks[i])
			continue;
		p->ranks[i] = 0;
		ereport(LOG, (p->n_ranks > p->ranks_each ?
					  errmsg("rank %d of replica %d of the inference engine ended", i % p->ranks_each + 1,
							 i / p->ranks_each) :
					  errmsg("rank %d of the inference engine ended", i + 1),
					  WIFSIGNALED(status) ? errdetail("It was terminated by signal %d%s.", WTERMSIG(status),
													  spawn_signal_note(WTERMSIG(status))) :
					  errdetail("It exited with status %d.", WEXITSTATUS(status))));
		(void) kill(p->pid, SIGKILL);
	}
}

bool
spawn_reap(EngineProcess *p, int *status)
{
	pid_t		r;

	collect_ranks();
	if (p->pid == 0)
		return false;
	r = waitpid(p->pid, status, WNOHANG);
	if (r == 0)
		reap_ranks(p);
	if (r == 0 || (r < 0 && errno == EINTR))
		return false;
	if (r < 0)
		*status = 0;			/* reaped elsewhere: it has ended in any case */
	p->pid = 0;
	kill_ranks(p);
	/* pass on its last lines */
	if (p->log_fd >= 0)
		(void) childlog_read(p->log, p->log_fd);
	spawn_close(&p->control_fd);
	spawn_close(&p->log_fd);
	return true;
}

void
spawn_kill(EngineProcess *p)
{
	int			status;

	if (p->pid == 0)
		return;
	(void) kill(p->pid, SIGKILL);
	while (!spawn_reap(p, &status))
		pg_usleep(1000);
}
