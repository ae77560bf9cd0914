/*
 * landlock.h
 *	  A process gives up the memory of other processes, and files that are no files.
 *
 * The filter of system calls (seccomp.h) sees the flags of open(), not the path: /proc/PID/mem of a process
 * of the same user is a file like any other.  In a Landlock domain the kernel allows a process to look into
 * processes of the same domain only, by whatever call or path.  The domain also denies: programs are not
 * executed, devices and sockets are not made in the file system and, where the kernel can tell (ABI 4), no
 * TCP port is bound.
 */
#ifndef VLLM_BASE_SANDBOX_LANDLOCK_H
#define VLLM_BASE_SANDBOX_LANDLOCK_H

/*
 * Enter a domain: the calling thread and what it starts, for good.  Called before other threads exist, with
 * no_new_privs set.  0, or errno: ENOSYS or EOPNOTSUPP in a kernel without Landlock.
 */
int			landlock_enter(void);

#endif
