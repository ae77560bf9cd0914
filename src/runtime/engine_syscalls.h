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
 * From here on the process makes no other ones; what loads models calls it first.  False with *e set:
 * vllm.seccomp asks for it, and it can't be had.
 */
bool		engine_confine(const Settings *s, Err *e);

#endif
