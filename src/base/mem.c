/*
 * mem.c
 *	  Allocation helpers; see mem.h for the rule of who may fail.
 */
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *
check(void *p, size_t size)
{
	if (p == NULL)
	{
		fprintf(stderr, "P: out of memory allocating %zu bytes\n", size);
		_Exit(1);
	}
	return p;
}

void *
mem_alloc(size_t size)
{
	return check(malloc(size ? size : 1), size);
}

void *
mem_zalloc(size_t size)
{
	return check(calloc(1, size ? size : 1), size);
}

void *
mem_realloc(void *p, size_t size)
{
	return check(realloc(p, size ? size : 1), size);
}

char *
mem_strndup(const char *s, size_t n)
{
	char	   *r = mem_alloc(n + 1);

	memcpy(r, s, n);
	r[n] = '\0';
	return r;
}

char *
mem_strdup(const char *s)
{
	return mem_strndup(s, strlen(s));
}

void *
mem_try_alloc(size_t size)
{
	return malloc(size ? size : 1);
}

void *
mem_try_realloc(void *p, size_t size)
{
	return realloc(p, size ? size : 1);
}

void *
mem_try_aligned(size_t size)
{
	void	   *p = NULL;

	if (size > (size_t) -1 - 64)
		return NULL;
	size = (size + 63) & ~(size_t) 63;
	if (posix_memalign(&p, 64, size ? size : 64) != 0)
		return NULL;
	memset(p, 0, size);
	return p;
}

void
mem_free(void *p)
{
	free(p);
}

_Bool
mem_mul(size_t a, size_t b, size_t *out)
{
	return !__builtin_mul_overflow(a, b, out);
}
