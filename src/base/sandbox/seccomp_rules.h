/*
 * seccomp_rules.h
 *	  Macros that turn the rows of a program's list of system calls (engine_syscalls.def) into a table.
 *	  Only the file that defines the table includes it.
 */
#ifndef VLLM_BASE_SANDBOX_SECCOMP_RULES_H
#define VLLM_BASE_SANDBOX_SECCOMP_RULES_H

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sandbox/seccomp.h"
#include "base/sandbox/syscall_numbers.h"

#define ALL_BITS		UINT32_MAX
#define OWN_PID			SECCOMP_OWN_PID
/* flags of clone(): a thread shares all resources of its process, and gets no namespace of its own */
#define NEW_PROCESS_OR_SPACE (CLONE_VM | CLONE_THREAD | CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | \
							  CLONE_NEWIPC | \
							  CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)
#define NEW_THREAD		(CLONE_VM | CLONE_THREAD)
#define WRITES_FILES	(O_ACCMODE | O_CREAT | O_TRUNC)
#ifndef PR_SET_VMA
#define PR_SET_VMA		0x53564d41
#endif

#define ALLOW(call, why) {__NR_##call, -1, 0, 0, false},
#define WHEN(call, arg, mask, value, why) {__NR_##call, arg, (uint32_t) (mask), (uint32_t) (value), false},
#define REFUSE(call, why) {__NR_##call, -1, 0, 0, true},
#define REFUSE_WHEN(call, arg, mask, value, why) {__NR_##call, arg, (uint32_t) (mask), (uint32_t) (value), \
												  true},

#endif
