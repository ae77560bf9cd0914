/*
 * tier_internal.h
 *	  The private state of the tier, for tier.c (entries and memory) and tier_io.c (its thread).
 *
 * An entry is in the table until it is `gone`: then it can't be found any more, and is freed as soon as
 * no hold, I/O or file refers to it.  The list that an entry is in says whether its memory may be taken:
 *
 *	L_WARM	used since it was written, or it need not be written: may be evicted
 *	L_COOL	written, not used since: may be evicted
 *	L_DIRTY	has no file yet, but will get one: evicted if there is nothing else
 *	L_READ	waits to be read; L_DROPPED: its file waits to be removed
 *	L_NONE	held, or being filled, read or written; or has no memory
 *
 * The lock protects all of that.  The memory that the thread reads into, or writes from, stays in place
 * without the lock, since `reading` and `writing` keep the slot.
 */
#ifndef VLLM_CORE_OFFLOAD_TIER_INTERNAL_H
#define VLLM_CORE_OFFLOAD_TIER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/offload/tier.h"

typedef struct KvHold Entry;

typedef enum ListId
{
	L_NONE, L_WARM, L_COOL, L_DIRTY, L_READ, L_DROPPED, N_LISTS
} ListId;

struct KvHold
{
	unsigned char key[KVTIER_KEY];
	KvTierModel *model;
	Entry	   *chain;			/* next entry of the table's chain */
	Entry	   *prev[2];		/* neighbours in lists: [0] in lists of memory or work, [1] in the list of
								 * files */
	Entry	   *next[2];
	unsigned char *at;			/* address of its bytes in memory; NULL = none */
	int32_t		slot;
	int			refs;			/* number of holds */
	uint64_t	epoch;			/* epoch of the tier when the entry was made, or its file was found */
	uint64_t	used;			/* stamp of the last use */
	atomic_int	state;			/* KvHoldState */
	uint8_t		list;			/* ListId */
	bool		filling;
	bool		dirty;			/* has no file, but will get one */
	bool		reading;		/* waits to be read (L_READ) or is being read */
	bool		writing;
	bool		has_file;
	bool		dropped;
};

/* A list, newest first. */
typedef struct List
{
	Entry	   *head;
	Entry	   *tail;
	size_t		n;
} List;

struct KvTierModel
{
	KvTierModel *next;
	unsigned char id[KVTIER_KEY];
	size_t		bytes;			/* bytes of a block */
	size_t		slot_bytes;		/* bytes of a block in memory: whole pages */
	uint64_t	epoch;			/* epoch of its last reset: older entries count as missing */
	int			dir;			/* its folder, used by the thread only; -1 = not open */
	int			joined;
	size_t		n_entries;		/* entries that are not freed */
	size_t		n_files;
	bool		shedding;		/* evict entries from memory once they are written */
	bool		logged;			/* the log says already that there are no addresses for its slots */
	MArena		area;			/* slots; reserved at the first use */
	int32_t		n_slots;
	int32_t		fresh;			/* slots from here on were never used */
	int32_t		n_used;
	int32_t		n_warm;			/* unused slots with memory: spare[0 ..] */
	int32_t		n_cold;			/* unused slots without memory: spare[.. n_slots - 1] */
	int32_t    *spare;			/* [n_slots] */
};

struct KvTier
{
	KvTierOptions o;
	unsigned char secret[KVTIER_KEY];
	pthread_mutex_t lock;
	pthread_cond_t more;		/* for the thread: there is work */
	pthread_cond_t done;		/* for kvtier_flush(): an entry has been written, or can't be */
	pthread_t	thread;
	bool		started;
	bool		stop;
	int			flushing;		/* number of callers in kvtier_flush() */
	bool		eager;			/* set by kvtier_write(): write everything */
	Entry	  **table;
	size_t		n_table;		/* power of two */
	size_t		n_entries;		/* entries in the table */
	List		lists[N_LISTS];
	List		filed;			/* entries with files, except those that are gone */
	KvTierModel *models;
	uint64_t	clock;			/* source of stamps */
	int64_t		read_at_us;		/* time of the last measurement of stats.read_rate */
	uint64_t	epoch;			/* of the last reset */
	uint64_t	all_epoch;		/* of the last reset of all models */
	/* epoch when the files were last accessible: files found later are older than any reset since then */
	uint64_t	shut_epoch;
	Entry	   *writing;		/* the entry that the thread is writing */
	size_t		used_bytes;		/* bytes of used slots */
	size_t		cool_bytes;		/* bytes of slots in L_COOL */
	size_t		reading_bytes;	/* bytes that wait to be read, or are being read */
	uint64_t	file_bytes;
	size_t		memory;			/* bytes of slots that are used or warm */
	size_t		n_memory;		/* entries in memory, except those being filled */
	size_t		n_dirty;
	/* next chain of the table in which to look for entries older than a reset; SIZE_MAX = none */
	size_t		sweep;
	KvTierStats stats;			/* counters, and the state of files */
	bool		trying;			/* KVF_LOCKED: the thread is about to open the files */
	bool		must_notify;	/* fetches have ended without a read: notify */
	int64_t		retry_us;		/* KVF_LOCKED, KVF_DOWN: time of the next try */
	int64_t		pause_us;		/* KVF_DOWN: length of the last pause */

	/* used by the thread only */
	int			dir;			/* -1 = not open */
	int			lock_fd;
	int			reads_in_a_row;
	int64_t		complained_us;	/* time of the last failure that was logged */
	bool		logged_locked;
};

/* Return the entry; NULL = none.  Forgets it if it is older than a reset. */
Entry	   *tier_lookup(KvTier *t, const KvTierModel *m, const unsigned char *key);
/* Make e unfindable. */
void		tier_forget(KvTier *t, Entry *e);
/* An operation on e has ended: put e into its list (`list` if it may be evicted), or free it. */
void		tier_settle(KvTier *t, Entry *e, ListId list);
/* Grow the table once for so many further entries, as growing is slow for callers that wait for the lock. */
void		tier_reserve(KvTier *t, size_t n);
/* Make an entry in the table, without memory and file. */
Entry	   *tier_new_entry(KvTier *t, KvTierModel *m, const unsigned char *key);
/* Return the model, which is made if missing. */
KvTierModel *tier_model(KvTier *t, const unsigned char id[KVTIER_KEY], size_t bytes);
/* Free models that no core has joined and that have no entries. */
void		tier_drop_models(KvTier *t);
/* e has a file, used last or first of all; e has none any more. */
void		tier_add_file(KvTier *t, Entry *e, bool newest);
void		tier_drop_file(KvTier *t, Entry *e);
/* Evict e, which is in a list of entries that may be evicted, from memory. */
void		tier_evict(KvTier *t, Entry *e);
/* e need not be written any more. */
void		tier_written(KvTier *t, Entry *e);
/* e has been read, or will not be read. */
void		tier_read_done(KvTier *t, Entry *e, bool ok);
void		tier_list_remove(KvTier *t, Entry *e);
/* Forget some more entries that are older than a reset; returns false if there are none. */
bool		tier_sweep(KvTier *t);
/* Return true if there is an entry to write now. */
bool		tier_wants_write(const KvTier *t);
/*
 * Take the memory of a model that has no entries in memory any more; the caller unmaps it.  Returns
 * false if there is none.
 */
bool		tier_take_idle_area(KvTier *t, MArena *out);

/* ---- tier_io.c ---- */
bool		tier_start(KvTier *t, Err *e);
void		tier_stop(KvTier *t);

#endif
