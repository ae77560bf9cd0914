/*
 * pack_cache.c
 *	  Packed weights on disk: a model's arena as one file, which the next load of the same files maps.
 *
 *	  OFFSET	SIZE	CONTENTS
 *	  0			64		PackHead
 *	  64		key_len	what the image was made from and for, as text
 *	  ...		8 each	digests of the image's pieces of 4 MB
 *	  data_at	bytes	the image; data_at is a multiple of 64 kB
 *
 * An entry is used only if it is a regular file of this user that no other user may write, its head and
 * its key equal those that would be written now, its length is right and every piece has its digest.
 * Reading it for the digests costs about as much as `cat`, detects disk errors and leaves the pages in
 * the page cache, where all engines share them.
 *
 * A writer writes the entry under another name, syncs and renames it, so readers see the old entry or
 * the new one; a mapped entry that is replaced or removed stays valid until it is unmapped.  (Truncating
 * it in place would kill the engine: the mapping's pages would be lost.)  While it is written it has no
 * name, so a writer that crashes leaves nothing; on file systems that don't support this, leftovers are
 * removed after an hour.
 *
 * Tested by tests/unit/model/weights/test_packcache.c.
 */
#include "model/weights/pack_cache.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/checksum.h"
#include "base/log.h"
#include "base/alloc.h"

#define VERSION 1
#define PIECE ((size_t) 4 << 20)
#define READ ((size_t) 256 << 10)	/* bytes that a thread reads at once */
#define ALIGN ((size_t) 64 << 10)
#define TMP_AGE 3600			/* seconds after which a writer counts as crashed */

typedef struct PackHead
{
	char		magic[8];
	uint32_t	version;
	uint32_t	order;			/* 1 as this machine writes it */
	uint64_t	key_len;
	uint64_t	bytes;
	uint64_t	data_at;
	uint64_t	sum;			/* digest of this header with sum = 0, key and digests */
	uint64_t	unused[2];
} PackHead;

_Static_assert(sizeof(PackHead) == 64, "the head of an entry has 64 bytes");

void
packcache_init(PackCache *pc, const char *dir, const char *model, const char *kernels,
			   const char *quantization, const char *key, size_t bytes)
{
	const char *base = strrchr(model, '/');
	Buf			b = {0};

	*pc = (PackCache) {.bytes = bytes};
	if (dir == NULL || dir[0] == '\0')
		return;
	pc->dir = mem_strdup(dir);
	buf_printf(&b, "%s\n%s\n%s", model, kernels, quantization);
	buf_printf(&pc->key, "vllm_pg packed weights\nmodel %s\nkernels %s\nquantization %s\nbytes %zu\n%s",
			   model, kernels, quantization, bytes, key);
	base = base != NULL && base[1] != '\0' ? base + 1 : model;
	pc->name = mem_alloc(128);
	snprintf(pc->name, 128, "%.64s-%s-%016llx.packed", base, kernels,
			 (unsigned long long) digest(b.data, b.len, 0));
	for (char *c = pc->name; *c != '\0'; c++)
		if (!isalnum((unsigned char) *c) && *c != '-' && *c != '.' && *c != '_')
			*c = '_';
	buf_free(&b);
}

void
packcache_free(PackCache *pc)
{
	mem_free(pc->dir);
	mem_free(pc->name);
	buf_free(&pc->key);
}

static size_t
n_pieces(const PackCache *pc)
{
	return (pc->bytes + PIECE - 1) / PIECE;
}

/* Make what precedes the image, except for the digests and the sum. */
static void
make_header(const PackCache *pc, Buf *b, uint64_t **digests)
{
	PackHead	h = {.magic = "VLLMPACK", .version = VERSION, .order = 1, .key_len = pc->key.len,
					 .bytes = pc->bytes};
	size_t		at = (sizeof(h) + pc->key.len + 7) / 8 * 8;

	h.data_at = (at + n_pieces(pc) * 8 + ALIGN - 1) / ALIGN * ALIGN;
	buf_reserve(b, h.data_at + 1);
	memset(b->data, 0, h.data_at);
	memcpy(b->data, &h, sizeof(h));
	memcpy(b->data + sizeof(h), pc->key.data, pc->key.len);
	b->len = h.data_at;
	*digests = (uint64_t *) (void *) (b->data + at);
}

static uint64_t
header_sum(const Buf *b)
{
	PackHead	h;
	uint64_t	sum;

	memcpy(&h, b->data, sizeof(h));
	h.sum = 0;
	sum = digest(&h, sizeof(h), 0);
	return digest(b->data + sizeof(h), b->len - sizeof(h), sum);
}

/* ---- digests of the image, on all threads ---- */

typedef struct Summing
{
	const PackCache *pc;
	const unsigned char *image; /* NULL: read it from fd */
	int			fd;
	size_t		at;				/* offset of the image in fd */
	unsigned char *bufs;		/* [threads][READ] */
	uint64_t   *sums;
	_Atomic int failed;			/* an errno, or EPIPE at the end of the file */
} Summing;

/* Read all n bytes; return 0 or an errno. */
static int
read_all(int fd, void *to, size_t n, size_t at)
{
	while (n > 0)
	{
		ssize_t		got = pread(fd, to, n, (off_t) at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? errno : EPIPE;
		to = (char *) to + got;
		n -= (size_t) got;
		at += (size_t) got;
	}
	return 0;
}

static void
sum_piece(void *arg, int chunk, int ith)
{
	Summing    *s = arg;
	size_t		at = (size_t) chunk * PIECE;
	size_t		end = s->pc->bytes - at < PIECE ? s->pc->bytes : at + PIECE;
	unsigned char *buf = s->image == NULL ? s->bufs + (size_t) ith * READ : NULL;
	uint64_t	sum = (uint64_t) chunk;

	ALWAYS(at < s->pc->bytes);
	while (at < end)
	{
		size_t		n = end - at < READ ? end - at : READ;
		int			err = s->image == NULL ? read_all(s->fd, buf, n, s->at + at) : 0;

		if (err != 0)
		{
			atomic_store(&s->failed, err);
			return;
		}
		sum = digest(s->image != NULL ? s->image + at : buf, n, sum);
		at += n;
	}
	s->sums[chunk] = sum;
}

/* Compute the digests; return 0, an errno, or EPIPE if the file ends too early. */
static int
sum_image(const PackCache *pc, KPool *pool, const unsigned char *image, int fd, size_t at, uint64_t *sums)
{
	Summing		s = {.pc = pc, .image = image, .fd = fd, .at = at, .sums = sums};

	if (image == NULL && (s.bufs = mem_try_alloc((size_t) kpool_nthreads(pool) * READ)) == NULL)
		return ENOMEM;
	kpool_run(pool, sum_piece, &s, (int) n_pieces(pc));
	mem_free(s.bufs);
	return atomic_load(&s.failed);
}

/* ---- reading ---- */

void
packcache_refuse(const PackCache *pc, const char *why)
{
	log_line('I', "packed weights \"%s/%s\" are not used: %s", pc->dir, pc->name, why);
}

/* Return NULL if the file may be a valid entry of the right length, else the reason why not. */
static const char *
check_file(const PackCache *pc, int fd, size_t data_at)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return strerror(errno);
	if (!S_ISREG(st.st_mode))
		return "this is not a regular file";
	if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return "the file is another user's, or others may write it";
	if ((uint64_t) st.st_size != (uint64_t) data_at + pc->bytes)
		return "the file is truncated, or was made from or for something else";
	return NULL;
}

/* Return NULL if all contents of the file equal what would be written now, else the reason why not. */
static const char *
check_entry(const PackCache *pc, KPool *pool, int fd, const Buf *want, const uint64_t *digests)
{
	size_t		at = (size_t) ((const char *) digests - want->data);
	Buf			has = {0};
	uint64_t   *sums = mem_alloc(n_pieces(pc) * 8);
	const char *why = NULL;
	PackHead	h;
	int			err;

	buf_reserve(&has, want->len + 1);
	has.len = want->len;
	if ((err = read_all(fd, has.data, has.len, 0)) != 0)
		why = strerror(err);
	else
	{
		memcpy(&h, has.data, sizeof(h));
		if (h.sum != header_sum(&has))
			why = "the head is damaged or of another version";
		h.sum = 0;
		if (why == NULL && (memcmp(&h, want->data, sizeof(h)) != 0 ||
							memcmp(has.data + sizeof(h), want->data + sizeof(h), at - sizeof(h)) != 0))
			why = "they were made from or for something else";
	}
	if (why == NULL && (err = sum_image(pc, pool, NULL, fd, want->len, sums)) != 0)
		why = err == EPIPE ? "the file is truncated" : strerror(err);
	if (why == NULL && memcmp(sums, has.data + at, n_pieces(pc) * 8) != 0)
		why = "the file is damaged";
	mem_free(sums);
	buf_free(&has);
	return why;
}

static int
open_dir(const PackCache *pc)
{
	return open(pc->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

bool
packcache_map(const PackCache *pc, KPool *pool, MArena *a)
{
	Buf			header = {0};
	uint64_t   *digests;
	const char *why;
	int			dir;
	int			fd;

	if (pc->dir == NULL)
		return false;
	if ((dir = open_dir(pc)) < 0)
		return false;			/* packcache_write() will report why */
	fd = openat(dir, pc->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	close(dir);
	if (fd < 0)
	{
		if (errno != ENOENT)
			packcache_refuse(pc, strerror(errno));
		return false;
	}
	make_header(pc, &header, &digests);
	why = check_file(pc, fd, header.len);
	if (why == NULL)
		why = check_entry(pc, pool, fd, &header, digests);
	if (why == NULL && !marena_map(a, fd, header.len, pc->bytes))
		why = strerror(errno);
	close(fd);
	buf_free(&header);
	if (why != NULL)
		packcache_refuse(pc, why);
	else
		log_line('I', "packed weights are mapped from \"%s/%s\"", pc->dir, pc->name);
	return why == NULL;
}

/* ---- writing ---- */

static bool
write_all(int fd, const void *from, size_t n)
{
	while (n > 0)
	{
		ssize_t		put = write(fd, from, n);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return false;
		from = (const char *) from + put;
		n -= (size_t) put;
	}
	return true;
}

/* Remove files that crashed writers of this entry left behind. */
static void
remove_old(const PackCache *pc, int dir)
{
	int			copy = dup(dir);
	DIR		   *d = copy >= 0 ? fdopendir(copy) : NULL;
	size_t		len = strlen(pc->name);
	struct dirent *de;
	struct stat st;

	if (d == NULL)
	{
		if (copy >= 0)
			close(copy);
		return;
	}
	while ((de = readdir(d)) != NULL)
		if (strncmp(de->d_name, pc->name, len) == 0 && strncmp(de->d_name + len, ".tmp.", 5) == 0 &&
			fstatat(dir, de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && time(NULL) - st.st_mtime > TMP_AGE)
			unlinkat(dir, de->d_name, 0);
	closedir(d);
}

/* Make an unused name in the entry's directory. */
static void
tmp_name(const PackCache *pc, char *tmp, size_t size)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	snprintf(tmp, size, "%s.tmp.%ld.%llx", pc->name, (long) getpid(),
			 (unsigned long long) ts.tv_sec * 1000000000ull + (unsigned long long) ts.tv_nsec);
}

/* Create a file in dir: without a name (tmp is empty) if it can be linked later, else with one. */
static int
create_tmp(const PackCache *pc, int dir, char *tmp, size_t size)
{
	int			fd = -1;

	tmp[0] = '\0';
	if (access("/proc/self/fd", X_OK) == 0)
		fd = openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	tmp_name(pc, tmp, size);
	return openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* Rename the finished file to the entry's name. */
static bool
put_in_place(const PackCache *pc, int dir, int fd, char *tmp, size_t size)
{
	char		link[40];

	if (tmp[0] == '\0')
	{
		tmp_name(pc, tmp, size);
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		if (linkat(AT_FDCWD, link, dir, tmp, AT_SYMLINK_FOLLOW) != 0)
			return false;
	}
	return renameat(dir, tmp, dir, pc->name) == 0 && fsync(dir) == 0;
}

/* Write header and image to fd and sync it; errno 0 means that go_on returned false. */
static bool
write_entry(int fd, const Buf *header, const MArena *a, size_t bytes, bool (*go_on) (void *ctx), void *ctx)
{
	bool		ok = write_all(fd, header->data, header->len);

	for (size_t at = 0; ok && at < bytes; at += 16 * PIECE)
	{
		ok = write_all(fd, a->base + at, bytes - at < 16 * PIECE ? bytes - at : 16 * PIECE);
		if (ok && go_on != NULL && !go_on(ctx))
		{
			errno = 0;
			ok = false;
		}
	}
	return ok && fsync(fd) == 0;
}

void
packcache_write(const PackCache *pc, KPool *pool, const MArena *a, bool (*go_on) (void *ctx), void *ctx)
{
	Buf			header = {0};
	uint64_t   *digests;
	PackHead	h;
	char		tmp[200] = "";
	int			dir;
	int			fd = -1;
	int			err;
	bool		ok = false;

	if (pc->dir == NULL)
		return;
	if ((dir = open_dir(pc)) >= 0)
	{
		remove_old(pc, dir);
		fd = create_tmp(pc, dir, tmp, sizeof(tmp));
	}
	if (fd >= 0)
	{
		make_header(pc, &header, &digests);
		sum_image(pc, pool, a->base, -1, 0, digests);
		memcpy(&h, header.data, sizeof(h));
		h.sum = header_sum(&header);
		memcpy(header.data, &h, sizeof(h));
		ok = write_entry(fd, &header, a, pc->bytes, go_on, ctx) &&
			put_in_place(pc, dir, fd, tmp, sizeof(tmp));
		err = errno;
		buf_free(&header);
	}
	else
		err = errno;
	if (ok)
		log_line('I', "packed weights are kept in \"%s/%s\"", pc->dir, pc->name);
	else if (err != 0)
		log_line('W', "could not keep packed weights in directory \"%s\": %s; check vllm.repack_cache: the "
				 "directory must exist, be writable for the server's user and have room for %zu MB", pc->dir,
				 strerror(err), (pc->bytes >> 20) + 1);
	if (fd >= 0)
		close(fd);
	if (!ok && fd >= 0 && tmp[0] != '\0')
		unlinkat(dir, tmp, 0);
	if (dir >= 0)
		close(dir);
}
