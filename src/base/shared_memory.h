/*
 * shared_memory.h
 *	  Memory that the ranks of a group share, and waiting for one another in it.
 *
 * Ranks are processes (in tests threads, too) that were given one memory file, made by whoever starts
 * them.  It begins as zeros, which is its first state: whoever opens it first need not be rank 0.  In it are
 *
 *		a word that says the group is dead, and which rank was the first to be missed
 *		a stream of bytes from rank 0 to all others, who each read all of it in their own time
 *		the last answer of each of them
 *		rooms, numbered from 0: words and slots of a communicator (model/parallel/comm_shm.c)
 *
 * No wait lasts longer than the group lives: a rank holds a lock on its byte of the file, which the kernel
 * lets go of when the process ends, however it ends.  A waiting rank looks at the others' locks every
 * GROUP_LOOK_MS, when it has waited for a second every GROUP_IDLE_MS; one that was there and is gone makes
 * the group dead, for good, and so does one that beats and has stopped doing so, for who asks for that.  From
 * then on every call returns at once, and buffers are of no use: the process is meant to end.
 */
#ifndef VLLM_BASE_SHARED_MEMORY_H
#define VLLM_BASE_SHARED_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define GROUP_MOST		16		/* ranks */
#define GROUP_SLOT		(1 << 20)	/* bytes that a rank hands over at once; larger things go in pieces */
#define GROUP_STREAM	(1 << 22)	/* bytes of the stream that some rank has not read yet */
#define GROUP_LOOK_MS	20
#define GROUP_IDLE_MS	500
#define GROUP_BEAT_MS	500		/* at least so often who beats does so */

/* Each on a cache line of its own. */
typedef struct GroupWord
{
	_Atomic uint32_t v;
	uint32_t	pad[15];
} GroupWord;

/* What a communicator has in the file: its own, whichever ranks it is of. */
typedef struct GroupRoom
{
	GroupWord	arrived;		/* at the barrier at hand */
	GroupWord	round;			/* barriers that are over */
	GroupWord	sent[GROUP_MOST][GROUP_MOST];	/* pieces from one to another, */
	GroupWord	taken[GROUP_MOST][GROUP_MOST];	/* pieces that have been copied, from one rank to another */
} GroupRoom;

typedef struct GroupHead GroupHead;

typedef struct GroupMem
{
	int			rank;
	int			world;
	int			fd;				/* a description of its own, which has the lock */
	GroupHead  *head;
	size_t		size;
	uint64_t	at;				/* of the stream: bytes written by rank 0, read by others */
	uint32_t	heard[GROUP_MOST];	/* rank 0: answers */
	_Atomic int64_t looked_ms;	/* groupmem_lives() */
	_Atomic int64_t patience_ms;	/* with ranks that don't beat; 0 = for ever */
} GroupMem;

/*
 * Map a memfd, whose size this sets, as one rank of `world`.  fd may be closed afterwards.
 * ERR_IO, ERR_INVALID.
 */
bool		groupmem_open(GroupMem *g, int fd, int rank, int world, Err *e);
void		groupmem_close(GroupMem *g);

/* A rank is gone, or stands still: no call waits for the group any more. */
bool		groupmem_dead(const GroupMem *g);
/* Not dead, for who waits for others elsewhere than here: it looks at them every GROUP_LOOK_MS. */
bool		groupmem_lives(GroupMem *g);
/* This rank isn't standing still; some others may be told so when it is. */
void		groupmem_beat(GroupMem *g);
/* A rank that has beaten and hasn't for so long is missed by this one; any thread. */
void		groupmem_patience(GroupMem *g, int ms);
/* What all do together has a number, counted from 1: a rank gives it up, and the others learn of it. */
void		groupmem_refuse(GroupMem *g, uint32_t number);
bool		groupmem_refused(const GroupMem *g, uint32_t number);
int			groupmem_pid(const GroupMem *g, int rank);	/* its process; 0: it has not come */
/* What a rank tells of itself: a number, 0 at first.  Any thread. */
void		groupmem_tell(GroupMem *g, int n);
int			groupmem_told(const GroupMem *g, int rank);
/* the rank that was missed first, or killed the group; -1: it lives */
int			groupmem_missed(const GroupMem *g);

/*
 * Wait until every rank has opened the file, at most so long; false: the group is dead, or some didn't come.
 */
bool		groupmem_assemble(GroupMem *g, int ms);

/* Wait until *word isn't `seen` any more; false: the group is dead. */
bool		groupmem_wait(GroupMem *g, _Atomic uint32_t *word, uint32_t seen);
/* Wakes the ranks that wait for the word. */
void		groupmem_wake(_Atomic uint32_t *word);

/* Rank 0: the next bytes of the stream.  Waits while the slowest reader is GROUP_STREAM behind. */
bool		groupmem_write(GroupMem *g, const void *data, size_t n);
/* The others. */
bool		groupmem_read(GroupMem *g, void *data, size_t n);

/* The others, any thread: how something went that rank 0 waits for; cls ERR_NONE: well. */
void		groupmem_answer(GroupMem *g, const Err *e);
/*
 * Rank 0: the next answer of a rank, which is to give one for each that is waited for.  false: the group is
 * dead.
 */
bool		groupmem_hear(GroupMem *g, int rank, Err *e);

/* Rooms are 0 .. 2 world. */
GroupRoom  *groupmem_room(const GroupMem *g, int room);
/* One of two slots of `member` in it. */
void	   *groupmem_slot(const GroupMem *g, int room, int member, int which);

#endif
