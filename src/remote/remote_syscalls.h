/*
 * remote_syscalls.h
 *	  The rows of remote_syscalls.def.
 */
#ifndef VLLM_REMOTE_REMOTE_SYSCALLS_H
#define VLLM_REMOTE_REMOTE_SYSCALLS_H

#include "base/sandbox/seccomp.h"

extern const SeccompRule remote_syscalls[];
extern const size_t remote_n_syscalls;

#endif
