/*
 * shared_memory.c
 *	  A memory file shared by the ranks of a group.
 *
 * A waiting rank spins for some microseconds, since a collective among ranks with the same work usually
 * ends soon, then sleeps on the word itself (a futex across processes).  A sleeping rank wakes
 * periodically to check whether the others still live, so no other process has to report a lost rank.
 *
 * The file is sparse: rooms and slots that no communicator uses take no memory.
 *
 * Tested by tests/unit/model/parallel/test_comm.c.
 */
#include "base/assert.h"
#include "base/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPINS 2000				/* about 20 to 50 us */

struct GroupHead
{
	GroupWord	dead;			/* 0, or the missing rank + 1 */
	GroupWord	refused;		/* number of the last operation that some rank has aborted */
	GroupWord	joined[GROUP_MOST];	/* 1 = the rank has joined and holds its lock */
	_Atomic int64_t beat_ms[GROUP_MOST];	/* time of the last beat, CLOCK_MONOTONIC; 0 = the rank has
											 * never beaten */
	_Atomic int32_t pids[GROUP_MOST];
	_Atomic int32_t published[GROUP_MOST];
	GroupWord	written;		/* bytes of the stream, modulo 2^32: GROUP_STREAM is far less */
	GroupWord	read[GROUP_MOST];	/* bytes of the stream that each rank has read */
	GroupWord	answered[GROUP_MOST];	/* answers that each rank has given */
	Err			answer[GROUP_MOST];
	uint8_t		stream[GROUP_STREAM] __attribute__((aligned(64)));
};

/* Bytes of a room with its slots. */
static size_t
room_size(int world)
{
	return sizeof(GroupRoom) + 2 * (size_t) world * GROUP_SLOT;
}

/* Set or test the lock on the rank's byte of the file; how: F_OFD_SETLK or F_OFD_GETLK. */
static bool
lock_byte(int fd, int rank, int how, struct flock *l)
{
	*l = (struct flock) {.l_type = F_WRLCK,.l_whence = SEEK_SET,.l_start = rank,.l_len = 1};
	return fcntl(fd, how, l) == 0;
}

bool
groupmem_open(GroupMem *g, int fd, int rank, int world, Err *e)
{
	char		path[64];
	struct flock l;

	*g = (GroupMem) {.rank = rank,.world = world,.fd = -1};
	if (world < 1 || world > GROUP_MOST || rank < 0 || rank >= world)
		return err_set(e, ERR_INVALID, "rank %d of %d is out of range: at most %d ranks are "
									   "supported", rank, world,
					   GROUP_MOST);
	g->size = sizeof(GroupHead) + (2 * (size_t) world + 1) * room_size(world);
	/* a lock belongs to an open file description, and other ranks may share the caller's */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	g->fd = open(path, O_RDWR | O_CLOEXEC);
	if (g->fd < 0 || ftruncate(g->fd, (off_t) g->size) != 0)
		err_set(e, ERR_IO, "could not open the memory of a group of ranks: %s", strerror(errno));
	else if (!lock_byte(g->fd, rank, F_OFD_SETLK, &l))
		err_set(e, ERR_IO, "rank %d of the group already exists", rank);
	else if ((g->head = mmap(NULL, g->size, PROT_READ | PROT_WRITE, MAP_SHARED, g->fd, 0)) == MAP_FAILED)
		err_set(e, ERR_NOMEM, "could not map the memory of a group of ranks: %s", strerror(errno));
	else
	{
		atomic_store(&g->head->pids[rank], (int32_t) getpid());
		atomic_store(&g->head->joined[rank].v, 1);
		groupmem_wake(&g->head->joined[rank].v);
		return true;
	}
	g->head = NULL;
	groupmem_close(g);
	return false;
}

void
groupmem_close(GroupMem *g)
{
	if (g->head != NULL)
		(void) munmap(g->head, g->size);
	if (g->fd >= 0)
		(void) close(g->fd);
	g->head = NULL;
	g->fd = -1;
}

/* Mark the group dead.  Sleeping ranks notice within GROUP_LOOK_MS, or GROUP_IDLE_MS. */
static void
miss(GroupMem *g, int rank)
{
	uint32_t	none = 0;

	atomic_compare_exchange_strong(&g->head->dead.v, &none, (uint32_t) rank + 1);
}

bool
groupmem_dead(const GroupMem *g)
{
	return atomic_load_explicit(&g->head->dead.v, memory_order_acquire) != 0;
}

int
groupmem_pid(const GroupMem *g, int rank)
{
	return atomic_load(&g->head->pids[rank]);
}

void
groupmem_publish(GroupMem *g, int n)
{
	atomic_store(&g->head->published[g->rank], (int32_t) n);
}

int
groupmem_published(const GroupMem *g, int rank)
{
	return atomic_load(&g->head->published[rank]);
}

int
groupmem_missed(const GroupMem *g)
{
	return (int) atomic_load(&g->head->dead.v) - 1;
}

static int64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void
groupmem_heartbeat(GroupMem *g)
{
	atomic_store(&g->head->beat_ms[g->rank], now_ms());
}

void
groupmem_set_timeout(GroupMem *g, int ms)
{
	/* a beat may come late when the CPUs are busy */
	atomic_store(&g->timeout_ms, ms > 0 && ms < 4 * GROUP_BEAT_MS ? 4 * GROUP_BEAT_MS : ms);
}

static bool
still(const GroupMem *g, int rank, int64_t now)
{
	int64_t		timeout = atomic_load(&g->timeout_ms);
	int64_t		beat = atomic_load(&g->head->beat_ms[rank]);

	return timeout > 0 && beat > 0 && now - beat > timeout;
}

/* Mark the group dead if a rank that has joined has ended or stands still. */
static void
look(GroupMem *g)
{
	int64_t		now = now_ms();

	for (int r = 0; r < g->world; r++)
	{
		struct flock l;

		if (r != g->rank && atomic_load(&g->head->joined[r].v) != 0 && lock_byte(g->fd, r, F_OFD_GETLK, &l) &&
			(l.l_type == F_UNLCK || still(g, r, now)))
			miss(g, r);
	}
}

bool
groupmem_lives(GroupMem *g)
{
	int64_t		now = now_ms();

	if (now - atomic_load_explicit(&g->looked_ms, memory_order_relaxed) >= GROUP_LOOK_MS)
	{
		atomic_store_explicit(&g->looked_ms, now, memory_order_relaxed);
		look(g);
	}
	return !groupmem_dead(g);
}

void
groupmem_refuse(GroupMem *g, uint32_t number)
{
	atomic_store(&g->head->refused.v, number);
}

bool
groupmem_refused(const GroupMem *g, uint32_t number)
{
	return atomic_load(&g->head->refused.v) == number;
}

static void
pause_cpu(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

bool
groupmem_wait(GroupMem *g, _Atomic uint32_t *word, uint32_t seen)
{
	struct timespec ts = {.tv_nsec = GROUP_LOOK_MS * 1000000L};
	int			looks = 0;

	for (int i = 0; i < SPINS; i++)
	{
		if (atomic_load_explicit(word, memory_order_acquire) != seen)
			return !groupmem_dead(g);
		pause_cpu();
	}
	while (!groupmem_dead(g))
	{
		if (atomic_load_explicit(word, memory_order_acquire) != seen)
			return true;
		if (syscall(SYS_futex, word, FUTEX_WAIT, seen, &ts, NULL, 0) != 0 && errno == ETIMEDOUT)
			look(g);
		/* wake less often: an idle engine must use hardly any CPU */
		if (++looks == 1000 / GROUP_LOOK_MS)
			ts.tv_nsec = GROUP_IDLE_MS * 1000000L;
	}
	return false;
}

void
groupmem_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

bool
groupmem_assemble(GroupMem *g, int ms)
{
	struct timespec ts = {.tv_nsec = GROUP_LOOK_MS * 1000000L};

	for (int r = 0; r < g->world; r++)
		for (; atomic_load(&g->head->joined[r].v) == 0; ms -= GROUP_LOOK_MS)
		{
			if (ms <= 0 || groupmem_dead(g))
				return false;
			syscall(SYS_futex, &g->head->joined[r].v, FUTEX_WAIT, 0, &ts, NULL, 0);
			look(g);
		}
	return true;
}

/* ---- the stream ---- */

/* Return how many of the next n bytes of the stream lie before the end of the ring buffer. */
static size_t
until_end(const GroupMem *g, size_t n)
{
	size_t		left = GROUP_STREAM - g->at % GROUP_STREAM;

	return n < left ? n : left;
}

static uint8_t *
stream_at(const GroupMem *g)
{
	return g->head->stream + g->at % GROUP_STREAM;
}

bool
groupmem_write(GroupMem *g, const void *data, size_t n)
{
	const uint8_t *from = data;

	ALWAYS(g->rank == 0);		/* the stream has one writer */
	while (n > 0)
	{
		size_t		room = GROUP_STREAM;
		size_t		part;

		for (int r = 1; r < g->world; r++)
		{
			uint32_t	read;

			while ((uint32_t) g->at -
				   (read = atomic_load_explicit(&g->head->read[r].v, memory_order_acquire)) == GROUP_STREAM)
				if (!groupmem_wait(g, &g->head->read[r].v, read))
					return false;
			ALWAYS((uint32_t) g->at - read <= GROUP_STREAM);
			if (GROUP_STREAM - ((uint32_t) g->at - read) < room)
				room = GROUP_STREAM - ((uint32_t) g->at - read);
		}
		part = until_end(g, n < room ? n : room);
		memcpy(stream_at(g), from, part);
		from += part;
		n -= part;
		g->at += part;
		atomic_store_explicit(&g->head->written.v, (uint32_t) g->at, memory_order_release);
		groupmem_wake(&g->head->written.v);
	}
	return !groupmem_dead(g);
}

bool
groupmem_read(GroupMem *g, void *data, size_t n)
{
	uint8_t    *to = data;

	while (n > 0)
	{
		uint32_t	written;
		size_t		part;

		while ((written = atomic_load_explicit(&g->head->written.v, memory_order_acquire)) ==
			   (uint32_t) g->at)
			if (!groupmem_wait(g, &g->head->written.v, written))
				return false;
		part = written - (uint32_t) g->at;
		ALWAYS(part <= GROUP_STREAM);
		part = until_end(g, n < part ? n : part);
		memcpy(to, stream_at(g), part);
		to += part;
		n -= part;
		g->at += part;
		atomic_store_explicit(&g->head->read[g->rank].v, (uint32_t) g->at, memory_order_release);
		groupmem_wake(&g->head->read[g->rank].v);
	}
	return true;
}

void
groupmem_answer(GroupMem *g, const Err *e)
{
	g->head->answer[g->rank] = *e;
	atomic_fetch_add_explicit(&g->head->answered[g->rank].v, 1, memory_order_release);
	groupmem_wake(&g->head->answered[g->rank].v);
}

bool
groupmem_receive(GroupMem *g, int rank, Err *e)
{
	ALWAYS(rank >= 0 && rank < g->world);
	if (!groupmem_wait(g, &g->head->answered[rank].v, g->received[rank]))
		return false;
	g->received[rank]++;
	*e = g->head->answer[rank];
	return true;
}

/* ---- rooms ---- */

GroupRoom *
groupmem_room(const GroupMem *g, int room)
{
	/* groupmem_open() maps as many */
	ALWAYS(room >= 0 && room <= 2 * g->world);
	return (GroupRoom *) ((uint8_t *) (g->head + 1) + (size_t) room * room_size(g->world));
}

void *
groupmem_slot(const GroupMem *g, int room, int member, int which)
{
	ALWAYS(member >= 0 && member < g->world && (which == 0 || which == 1));
	return (uint8_t *) (groupmem_room(g, room) + 1) + ((size_t) which * (size_t) g->world + (size_t) member) *
		GROUP_SLOT;
}
