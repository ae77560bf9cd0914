/*
 * tier_file.h
 *	  The files of the offload tier: private to tier_io.c.
 *
 *	DIRECTORY/key			32 random bytes with which the engine makes all names
 *	DIRECTORY/lock			the process that has locked it (flock) reads, writes and removes the other files
 *	DIRECTORY/MODEL/KEY		a block: a head of 128 bytes, then the block's bytes
 *	DIRECTORY/MODEL/new		a block that is being written
 *
 * MODEL is 64 hexadecimal digits, a hyphen and the number of bytes of a block; KEY is 64 hexadecimal
 * digits.  Files with any other name are never touched.  Directories must have mode 0700, files 0600,
 * and all must belong to the server's user; others are not used.
 *
 * A file gets its name when it is complete.  Files are not synced: after a crash of the machine a file
 * may have any content, which its checksum detects.  Functions return 0 or an errno; EBADMSG = the
 * content is wrong.
 */
#ifndef VLLM_CORE_OFFLOAD_TIER_FILE_H
#define VLLM_CORE_OFFLOAD_TIER_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define KVFILE_KEY 32
#define KVFILE_NAME 96			/* buffer for any name */

/* Open the directory, which is made if its parent exists.  Returns -1 with *e set if it can't be used. */
int			kvfile_open_dir(const char *path, Err *e);
/* Return true if the directory has not been removed. */
bool		kvfile_dir_alive(int dir);
/*
 * Read the directory's random bytes; if it has none, they are made from fallback, which must be random,
 * too.
 */
bool		kvfile_secret(int dir, const char *path, const unsigned char fallback[KVFILE_KEY],
						  unsigned char secret[KVFILE_KEY], Err *e);
/* Lock the directory; close *fd to unlock it.  EWOULDBLOCK: another process has locked it. */
int			kvfile_lock(int dir, int *fd);

/* Return the disk space of a file with a block of n bytes. */
uint64_t	kvfile_size(size_t n);
/* Open the folder of a model, which is made if `create` is set. */
int			kvfile_open_model(int dir, const unsigned char id[KVFILE_KEY], size_t bytes, bool create,
							  int *fd);

int			kvfile_write(int model, const unsigned char id[KVFILE_KEY], const unsigned char key[KVFILE_KEY],
						 const void *data, size_t n);
int			kvfile_read(int model, const unsigned char id[KVFILE_KEY], const unsigned char key[KVFILE_KEY],
						void *data, size_t n);
int			kvfile_remove(int model, const unsigned char key[KVFILE_KEY]);

/* A file that a scan has found; used: time of last use in ns since 1970. */
typedef struct KvFound
{
	unsigned char id[KVFILE_KEY];
	unsigned char key[KVFILE_KEY];
	size_t		bytes;
	int64_t		used;
} KvFound;

/*
 * List all files, newest first, in *out (free it with mem_free()); stop() is called now and then, and
 * ends the scan if it returns true.  Removes the rest of an unfinished write, files whose length does
 * not match their folder, and the oldest files beyond max.  Returns 0, or the errno of the directory
 * itself; folders that can't be read are skipped.
 */
int			kvfile_scan(int dir, size_t max, bool (*stop) (void *ctx), void *ctx, KvFound **out, size_t *n);

#endif
