/*
 * arena.c
 *	  Memory for weights and work space, straight from mmap(2).
 *
 * Gigabytes of weights are streamed through once a step: huge pages save TLB
 * misses, and since nothing is touched here, each page lands on the NUMA node of
 * the thread that packs it.
 *
 * Tested by tests/unit/test_packcache.c.
 */
#include "model/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"

#define HUGE_PAGE ((size_t) 2 << 20)
#define HUGE_2MB (21 << 26)		/* MAP_HUGE_2MB, which <sys/mman.h> lacks */

bool
marena_add(size_t *total, size_t size)
{
	if (size > SIZE_MAX - 63)
		return false;
	return !__builtin_add_overflow(*total, (size + 63) & ~(size_t) 63, total);
}

bool
huge_pages_by_name(const char *name, HugePages *out)
{
	static const char *const names[] = {[HUGE_TRY] = "try", [HUGE_OFF] = "off", [HUGE_ON] = "on"};

	for (int i = 0; i < 3; i++)
		if (strcmp(names[i], name) == 0)
		{
			*out = (HugePages) i;
			return true;
		}
	return false;
}

/* pages of the pool that the administrator has set aside */
static bool
reserve_hugetlb(MArena *a, size_t size, const char *what, Err *e)
{
	void	   *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
						 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | HUGE_2MB, -1, 0);

	if (p == MAP_FAILED)
	{
		err_set(e, ERR_NOMEM, "could not get huge pages: %m");
		err_detail(e, "%.400s: %zu pages of 2 MB are needed.", what, size / HUGE_PAGE);
		return err_hint(e, "Raise the kernel's vm.nr_hugepages, or set vllm.huge_pages to \"try\".");
	}
	a->base = p;
	a->size = size;
	return true;
}

bool
marena_reserve(MArena *a, size_t size, HugePages huge, const char *what, Err *e)
{
	unsigned char *p = MAP_FAILED;
	size_t		head;

	a->base = NULL;
	a->size = a->used = 0;
	if (size == 0)
		return true;
	if (size < SIZE_MAX / 2)
	{
		size = (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
		if (huge == HUGE_ON)
			return reserve_hugetlb(a, size, what, e);
		/* map 2 MB more, then cut off what lies outside the aligned part */
		p = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	if (p == MAP_FAILED)
	{
		err_set(e, ERR_NOMEM, "out of memory");
		return err_detail(e, "%.400s: %zu MB are needed.", what, size >> 20);
	}
	head = (HUGE_PAGE - ((uintptr_t) p & (HUGE_PAGE - 1))) & (HUGE_PAGE - 1);
	if (head > 0)
		munmap(p, head);
	if (head < HUGE_PAGE)
		munmap(p + head + size, HUGE_PAGE - head);
	a->base = p + head;
	a->size = size;
	madvise(a->base, size, huge == HUGE_OFF ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	return true;
}

bool
marena_map(MArena *a, int fd, size_t at, size_t size)
{
	void	   *p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, (off_t) at);

	if (p == MAP_FAILED)
		return false;
	a->base = p;
	a->size = size;
	a->used = 0;
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
