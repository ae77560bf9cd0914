/*
 * seccomp.c
 *	  A program's filter of system calls, in the kernel's classic BPF.
 *
 *	1.	another architecture's calls, and x32's:			the process is killed
 *	2.	the program's rows, in their order:					allowed, or ENOSYS where one is refused
 *	3.	calls that are never legal (syscalls_never.def):	killed; EPERM in a wide filter
 *	4.	the rest:											ENOSYS; allowed in a wide filter
 *
 * The program is a chain of comparisons.  The kernel keeps a bitmap of the calls that are allowed
 * whatever their arguments are, and runs no filter for them.  The audit log has kills and, if the
 * kernel's sysctl says so, calls that failed with ENOSYS (SECCOMP_FILTER_FLAG_LOG).
 *
 * Tested by tests/unit/base/sandbox/test_seccomp.c, tests/t/011_confined.pl.
 */
#include "base/sandbox/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/sandbox/landlock.h"
#include "base/log.h"
#include "base/sandbox/syscall_numbers.h"

#if defined(__x86_64__)
#define NATIVE_ARCH	AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH	AUDIT_ARCH_AARCH64
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED	true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED	true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED	false
#endif

#define X32_BIT		0x40000000
#define MOST		1024		/* instructions; the kernel takes 4096 */
#define ENOSYS_RET	(SECCOMP_RET_ERRNO | ENOSYS)
#define EPERM_RET	(SECCOMP_RET_ERRNO | EPERM)

static const int never[] = {
#define NEVER(call, why) __NR_##call,
#include "base/sandbox/syscalls_never.def"
#undef NEVER
};

bool
seccomp_parse_mode(const char *name, SeccompMode *out)
{
	static const char *const names[] = {[SECCOMP_OFF] = "off",[SECCOMP_ON] = "on",
										[SECCOMP_REQUIRE] = "require"};

	for (int i = 0; i < 3; i++)
		if (strcmp(name, names[i]) == 0)
		{
			*out = (SeccompMode) i;
			return true;
		}
	return false;
}

#ifdef NATIVE_ARCH

typedef struct Program
{
	struct sock_filter code[MOST];
	size_t		n;
	bool		full;
} Program;

static void
put(Program *p, struct sock_filter f)
{
	if (p->n < MOST)
		p->code[p->n++] = f;
	else
		p->full = true;
}

static void
load(Program *p, size_t off)
{
	put(p, (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t) off));
}

static void
give(Program *p, uint32_t what)
{
	put(p, (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, what));
}

/* Return `what` from the filter if the accumulator equals `is`. */
static void
give_if(Program *p, uint32_t is, uint32_t what)
{
	put(p, (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, is, 0, 1));
	give(p, what);
}

/* The accumulator holds the number of the call before and after the rule. */
static void
put_rule(Program *p, const SeccompRule *r)
{
	uint32_t	what = r->refused ? ENOSYS_RET : SECCOMP_RET_ALLOW;
	size_t		from = p->n;

	if (r->nr < 0)
		return;
	if (r->arg < 0)
	{
		give_if(p, (uint32_t) r->nr, what);
		return;
	}
	put(p, (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) r->nr, 0, 5));
	load(p, offsetof(struct seccomp_data, args) + 8 * (size_t) r->arg
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
		 + 4
#endif
		);
	put(p, (struct sock_filter) BPF_STMT(BPF_ALU | BPF_AND | BPF_K, r->mask));
	give_if(p, r->value == SECCOMP_OWN_PID ? (uint32_t) getpid() : r->value, what);
	load(p, offsetof(struct seccomp_data, nr));
	/* a call with another number jumps over these instructions, and no others */
	ASSERT(r->arg < 6 && (p->full || p->n == from + 6));
}

static bool
make_program(Program *p, const SeccompRules *r)
{
	p->n = 0;
	p->full = false;
	load(p, offsetof(struct seccomp_data, arch));
	put(p, (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0));
	give(p, SECCOMP_RET_KILL_PROCESS);
	load(p, offsetof(struct seccomp_data, nr));
#ifdef __x86_64__
	put(p, (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1));
	give(p, SECCOMP_RET_KILL_PROCESS);
#endif
	for (size_t i = 0; !r->wide && i < r->n; i++)
		put_rule(p, &r->rule[i]);
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		/* a device driver's library talks to other processes through sockets */
		if (never[i] >= 0 && !(r->wide && never[i] == __NR_socket))
			give_if(p, (uint32_t) never[i], r->wide ? EPERM_RET : SECCOMP_RET_KILL_PROCESS);
	give(p, r->wide ? SECCOMP_RET_ALLOW : ENOSYS_RET);
	return !p->full;
}

int
seccomp_install(const SeccompRules *r)
{
	static Program p;
	struct sock_fprog prog = {.filter = p.code};
	long		rc;

	if (!make_program(&p, r))
		return E2BIG;
	prog.len = (unsigned short) p.n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return errno;
	rc = syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG,
				 &prog);
	/* kernels before 4.14 do not know SECCOMP_FILTER_FLAG_LOG */
	if (rc != 0 && errno == EINVAL)
		rc = syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog);
	/* rc > 0: the id of a thread with a filter of its own, which can't be synchronized */
	return rc == 0 ? 0 : rc > 0 ? EBUSY : errno;
}

#else							/* another machine */

int
seccomp_install(const SeccompRules *r)
{
	(void) r;
	return ENOSYS;
}

#endif

/*
 * Enter a Landlock domain; returns 0 or errno.  Not for a program that uses a device: the driver shares
 * memory between processes by calls that a domain denies.
 */
static int
close_others(void)
{
	int			why = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ? errno : landlock_enter();

	if (why == 0)
		log_line('I', "the memory of other processes is closed by Landlock");
	else
		log_line('I', "no Landlock here: %s (other processes of the same user are protected by "
					  "kernel.yama.ptrace_scope only)", strerror(why));
	return why;
}

bool
seccomp_enter(const SeccompRules *r, SeccompMode mode, Err *e)
{
	int			why;

	if (mode == SECCOMP_OFF || (SANITIZED && mode == SECCOMP_ON))
	{
		log_line('I', "no filter of system calls: %s", mode == SECCOMP_OFF ? "setting vllm.seccomp is off" :
				 "this is a sanitizer's build");
		return true;
	}
	why = r->wide ? 0 : close_others();
	if (why != 0 && mode == SECCOMP_REQUIRE)
		return err_set(e, ERR_UNSUPPORTED,
					   "could not close the memory of other processes by Landlock: %s (setting vllm.seccomp "
					   "is require)", strerror(why));
	why = SANITIZED ? ENOSYS : seccomp_install(r);
	if (why == 0)
		log_line('I', r->wide ? "system calls are filtered, widely because of a device: all are allowed that "
								"are not forbidden" :
				 "system calls are filtered: %d rules", (int) r->n);
	else if (mode == SECCOMP_REQUIRE)
		return err_set(e, ERR_UNSUPPORTED,
					   "could not filter system calls: %s (setting vllm.seccomp is require)", strerror(why));
	else
		log_line('W', "could not filter system calls: %s (setting vllm.seccomp)", strerror(why));
	return true;
}
