/*
 * tier_internal.h
 *	  The store's own state, for tier.c (entries and memory) and tier_io.c (its thread).
 *
 * An entry is in the table until it is `gone`: nobody finds it then, and it is freed as soon as no
 * hold, no IO and no file is left of it.  What memory it has, and who may take that away, shows in the list
 * it is in:
 *
 *	L_WARM	used since it was written, or nothing shall be written: may go
 *	L_COOL	written, not used since: may go
 *	L_DIRTY	has no file yet, but shall get one: goes if there is nothing else
 *	L_READ	waits for being read; L_GONE: its file waits for being removed
 *	L_NONE	held, being filled, read or written; or has no memory
 *
 * All of that is under the lock.  What the thread reads from, or into, stays where it is without, as
 * `writing` and `reading` keep the slot.
 */
#ifndef VLLM_CORE_OFFLOAD_TIER_INTERNAL_H
#define VLLM_CORE_OFFLOAD_TIER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/offload/tier.h"

typedef struct KvHold Entry;

typedef enum ListId
{
	L_NONE, L_WARM, L_COOL, L_DIRTY, L_READ, L_GONE, N_LISTS
} ListId;

struct KvHold
{
	unsigned char key[KVTIER_KEY];
	KvTierModel *model;
	Entry	   *chain;			/* of the table */
	Entry	   *prev[2];		/* lists: [0] of memory or work, [1] of files */
	Entry	   *next[2];
	unsigned char *at;			/* its bytes in memory; NULL = none */
	int32_t		slot;
	int			refs;			/* holds */
	uint64_t	epoch;			/* of the store when it was made, or its file was found */
	uint64_t	used;			/* stamp of the last use */
	atomic_int	state;			/* KvHoldState */
	uint8_t		list;			/* ListId */
	bool		filling;
	bool		dirty;			/* has no file, but shall get one */
	bool		reading;		/* waits for it (L_READ) or is being read */
	bool		writing;
	bool		has_file;
	bool		gone;
};

/* Ends of a list: newest first. */
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
	size_t		bytes;			/* of a block */
	size_t		slot_bytes;		/* bytes of a block in memory: whole pages */
	uint64_t	epoch;			/* of its last reset: what is older is not there */
	int			dir;			/* its folder; the thread's own; -1 = not open */
	int			joined;
	size_t		n_entries;		/* that are not freed */
	size_t		n_files;
	bool		shedding;		/* what has been written shall not stay in memory */
	bool		told;			/* that there are no addresses for its slots */
	MArena		area;			/* slots; reserved when the first is wanted */
	int32_t		n_slots;
	int32_t		fresh;			/* slots from here on were never used */
	int32_t		n_used;
	int32_t		n_warm;			/* unused ones that have memory: spare[0 ..] */
	int32_t		n_cold;			/* unused slots without memory: spare[.. n_slots - 1] */
	int32_t    *spare;			/* [n_slots] */
};

struct KvTier
{
	KvTierOptions o;
	unsigned char secret[KVTIER_KEY];
	pthread_mutex_t lock;
	pthread_cond_t more;		/* for the thread: there is something to do */
	pthread_cond_t done;		/* for kvtier_flush(): something has been written, or can't be */
	pthread_t	thread;
	bool		started;
	bool		stop;
	int			flushing;		/* callers of kvtier_flush() */
	bool		eager;			/* kvtier_write() */
	Entry	  **table;
	size_t		n_table;		/* a power of two */
	size_t		n_entries;		/* in it */
	List		lists[N_LISTS];
	List		filed;			/* entries with files, but those that are gone */
	KvTierModel *models;
	uint64_t	clock;			/* stamps */
	int64_t		read_at_us;		/* when stats.read_rate was measured last */
	uint64_t	epoch;			/* of the last reset, */
	uint64_t	all_epoch;		/* and of the last one of everything */
	/* the epoch when files were there last: what is found is of before later ones */
	uint64_t	shut_epoch;
	Entry	   *writing;		/* what the thread writes just now */
	size_t		used_bytes;		/* of slots that are used */
	size_t		cool_bytes;		/* of those in L_COOL */
	size_t		reading_bytes;	/* of what waits for being read, or is */
	uint64_t	file_bytes;
	size_t		memory;			/* bytes of slots that are used or warm */
	size_t		n_memory;		/* entries in memory, but those being filled */
	size_t		n_dirty;
	/* the table's next chain to look for entries of before a reset; SIZE_MAX = none */
	size_t		sweep;
	KvTierStats stats;			/* what is counted, and the state of files */
	bool		trying;			/* KVF_LOCKED: the thread is about to open them */
	bool		tell;			/* fetches have ended, but not by being read */
	int64_t		retry_us;		/* KVF_LOCKED, KVF_DOWN: when it is tried again */
	int64_t		pause_us;		/* KVF_DOWN: how long that was */

	/* the thread's own */
	int			dir;			/* -1 = not open */
	int			lock_fd;
	int			reads_in_a_row;
	int64_t		complained_us;	/* when it last logged a failure */
	bool		told_locked;
};

/* The entry; NULL = none.  One of before a reset is forgotten. */
Entry	   *tier_lookup(KvTier *t, const KvTierModel *m, const unsigned char *key);
/* Nobody finds it any more. */
void		tier_forget(KvTier *t, Entry *e);
/* Something has ended: put it where it belongs (list: if it may go), or free it. */
void		tier_settle(KvTier *t, Entry *e, ListId list);
/* So many more will come: it shall not grow under others' feet, entry by entry. */
void		tier_reserve(KvTier *t, size_t n);
/* A new one, in the table, that has nothing yet. */
Entry	   *tier_new_entry(KvTier *t, KvTierModel *m, const unsigned char *key);
/* The model; made if there is none. */
KvTierModel *tier_model(KvTier *t, const unsigned char id[KVTIER_KEY], size_t bytes);
/* Models that nobody has joined and that have no entries go. */
void		tier_drop_models(KvTier *t);
/* e has a file, used last or first of all; it has none any more. */
void		tier_add_file(KvTier *t, Entry *e, bool newest);
void		tier_drop_file(KvTier *t, Entry *e);
/* e, which is in a list that may go, goes out of memory. */
void		tier_evict(KvTier *t, Entry *e);
/* e need not be written any more. */
void		tier_written(KvTier *t, Entry *e);
/* e's turn to be read will not come, or is over. */
void		tier_read_done(KvTier *t, Entry *e, bool ok);
void		tier_list_remove(KvTier *t, Entry *e);
/* Forget some more entries of before a reset; false: there are none. */
bool		tier_sweep(KvTier *t);
/* Is there something to write? */
bool		tier_wants_write(const KvTier *t);
/*
 * Memory of a model that has nothing in it any more; its addresses become the caller's to unmap.  False:
 * there is none.
 */
bool		tier_take_idle_area(KvTier *t, MArena *out);

/* ---- tier_io.c ---- */
bool		tier_start(KvTier *t, Err *e);
void		tier_stop(KvTier *t);

#endif
