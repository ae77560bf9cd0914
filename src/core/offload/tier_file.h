/*
 * tier_file.h
 *	  The files of the offload tier: private to tier_io.c.
 *
 *	DIRECTORY/key			32 random bytes that all names are made with, by the engine
 *	DIRECTORY/lock			whoever has it locked (flock) reads, writes and removes the rest
 *	DIRECTORY/MODEL/KEY		a block: a head of 128 bytes, then its bytes
 *	DIRECTORY/MODEL/new		one that is being written
 *
 * MODEL is 64 hexadecimal digits, a hyphen and the bytes of a block; KEY is 64 hexadecimal digits.  Files of
 * any other name are not ours: nobody touches them.  All is 0700 and 0600, and of our user, or not used.
 *
 * A file gets its name when it is complete.  Nothing is synced: after a crash of the machine a file may be
 * anything, and its checksum tells.  Functions give an errno, 0 if all is well; EBADMSG: it isn't what it
 * should be.
 */
#ifndef VLLM_CORE_OFFLOAD_TIER_FILE_H
#define VLLM_CORE_OFFLOAD_TIER_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define KVFILE_KEY 32
#define KVFILE_NAME 96			/* longer than any name */

/* The directory; made if there is none in a folder that exists.  -1 with *e set: it can't be used. */
int			kvfile_open_dir(const char *path, Err *e);
/* Is it still where it was opened? */
bool		kvfile_dir_alive(int dir);
/* The directory's random bytes; made from fallback (random bytes as well) if it has none. */
bool		kvfile_secret(int dir, const char *path, const unsigned char fallback[KVFILE_KEY],
						  unsigned char secret[KVFILE_KEY], Err *e);
/* *fd: the lock, to be closed; EWOULDBLOCK: another process has it. */
int			kvfile_lock(int dir, int *fd);

/* What a file of a block of n bytes takes on disk. */
uint64_t	kvfile_size(size_t n);
/* The folder of a model; made if there is none and create is set. */
int			kvfile_open_model(int dir, const unsigned char id[KVFILE_KEY], size_t bytes, bool create,
							  int *fd);

int			kvfile_write(int model, const unsigned char id[KVFILE_KEY], const unsigned char key[KVFILE_KEY],
						 const void *data, size_t n);
int			kvfile_read(int model, const unsigned char id[KVFILE_KEY], const unsigned char key[KVFILE_KEY],
						void *data, size_t n);
int			kvfile_remove(int model, const unsigned char key[KVFILE_KEY]);

/* A file that was found; used: when, in ns since 1970. */
typedef struct KvFound
{
	unsigned char id[KVFILE_KEY];
	unsigned char key[KVFILE_KEY];
	size_t		bytes;
	int64_t		used;
} KvFound;

/*
 * All files, newest first, into *out (mem_free); stop is asked now and then.  Removes what is left of a write
 * that did not end, files of another length than their folder's, and the oldest beyond max.  0, or the errno
 * of the directory itself; folders that can't be read are left out.
 */
int			kvfile_scan(int dir, size_t max, bool (*stop) (void *ctx), void *ctx, KvFound **out, size_t *n);

#endif
