/*
 * syscalls.c
 *	  The system calls of the remote program, out of syscalls.def.
 *
 * Tested by tests/unit/test_seccomp.c.
 */
#include "remote/syscalls.h"

#include "base/seccomp_rules.h"

const SeccompRule remote_syscalls[] = {
#include "remote/syscalls.def"
};

const size_t remote_n_syscalls = sizeof(remote_syscalls) / sizeof(remote_syscalls[0]);
