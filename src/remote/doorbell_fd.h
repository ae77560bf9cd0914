/*
 * doorbell_fd.h
 *	  The arena's doorbell as a file descriptor, for a thread that sleeps in epoll_wait().
 *
 * The thread calls doorbell_sleep(), polls its ring once more, sleeps if the ring is empty, and calls
 * doorbell_awake().
 */
#ifndef VLLM_REMOTE_DOORBELL_FD_H
#define VLLM_REMOTE_DOORBELL_FD_H

#include "base/err.h"
#include "ipc/wire.h"

typedef struct DoorbellFd DoorbellFd;

DoorbellFd *doorbell_new(WireHeader *h, Err *e);
void		doorbell_free(DoorbellFd *b);
/* The descriptor becomes readable when a backend rings after doorbell_sleep(). */
int			doorbell_fd(const DoorbellFd *b);
void		doorbell_sleep(DoorbellFd *b);
/*
 * readable: doorbell_fd() is readable.  Clears the rings so far, so the caller must poll its ring after
 * this.
 */
void		doorbell_awake(DoorbellFd *b, bool readable);

#endif
