/*
 * device_arena.h
 *	  Memory of the place where ops run: a device's or, without one, the host's.
 *
 * A model or drafter holds a Dev, or NULL for the CPUs, and takes pieces of two kinds: a DevMem, which
 * only ops and copies touch, and a HostDev, rows that ops write and the host reads.  On CPUs a HostDev
 * is one piece and reading it costs nothing.  On a device it has a mirror on the host, where rows are
 * valid after hostdev_get() and dev_wait().  The memory of a piece whose content isn't needed can be
 * given back and taken again, perhaps at another address.
 */
#ifndef VLLM_MODEL_WEIGHTS_DEVICE_ARENA_H
#define VLLM_MODEL_WEIGHTS_DEVICE_ARENA_H

#include <stdatomic.h>

#include "base/err.h"
#include "device.h"
#include "model/weights/arena.h"

typedef struct Dev
{
	const KDeviceOps *ops;
	KDevice    *d;
	const Kernels *k;			/* its ops */
	uint64_t	memory;			/* bytes of its memory; 0 = it uses the host's */
	struct DevLife *life;		/* NULL = no reference counting: it outlives all users */
} Dev;

typedef struct DevLife
{
	atomic_ullong held;			/* bytes taken by dev_take() */
	atomic_ullong free;			/* free memory at that time */
	atomic_ullong sequence;		/* counted over all devices: the newer of two values has the higher one */
	atomic_int	refs;			/* owners of memory, which may outlive the model */
	void		(*end) (const Dev *dev);	/* called when the last owner is gone */
} DevLife;

/* Any thread. */
void		dev_ref(const Dev *dev);
void		dev_unref(const Dev *dev);

/*
 * Take memory of the device, in any thread; NULL if it has not enough.  The caller passes the size again
 * to free it.
 */
void	   *dev_take(const Dev *dev, size_t size, const char *what);
void		dev_give(const Dev *dev, void *p, size_t size);

/*
 * Calls fn now and then in all waits of a step (NULL: no call), to report that the step goes on and to
 * do other work.
 */
typedef struct DevWait
{
	void		(*fn) (void *ctx);
	bool		(*work) (void *ctx);	/* does a piece of other work; false: there is none; NULL = never
										 * any */
	void	   *ctx;
	int64_t		begun_us;
	int64_t		called_us;
} DevWait;

void		dev_wait_begin(DevWait *w, void (*fn) (void *ctx), bool (*work) (void *ctx), void *ctx);
/* Wait until done() returns true.  Return at once without a callback, or if w is NULL. */
void		dev_wait_until(const Dev *dev, bool (*done) (KDevice *d), DevWait *w);

/* Wait until the device has finished all requested work.  Return false with *e set if the device is
 * lost. */
bool		dev_wait(const Dev *dev, Err *e);

typedef struct DevMem
{
	const Dev  *dev;			/* NULL: host memory, in `arena` */
	void	   *base;			/* NULL: nothing is reserved, or it has been given back */
	size_t		size;
	char		what[80];
	MArena		arena;
} DevMem;

/* Like marena_reserve(), but on a device the content is undefined instead of zeros. */
bool		devmem_reserve(DevMem *m, const Dev *dev, size_t size, HugePages huge, const char *what, Err *e);
void		devmem_free(DevMem *m);
/* Give the memory back; devmem_back() takes it again.  Host memory comes back when it is touched. */
void		devmem_drop(DevMem *m);
bool		devmem_back(DevMem *m, Err *e);

typedef struct HostDev
{
	const Dev  *on;				/* NULL: CPUs, where both pointers are equal */
	float	   *dev;			/* where ops write */
	float	   *host;			/* where the host reads */
	size_t		n;
} HostDev;

/* Allocate n floats.  what: for an ERR_NOMEM. */
bool		hostdev_new(HostDev *h, const Dev *dev, size_t n, const char *what, Err *e);
void		hostdev_free(HostDev *h);
/* Copy n floats from `from` on to the memory of ops; the caller may change host[] at once. */
void		hostdev_put(const HostDev *h, size_t from, size_t n);
/* Request the copy of n floats from `from` on to host[]. */
void		hostdev_get(const HostDev *h, size_t from, size_t n);
void		hostdev_drop(HostDev *h);
bool		hostdev_back(HostDev *h, Err *e);

#endif
