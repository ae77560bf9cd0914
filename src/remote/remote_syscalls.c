/*
 * remote_syscalls.c
 *	  The table of system calls of the remote program, built from remote_syscalls.def.
 *
 * Tested by tests/unit/base/sandbox/test_seccomp.c.
 */
#include "remote/remote_syscalls.h"

#include "base/sandbox/seccomp_rules.h"

const SeccompRule remote_syscalls[] = {
#include "remote/remote_syscalls.def"
};

const size_t remote_n_syscalls = sizeof(remote_syscalls) / sizeof(remote_syscalls[0]);
