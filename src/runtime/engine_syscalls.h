/*
 * syscalls.h
 *	  The rows of syscalls.def.
 */
#ifndef VLLM_ENGINE_SYSCALLS_H
#define VLLM_ENGINE_SYSCALLS_H

#include "base/seccomp.h"

#include "engine/config.h"

extern const SeccompRule engine_syscalls[];
extern const size_t engine_n_syscalls;

/* From here on the process makes no other ones; what loads models calls it first.  False with *e set: vllm.seccomp asks for it, and it can't be had. */
bool		engine_confine(const Settings *s, Err *e);

#endif
