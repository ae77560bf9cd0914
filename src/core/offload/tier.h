/*
 * tier.h
 *	  The offload tier: keeps evicted blocks of KV caches in memory and in files
 *	  (docs/internals/kv-cache.md, Offload tier).
 *
 * A block of `bytes` bytes is stored under a key of 32 bytes.  The tier knows no tokens and no requests:
 * the key is a digest that covers everything its content depends on, and equal keys mean equal bytes.  So
 * an entry never changes; putting one that exists only counts as a use.
 *
 *	put -> memory -> (write-behind) -> file -> (fetch) -> memory -> copied out
 *
 * An engine has one tier, with one thread of its own ("kv tier") that reads, writes and removes files
 * and returns memory to the system.  It holds no lock during any of that.  All functions here take
 * microseconds, unless their comment says otherwise, and any thread may call them, in particular the
 * step thread.
 *
 * - Memory never exceeds memory_bytes, nor files disk_bytes; the least recently used entries are
 *   evicted.  Entries with a file are evicted from memory first.  The thread writes ahead of time, so
 *   that a quarter of memory can be freed at once; if it is too slow, entries are evicted unwritten
 *   (n_dropped), and no caller waits.
 * - A hold keeps an entry's bytes in memory, at one address.  Its owner releases it exactly once, at any
 *   time: kvtier_release() also cancels a read that is not done.
 * - The bytes of a file are used only if its head and its checksum are right; else the file is removed,
 *   and the entry counts as missing.
 * - An error of a file is never an error of a request: errors are counted, the log gets at most one line
 *   a minute, and what could not be written or read is a miss.
 * - Only one process at a time uses a directory's files.  Others use memory only until it ends; then the
 *   next one takes the files over (a newer engine those of the previous one).
 *
 * Tested by tests/unit/core/offload/test_kvtier.c.
 */
#ifndef VLLM_CORE_OFFLOAD_TIER_H
#define VLLM_CORE_OFFLOAD_TIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/weights/arena.h"

#define KVTIER_KEY 32

typedef struct KvTier KvTier;
typedef struct KvTierModel KvTierModel;
typedef struct KvHold KvHold;

typedef struct KvTierOptions
{
	size_t		memory_bytes;	/* > 0 */
	const char *directory;		/* NULL or "" = no files */
	uint64_t	disk_bytes;
	HugePages	huge;			/* HUGE_ON is treated as HUGE_TRY */
	/* called when a fetch ends, on the tier's thread, without its lock; or NULL */
	void		(*notify) (void *ctx);
	void	   *notify_ctx;
} KvTierOptions;

/*
 * Returns NULL with *e set if the directory can't be used: others may access it, it belongs to another
 * user, it does not exist and can't be made, ...  Without a directory it never fails.  The files are
 * scanned in the background.
 */
KvTier	   *kvtier_open(const KvTierOptions *o, Err *e);
/*
 * Close the tier; all holds must have been released.  Entries that are only in memory are lost: call
 * kvtier_flush() before.  Waits for the file that is being read or written.
 */
void		kvtier_close(KvTier *t);
/* Return 32 random bytes with which keys are made: the directory's, or this tier's. */
const unsigned char *kvtier_secret(const KvTier *t);

/*
 * Join as a model whose blocks have this many bytes; id is a digest that covers everything that decides
 * their content.  The same id and size give the same model.  Returns NULL with *e set if a block is
 * larger than the memory.
 */
KvTierModel *kvtier_join(KvTier *t, const unsigned char id[KVTIER_KEY], size_t bytes, Err *e);
/* Leave; the entries stay for the next join.  All holds of the model must have been released. */
void		kvtier_leave(KvTier *t, KvTierModel *m);

/* ---- putting ---- */
/*
 * Reserve memory for a block under this key: fill kvtier_room(), then call kvtier_keep(), or
 * kvtier_release() to cancel.  Returns NULL if the entry exists, another caller is filling it, or all
 * memory is held.
 */
KvHold	   *kvtier_put(KvTier *t, KvTierModel *m, const unsigned char key[KVTIER_KEY]);
void	   *kvtier_room(KvHold *h);
/* The block is filled: make it visible, and release the hold. */
void		kvtier_keep(KvTier *t, KvHold *h);

/* ---- getting ---- */
typedef enum KvPlace
{
	KVT_NONE,
	KVT_FILE,
	KVT_COMING,					/* being read */
	KVT_MEMORY
} KvPlace;

/* Find an entry without using it; an entry in KVT_MEMORY or KVT_FILE may be gone by the next call. */
KvPlace		kvtier_find(KvTier *t, const KvTierModel *m, const unsigned char key[KVTIER_KEY]);

typedef enum KvHoldState
{
	KVH_COMING,
	KVH_READY,
	/* the entry is gone: its file is missing or damaged, or there was a reset */
	KVH_LOST
} KvHoldState;

/*
 * Hold the entry; if it is in a file, start to read it.  Returns NULL if there is no such entry, or all
 * memory is held.
 */
KvHold	   *kvtier_fetch(KvTier *t, KvTierModel *m, const unsigned char key[KVTIER_KEY]);
KvHoldState kvtier_state(const KvHold *h);
const void *kvtier_bytes(const KvHold *h);	/* only in KVH_READY; valid until the hold is released */
void		kvtier_release(KvTier *t, KvHold *h);
/*
 * Estimate the seconds until so many more bytes have been read.  A tier that has read nothing yet
 * assumes 200 MB/s.
 */
double		kvtier_read_wait(KvTier *t, size_t bytes);

/* ---- whole tier ---- */
/*
 * Drop all entries of m (NULL = of all models): none is found from now on, but entries that are held and
 * ready stay usable.  That includes files that can't be accessed yet: they are removed when they can.
 */
void		kvtier_reset(KvTier *t, KvTierModel *m);
/*
 * Wait until all entries in memory have files, at most until the deadline (clock_us()).  Returns the
 * number of entries that could not be written in time, or at all; without a directory 0.
 */
size_t		kvtier_flush(KvTier *t, int64_t deadline_us);
/* Let the thread write all entries without a file now, as it has time. */
void		kvtier_write(KvTier *t);
/*
 * Evict all entries of m (NULL = of all models) from memory that are not held, for sleep.  Entries that
 * still get a file are evicted when it is written, unless m is used again before; if files can't be
 * written now, at once.
 */
void		kvtier_shed(KvTier *t, KvTierModel *m);

typedef enum KvFilesState
{
	KVF_NONE,					/* there is no directory */
	KVF_LOCKED,					/* another process uses it */
	KVF_OPENING,				/* the files are being scanned */
	KVF_READY,
	KVF_DOWN					/* the last write has failed; it is repeated later */
} KvFilesState;

typedef struct KvTierStats
{
	KvFilesState files;
	uint64_t	memory_limit;
	uint64_t	memory_bytes;	/* bytes taken from the system */
	uint64_t	memory_entries;
	uint64_t	disk_limit;
	uint64_t	file_bytes;		/* including the unused rest of each file's last disk block */
	uint64_t	file_entries;
	uint64_t	unwritten;		/* entries in memory that have no file yet, but will get one */
	uint64_t	reading;		/* entries that wait to be read */
	/* since the tier was opened: */
	uint64_t	n_put;			/* blocks stored */
	uint64_t	n_refused;		/* blocks rejected, because all memory was held */
	uint64_t	n_dropped;		/* entries evicted from memory before the thread could write them */
	uint64_t	n_memory_hits;	/* fetches of entries in memory, */
	uint64_t	n_file_hits;	/* of entries in files (which may have been lost), */
	uint64_t	n_misses;		/* and of missing entries */
	uint64_t	n_written;		/* files written */
	uint64_t	n_read;
	uint64_t	n_removed;		/* files removed to make room */
	uint64_t	n_damaged;		/* files whose head or checksum was wrong */
	uint64_t	n_errors;		/* system errors in reading, writing, removing */
	uint64_t	written_bytes;
	uint64_t	read_bytes;
	double		write_rate;		/* recent bytes per second; 0 = unknown */
	double		read_rate;
} KvTierStats;

void		kvtier_stats(KvTier *t, KvTierStats *out);
/* Get the bytes of one model's entries. */
void		kvtier_model_bytes(KvTier *t, const KvTierModel *m, uint64_t *memory, uint64_t *files);
/* Check that lists, counts and limits agree; *e says what is wrong.  Takes long. */
bool		kvtier_check(KvTier *t, Err *e);

#endif
