/*
 * tier_file.c
 *	  The offload tier's directory and the format of its files.
 *
 *	OFFSET	SIZE	CONTENTS
 *	0		8		"VLLMKVT" and a NUL
 *	8		4		version
 *	12		4		1 in this machine's byte order
 *	16		8		bytes of the block
 *	24		8		checksum of the block, seeded with the checksum of this head, where this field is 0
 *	32		32		the model's id
 *	64		32		the key
 *	96		32		zeros
 *	128		bytes	the block
 *
 * A file is used only if each byte of the head is what this program would write, and the checksum is
 * right.
 *
 * Tested by tests/unit/core/offload/test_kvtier.c, tests/fuzz/fuzz_kvtier.c.
 */
#include "core/offload/tier_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/checksum.h"
#include "base/alloc.h"

#define VERSION 1
#define DISK_BLOCK 4096
#define HEX (2 * KVFILE_KEY)
#define NEW "new"
#define KEY_TMP "key."
#define TMP_AGE 60				/* seconds after which no process is still making a key */

typedef struct KvHead
{
	char		magic[8];
	uint32_t	version;
	uint32_t	order;
	uint64_t	bytes;
	uint64_t	sum;
	unsigned char id[KVFILE_KEY];
	unsigned char key[KVFILE_KEY];
	unsigned char unused[32];
} KvHead;

_Static_assert(sizeof(KvHead) == 128, "the head of a file has 128 bytes");

/* ---- names ---- */

static void
put_hex(char *to, const unsigned char *p)
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < KVFILE_KEY; i++)
	{
		to[i * 2] = digits[p[i] >> 4];
		to[i * 2 + 1] = digits[p[i] & 15];
	}
	to[HEX] = '\0';
}

static bool
get_hex(const char *s, unsigned char *p)
{
	for (int i = 0; i < HEX; i++)
	{
		int			v = s[i] >= '0' && s[i] <= '9' ? s[i] - '0' : s[i] >= 'a' && s[i] <= 'f' ? s[i] - 'a' +
			10 : -1;

		if (v < 0)
			return false;
		p[i / 2] = (unsigned char) (i % 2 == 0 ? v << 4 : p[i / 2] | v);
	}
	return true;
}

static void
model_name(char *to, const unsigned char *id, size_t bytes)
{
	ASSERT(bytes > 0);
	put_hex(to, id);
	snprintf(to + HEX, KVFILE_NAME - HEX, "-%zu", bytes);
}

static bool
is_model_name(const char *s, unsigned char *id, size_t *bytes)
{
	char		again[KVFILE_NAME];

	if (!get_hex(s, id) || s[HEX] != '-')
		return false;
	*bytes = strtoull(s + HEX + 1, NULL, 10);
	model_name(again, id, *bytes);
	return *bytes > 0 && *bytes < SIZE_MAX / 2 && strcmp(s, again) == 0;
}

/* ---- the directory ---- */

/* Check the owner and mode of a file; returns an errno, EACCES = others have access to it. */
static int
check_mine(int fd, mode_t type)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return errno;
	if ((st.st_mode & S_IFMT) != type)
		return type == S_IFDIR ? ENOTDIR : EINVAL;
	if (st.st_uid != geteuid())
		return EPERM;
	return (st.st_mode & 077) != 0 ? EACCES : 0;
}

int
kvfile_open_dir(const char *path, Err *e)
{
	int			fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int			why;

	if (fd < 0 && errno == ENOENT && mkdir(path, 0700) == 0)
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
	{
		err_set(e, ERR_IO, "could not open directory \"%.300s\": %m", path);
		err_hint(e, "The engine creates vllm.kv_offload_directory if it does not exist, but not its parent "
					"directory.");
		return -1;
	}
	if ((why = check_mine(fd, S_IFDIR)) == 0)
		return fd;
	close(fd);
	if (why == EPERM || why == EACCES)
	{
		err_set(e, ERR_INVALID, "directory \"%.300s\" %s", path,
				why == EPERM ? "has another owner" : "is open to others");
		err_detail(e, "The files in vllm.kv_offload_directory are computed from prompts.");
		err_hint(e, "It must belong to the server's user and have permissions u=rwx (0700).");
	}
	else
		err_set(e, ERR_IO, "could not use directory \"%.300s\": %s", path, strerror(why));
	return -1;
}

bool
kvfile_dir_alive(int dir)
{
	struct stat st;

	return fstat(dir, &st) == 0 && st.st_nlink > 0;
}

static int
read_secret(int dir, unsigned char secret[KVFILE_KEY])
{
	int			fd = openat(dir, "key", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	unsigned char more;
	int			why;

	if (fd < 0)
		return errno;
	why = check_mine(fd, S_IFREG);
	if (why == 0 && (read(fd, secret, KVFILE_KEY) != KVFILE_KEY || read(fd, &more, 1) != 0))
		why = EBADMSG;
	close(fd);
	return why;
}

/* If several processes do this at the same time, one of them wins. */
static int
make_secret(int dir, const unsigned char *fallback)
{
	char		tmp[32];
	int			fd;
	int			why = 0;

	snprintf(tmp, sizeof(tmp), KEY_TMP "%ld", (long) getpid());
	unlinkat(dir, tmp, 0);
	if ((fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)) < 0)
		return errno;
	errno = ENOSPC;				/* set for a short write */
	if (write(fd, fallback, KVFILE_KEY) != KVFILE_KEY || fsync(fd) != 0)
		why = errno;
	close(fd);
	if (why == 0 && linkat(dir, tmp, dir, "key", 0) != 0 && errno != EEXIST)
		why = errno;
	unlinkat(dir, tmp, 0);
	return why;
}

bool
kvfile_secret(int dir, const char *path, const unsigned char fallback[KVFILE_KEY],
			  unsigned char secret[KVFILE_KEY], Err *e)
{
	int			why = read_secret(dir, secret);

	if (why == ENOENT && (why = make_secret(dir, fallback)) == 0)
		why = read_secret(dir, secret);
	if (why == 0)
		return true;
	if (why == EBADMSG || why == EINVAL || why == ELOOP || why == EPERM || why == EACCES)
	{
		err_set(e, ERR_INVALID, "file \"%.300s/key\" can't be used", path);
		err_detail(e, "It must be a regular file of 32 bytes that belongs to the server's user, with "
					  "permissions u=rw (0600).");
		return err_hint(e, "If it is removed, the engine creates a new one and no longer finds the other "
						   "files in vllm.kv_offload_directory.");
	}
	err_set(e, ERR_IO, "could not read or create file \"%.300s/key\": %s", path, strerror(why));
	return err_hint(e, "The directory, vllm.kv_offload_directory, must be writable.");
}

int
kvfile_lock(int dir, int *fd)
{
	int			why = 0;

	*fd = openat(dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (*fd < 0)
		return errno;
	if (flock(*fd, LOCK_EX | LOCK_NB) != 0)
	{
		why = errno;
		close(*fd);
		*fd = -1;
	}
	return why;
}

int
kvfile_open_model(int dir, const unsigned char id[KVFILE_KEY], size_t bytes, bool create, int *fd)
{
	char		name[KVFILE_NAME];
	int			why;

	model_name(name, id, bytes);
	if (create && mkdirat(dir, name, 0700) != 0 && errno != EEXIST)
		return errno;
	if ((*fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
		return errno;
	if ((why = check_mine(*fd, S_IFDIR)) != 0)
	{
		close(*fd);
		*fd = -1;
	}
	return why;
}

/* Remove a model's folder, if it is empty. */
static int
kvfile_remove_model(int dir, const unsigned char id[KVFILE_KEY], size_t bytes)
{
	char		name[KVFILE_NAME];

	model_name(name, id, bytes);
	return unlinkat(dir, name, AT_REMOVEDIR) == 0 ? 0 : errno;
}

/* ---- a file ---- */

uint64_t
kvfile_size(size_t n)
{
	return (sizeof(KvHead) + (uint64_t) n + DISK_BLOCK - 1) / DISK_BLOCK * DISK_BLOCK;
}

static KvHead
make_head(const unsigned char *id, const unsigned char *key, size_t n)
{
	KvHead		h = {.magic = "VLLMKVT",.version = VERSION,.order = 1,.bytes = n};

	memcpy(h.id, id, KVFILE_KEY);
	memcpy(h.key, key, KVFILE_KEY);
	return h;
}

static uint64_t
sum_of(const KvHead *h, const void *data, size_t n)
{
	return digest(data, n, digest(h, sizeof(*h), 0));
}

/*
 * Write or read head and block in one call, and the rest of the block, if any, in further ones.  Returns
 * 0 or an errno; EBADMSG = the file is too short.
 */
static int
transfer(int fd, KvHead *h, void *data, size_t n, bool out)
{
	struct iovec v[2] = {{h, sizeof(*h)}, {data, n}};
	int			first = 0;

	while (first < 2)
	{
		ssize_t		did = out ? writev(fd, v + first, 2 - first) : readv(fd, v + first, 2 - first);

		if (did < 0 && errno == EINTR)
			continue;
		if (did <= 0)
			return did < 0 ? errno : EBADMSG;
		for (; first < 2 && (size_t) did >= v[first].iov_len; first++)
			did -= (ssize_t) v[first].iov_len;
		if (first < 2)
		{
			v[first].iov_base = (char *) v[first].iov_base + did;
			v[first].iov_len -= (size_t) did;
		}
	}
	return 0;
}

int
kvfile_write(int model, const unsigned char id[KVFILE_KEY], const unsigned char key[KVFILE_KEY],
			 const void *data, size_t n)
{
	KvHead		h = make_head(id, key, n);
	char		name[KVFILE_NAME];
	int			why = 0;
	int			fd;

	h.sum = sum_of(&h, data, n);
	put_hex(name, key);
	for (int i = 0; i < 2; i++)
	{
		fd = openat(model, NEW, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0 || errno != EEXIST || unlinkat(model, NEW, 0) != 0)
			break;
	}
	if (fd < 0)
		return errno;
	why = transfer(fd, &h, (void *) data, n, true);
	if (close(fd) != 0 && why == 0)
		why = errno;
	if (why == 0 && renameat(model, NEW, model, name) != 0)
		why = errno;
	if (why != 0)
		unlinkat(model, NEW, 0);
	return why;
}

/* Read an open file, and check its content. */
static int
read_block(int fd, const unsigned char *id, const unsigned char *key, void *data, size_t n)
{
	KvHead		want = make_head(id, key, n);
	KvHead		h;
	struct stat st;
	uint64_t	sum;
	int			why;

	if (check_mine(fd, S_IFREG) != 0)
		return EBADMSG;
	if (fstat(fd, &st) != 0)
		return errno;
	if ((uint64_t) st.st_size != sizeof(h) + (uint64_t) n)
		return EBADMSG;
	if ((why = transfer(fd, &h, data, n, false)) != 0)
		return why;
	sum = h.sum;
	h.sum = 0;
	return memcmp(&h, &want, sizeof(h)) == 0 && sum == sum_of(&want, data, n) ? 0 : EBADMSG;
}

int
kvfile_read(int model, const unsigned char id[KVFILE_KEY], const unsigned char key[KVFILE_KEY], void *data,
			size_t n)
{
	char		name[KVFILE_NAME];
	int			fd;
	int			why;

	put_hex(name, key);
	fd = openat(model, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ELOOP ? EBADMSG : errno;
	why = read_block(fd, id, key, data, n);
	if (why == 0)
		futimens(fd, NULL);		/* keeps the order of use for the next start; a failure does not matter */
	close(fd);
	return why;
}

int
kvfile_remove(int model, const unsigned char key[KVFILE_KEY])
{
	char		name[KVFILE_NAME];

	put_hex(name, key);
	return unlinkat(model, name, 0) == 0 ? 0 : errno;
}

/* ---- scan ---- */

typedef struct TierFileScan
{
	int			dir;
	size_t		max;
	bool		(*stop) (void *ctx);
	void	   *ctx;
	KvFound    *found;
	size_t		n;
	size_t		cap;
} TierFileScan;

static int
newer_first(const void *a, const void *b)
{
	const KvFound *x = a;
	const KvFound *y = b;

	return x->used != y->used ? (x->used > y->used ? -1 : 1) : memcmp(x->key, y->key, KVFILE_KEY);
}

/* Sort the files, newest first, and remove the oldest beyond the maximum. */
static void
cut(TierFileScan *s)
{
	int			fd;

	if (s->n > 0)
		qsort(s->found, s->n, sizeof(*s->found), newer_first);
	for (; s->n > s->max; s->n--)
	{
		const KvFound *f = &s->found[s->n - 1];

		if (kvfile_open_model(s->dir, f->id, f->bytes, false, &fd) == 0)
		{
			kvfile_remove(fd, f->key);
			close(fd);
		}
	}
}

/* Process a file of a model's folder. */
static void
found_file(TierFileScan *s, int fd, const char *name, const unsigned char *id, size_t bytes)
{
	KvFound		f = {.bytes = bytes};
	struct stat st;

	if (strcmp(name, NEW) == 0)
		unlinkat(fd, name, 0);
	if (!get_hex(name, f.key) || name[HEX] != '\0' || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		!S_ISREG(st.st_mode))
		return;
	if ((uint64_t) st.st_size != sizeof(KvHead) + (uint64_t) bytes)
	{
		unlinkat(fd, name, 0);
		return;
	}
	memcpy(f.id, id, KVFILE_KEY);
	f.used = (int64_t) st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	if (s->n == s->cap)
	{
		if (s->n >= s->max && s->n >= 1024)
			cut(s);
		if (s->n == s->cap)
		{
			s->cap = s->cap > 0 ? s->cap * 2 : 1024;
			s->found = mem_realloc(s->found, s->cap * sizeof(*s->found));
		}
	}
	s->found[s->n++] = f;
}

/* Call fn for each name in a folder; returns 0 or an errno. */
static int
each_name(TierFileScan *s, int fd, void (*fn) (TierFileScan *s, int fd, const char *name,
											   const unsigned char *id, size_t bytes),
		  const unsigned char *id, size_t bytes)
{
	int			copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR		   *d = copy >= 0 ? fdopendir(copy) : NULL;
	struct dirent *de;
	int			why = 0;

	if (d == NULL)
	{
		why = errno;
		if (copy >= 0)
			close(copy);
		return why;
	}
	while (!s->stop(s->ctx))
	{
		errno = 0;
		if ((de = readdir(d)) == NULL)
		{
			why = errno;
			break;
		}
		fn(s, fd, de->d_name, id, bytes);
	}
	closedir(d);
	return why;
}

/* Process an entry of the directory itself. */
static void
found_model(TierFileScan *s, int dir, const char *name, const unsigned char *no_id, size_t no_bytes)
{
	unsigned char id[KVFILE_KEY];
	struct stat st;
	size_t		bytes;
	size_t		before = s->n;
	int			fd;

	(void) no_id;
	(void) no_bytes;
	if (strncmp(name, KEY_TMP, strlen(KEY_TMP)) == 0 &&
		name[strspn(name + strlen(KEY_TMP), "0123456789") + strlen(KEY_TMP)] == '\0' &&
		fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && time(NULL) - st.st_mtime > TMP_AGE)
		unlinkat(dir, name, 0);
	if (!is_model_name(name, id, &bytes) || kvfile_open_model(dir, id, bytes, false, &fd) != 0)
		return;
	each_name(s, fd, found_file, id, bytes);
	close(fd);
	if (s->n == before)
		kvfile_remove_model(dir, id, bytes);
}

int
kvfile_scan(int dir, size_t max, bool (*stop) (void *ctx), void *ctx, KvFound **out, size_t *n)
{
	TierFileScan s = {.dir = dir,.max = max,.stop = stop,.ctx = ctx};
	int			why = each_name(&s, dir, found_model, NULL, 0);

	cut(&s);
	*out = s.found;
	*n = s.n;
	return why;
}
