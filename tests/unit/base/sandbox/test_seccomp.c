/*
 * test_seccomp.c
 *	  The programs' filters of system calls: legal calls work, forbidden calls kill the process, and all
 *	  others fail as missing.
 *
 * Each case is a child process that enters the filter and makes the call.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sandbox/landlock.h"
#include "base/sandbox/syscall_numbers.h"
#include "runtime/engine_syscalls.h"
#include "httpd/httpd_syscalls.h"
#include "remote/remote_syscalls.h"
#include "tests/unit/check.h"

#define NR_CREATE_RULESET	444	/* landlock_create_ruleset(), the same on all machines */

#define OK(cond)	CHECK(cond, "%s", now)

static const char *now = "";	/* name of the program whose filter is tested */

static const struct
{
	const char *name;
	const SeccompRule *rules;
	const size_t *n;
}			programs[] = {
	{"engine", engine_syscalls, &engine_n_syscalls},
	{"http", http_syscalls, &http_n_syscalls},
	{"remote", remote_syscalls, &remote_n_syscalls},
};

static SeccompRules
rules_of(int i)
{
	return (SeccompRules)
	{
		programs[i].rules, *programs[i].n, false
	};
}

/* Run fn in a child under the filter.  Returns its wait status; the exit status is the result of fn. */
static int
confined(const SeccompRules *r, int (*fn) (void))
{
	pid_t		pid = fork();
	int			status;

	if (pid == 0)
	{
		int			rc = seccomp_install(r);

		_exit(rc != 0 ? 200 : fn() & 0x7f);
	}
	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

static bool
killed(int status)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
}

static bool
gave(int status, int value)
{
	return WIFEXITED(status) && WEXITSTATUS(status) == value;
}

static int
errno_of(long rc)
{
	return rc < 0 ? errno : 0;
}

/* ---- legal ---- */

static void *
thread(void *arg)
{
	return arg;
}

static int
works(void)
{
	pthread_t	t;
	void	   *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int			fd = open("/proc/self/status", O_RDONLY);
	char		b[64];

	if (p == MAP_FAILED || fd < 0 || read(fd, b, sizeof(b)) <= 0 || close(fd) != 0)
		return 1;
	if (pthread_create(&t, NULL, thread, NULL) != 0 || pthread_join(t, NULL) != 0)
		return 2;
	usleep(10);
	free(malloc(1 << 22));
	return 0;
}

static int
aborts(void)
{
	signal(SIGABRT, SIG_DFL);
	abort();
}

/* ---- never legal ---- */

static int
does_execve(void)
{
	char	   *argv[] = {"true", NULL};

	return execve("/bin/true", argv, NULL);
}

static int
does_ptrace(void)
{
	return errno_of(syscall(__NR_ptrace, 0, 0, 0, 0));
}

static int
does_unshare(void)
{
	return errno_of(unshare(CLONE_NEWUSER));
}

static int
does_bpf(void)
{
	return errno_of(syscall(__NR_bpf, 0, NULL, 0));
}

static int
does_uring(void)
{
	return errno_of(syscall(__NR_io_uring_setup, 1, NULL));
}

static int
does_packet_socket(void)
{
	return errno_of(socket(AF_PACKET, SOCK_RAW, 0));
}

static int
does_setuid(void)
{
	return errno_of(syscall(__NR_setuid, 0));
}

/* ---- others ---- */

static int
does_inet(void)
{
	return errno_of(socket(AF_INET, SOCK_STREAM, 0));
}

static int
does_unix(void)
{
	return errno_of(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int
does_fork(void)
{
	long		pid = syscall(__NR_clone, SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	return errno_of(pid);
}

static int
does_kill(void)
{
	return errno_of(kill(getppid(), 0));
}

/* Set the owner of a descriptor to another process, so that it would get signals. */
static int
does_setown(void)
{
	return errno_of(fcntl(0, F_SETOWN, getppid()));
}

static int
does_setsig(void)
{
	return errno_of(fcntl(0, F_SETSIG, SIGKILL));
}

static int
does_limit_others(void)
{
	struct rlimit none = {100, 100};

	return errno_of(syscall(__NR_prlimit64, getppid(), RLIMIT_NOFILE, &none, NULL));
}

static int
does_bind_others(void)
{
	cpu_set_t	set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	return errno_of(sched_setaffinity(getppid(), sizeof(set), &set));
}

static int
does_slow_others(void)
{
	return errno_of(setpriority(PRIO_PROCESS, (id_t) getppid(), 19));
}

/*
 * PRIO_USER, because 0 would mean all processes of the user; this invalid kind changes nothing if the
 * filter lets the call pass.
 */
static int
does_slow_all(void)
{
	return errno_of(syscall(__NR_setpriority, 99, 0, 19));
}

static int
does_write_file(void)
{
	return errno_of(open("/tmp", O_TMPFILE | O_WRONLY, 0600));
}

static int
does_listen(void)
{
	return errno_of(listen(0, 1));
}

static int
does_memfd(void)
{
	return errno_of(syscall(__NR_memfd_create, "x", 0));
}

#ifdef __x86_64__
static int
does_x32(void)
{
	return errno_of(syscall(0x40000000 | __NR_getpid));
}
#endif

/* ---- cases ---- */

static void
test_program(int i)
{
	SeccompRules r = rules_of(i);

	now = programs[i].name;
	OK(r.n > 50);
	OK(gave(confined(&r, works), 0));
	OK(WTERMSIG(confined(&r, aborts)) == SIGABRT);
	OK(killed(confined(&r, does_execve)));
	OK(killed(confined(&r, does_ptrace)));
	OK(killed(confined(&r, does_unshare)));
	OK(killed(confined(&r, does_bpf)));
	OK(killed(confined(&r, does_uring)));
	OK(killed(confined(&r, does_packet_socket)));
	OK(killed(confined(&r, does_setuid)));
	OK(gave(confined(&r, does_fork), ENOSYS));
	OK(gave(confined(&r, does_kill), ENOSYS));
	OK(gave(confined(&r, does_setown), ENOSYS));
	OK(gave(confined(&r, does_setsig), ENOSYS));
	OK(gave(confined(&r, does_limit_others), ENOSYS));
	OK(gave(confined(&r, does_bind_others), ENOSYS));
	OK(gave(confined(&r, does_slow_others), ENOSYS));
	OK(gave(confined(&r, does_slow_all), ENOSYS));
	OK(gave(confined(&r, does_listen), ENOSYS));
	OK(gave(confined(&r, does_memfd), ENOSYS));
#ifdef __x86_64__
	OK(killed(confined(&r, does_x32)));
#endif
	/* the engine may only use sockets that it was started with */
	OK(i == 0 ? killed(confined(&r, does_inet)) : gave(confined(&r, does_inet), 0));
	OK(i == 0 ? killed(confined(&r, does_unix)) : gave(confined(&r, does_unix), i == 1 ? 0 : ENOSYS));
	if (i > 0)
		OK(gave(confined(&r, does_write_file), ENOSYS));
}

/* With a device everything is allowed but forbidden calls, which fail. */
static void
test_wide(void)
{
	SeccompRules r = rules_of(0);

	r.wide = true;
	OK(gave(confined(&r, works), 0));
	OK(gave(confined(&r, does_inet), 0));
	OK(gave(confined(&r, does_memfd), 0));
	OK(gave(confined(&r, does_fork), 0));
	OK(gave(confined(&r, does_ptrace), EPERM));
	OK(gave(confined(&r, does_bpf), EPERM));
	/* execve: -1 */
	OK(gave(confined(&r, does_execve), 0x7f));
}

static void *
waits(void *arg)
{
	int		   *go = arg;

	while (__atomic_load_n(go, __ATOMIC_ACQUIRE) == 0)
		usleep(100);
	return (void *) (intptr_t) (does_memfd() == ENOSYS);
}

/* Threads that exist already get the filter, too. */
static int
filters_threads(void)
{
	static int	go;
	pthread_t	t;
	void	   *r = NULL;
	SeccompRules rules = rules_of(0);

	if (pthread_create(&t, NULL, waits, &go) != 0 || seccomp_install(&rules) != 0)
		return 1;
	__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
	return pthread_join(t, &r) == 0 && r != NULL ? 0 : 2;
}

static void
test_threads(void)
{
	pid_t		pid = fork();
	int			status;

	if (pid == 0)
		_exit(filters_threads());
	OK(waitpid(pid, &status, 0) == pid && gave(status, 0));
}

static int
opens_memory(pid_t pid)
{
	char		path[64];
	int			fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int) pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return errno_of(fd);
}

static void *
opens_in_thread(void *pid)
{
	return (void *) (intptr_t) opens_memory((pid_t) (intptr_t) pid);
}

/*
 * Check the Landlock domain.  Returns 0, or the number of the failed check.  A sibling's memory was
 * readable before.
 */
static int
looks_around(pid_t sibling)
{
	char		dir[] = "/tmp/test_seccomp.XXXXXX";
	char		from[64];
	char		to[64];
	pthread_t	t;
	void	   *e;
	int			rc = 0;

	if (mkdtemp(dir) == NULL || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || landlock_enter() != 0)
		return 1;
	if (opens_memory(getpid()) != 0)
		rc = 2;
	if (opens_memory(sibling) == 0)
		rc = 3;
	if (pthread_create(&t, NULL, opens_in_thread, (void *) (intptr_t) sibling) != 0 ||
		pthread_join(t, &e) != 0 || e == NULL)
		rc = 4;
	/* creating files, and renaming them into other directories, still works */
	snprintf(from, sizeof(from), "%s/a", dir);
	snprintf(to, sizeof(to), "%s/sub", dir);
	if (mkdir(to, 0700) != 0)
		rc = 5;
	snprintf(to, sizeof(to), "%s/sub/b", dir);
	if (close(open(from, O_CREAT | O_WRONLY, 0600)) != 0 || rename(from, to) != 0 || unlink(to) != 0)
		rc = 6;
	snprintf(to, sizeof(to), "%s/sub", dir);
	if (rmdir(to) != 0 || rmdir(dir) != 0)
		rc = 7;
	execl("/bin/true", "true", (char *) NULL);
	return errno == EACCES ? rc : 8;
}

static void
test_landlock(void)
{
	pid_t		sibling = fork();
	pid_t		pid;
	int			status = -1;

	now = "landlock";
	if (sibling == 0)
	{
		pause();
		_exit(0);
	}
	if (opens_memory(sibling) != 0)
		check_skip(1, "Landlock: other processes' memory is closed here anyway");
	if ((pid = fork()) == 0)
		_exit(looks_around(sibling));
	OK(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
		check_skip(1, "this kernel has no Landlock");
	else
		CHECK(gave(status, 0), "landlock: step %d", WEXITSTATUS(status));
	kill(sibling, SIGKILL);
	OK(waitpid(sibling, &status, 0) == sibling);
}

/* From now on this call fails as missing. */
static int
refuse_call(int nr)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = sizeof(code) / sizeof(code[0]),.filter = code};

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

/* A kernel without Landlock: with "require" the program must not start, otherwise it must. */
static int
enters_without_landlock(SeccompMode mode)
{
	SeccompRules r = rules_of(0);
	Err			e = {0};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || refuse_call(NR_CREATE_RULESET) != 0)
		return 3;
	if (!seccomp_enter(&r, mode, &e))
		return strstr(e.msg, "Landlock") != NULL ? 1 : 2;
	return 0;
}

static int
status_without_landlock(SeccompMode mode)
{
	pid_t		pid = fork();
	int			status = -1;

	if (pid == 0)
		_exit(enters_without_landlock(mode));
	OK(waitpid(pid, &status, 0) == pid);
	return status;
}

static void
test_mode(void)
{
	SeccompRules r = rules_of(0);
	SeccompMode m;
	Err			e;

	OK(seccomp_parse_mode("require", &m) && m == SECCOMP_REQUIRE);
	OK(seccomp_parse_mode("off", &m) && m == SECCOMP_OFF);
	OK(!seccomp_parse_mode("maybe", &m));
	OK(seccomp_enter(&r, SECCOMP_OFF, &e));
	/* the process is unchanged */
	OK(does_memfd() == 0);
	OK(gave(status_without_landlock(SECCOMP_ON), 0));
	OK(gave(status_without_landlock(SECCOMP_REQUIRE), 1));
}

int
main(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	check_skip(1, "a sanitizer makes calls of its own");
	return check_done("seccomp");
#endif
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0)
	{
		check_skip(1, "this kernel filters no system calls");
		return check_done("seccomp");
	}
	for (int i = 0; i < 3; i++)
		RUN(test_program(i));
	RUN(test_wide());
	RUN(test_threads());
	RUN(test_landlock());
	RUN(test_mode());
	return check_done("seccomp");
}
