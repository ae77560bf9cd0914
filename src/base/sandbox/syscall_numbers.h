/*
 * syscall_numbers.h
 *	  Numbers of system calls: -1 for a call that this machine, or the headers of the build, does not
 *	  have.
 *
 * Lists only calls that a table (engine_syscalls.def, syscalls_never.def) names and that some machine
 * lacks: calls of x86-64 that newer architectures have in another form, and calls that are newer than
 * the oldest supported kernel.
 */
#ifndef VLLM_BASE_SANDBOX_SYSCALL_NUMBERS_H
#define VLLM_BASE_SANDBOX_SYSCALL_NUMBERS_H

#include <sys/syscall.h>

#ifndef __NR_open
#define __NR_open -1
#endif
#ifndef __NR_stat
#define __NR_stat -1
#endif
#ifndef __NR_lstat
#define __NR_lstat -1
#endif
#ifndef __NR_access
#define __NR_access -1
#endif
#ifndef __NR_readlink
#define __NR_readlink -1
#endif
#ifndef __NR_mkdir
#define __NR_mkdir -1
#endif
#ifndef __NR_unlink
#define __NR_unlink -1
#endif
#ifndef __NR_rename
#define __NR_rename -1
#endif
#ifndef __NR_rmdir
#define __NR_rmdir -1
#endif
#ifndef __NR_dup2
#define __NR_dup2 -1
#endif
#ifndef __NR_pipe
#define __NR_pipe -1
#endif
#ifndef __NR_poll
#define __NR_poll -1
#endif
#ifndef __NR_select
#define __NR_select -1
#endif
#ifndef __NR_epoll_wait
#define __NR_epoll_wait -1
#endif
#ifndef __NR_time
#define __NR_time -1
#endif
#ifndef __NR_getdents
#define __NR_getdents -1
#endif
#ifndef __NR_arch_prctl
#define __NR_arch_prctl -1
#endif
#ifndef __NR_iopl
#define __NR_iopl -1
#endif
#ifndef __NR_ioperm
#define __NR_ioperm -1
#endif
#ifndef __NR_modify_ldt
#define __NR_modify_ldt -1
#endif
#ifndef __NR_eventfd
#define __NR_eventfd -1
#endif
#ifndef __NR_rseq
#define __NR_rseq -1
#endif
#ifndef __NR_clone3
#define __NR_clone3 -1
#endif
#ifndef __NR_close_range
#define __NR_close_range -1
#endif
#ifndef __NR_faccessat2
#define __NR_faccessat2 -1
#endif
#ifndef __NR_openat2
#define __NR_openat2 -1
#endif
#ifndef __NR_statx
#define __NR_statx -1
#endif
#ifndef __NR_epoll_pwait2
#define __NR_epoll_pwait2 -1
#endif
#ifndef __NR_futex_waitv
#define __NR_futex_waitv -1
#endif
#ifndef __NR_membarrier
#define __NR_membarrier -1
#endif
#ifndef __NR_process_madvise
#define __NR_process_madvise -1
#endif
#ifndef __NR_pidfd_getfd
#define __NR_pidfd_getfd -1
#endif
#ifndef __NR_move_mount
#define __NR_move_mount -1
#endif
#ifndef __NR_open_tree
#define __NR_open_tree -1
#endif
#ifndef __NR_fsopen
#define __NR_fsopen -1
#endif
#ifndef __NR_fsconfig
#define __NR_fsconfig -1
#endif
#ifndef __NR_fsmount
#define __NR_fsmount -1
#endif
#ifndef __NR_fspick
#define __NR_fspick -1
#endif
#ifndef __NR_mount_setattr
#define __NR_mount_setattr -1
#endif
#ifndef __NR_io_uring_setup
#define __NR_io_uring_setup -1
#endif
#ifndef __NR_io_uring_enter
#define __NR_io_uring_enter -1
#endif
#ifndef __NR_io_uring_register
#define __NR_io_uring_register -1
#endif
#ifndef __NR_kexec_file_load
#define __NR_kexec_file_load -1
#endif
#ifndef __NR_userfaultfd
#define __NR_userfaultfd -1
#endif
#ifndef __NR_bpf
#define __NR_bpf -1
#endif
#ifndef __NR_fstat
#define __NR_fstat -1
#endif
#ifndef __NR_newfstatat
#define __NR_newfstatat -1
#endif

#endif
