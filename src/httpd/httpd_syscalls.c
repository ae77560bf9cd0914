/*
 * httpd_syscalls.c
 *	  The table of system calls of the HTTP server, built from httpd_syscalls.def.
 *
 * Tested by tests/unit/base/sandbox/test_seccomp.c.
 */
#include "httpd/httpd_syscalls.h"

#include "base/sandbox/seccomp_rules.h"

const SeccompRule http_syscalls[] = {
#include "httpd/httpd_syscalls.def"
};

const size_t http_n_syscalls = sizeof(http_syscalls) / sizeof(http_syscalls[0]);
