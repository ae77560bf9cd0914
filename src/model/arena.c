/*
 * arena.c
 *	  Memory for weights and work space, straight from mmap(2).
 *
 * Gigabytes of weights are streamed through once a step: huge pages save TLB
 * misses, and since nothing is touched here, each page lands on the NUMA node of
 * the thread that packs it.
 */
#include "model/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/log.h"

#define HUGE_PAGE ((size_t) 2 << 20)

bool
marena_add(size_t *total, size_t size)
{
	if (size > SIZE_MAX - 63)
		return false;
	return !__builtin_add_overflow(*total, (size + 63) & ~(size_t) 63, total);
}

bool
marena_reserve(MArena *a, size_t size)
{
	unsigned char *p;
	size_t		head;

	a->base = NULL;
	a->size = a->used = 0;
	if (size == 0)
		return true;
	if (size > SIZE_MAX / 2)
		return false;
	size = (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	/* map 2 MB more, then cut off what lies outside the aligned part */
	p = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return false;
	head = (HUGE_PAGE - ((uintptr_t) p & (HUGE_PAGE - 1))) & (HUGE_PAGE - 1);
	if (head > 0)
		munmap(p, head);
	if (head < HUGE_PAGE)
		munmap(p + head + size, HUGE_PAGE - head);
	a->base = p + head;
	a->size = size;
	madvise(a->base, size, MADV_HUGEPAGE);
	return true;
}

void *
marena_take(MArena *a, size_t size)
{
	void	   *p = a->base + a->used;

	size = (size + 63) & ~(size_t) 63;
	if (size > a->size - a->used)
	{
		/* the plan and the takes disagree: a bug, and memory would be overwritten */
		log_line('P', "model memory plan is too small: %zu of %zu bytes used, %zu wanted",
				 a->used, a->size, size);
		abort();
	}
	a->used += size;
	return p;
}

void
marena_free(MArena *a)
{
	if (a->base != NULL)
		munmap(a->base, a->size);
	a->base = NULL;
	a->size = a->used = 0;
}
