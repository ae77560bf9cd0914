/*
 * seccomp.h
 *	  Limit the system calls that a program may make from now on, by a filter in the kernel.
 *
 * A program lists its calls in a table of its own (the engine's: engine_syscalls.def), one row each with
 * the reason.  Three more rules hold for all programs.  Calls that none of the programs needs
 * (syscalls_never.def) end the process.  Calls in neither list fail with ENOSYS, as in a kernel that
 * does not have them, so that a newer libc falls back to another call.  Child processes have the same
 * filter.
 */
#ifndef VLLM_BASE_SANDBOX_SECCOMP_H
#define VLLM_BASE_SANDBOX_SECCOMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * A row: the call is allowed if (the low 32 bits of argument `arg` & mask) == value.  A call is allowed
 * if any of its rows allows it.
 */
typedef struct SeccompRule
{
	int			nr;				/* -1: this machine has no such call */
	int			arg;			/* -1: any arguments */
	uint32_t	mask;
	uint32_t	value;
	bool		refused;		/* ENOSYS instead, whatever the later rules would do */
} SeccompRule;

#define SECCOMP_OWN_PID	UINT32_C(0xfffffffe)	/* as `value`: the process's own id */

typedef struct SeccompRules
{
	const SeccompRule *rule;
	size_t		n;
	/*
	 * Also allow every other call but those that are never legal, which fail with EPERM, and enter no
	 * Landlock domain.  For device drivers, whose libraries make calls that no list knows.
	 */
	bool		wide;
} SeccompRules;

/* vllm.seccomp */
typedef enum SeccompMode
{
	SECCOMP_OFF = 0, SECCOMP_ON, SECCOMP_REQUIRE
} SeccompMode;

bool		seccomp_parse_mode(const char *name, SeccompMode *out);

/*
 * Enter a Landlock domain (landlock.h) if the kernel supports it, then install the filter for all
 * threads of the process and their future children, for good; log the result.  Call it before other
 * threads exist.  Returns false with *e set if the kernel or container does not allow both, and the mode
 * is SECCOMP_REQUIRE.  A build with a sanitizer installs neither.
 */
bool		seccomp_enter(const SeccompRules *r, SeccompMode mode, Err *e);
/* Install the filter without log messages; returns 0 or errno. */
int			seccomp_install(const SeccompRules *r);

#endif
