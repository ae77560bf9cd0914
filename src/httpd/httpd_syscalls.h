/*
 * syscalls.h
 *	  The rows of syscalls.def.
 */
#ifndef VLLM_HTTP_SYSCALLS_H
#define VLLM_HTTP_SYSCALLS_H

#include "base/seccomp.h"

extern const SeccompRule http_syscalls[];
extern const size_t http_n_syscalls;

#endif
