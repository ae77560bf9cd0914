/*
 * device_arena.c
 *	  Memory of the place where ops run.
 *
 * Without a device the memory is an MArena, or a mapping that gets memory when it is touched.
 *
 * Tested by tests/unit/model/weights/test_device_arena.c.
 */
#include "model/weights/device_arena.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"

#define CALL_US	20000			/* microseconds between two calls of the wait callback while a step runs */
#define SPIN_US	100000			/* a step that lasts longer is polled with sleeps in between */
#define NAP_US	50
/* a longer step hangs: the callback is no longer called, so that the supervisor sees no heartbeat */
#define MOST_US	INT64_C(300000000)

void
dev_wait_begin(DevWait *w, void (*fn) (void *ctx), bool (*work) (void *ctx), void *ctx)
{
	*w = (DevWait) {.fn = fn,.work = work,.ctx = ctx,.begun_us = clock_us()};
	w->called_us = w->begun_us;
}

/*
 * Steps are short, and a sleep would be a good part of one.  So the thread spins for the first tenth of
 * a second, and sleeps between polls afterwards.
 */
void
dev_wait_until(const Dev *dev, bool (*done) (KDevice *d), DevWait *w)
{
	if (w == NULL || w->fn == NULL)
		return;
	while (!done(dev->d))
	{
		int64_t		now = clock_us();

		if (now - w->called_us >= CALL_US && now - w->begun_us < MOST_US)
		{
			w->fn(w->ctx);
			w->called_us = now;
		}
		if (w->work != NULL && w->work(w->ctx))
			continue;
		if (now - w->begun_us < SPIN_US)
			sched_yield();
		else
			usleep(NAP_US);
	}
}

bool
dev_wait(const Dev *dev, Err *e)
{
	char		why[256] = "";

	if (dev == NULL || dev->ops->wait(dev->d, why, sizeof(why)))
		return true;
	return err_set(e, ERR_LOST, "the device is lost: %s", why);
}

void
dev_ref(const Dev *dev)
{
	if (dev->life != NULL)
		atomic_fetch_add(&dev->life->refs, 1);
}

void
dev_unref(const Dev *dev)
{
	if (dev->life != NULL && atomic_fetch_sub(&dev->life->refs, 1) == 1)
		dev->life->end(dev);
}

/* Count n bytes as taken (or given back), and ask the device for its free memory.  Here, as the device
 * may have to be waited for. */
static void
count(const Dev *dev, unsigned long long n)
{
	static atomic_ullong sequence;
	DevLife    *l = dev->life;
	uint64_t	free_bytes = 0;
	uint64_t	total;

	if (l == NULL)
		return;
	atomic_fetch_add(&l->held, n);
	dev->ops->mem(dev->d, &free_bytes, &total);
	atomic_store(&l->free, free_bytes);
	atomic_store(&l->sequence, atomic_fetch_add(&sequence, 1) + 1);
}

void *
dev_take(const Dev *dev, size_t size, const char *what)
{
	void	   *p = dev->ops->alloc(dev->d, size, what);

	if (p != NULL)
		count(dev, size);
	return p;
}

void
dev_give(const Dev *dev, void *p, size_t size)
{
	dev->ops->free(dev->d, p);
	if (p != NULL)
		count(dev, -(unsigned long long) size);
}

/* ---- memory that only ops touch ---- */

static bool
no_room(const char *what, size_t size, Err *e)
{
	err_set(e, ERR_NOMEM, "out of memory: the device has no room for %zu bytes", size);
	return err_detail(e, "%s.", what);
}

bool
devmem_reserve(DevMem *m, const Dev *dev, size_t size, HugePages huge, const char *what, Err *e)
{
	*m = (DevMem) {.dev = dev, .size = size};
	snprintf(m->what, sizeof(m->what), "%s", what);
	if (dev != NULL)
		return devmem_back(m, e);
	if (!marena_reserve(&m->arena, size, huge, what, e))
		return false;
	m->base = m->arena.base;
	return true;
}

void
devmem_free(DevMem *m)
{
	if (m->dev != NULL)
		dev_give(m->dev, m->base, m->size);
	else
		marena_free(&m->arena);
	memset(m, 0, sizeof(*m));
}

void
devmem_drop(DevMem *m)
{
	if (m->dev == NULL)
	{
		marena_drop(&m->arena);
		return;
	}
	dev_give(m->dev, m->base, m->size);
	m->base = NULL;
}

bool
devmem_back(DevMem *m, Err *e)
{
	if (m->dev == NULL || m->base != NULL || m->size == 0)
		return true;
	m->base = dev_take(m->dev, m->size, m->what);
	return m->base != NULL || no_room(m->what, m->size, e);
}

/* ---- memory that the host reads ---- */

/* Map zeroed address space, which gets memory when it is touched. */
static void *
map_area(size_t size)
{
	void	   *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
						 0);

	return p == MAP_FAILED ? NULL : p;
}

bool
hostdev_new(HostDev *h, const Dev *dev, size_t n, const char *what, Err *e)
{
	size_t		size = n * sizeof(float);

	*h = (HostDev) {.on = dev, .n = n};
	if (n == 0)
		return true;
	if (dev == NULL)
	{
		h->host = h->dev = map_area(size);
		return h->host != NULL || err_set(e, ERR_NOMEM, "could not map %zu bytes of %s", size, what);
	}
	h->host = dev->ops->pin(dev->d, size);
	if (h->host == NULL)
		return err_set(e, ERR_NOMEM, "could not pin %zu bytes of %s", size, what);
	return hostdev_back(h, e);
}

void
hostdev_free(HostDev *h)
{
	if (h->on != NULL)
	{
		dev_give(h->on, h->dev, h->n * sizeof(float));
		h->on->ops->unpin(h->on->d, h->host);
	}
	else if (h->host != NULL)
		munmap(h->host, h->n * sizeof(float));
	memset(h, 0, sizeof(*h));
}

void
hostdev_get(const HostDev *h, size_t from, size_t n)
{
	ALWAYS(from <= h->n && n <= h->n - from);
	if (h->on != NULL && n > 0)
		h->on->ops->get(h->on->d, h->host + from, h->dev + from, n * sizeof(float));
}

void
hostdev_put(const HostDev *h, size_t from, size_t n)
{
	ALWAYS(from <= h->n && n <= h->n - from);
	if (h->on != NULL && n > 0)
		h->on->ops->put(h->on->d, h->dev + from, h->host + from, n * sizeof(float));
}

void
hostdev_drop(HostDev *h)
{
	if (h->on == NULL)
	{
		if (h->host != NULL)
			madvise(h->host, h->n * sizeof(float), MADV_DONTNEED);
		return;
	}
	dev_give(h->on, h->dev, h->n * sizeof(float));
	h->dev = NULL;
}

bool
hostdev_back(HostDev *h, Err *e)
{
	if (h->on == NULL || h->dev != NULL || h->n == 0)
		return true;
	h->dev = dev_take(h->on, h->n * sizeof(float), "rows of results");
	return h->dev != NULL || no_room("Rows of results", h->n * sizeof(float), e);
}
