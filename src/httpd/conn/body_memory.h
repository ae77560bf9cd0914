/*
 * bodies.h
 *	  Memory for the bodies of requests.
 */
#ifndef VLLM_HTTP_BODIES_H
#define VLLM_HTTP_BODIES_H

#include <stddef.h>
#include <stdint.h>

#define BODIES_SMALL	(64 * 1024) /* bytes of a body that need no leave */

typedef enum BodiesEnd
{
	BODIES_OK,
	BODIES_LATE,				/* there was no memory in time */
	BODIES_GONE					/* the client has left meanwhile */
} BodiesEnd;

/*
 * Memory for a body of n > 0 bytes, to be given back.  key: of the request, 0 = none.  It waits until clock_us() is `until`, or
 * the client's socket has been closed (-1: is not looked at).
 */
BodiesEnd	bodies_take(uint64_t key, size_t n, int client, int64_t until);
/* n bytes of it; 0: none. */
void		bodies_give(uint64_t key, size_t n);

#endif
