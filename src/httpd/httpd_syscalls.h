/*
 * httpd_syscalls.h
 *	  The table that httpd_syscalls.c builds from httpd_syscalls.def.
 */
#ifndef VLLM_HTTPD_HTTPD_SYSCALLS_H
#define VLLM_HTTPD_HTTPD_SYSCALLS_H

#include "base/sandbox/seccomp.h"

extern const SeccompRule http_syscalls[];
extern const size_t http_n_syscalls;

#endif
