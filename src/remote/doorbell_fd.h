/*
 * doorbell_fd.h
 *	  The arena's doorbell as a file descriptor, for who sleeps in epoll_wait().
 *
 * The sleeper calls doorbell_sleep(), looks at its ring once more, sleeps if that is empty, and calls
 * doorbell_awake().
 */
#ifndef VLLM_REMOTE_DOORBELL_FD_H
#define VLLM_REMOTE_DOORBELL_FD_H

#include "base/err.h"
#include "ipc/wire.h"

typedef struct DoorbellFd DoorbellFd;

DoorbellFd *doorbell_new(WireHeader *h, Err *e);
void		doorbell_free(DoorbellFd *b);
/* Becomes readable when a backend rings after doorbell_sleep(). */
int			doorbell_fd(const DoorbellFd *b);
void		doorbell_sleep(DoorbellFd *b);
/* readable: doorbell_fd() is; what has rung so far is forgotten then: look at the ring behind this. */
void		doorbell_awake(DoorbellFd *b, bool readable);

#endif
