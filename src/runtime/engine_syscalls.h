/*
 * engine_syscalls.h
 *	  The rows of engine_syscalls.def.
 */
#ifndef VLLM_RUNTIME_ENGINE_SYSCALLS_H
#define VLLM_RUNTIME_ENGINE_SYSCALLS_H

#include "base/sandbox/seccomp.h"

#include "runtime/engine_settings.h"

extern const SeccompRule engine_syscalls[];
extern const size_t engine_n_syscalls;

/*
 * Allow only these system calls from now on; programs that load models call it first.  Returns false
 * with *e set if vllm.seccomp requires the filter and it can't be installed.
 */
bool		engine_confine(const Settings *s, Err *e);

#endif
