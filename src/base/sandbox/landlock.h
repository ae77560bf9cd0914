/*
 * landlock.h
 *	  A process gives up access to the memory of other processes, and the making of special files.
 *
 * The filter of system calls (seccomp.h) sees the flags of open(), not the path: /proc/PID/mem of a
 * process of the same user is a file like any other.  In a Landlock domain the kernel lets a process
 * access only processes of the same domain, by whatever call or path.  The domain also denies executing
 * programs, making devices and sockets in the file system and, where the kernel supports it (ABI 4),
 * binding TCP ports.
 */
#ifndef VLLM_BASE_SANDBOX_LANDLOCK_H
#define VLLM_BASE_SANDBOX_LANDLOCK_H

/*
 * Put the calling thread and its future children into a domain, for good.  Call it before other threads
 * exist, with no_new_privs set.  Returns 0 or errno: ENOSYS or EOPNOTSUPP in a kernel without Landlock.
 */
int			landlock_enter(void);

#endif
