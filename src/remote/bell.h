/*
 * bell.h
 *	  The arena's doorbell as a file descriptor, for who sleeps in epoll_wait().
 *
 * The sleeper calls bell_sleep(), looks at its ring once more, sleeps if that is empty, and calls bell_awake().
 */
#ifndef VLLM_REMOTE_BELL_H
#define VLLM_REMOTE_BELL_H

#include "base/err.h"
#include "wire/wire.h"

typedef struct Bell Bell;

Bell	   *bell_new(WireHeader *h, Err *e);
void		bell_free(Bell *b);
/* Becomes readable when somebody rings behind bell_sleep(). */
int			bell_fd(const Bell *b);
void		bell_sleep(Bell *b);
/* readable: bell_fd() is; what has rung so far is forgotten then: look at the ring behind this. */
void		bell_awake(Bell *b, bool readable);

#endif
