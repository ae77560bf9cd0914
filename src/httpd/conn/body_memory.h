/*
 * body_memory.h
 *	  Memory for the bodies of requests, and for responses.
 */
#ifndef VLLM_HTTPD_CONN_BODY_MEMORY_H
#define VLLM_HTTPD_CONN_BODY_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#define BODIES_SMALL	(64 * 1024) /* bytes up to which a body needs no grant */

typedef enum BodiesKind
{
	BODIES_REQUEST,
	BODIES_ANSWER,
	BODIES_KINDS
} BodiesKind;

typedef enum BodiesEnd
{
	BODIES_OK,
	BODIES_LATE,				/* no memory became free in time */
	BODIES_CLOSED				/* the client has closed the connection */
} BodiesEnd;

/*
 * Take memory for a body of n > 0 bytes, which the caller must give back.  key: the request's; 0 = none.
 * Waits until clock_us() is `until`, or until the client's socket is closed (-1: not checked).
 */
BodiesEnd	bodies_take(BodiesKind kind, uint64_t key, size_t n, int client, int64_t until);
/* Give n bytes back; 0: nothing. */
void		bodies_give(BodiesKind kind, uint64_t key, size_t n);
/*
 * Return the bytes that a response of n bytes is charged.  A response that is larger than the whole
 * memory fits if there is no other.
 */
size_t		bodies_of_answer(size_t n);

#endif
