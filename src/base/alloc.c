/*
 * alloc.c
 *	  Allocation helpers; alloc.h says which of them may fail.
 */
#include "base/alloc.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread bool counting;
static __thread int64_t counted;

void
mem_count(void)
{
	counting = true;
	counted = 0;
}

int64_t
mem_counted(void)
{
	counting = false;
	return counted;
}

/* Count an allocated block p (sign 1), or one that is about to be freed (-1). */
static inline void *
count(void *p, int sign)
{
	if (counting && p != NULL)
		counted += sign * (int64_t) malloc_usable_size(p);
	return p;
}

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
	return count(check(malloc(size ? size : 1), size), 1);
}

void *
mem_zalloc(size_t size)
{
	return count(check(calloc(1, size ? size : 1), size), 1);
}

void *
mem_realloc(void *p, size_t size)
{
	return check(mem_try_realloc(p, size), size);
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
	return count(malloc(size ? size : 1), 1);
}

void *
mem_try_realloc(void *p, size_t size)
{
	size_t		was = counting && p != NULL ? malloc_usable_size(p) : 0;
	void	   *r = realloc(p, size ? size : 1);

	if (counting && r != NULL)
		counted -= (int64_t) was;
	return count(r, 1);
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
	return count(p, 1);
}

void
mem_free(void *p)
{
	free(count(p, -1));
}

_Bool
mem_mul(size_t a, size_t b, size_t *out)
{
	return !__builtin_mul_overflow(a, b, out);
}
