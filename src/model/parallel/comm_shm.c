/*
 * comm_shm.c
 *	  Communication of ranks of one machine through shared memory.
 *
 * A collective is split into pieces that fit a slot: each rank writes its piece into its slot, all meet
 * at the barrier, each rank reads what it needs from all slots.  Each rank has two slots, used
 * alternately, so one barrier for each piece is enough: no rank can be two pieces ahead of a reader.
 * Each rank computes all sums itself, in the order of ranks.
 *
 * send() and recv() use the sender's first slot, which is free again when the receiver has copied the
 * piece; a room is used for only one kind of call, collectives or send() and recv().
 *
 * Tested by tests/unit/model/parallel/test_comm.c.
 */
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "model/parallel/comm.h"

typedef struct Shm
{
	KComm		c;
	GroupMem   *g;
	int			room;
	GroupRoom  *words;
	int			next_slot;		/* which of the two slots is next */
} Shm;

static bool
shm_failed(KComm *c)
{
	return groupmem_dead(((Shm *) c)->g);
}

static void
shm_free(KComm *c)
{
	mem_free(c);
}

static void *
slot(const Shm *s, int member)
{
	return groupmem_slot(s->g, s->room, member, s->next_slot);
}

/* Wait at the barrier.  Return false if the group is dead. */
static bool
meet(Shm *s)
{
	uint32_t	round = atomic_load_explicit(&s->words->round.v, memory_order_acquire);

	if (groupmem_dead(s->g))
		return false;
	if (atomic_fetch_add_explicit(&s->words->arrived.v, 1, memory_order_acq_rel) + 1 == (uint32_t) s->c.size)
	{
		atomic_store_explicit(&s->words->arrived.v, 0, memory_order_relaxed);
		atomic_store_explicit(&s->words->round.v, round + 1, memory_order_release);
		groupmem_wake(&s->words->round.v);
		return true;
	}
	return groupmem_wait(s->g, &s->words->round.v, round);
}

static void
shm_barrier(KComm *c)
{
	(void) meet((Shm *) c);
}

/* Gather rows first .. first + n - 1 of columns from .. from + w - 1 of each rank's own columns. */
static bool
gather_piece(Shm *s, uint8_t *all, const uint8_t *mine, int first, int n, int from, int w,
			 const int32_t *starts, size_t size)
{
	int			me = s->c.rank;
	size_t		own = (size_t) (starts[me + 1] - starts[me]);

	for (int r = 0; r <= s->c.size; r++)
	{
		int			rank = r - 1;
		int			of = rank < 0 ? me : rank;
		int			width = starts[of + 1] - starts[of] - from;
		size_t		bytes;

		width = width < w ? width : w;
		bytes = width > 0 ? (size_t) width * size : 0;
		ALWAYS((size_t) n * bytes <= GROUP_SLOT);
		for (int i = 0; i < n && bytes > 0; i++)
		{
			size_t		row = (size_t) (first + i);

			if (rank < 0)
				memcpy((uint8_t *) slot(s, me) + (size_t) i * bytes,
					   mine + (row * own + (size_t) from) * size, bytes);
			else
				memcpy(all + (row * (size_t) starts[s->c.size] + (size_t) (starts[rank] + from)) * size,
					   (const uint8_t *) slot(s, rank) + (size_t) i * bytes, bytes);
		}
		/* mine has been written: wait for the others' */
		if (rank < 0 && !meet(s))
			return false;
	}
	s->next_slot ^= 1;
	return true;
}

static void
shm_gather(KComm *c, KPool *pool, void *all, const void *mine, int rows, const int32_t *starts, size_t size)
{
	int			widest = 1;
	int			most = (int) (GROUP_SLOT / size);
	int			step;

	(void) pool;
	ALWAYS(most > 0);
	for (int r = 0; r < c->size; r++)
		widest = starts[r + 1] - starts[r] > widest ? starts[r + 1] - starts[r] : widest;
	/* pieces are whole rows, unless one row is too wide */
	step = widest < most ? most / widest : 1;
	for (int i = 0; i < rows; i += step)
		for (int from = 0; from < widest; from += most)
			if (!gather_piece((Shm *) c, all, mine, i, rows - i < step ? rows - i : step, from, most, starts,
							  size))
				return;
}

#define SLOT_FLOATS (GROUP_SLOT / sizeof(float))

/* to[n] = the sum of all ranks' x[n]; the caller needs `from` .. `from + keep - 1` */
static bool
sum_piece(Shm *s, float *to, const float *x, size_t n, size_t from, size_t keep)
{
	ALWAYS(n <= SLOT_FLOATS && from <= n && keep <= n - from);
	memcpy(slot(s, s->c.rank), x, n * sizeof(float));
	if (!meet(s))
		return false;
	memcpy(to, (const float *) slot(s, 0) + from, keep * sizeof(float));
	for (int r = 1; r < s->c.size; r++)
	{
		const float *part = (const float *) slot(s, r) + from;

		for (size_t i = 0; i < keep; i++)
			to[i] += part[i];
	}
	s->next_slot ^= 1;
	return true;
}

static void
shm_sum(KComm *c, KPool *pool, float *x, size_t n)
{
	(void) pool;
	for (size_t at = 0; at < n; at += SLOT_FLOATS)
	{
		size_t		part = n - at < SLOT_FLOATS ? n - at : SLOT_FLOATS;

		if (!sum_piece((Shm *) c, x + at, x + at, part, 0, part))
			return;
	}
}

static void
shm_sum_scatter(KComm *c, KPool *pool, float *mine, const float *x, size_t n)
{
	size_t		first = n * (size_t) c->rank / (size_t) c->size;
	size_t		end = n * (size_t) (c->rank + 1) / (size_t) c->size;

	(void) pool;
	for (size_t at = 0; at < n; at += SLOT_FLOATS)
	{
		size_t		part = n - at < SLOT_FLOATS ? n - at : SLOT_FLOATS;
		size_t		from = first > at ? first - at : 0;
		size_t		to = end > at ? end - at : 0;

		from = from < part ? from : part;
		to = to < part ? to : part;
		if (!sum_piece((Shm *) c, mine + (at > first ? at - first : 0), x + at, part, from,
					   to > from ? to - from : 0))
			return;
	}
}

static void
shm_broadcast(KComm *c, KPool *pool, void *x, size_t bytes, int root)
{
	Shm		   *s = (Shm *) c;

	(void) pool;
	for (size_t at = 0; at < bytes; at += GROUP_SLOT)
	{
		size_t		part = bytes - at < GROUP_SLOT ? bytes - at : GROUP_SLOT;

		if (c->rank == root)
			memcpy(slot(s, root), (uint8_t *) x + at, part);
		if (!meet(s))
			return;
		if (c->rank != root)
			memcpy((uint8_t *) x + at, slot(s, root), part);
		s->next_slot ^= 1;
	}
}

/* Return true if the receiver has taken everything that the sender has sent, so that its slot is
 * free. */
static bool
slot_free(Shm *s)
{
	for (int to = 0; to < s->c.size; to++)
	{
		uint32_t	sent = atomic_load_explicit(&s->words->sent[s->c.rank][to].v, memory_order_relaxed);
		_Atomic uint32_t *taken = &s->words->taken[s->c.rank][to].v;
		uint32_t	now;

		while ((now = atomic_load_explicit(taken, memory_order_acquire)) != sent)
			if (!groupmem_wait(s->g, taken, now))
				return false;
	}
	return true;
}

static void
shm_send(KComm *c, KPool *pool, const void *x, size_t bytes, int to)
{
	Shm		   *s = (Shm *) c;
	_Atomic uint32_t *sent = &s->words->sent[c->rank][to].v;

	(void) pool;
	for (size_t at = 0; at < bytes; at += GROUP_SLOT)
	{
		if (!slot_free(s))
			return;
		memcpy(groupmem_slot(s->g, s->room, c->rank, 0), (const uint8_t *) x + at,
			   bytes - at < GROUP_SLOT ? bytes - at : GROUP_SLOT);
		atomic_fetch_add_explicit(sent, 1, memory_order_release);
		groupmem_wake(sent);
	}
}

static void
shm_recv(KComm *c, KPool *pool, void *x, size_t bytes, int from)
{
	Shm		   *s = (Shm *) c;
	_Atomic uint32_t *sent = &s->words->sent[from][c->rank].v;
	_Atomic uint32_t *taken = &s->words->taken[from][c->rank].v;

	(void) pool;
	for (size_t at = 0; at < bytes; at += GROUP_SLOT)
	{
		uint32_t	done = atomic_load_explicit(taken, memory_order_relaxed);

		while (atomic_load_explicit(sent, memory_order_acquire) == done)
			if (!groupmem_wait(s->g, sent, done))
				return;
		/* slot_free(): the sender has not begun the next piece */
		ASSERT(atomic_load_explicit(sent, memory_order_relaxed) == done + 1);
		memcpy((uint8_t *) x + at, groupmem_slot(s->g, s->room, from, 0), bytes - at < GROUP_SLOT ? bytes -
			   at : GROUP_SLOT);
		atomic_fetch_add_explicit(taken, 1, memory_order_release);
		groupmem_wake(taken);
	}
}

KComm *
comm_shm(GroupMem *g, int room, int rank, int size)
{
	static const KCommOps ops = {
		.gather = shm_gather,.sum = shm_sum,.sum_scatter = shm_sum_scatter,.broadcast = shm_broadcast,
		.send = shm_send,.recv = shm_recv,.barrier = shm_barrier,.failed = shm_failed,.free = shm_free
	};
	Shm		   *s = mem_zalloc(sizeof(Shm));

	*s = (Shm) {.c = {&ops, rank, size},.g = g,.room = room,.words = groupmem_room(g, room)};
	return &s->c;
}
