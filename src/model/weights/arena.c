/*
 * arena.c
 *	  Memory for weights and work space, directly from mmap(2).
 *
 * Every step streams gigabytes of weights: huge pages save TLB misses.  The arena touches nothing
 * itself, so each page is allocated on the NUMA node of the thread that packs it.
 *
 * Tested by tests/unit/model/weights/test_packcache.c.
 */
#include "model/weights/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
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

/* Reserve pages from the pool that the administrator has set aside. */
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
	a->huge = HUGE_ON;
	return true;
}

bool
marena_reserve(MArena *a, size_t size, HugePages huge, const char *what, Err *e)
{
	unsigned char *p = MAP_FAILED;
	size_t		head;

	*a = (MArena) {.base = NULL};
	if (size == 0)
		return true;
	if (size < SIZE_MAX / 2)
	{
		size = (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
		if (huge == HUGE_ON)
			return reserve_hugetlb(a, size, what, e);
		/* map 2 MB more, then unmap what is outside the aligned part */
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
	a->huge = huge;
	madvise(a->base, size, huge == HUGE_OFF ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	return true;
}

bool
marena_map(MArena *a, int fd, size_t at, size_t size)
{
	void	   *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, (off_t) at);

	if (p == MAP_FAILED)
		return false;
	*a = (MArena) {.base = p,.size = size,.of_file = true};
	return true;
}

bool
marena_own(MArena *a)
{
	if (!a->of_file)
		return true;
	if (mprotect(a->base, a->size, PROT_READ | PROT_WRITE) != 0)
		return false;
	/* the content now differs from the file's */
	a->of_file = false;
	return true;
}

void *
marena_take(MArena *a, size_t size)
{
	void	   *p = a->base + a->used;

	size = (size + 63) & ~(size_t) 63;
	if (size > a->size - a->used)
		log_line('P', "model memory plan is too small: %zu of %zu bytes used, %zu wanted",
				 a->used, a->size, size);
	/* otherwise the plan and the takes disagree, and memory would be overwritten */
	ALWAYS(size <= a->size - a->used);
	a->used += size;
	return p;
}

void
marena_free(MArena *a)
{
	if (a->base != NULL)
		munmap(a->base, a->size);
	if (a->stored > 0)
		close(a->stored - 1);
	*a = (MArena) {.base = NULL};
}

/* ---- giving memory back for a while ---- */

#define PIECE ((size_t) 16 << 20)	/* bytes written or read at once */

/* Create a file without a name, or unlink one at once. */
static int
nameless(const char *dir)
{
	char		name[4096];
	int			fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd;
	if (snprintf(name, sizeof(name), "%s/vllm_pg.stored.XXXXXX", dir) >= (int) sizeof(name))
	{
		errno = ENAMETOOLONG;
		return -1;
	}
	if ((fd = mkostemp(name, O_CLOEXEC)) >= 0)
		unlink(name);
	return fd;
}

static bool
write_out(int fd, const unsigned char *from, size_t n)
{
	for (size_t at = 0; at < n;)
	{
		ssize_t		put = write(fd, from + at, n - at < PIECE ? n - at : PIECE);

		if (put < 0 && errno != EINTR)
			return false;
		at += put > 0 ? (size_t) put : 0;
	}
	/* without fdatasync() the data would only move to the page cache and stay there until it is
	 * written */
	return fdatasync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
}

static bool
read_in(int fd, unsigned char *to, size_t n)
{
	for (size_t at = 0; at < n;)
	{
		ssize_t		got = pread(fd, to + at, n - at < PIECE ? n - at : PIECE, (off_t) at);

		if (got == 0)
			errno = EIO;
		if (got == 0 || (got < 0 && errno != EINTR))
			return false;
		at += got > 0 ? (size_t) got : 0;
	}
	return true;
}

static int
map_flags(const MArena *a)
{
	return MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED |
		(a->huge == HUGE_ON ? MAP_HUGETLB | HUGE_2MB : MAP_NORESERVE);
}

/* Reserve the addresses without memory. */
static bool
map_nothing(MArena *a)
{
	return mmap(a->base, a->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
				0) != MAP_FAILED;
}

static bool
remap(MArena *a, Err *e)
{
	if (mmap(a->base, a->size, PROT_READ | PROT_WRITE, map_flags(a), -1, 0) == MAP_FAILED)
	{
		err_set(e, ERR_NOMEM, "out of memory");
		return err_detail(e, "%zu MB are needed for weights.", a->size >> 20);
	}
	madvise(a->base, a->size, a->huge == HUGE_OFF ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	return true;
}

bool
marena_store(MArena *a, const char *dir, Err *e)
{
	int			fd;

	if (a->base == NULL || a->stored > 0 || a->forgotten)
		return true;
	if (a->of_file)
	{
		madvise(a->base, a->size, MADV_DONTNEED);
		return true;
	}
	fd = nameless(dir);
	if (fd < 0 || !write_out(fd, a->base, a->used))
	{
		err_set(e, ERR_IO, "could not put weights into a file: %s", strerror(errno));
		err_detail(e, "%zu MB are to go into directory \"%.300s\".", (a->used >> 20) + 1, dir);
		err_hint(e, "Level 2 needs no file; vllm.repack_cache names another directory.");
		if (fd >= 0)
			close(fd);
		return false;
	}
	ASSERT(a->used <= a->size);
	if (!map_nothing(a))
	{
		err_set(e, ERR_NOMEM, "could not free the memory of weights: %s", strerror(errno));
		close(fd);
		return false;
	}
	a->stored = fd + 1;
	return true;
}

bool
marena_fetch(MArena *a, Err *e)
{
	if (a->stored == 0)
		return true;
	if (!remap(a, e))
		return false;
	if (!read_in(a->stored - 1, a->base, a->used))
	{
		err_set(e, ERR_IO, "could not read weights back: %s", strerror(errno));
		map_nothing(a);
		return false;
	}
	close(a->stored - 1);
	a->stored = 0;
	return true;
}

void
marena_forget(MArena *a)
{
	if (a->base == NULL || a->forgotten)
		return;
	if (a->of_file)
	{
		madvise(a->base, a->size, MADV_DONTNEED);
		return;
	}
	/* If the kernel has no room for another mapping the pages stay allocated, which is harmless:
	 * marena_adopt() overwrites them. */
	map_nothing(a);
	if (a->stored > 0)
		close(a->stored - 1);
	a->stored = 0;
	a->forgotten = true;
}

bool
marena_adopt(MArena *a, MArena *from, Err *e)
{
	if (!a->forgotten)
		return true;
	if (from->base == NULL || from->used != a->used || from->stored > 0 || from->forgotten)
		return err_set(e, ERR_INTERNAL, "the reloaded weights have a different size: %zu bytes instead of "
										"%zu", from->used, a->used);
	if (from->size == a->size && !from->of_file &&
		mremap(from->base, from->size, from->size, MREMAP_MAYMOVE | MREMAP_FIXED, a->base) != MAP_FAILED)
		*from = (MArena) {.base = NULL};
	else
	{
		if (!remap(a, e))
			return false;
		memcpy(a->base, from->base, a->used);
	}
	a->forgotten = false;
	return true;
}

void
marena_drop(MArena *a)
{
	/* Before Linux 5.18 reserved huge pages can't be given back this way: then they stay, and are
	 * zeroed. */
	if (a->base != NULL && madvise(a->base, a->size, MADV_DONTNEED) != 0)
		memset(a->base, 0, a->size);
}
