/*
 * comm_device.c
 *	  Communication of ranks whose buffers are in a device's memory: through the host's memory, or by a
 *	  communicator of the device's own.
 *
 * The rank copies its data to pinned memory and waits for the copy; the communicator below does the
 * operation there; the result is copied back, in the ops' order.  So it works with any device, and
 * results have the bits of the communicator below.
 *
 * A lost device delivers undefined data, which is passed on: the end of the step reports it, and the
 * process ends.
 *
 * Once the device's own communicator is open (comm_staged_direct()) it does the operations, in the ops'
 * order and without a wait; operations that it doesn't offer still go through the host.
 *
 * In the mode "alone" everything is done except for the calls of the communicator below, so that the
 * same memory is allocated.
 *
 * Tested by tests/unit/model/parallel/test_comm.c and test_ranks.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/alloc.h"
#include "model/parallel/comm.h"
#include "model/weights/device_arena.h"

/* Pinned memory, as large as the largest request. */
typedef struct Pinned
{
	void	   *p;
	size_t		size;
} Pinned;

typedef struct Staged
{
	KComm		c;
	KComm	   *below;
	const Dev  *dev;
	DevWait    *wait;			/* called while the thread waits for the device */
	KDevComm   *direct;			/* NULL: through the host */
	Pinned		in;				/* data of this rank */
	Pinned		out;			/* data that this rank receives */
	bool		alone;			/* comm_staged_alone() */
} Staged;

static void *
room(const Staged *s, Pinned *p, size_t size)
{
	if (size <= p->size)
		return p->p;
	s->dev->ops->unpin(s->dev->d, p->p);
	*p = (Pinned) {s->dev->ops->pin(s->dev->d, size), size};
	if (p->p == NULL)
	{
		/* other ranks wait for this rank's part, so the process must end */
		log_line('P', "out of memory for %zu bytes that ranks exchange", size);
		abort();
	}
	return p->p;
}

/* Copy the device's data to the host. */
static void *
fetch(Staged *s, const void *x, size_t size)
{
	void	   *to = room(s, &s->in, size);
	Err			reported_later;

	if (size == 0)
		return to;
	s->dev->ops->get(s->dev->d, to, x, size);
	dev_wait_until(s->dev, s->dev->ops->done, s->wait);
	(void) dev_wait(s->dev, &reported_later);
	return to;
}

static void
bring(Staged *s, void *x, const void *from, size_t size)
{
	if (size > 0)
		s->dev->ops->put(s->dev->d, x, from, size);
}

/* In the mode "alone", without waiting: set the other ranks' parts to zeros. */
static void
zeros(const Staged *s, void *x, size_t size)
{
	if (size > 0)
		s->dev->ops->fill(s->dev->d, x, 0, size);
}

static void
staged_gather(KComm *c, KPool *pool, void *all, const void *mine, int rows, const int32_t *starts,
			  size_t size)
{
	Staged	   *s = (Staged *) c;
	size_t		row = (size_t) rows * size;
	size_t		total = (size_t) starts[c->size] * row;
	void	   *out;

	if (s->direct != NULL && s->alone)
		zeros(s, all, total);
	else if (s->direct != NULL)
		s->dev->ops->comm->gather(s->direct, all, mine, rows, starts, size);
	if (s->direct != NULL)
		return;
	out = room(s, &s->out, total);
	mine = fetch(s, mine, (size_t) (starts[c->rank + 1] - starts[c->rank]) * row);
	if (s->alone)
		memset(out, 0, total);
	else
		s->below->ops->gather(s->below, pool, out, mine, rows, starts, size);
	bring(s, all, out, total);
}

static void
staged_sum(KComm *c, KPool *pool, float *x, size_t n)
{
	Staged	   *s = (Staged *) c;
	float	   *in;

	if (s->direct != NULL && !s->alone)
		s->dev->ops->comm->sum(s->direct, x, n);
	if (s->direct != NULL)
		return;
	in = fetch(s, x, n * sizeof(float));
	if (!s->alone)
		s->below->ops->sum(s->below, pool, in, n);
	bring(s, x, in, n * sizeof(float));
}

static void
staged_sum_scatter(KComm *c, KPool *pool, float *mine, const float *x, size_t n)
{
	Staged	   *s = (Staged *) c;
	size_t		part = n * (size_t) (c->rank + 1) / (size_t) c->size -
		n * (size_t) c->rank / (size_t) c->size;
	float	   *out = room(s, &s->out, part * sizeof(float));

	x = fetch(s, x, n * sizeof(float));
	if (s->alone)
		memset(out, 0, part * sizeof(float));
	else
		s->below->ops->sum_scatter(s->below, pool, out, x, n);
	bring(s, mine, out, part * sizeof(float));
}

static void
staged_broadcast(KComm *c, KPool *pool, void *x, size_t bytes, int root)
{
	Staged	   *s = (Staged *) c;
	void	   *p;

	if (s->direct != NULL && !s->alone)
		s->dev->ops->comm->broadcast(s->direct, x, bytes, root);
	else if (s->direct != NULL && c->rank != root)
		zeros(s, x, bytes);
	if (s->direct != NULL)
		return;
	p = c->rank == root ? fetch(s, x, bytes) : room(s, &s->in, bytes);
	if (!s->alone)
		s->below->ops->broadcast(s->below, pool, p, bytes, root);
	else if (c->rank != root)
		memset(p, 0, bytes);
	if (c->rank != root)
		bring(s, x, p, bytes);
}

static void
staged_send(KComm *c, KPool *pool, const void *x, size_t bytes, int to)
{
	Staged	   *s = (Staged *) c;

	if (s->direct != NULL && !s->alone)
		s->dev->ops->comm->send(s->direct, x, bytes, to);
	if (s->direct != NULL)
		return;
	x = fetch(s, x, bytes);
	if (!s->alone)
		s->below->ops->send(s->below, pool, x, bytes, to);
}

static void
staged_recv(KComm *c, KPool *pool, void *x, size_t bytes, int from)
{
	Staged	   *s = (Staged *) c;
	void	   *out;

	if (s->direct != NULL && s->alone)
		zeros(s, x, bytes);
	else if (s->direct != NULL)
		s->dev->ops->comm->recv(s->direct, x, bytes, from);
	if (s->direct != NULL)
		return;
	out = room(s, &s->out, bytes);
	if (s->alone)
		memset(out, 0, bytes);
	else
		s->below->ops->recv(s->below, pool, out, bytes, from);
	bring(s, x, out, bytes);
}

static void
staged_barrier(KComm *c)
{
	Staged	   *s = (Staged *) c;

	if (!s->alone)
		s->below->ops->barrier(s->below);
}

static bool
staged_failed(KComm *c)
{
	Staged	   *s = (Staged *) c;

	return s->below->ops->failed(s->below);
}

static void
staged_free(KComm *c)
{
	Staged	   *s = (Staged *) c;

	comm_staged_by_host(c);
	s->dev->ops->unpin(s->dev->d, s->in.p);
	s->dev->ops->unpin(s->dev->d, s->out.p);
	mem_free(s);
}

KComm *
comm_staged(KComm *below, const Dev *dev, DevWait *w)
{
	static const KCommOps ops = {
		.gather = staged_gather,.sum = staged_sum,.sum_scatter = staged_sum_scatter,
		.broadcast = staged_broadcast, .send = staged_send,.recv = staged_recv,.barrier = staged_barrier,
		.failed = staged_failed,.free = staged_free
	};
	Staged	   *s = mem_zalloc(sizeof(Staged));

	*s = (Staged) {.c = {&ops, below->rank, below->size},.below = below,.dev = dev,.wait = w};
	return &s->c;
}

bool
comm_staged_direct(KComm *c, const KDevCommOpen *o, Err *e)
{
	Staged	   *s = (Staged *) c;
	KDevCommOpen mine = *o;
	char		why[256] = "";

	ASSERT(s->direct == NULL);	/* the one before would stay open, and its ranks would wait for ever */
	mine.rank = c->rank;
	mine.size = c->size;
	s->direct = s->dev->ops->comm->open(s->dev->d, &mine, why, sizeof(why));
	return s->direct != NULL || err_set(e, ERR_UNSUPPORTED, "%s", why);
}

void
comm_staged_by_host(KComm *c)
{
	Staged	   *s = (Staged *) c;

	if (s->direct != NULL)
		s->dev->ops->comm->close(s->direct);
	s->direct = NULL;
}

void
comm_staged_alone(KComm *c, bool alone)
{
	((Staged *) c)->alone = alone;
}
