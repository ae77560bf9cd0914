/*
 * body_memory.h
 *	  Memory for the bodies of requests, and for answers.
 */
#ifndef VLLM_HTTPD_CONN_BODY_MEMORY_H
#define VLLM_HTTPD_CONN_BODY_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#define BODIES_SMALL	(64 * 1024) /* bytes of a body that need no leave */

typedef enum BodiesKind
{
	BODIES_REQUEST,
	BODIES_ANSWER,
	BODIES_KINDS
} BodiesKind;

typedef enum BodiesEnd
{
	BODIES_OK,
	BODIES_LATE,				/* there was no memory in time */
	BODIES_GONE					/* the client has left meanwhile */
} BodiesEnd;

/*
 * Memory for a body of n > 0 bytes, to be given back.  key: of the request, 0 = none.  It waits until
 * clock_us() is `until`, or the client's socket has been closed (-1: is not looked at).
 */
BodiesEnd	bodies_take(BodiesKind kind, uint64_t key, size_t n, int client, int64_t until);
/* n bytes of it; 0: none. */
void		bodies_give(BodiesKind kind, uint64_t key, size_t n);
/* What an answer of n bytes counts: one that is larger than there is memory fits where there is no other. */
size_t		bodies_of_answer(size_t n);

#endif
