/*
 * alloc.h
 *	  The engine's allocation helpers.
 *
 * malloc is called only here and in the KV pool.  mem_alloc() to mem_strndup() never return
 * NULL: an engine that can't get a few bytes exits, and its supervisor restarts it.  Sizes that come
 * from a request or a file go through mem_try_alloc(), which may return NULL and makes the request fail
 * instead.
 */
#ifndef VLLM_BASE_ALLOC_H
#define VLLM_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

void	   *mem_alloc(size_t size);
void	   *mem_zalloc(size_t size);
void	   *mem_realloc(void *p, size_t size);
char	   *mem_strdup(const char *s);
char	   *mem_strndup(const char *s, size_t n);
void	   *mem_try_alloc(size_t size);
void	   *mem_try_realloc(void *p, size_t size);
/* Returns 64-byte aligned, zeroed memory, or NULL if there is not enough; free it with mem_free(). */
void	   *mem_try_aligned(size_t size);
void		mem_free(void *p);

/*
 * Measure the calling thread's allocations: mem_count() starts, mem_counted() stops and returns the
 * bytes that the thread has allocated and not freed in between.
 */
void		mem_count(void);
int64_t		mem_counted(void);

/* *out = a * b; false on overflow */
_Bool		mem_mul(size_t a, size_t b, size_t *out);

#endif
