/*
 * tier.h
 *	  What a KV cache's blocks held when their memory was wanted for something else: the
 *	  store behind the pools, in memory and in files (docs/internals/kv-cache.md, Offload tier).
 *
 * A block of `bytes` bytes is kept under a key of 32 bytes.  The store knows no tokens and no requests: the
 * key, a digest that covers everything its content depends on, is all there is, and equal keys mean equal
 * bytes.  So an entry never changes; putting what is there already is just a use of it.
 *
 *	put -> memory -> (write-behind) -> file -> (fetch) -> memory -> copied out
 *
 * There is one store in an engine, and one thread of its own ("kv tier") that reads, writes and removes files
 * and gives memory back.  No lock is held during any of it; all functions here but those that say so take
 * microseconds and may be called by any thread, most of all by the step thread.
 *
 *	- Memory never exceeds memory_bytes, nor files disk_bytes; the entries used longest ago make room.
 *	  Those that have a file go first.  The thread writes ahead of time, so that a quarter of memory
 *	  can go at once; if it can't follow, entries go unwritten (n_dropped), nobody waits.
 *	- A hold keeps an entry's bytes in memory, at one address.  Its owner releases it, once, at any time:
 *	kvtier_release() also cancels a read that is not done.
 *	- The bytes of a file are used only if its head and its checksum are right; else the file is removed, and
 *	  the entry was never there.
 *	- Nothing that happens to files is an error of anybody's request: failures are counted, the log has a line
 *	  a minute, and what could not be written or read is a miss.
 *	- One process at a time uses a directory's files; others have memory only until it is gone, then the
 *	  next takes them over (a newer engine those of the one before).
 *
 * Tested by tests/unit/core/test_kvtier.c.
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
	const char *directory;		/* NULL or "": no files */
	uint64_t	disk_bytes;
	HugePages	huge;			/* HUGE_ON is taken as HUGE_TRY */
	/* a fetch has come to its end; on the store's thread, without its lock; or NULL */
	void		(*notify) (void *ctx);
	void	   *notify_ctx;
} KvTierOptions;

/*
 * NULL with *e set if the directory can't be used as it is: others may look into it, it isn't ours, there is
 * none and it can't be made, ...  Without a directory it never fails.  Looking through the files goes on
 * behind.
 */
KvTier	   *kvtier_open(const KvTierOptions *o, Err *e);
/*
 * All holds have been given up.  What is in memory only is gone: kvtier_flush() comes before.  Waits for the
 * file that is being read or written.
 */
void		kvtier_close(KvTier *t);
/* 32 random bytes that keys are made with: those of the directory, or of this store. */
const unsigned char *kvtier_secret(const KvTier *t);

/*
 * A model whose blocks have this many bytes; id, a digest, covers whatever decides what is in them.  The same
 * is the same model, however often it joins.  NULL with *e set: a block is larger than the memory.
 */
KvTierModel *kvtier_join(KvTier *t, const unsigned char id[KVTIER_KEY], size_t bytes, Err *e);
/* Its entries stay, for when it comes again.  All its holds have been given up. */
void		kvtier_leave(KvTier *t, KvTierModel *m);

/* ---- putting ---- */
/*
 * Room for a block under this key, to be filled: kvtier_room(), then kvtier_keep(), or kvtier_release() to
 * give it up.
 * NULL: it is there already, somebody is about to fill it, or everything in memory is held.
 */
KvHold	   *kvtier_put(KvTier *t, KvTierModel *m, const unsigned char key[KVTIER_KEY]);
void	   *kvtier_room(KvHold *h);
/* It has been filled; gives up the hold. */
void		kvtier_keep(KvTier *t, KvHold *h);

/* ---- getting ---- */
typedef enum KvPlace
{
	KVT_NONE,
	KVT_FILE,
	KVT_COMING,					/* being read */
	KVT_MEMORY
} KvPlace;

/* Not a use; what was KVT_MEMORY or KVT_FILE may be gone by the next call. */
KvPlace		kvtier_find(KvTier *t, const KvTierModel *m, const unsigned char key[KVTIER_KEY]);

typedef enum KvHoldState
{
	KVH_COMING,
	KVH_READY,
	/* there is no such entry any more: the file is gone or damaged, or there was a reset */
	KVH_LOST
} KvHoldState;

/*
 * Hold the entry; if it is in a file, it will be read.  NULL: it isn't there, or everything in memory is
 * held.
 */
KvHold	   *kvtier_fetch(KvTier *t, KvTierModel *m, const unsigned char key[KVTIER_KEY]);
KvHoldState kvtier_state(const KvHold *h);
const void *kvtier_bytes(const KvHold *h);	/* KVH_READY; until it is released */
void		kvtier_release(KvTier *t, KvHold *h);
/* How many seconds it takes until as many more bytes have been read, as far as can be told (of a store
 * that has read nothing yet: at 200 MB/s). */
double		kvtier_read_wait(KvTier *t, size_t bytes);

/* ---- all of it ---- */
/*
 * Forget all entries of m (NULL: of all models): none is found from now on, but what is held and ready stays
 * so.  Nor are files that can't be looked at yet: they go when that is possible.
 */
void		kvtier_reset(KvTier *t, KvTierModel *m);
/* Wait until all that is in memory has files, at most until then (clock_us()).  Returns how many
 * could not be written in time, or at all; without a directory 0. */
size_t		kvtier_flush(KvTier *t, int64_t deadline_us);
/* The thread has time: write all that has no file, until that is done. */
void		kvtier_write(KvTier *t);
/*
 * Sleep: let go of what m (NULL: every model) has in memory and isn't held.  What shall have a file goes when
 * that is written, if m isn't used again before; if files can't be written now, at once.
 */
void		kvtier_shed(KvTier *t, KvTierModel *m);

typedef enum KvFilesState
{
	KVF_NONE,					/* there is no directory */
	KVF_LOCKED,					/* another process has it */
	KVF_OPENING,				/* being looked through */
	KVF_READY,
	KVF_DOWN					/* the last write failed, it will be tried again */
} KvFilesState;

typedef struct KvTierStats
{
	KvFilesState files;
	uint64_t	memory_limit;
	uint64_t	memory_bytes;	/* that are taken from the system */
	uint64_t	memory_entries;
	uint64_t	disk_limit;
	uint64_t	file_bytes;		/* with what the file system adds to a file's end */
	uint64_t	file_entries;
	uint64_t	unwritten;		/* entries in memory without a file that shall get one */
	uint64_t	reading;		/* entries that wait for being read */
	/* since it was opened: */
	uint64_t	n_put;			/* blocks that were kept */
	uint64_t	n_refused;		/* blocks that were refused, as holds kept everything in memory */
	uint64_t	n_dropped;		/* entries that went out of memory before the thread could write them */
	uint64_t	n_memory_hits;	/* fetches: of entries in memory, */
	uint64_t	n_file_hits;	/* in files (they may have been lost), */
	uint64_t	n_misses;		/* nowhere */
	uint64_t	n_written;		/* files */
	uint64_t	n_read;
	uint64_t	n_removed;		/* files, to make room */
	uint64_t	n_damaged;		/* files that weren't what they should be */
	uint64_t	n_errors;		/* of the system: reading, writing, removing */
	uint64_t	written_bytes;
	uint64_t	read_bytes;
	double		write_rate;		/* bytes a second as of late; 0 = unknown */
	double		read_rate;
} KvTierStats;

void		kvtier_stats(KvTier *t, KvTierStats *out);
/* What one model's entries take. */
void		kvtier_model_bytes(KvTier *t, const KvTierModel *m, uint64_t *memory, uint64_t *files);
/* Lists, counts and limits agree; *e says what is broken.  Takes long. */
bool		kvtier_check(KvTier *t, Err *e);

#endif
