/*
 * buf.h
 *	  Growing byte buffer and growing vector of 32-bit integers.
 *
 * A zeroed struct is an empty buffer.  Growth never fails (alloc.h); callers
 * bound the length by the limits of the request before they append.
 */
#ifndef VLLM_BASE_BUF_H
#define VLLM_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

typedef struct Buf
{
	char	   *data;			/* once non-NULL, data[len] is always NUL */
	size_t		len;			/* bytes used */
	size_t		cap;			/* bytes allocated */
} Buf;

typedef struct IntVec
{
	int32_t    *data;
	size_t		len;			/* elements */
	size_t		cap;
} IntVec;

void		buf_reserve(Buf *b, size_t extra);
void		buf_add(Buf *b, const void *p, size_t n);
void		buf_addstr(Buf *b, const char *s);
void		buf_addc(Buf *b, char c);
void		buf_printf(Buf *b, const char *fmt,...) __attribute__((format(printf, 2, 3)));
void		buf_consume(Buf *b, size_t n);	/* drop n bytes from the front */
void		buf_cut(Buf *b, size_t len);	/* truncate to the first len bytes */
void		buf_reset(Buf *b);				/* len = 0, keeps the memory */
void		buf_free(Buf *b);

void		intvec_push(IntVec *v, int32_t x);
void		intvec_add(IntVec *v, const int32_t *p, size_t n);
void		intvec_reset(IntVec *v);
void		intvec_free(IntVec *v);

#endif
