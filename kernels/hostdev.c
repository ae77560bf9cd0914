/*
 * hostdev.c
 *	  "host": the CPUs as devices of device.h.
 *
 * Its memory is the host's and its ops are the CPU's, so results have the CPUs' bits.  But it enforces
 * the rules of device.h: new memory is filled with NaNs, and so is the destination of get() and kv_get()
 * until the caller has waited.  Copies beside the ops read their source as late as allowed: at a fence,
 * for kv_put() also at the beginning of the next step, or when the caller asks whether they are done.
 *
 * Tested by tests/unit/model/weights/test_device_arena.c.
 */
#include "hostdev.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN		256
#define POISON_MOST ((size_t) 64 << 20)	/* larger allocations aren't filled: their pages may never be used */
#define POLLS		2				/* done() returns true at the second call for an event */

typedef struct Copy
{
	struct Copy *next;
	void	   *dst;
	const void *src;
	void	   *read;			/* copy of a get's source, once it has been read; NULL: not yet */
	size_t		size;
	KEvent		event;			/* 0: wait() completes it */
	bool		up;
	int			polls;
} Copy;

struct KDevice
{
	const Kernels *kernels;
	pthread_mutex_t lock;		/* any thread may start copies beside the ops */
	Copy	   *copies;			/* copies that have not been completed, in the order of their calls */
	Copy	  **last;
	KEvent		n_events;
};

static int
host_count(char *why, size_t whylen)
{
	(void) why;
	(void) whylen;
	return 1;
}

static bool
host_info(int ordinal, KDevInfo *out)
{
	if (ordinal != 0)
		return false;
	*out = (KDevInfo) {.name = "CPUs as a device", .usable = true};
	return true;
}

static KDevice *
host_open(int ordinal, const KHost *host, const KDevOpen *o, char *err, size_t errlen)
{
	KDevice    *d;

	(void) o;
	if (ordinal != 0 || host->abi != KDEVICE_ABI || (d = calloc(1, sizeof(*d))) == NULL)
	{
		snprintf(err, errlen, "there is no such device");
		return NULL;
	}
	d->kernels = kernels_select(NULL, NULL);
	d->last = &d->copies;
	pthread_mutex_init(&d->lock, NULL);
	return d;
}

static const Kernels *
host_kernels(KDevice *d, KType op_type)
{
	return op_type != KT_F32 ? NULL : d != NULL ? d->kernels : kernels_select(NULL, NULL);
}

/* ---- memory ---- */

static void *
host_pin(KDevice *d, size_t size)
{
	void	   *p = NULL;

	(void) d;
	return posix_memalign(&p, ALIGN, size > 0 ? size : 1) == 0 ? p : NULL;
}

static void *
host_alloc(KDevice *d, size_t size, const char *what)
{
	void	   *p = host_pin(d, size);

	(void) what;
	if (p != NULL && size <= POISON_MOST)
		memset(p, 0xff, size);
	return p;
}

static void
host_free(KDevice *d, void *p)
{
	(void) d;
	free(p);
}

static bool
host_pin_area(KDevice *d, void *p, size_t size)
{
	(void) d;
	(void) p;
	(void) size;
	return true;
}

static void
host_unpin_area(KDevice *d, void *p)
{
	(void) d;
	(void) p;
}

/* it has no memory of its own */
static void
host_mem(KDevice *d, uint64_t *free_bytes, uint64_t *total)
{
	(void) d;
	*free_bytes = *total = 0;
}

/* it caches no copies */
static void
host_forget(KDevice *d, const void *from, size_t size)
{
	(void) d;
	(void) from;
	(void) size;
}

/* ---- copies ---- */

/* Read the source now, as a get must not see later ops. */
static void
read_now(Copy *c)
{
	if (c->up || c->read != NULL)
		return;
	c->read = malloc(c->size > 0 ? c->size : 1);
	if (c->read == NULL)
		abort();				/* a device can't report an error here either */
	memcpy(c->read, c->src, c->size);
}

/* The caller holds the lock. */
static Copy *
add_copy(KDevice *d, void *dst, const void *src, size_t size, bool up)
{
	Copy	   *c = malloc(sizeof(*c));

	if (c == NULL)
		abort();
	*c = (Copy) {.dst = dst, .src = src, .size = size, .up = up};
	pthread_mutex_lock(&d->lock);
	*d->last = c;
	d->last = &c->next;
	return c;
}

/* Complete the copies up to this event (0: of wait(), UINT64_MAX: all copies beside the ops). */
static void
deliver(KDevice *d, KEvent event)
{
	Copy	  **at = &d->copies;

	while (*at != NULL)
	{
		Copy	   *c = *at;

		if (event == 0 ? c->event != 0 : c->event == 0 || c->event > event)
		{
			at = &c->next;
			continue;
		}
		memcpy(c->dst, c->read != NULL ? c->read : c->src, c->size);
		*at = c->next;
		free(c->read);
		free(c);
	}
	d->last = at;
}

/*
 * Read the sources of the copies beside the ops up to this event, so that later ops find them done; the
 * destinations are not written yet.
 */
static void
make(KDevice *d, KEvent event)
{
	Copy	  **at = &d->copies;

	while (*at != NULL)
	{
		Copy	   *c = *at;

		if (c->event == 0 || c->event > event)
			at = &c->next;
		else if (c->up)
		{
			memcpy(c->dst, c->src, c->size);
			*at = c->next;
			free(c);
		}
		else
		{
			read_now(c);
			at = &c->next;
		}
	}
	d->last = at;
}

static void
host_put(KDevice *d, void *dst, const void *src, size_t size)
{
	(void) d;
	memcpy(dst, src, size);
}

static void
host_get(KDevice *d, void *dst, const void *src, size_t size)
{
	memset(dst, 0xff, size);
	read_now(add_copy(d, dst, src, size, false));
	pthread_mutex_unlock(&d->lock);
}

static void
host_fill(KDevice *d, void *dst, int byte, size_t size)
{
	(void) d;
	memset(dst, byte, size);
}

static bool
host_wait(KDevice *d, char *err, size_t errlen)
{
	(void) err;
	(void) errlen;
	pthread_mutex_lock(&d->lock);
	deliver(d, 0);
	pthread_mutex_unlock(&d->lock);
	return true;
}

static bool
host_done(KDevice *d)
{
	(void) d;
	return true;
}

static KEvent
copy_async(KDevice *d, void *dst, const void *src, size_t size, bool up)
{
	Copy	   *c = add_copy(d, dst, src, size, up);
	KEvent		e = ++d->n_events;

	c->event = e;
	pthread_mutex_unlock(&d->lock);
	return e;
}

static KEvent
host_kv_put(KDevice *d, void *dst, const void *src, size_t size)
{
	return copy_async(d, dst, src, size, true);
}

static KEvent
host_kv_get(KDevice *d, void *dst, const void *src, size_t size)
{
	memset(dst, 0xff, size);
	return copy_async(d, dst, src, size, false);
}

static bool
host_event_done(KDevice *d, KEvent e)
{
	Copy	   *c;
	bool		done = true;

	pthread_mutex_lock(&d->lock);
	for (c = d->copies; c != NULL && c->event != e;)
		c = c->next;
	if (e != 0 && c != NULL)
	{
		done = ++c->polls >= POLLS;
		if (done)
			deliver(d, e);
	}
	pthread_mutex_unlock(&d->lock);
	return done;
}

static void
host_kv_fence(KDevice *d)
{
	pthread_mutex_lock(&d->lock);
	make(d, d->n_events);
	pthread_mutex_unlock(&d->lock);
}

/* ---- steps ---- */

/* A step waits for puts, and so for all copies requested before them. */
static void
host_step_begin(KDevice *d, const KStep *s)
{
	KEvent		last = 0;

	(void) s;
	pthread_mutex_lock(&d->lock);
	for (const Copy *c = d->copies; c != NULL; c = c->next)
		last = c->up ? c->event : last;
	make(d, last);
	pthread_mutex_unlock(&d->lock);
}

static KRun
host_graph(KDevice *d, const KGraphKey *key)
{
	(void) d;
	(void) key;
	return KRUN_EAGER;
}

static void
host_step_flush(KDevice *d)
{
	(void) d;
}

static void
host_close(KDevice *d)
{
	deliver(d, 0);
	deliver(d, UINT64_MAX);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

static const KDeviceOps host = {
	.abi = KDEVICE_ABI, .count = host_count, .info = host_info, .open = host_open, .close = host_close,
	.kernels = host_kernels, .alloc = host_alloc, .free = host_free, .pin = host_pin, .unpin = host_free,
	.pin_area = host_pin_area, .unpin_area = host_unpin_area, .mem = host_mem, .forget = host_forget,
	.put = host_put, .get = host_get, .fill = host_fill, .wait = host_wait, .done = host_done,
	.kv_put = host_kv_put, .kv_get = host_kv_get, .event_done = host_event_done, .kv_fence = host_kv_fence,
	.step_begin = host_step_begin, .graph = host_graph, .step_done = host_done, .step_flush = host_step_flush,
	.step_end = host_wait
};

const KDeviceOps *
kdevice_of_cpus(const char *name)
{
	if (strcmp(name, "moat") == 0)
		return kdevice_moat(&host);
	return strcmp(name, "host") == 0 ? &host : NULL;
}
