/*
 * seccomp.h
 *	  What system calls a program may make from here on: a filter in the kernel.
 *
 * A program lists its calls in a table of its own (the engine's: engine_syscalls.def), one row each with
 * the reason.  Three more rules hold for all programs: what nobody of them has any business with
 * (syscalls_never.def) ends the process; what is in neither list fails with ENOSYS, as in a kernel that
 * does not have it, so that a newer libc finds another way; and a process started by one of them has the
 * same filter.
 */
#ifndef VLLM_BASE_SANDBOX_SECCOMP_H
#define VLLM_BASE_SANDBOX_SECCOMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A row.  Allowed if (argument `arg` & mask) == value, of its low 32 bits; rows of one call add up. */
typedef struct SeccompRule
{
	int			nr;				/* -1: this machine has no such call */
	int			arg;			/* -1: whatever the arguments */
	uint32_t	mask;
	uint32_t	value;
	bool		refused;		/* ENOSYS instead, though other calls of it kill the process */
} SeccompRule;

#define SECCOMP_OWN_PID	UINT32_C(0xfffffffe)	/* a value that stands for the process itself */

typedef struct SeccompRules
{
	const SeccompRule *rule;
	size_t		n;
	/*
	 * also all else but what is never legal, which fails with EPERM, and no Landlock domain: a driver's
	 * library makes calls that no list knows
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
 * Enter a Landlock domain (landlock.h) where the kernel has that, then put the filter on all threads that
 * there are, and on what they start, for good; the log is told.  Called before there are other threads.
 * False with *e set: this kernel or container lets no process have both, and the mode is SECCOMP_REQUIRE.  A
 * sanitizer's build has none.
 */
bool		seccomp_enter(const SeccompRules *r, SeccompMode mode, Err *e);
/* Like the function above, but without a message: 0, or errno. */
int			seccomp_install(const SeccompRules *r);

#endif
