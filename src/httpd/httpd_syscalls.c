/*
 * syscalls.c
 *	  The system calls of the HTTP server, out of syscalls.def.
 *
 * Tested by tests/unit/test_seccomp.c.
 */
#include "http/syscalls.h"

#include "base/seccomp_rules.h"

const SeccompRule http_syscalls[] = {
#include "http/syscalls.def"
};

const size_t http_n_syscalls = sizeof(http_syscalls) / sizeof(http_syscalls[0]);
