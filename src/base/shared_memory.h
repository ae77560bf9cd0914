/*
 * shared_memory.h
 *	  Shared memory of a group of ranks, with waits that end when a rank dies.
 *
 * Ranks are processes (in tests also threads).  The process that starts them makes one memory file and
 * passes it to each.  The file begins as zeros, which is a valid initial state, so any rank may open it
 * first.  It holds
 *
 * - a word that says whether the group is dead, and which rank was found missing first
 * - a stream of bytes from rank 0 to all others; each reads all of it at its own pace
 * - the last answer of each other rank
 * - rooms, numbered from 0: words and slots of a communicator (model/parallel/comm_shm.c)
 *
 * No wait outlasts the group.  Each rank holds a lock on its byte of the file; the kernel releases the
 * lock when the process ends, however it ends.  A waiting rank checks the locks of the others every
 * GROUP_LOOK_MS, and after a second of waiting every GROUP_IDLE_MS.  The group becomes dead, for good,
 * when a rank that had joined has lost its lock or, for a rank with groupmem_set_timeout(), when a rank has
 * stopped calling groupmem_heartbeat().  From then on every call returns at once and the contents of buffers
 * are undefined: the process is meant to exit.
 */
#ifndef VLLM_BASE_SHARED_MEMORY_H
#define VLLM_BASE_SHARED_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define GROUP_MOST		16		/* ranks */
#define GROUP_SLOT		(1 << 20)	/* bytes that a rank passes at once; longer data is passed in pieces */
#define GROUP_STREAM	(1 << 22)	/* capacity of the stream in bytes: what rank 0 may write before every
									 * rank has read it */
#define GROUP_LOOK_MS	20
#define GROUP_IDLE_MS	500
#define GROUP_BEAT_MS	500		/* a rank that calls groupmem_heartbeat() does so at least this often */

/* A word on a cache line of its own. */
typedef struct GroupWord
{
	_Atomic uint32_t v;
	uint32_t	pad[15];
} GroupWord;

/* A communicator's part of the file, whichever ranks belong to it. */
typedef struct GroupRoom
{
	GroupWord	arrived;		/* ranks that have arrived at the current barrier */
	GroupWord	round;			/* barriers completed */
	GroupWord	sent[GROUP_MOST][GROUP_MOST];	/* [from][to]: pieces sent */
	GroupWord	taken[GROUP_MOST][GROUP_MOST];	/* [from][to]: pieces that the receiver has copied */
} GroupRoom;

typedef struct GroupHead GroupHead;

typedef struct GroupMem
{
	int			rank;
	int			world;
	int			fd;				/* this rank's own open file description, which holds its lock */
	GroupHead  *head;
	size_t		size;
	uint64_t	at;				/* position in the stream: bytes written by rank 0, or read by another rank */
	uint32_t	received[GROUP_MOST];	/* rank 0: answers received from each rank */
	_Atomic int64_t looked_ms;	/* when groupmem_lives() last checked the locks */
	_Atomic int64_t timeout_ms;		/* how long a rank may go without a beat; 0 = for ever */
} GroupMem;

/*
 * Map a memfd as one rank of `world` and set its size.  The caller may close fd afterwards.  Fails with
 * ERR_IO or ERR_INVALID.
 */
bool		groupmem_open(GroupMem *g, int fd, int rank, int world, Err *e);
void		groupmem_close(GroupMem *g);

/* Return true if the group is dead: a rank has ended or stands still.  No call waits any more. */
bool		groupmem_dead(const GroupMem *g);
/*
 * Return false if the group is dead.  For callers that wait for other ranks by other means than this
 * file: it checks the locks every GROUP_LOOK_MS.
 */
bool		groupmem_lives(GroupMem *g);
/* Say that this rank makes progress; ranks with groupmem_set_timeout() expect it every GROUP_BEAT_MS. */
void		groupmem_heartbeat(GroupMem *g);
/*
 * Declare the group dead when a rank that has called groupmem_heartbeat() before has not done so for ms; any
 * thread may call it.
 */
void		groupmem_set_timeout(GroupMem *g, int ms);
/*
 * Collective operations are numbered from 1: groupmem_refuse() aborts one, and the other ranks see that
 * in groupmem_refused().
 */
void		groupmem_refuse(GroupMem *g, uint32_t number);
bool		groupmem_refused(const GroupMem *g, uint32_t number);
int			groupmem_pid(const GroupMem *g, int rank);	/* process id of a rank; 0 = it has not joined */
/* Publish a number about this rank, initially 0; groupmem_published() reads a rank's number.  Any thread. */
void		groupmem_publish(GroupMem *g, int n);
int			groupmem_published(const GroupMem *g, int rank);
/* Return the rank that was found missing first, or that killed the group; -1 = the group lives. */
int			groupmem_missed(const GroupMem *g);

/*
 * Wait at most ms until every rank has opened the file.  Returns false if the group is dead or a rank
 * has not joined in time.
 */
bool		groupmem_assemble(GroupMem *g, int ms);

/* Wait until *word differs from `seen`.  Returns false if the group is dead. */
bool		groupmem_wait(GroupMem *g, _Atomic uint32_t *word, uint32_t seen);
/* Wake the ranks that wait for the word. */
void		groupmem_wake(_Atomic uint32_t *word);

/*
 * Rank 0: append to the stream.  Waits while the slowest reader has GROUP_STREAM bytes left to read.
 * Returns false if the group is dead.
 */
bool		groupmem_write(GroupMem *g, const void *data, size_t n);
/* Other ranks: read the next n bytes of the stream.  Returns false if the group is dead. */
bool		groupmem_read(GroupMem *g, void *data, size_t n);

/*
 * Other ranks, any thread: report to rank 0, which waits for it, how an operation went; class ERR_NONE =
 * success.
 */
void		groupmem_answer(GroupMem *g, const Err *e);
/*
 * Rank 0: receive the next answer of a rank.  The rank must send one for each call.  Returns false if
 * the group is dead.
 */
bool		groupmem_receive(GroupMem *g, int rank, Err *e);

/* Return a room; rooms are numbered 0 .. 2 * world. */
GroupRoom  *groupmem_room(const GroupMem *g, int room);
/* Return one of the two slots of `member` in the room. */
void	   *groupmem_slot(const GroupMem *g, int room, int member, int which);

#endif
