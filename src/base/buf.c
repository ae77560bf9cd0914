/*
 * buf.c
 *	  Growing buffers; amortized O(1) appends by doubling.
 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

void
buf_reserve(Buf *b, size_t extra)
{
	size_t		need = b->len + extra + 1;

	if (need <= b->cap)
		return;
	b->cap = need > b->cap * 2 ? need : b->cap * 2;
	if (b->cap < 64)
		b->cap = 64;
	b->data = mem_realloc(b->data, b->cap);
}

void
buf_add(Buf *b, const void *p, size_t n)
{
	buf_reserve(b, n);
	if (n > 0)
		memcpy(b->data + b->len, p, n);
	b->len += n;
	b->data[b->len] = '\0';
}

void
buf_addstr(Buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void
buf_addc(Buf *b, char c)
{
	buf_add(b, &c, 1);
}

void
buf_printf(Buf *b, const char *fmt,...)
{
	va_list		ap;
	int			n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n <= 0)
		return;
	buf_reserve(b, (size_t) n);
	va_start(ap, fmt);
	vsnprintf(b->data + b->len, (size_t) n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t) n;
}

void
buf_consume(Buf *b, size_t n)
{
	if (n == 0)
		return;
	b->len -= n;
	memmove(b->data, b->data + n, b->len);
	b->data[b->len] = '\0';
}

void
buf_cut(Buf *b, size_t len)
{
	b->len = len;
	if (b->data != NULL)
		b->data[len] = '\0';
}

void
buf_reset(Buf *b)
{
	buf_cut(b, 0);
}

void
buf_free(Buf *b)
{
	mem_free(b->data);
	memset(b, 0, sizeof(*b));
}

void
intvec_add(IntVec *v, const int32_t *p, size_t n)
{
	if (v->len + n > v->cap)
	{
		v->cap = v->len + n > v->cap * 2 ? v->len + n : v->cap * 2;
		if (v->cap < 16)
			v->cap = 16;
		v->data = mem_realloc(v->data, v->cap * sizeof(int32_t));
	}
	if (n > 0)
		memcpy(v->data + v->len, p, n * sizeof(int32_t));
	v->len += n;
}

void
intvec_push(IntVec *v, int32_t x)
{
	intvec_add(v, &x, 1);
}

void
intvec_reset(IntVec *v)
{
	v->len = 0;
}

void
intvec_free(IntVec *v)
{
	mem_free(v->data);
	memset(v, 0, sizeof(*v));
}
