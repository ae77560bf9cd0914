/*
 * device_arena.h
 *	  Memory where ops are: a device's, or without one the host's.
 *
 * A model or drafter holds a Dev, or NULL for the CPUs, and takes pieces of two kinds: a DevMem, which only
 * ops and copies touch, and a HostDev, rows that ops write and the host reads.  Of the CPUs a HostDev is
 * one piece and reading it costs nothing; on a device it has a mirror on the host, and rows are there behind
 * hostdev_get() and dev_wait().  Of a piece whose content isn't wanted the memory can be given back, and
 * taken again; it may be at another address then.
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
	uint64_t	memory;			/* bytes that it has; 0 = it is the host's */
	struct DevLife *life;		/* NULL = nobody counts, and it outlives all */
} Dev;

typedef struct DevLife
{
	atomic_ullong held;			/* bytes that are taken of it by dev_take() */
	atomic_ullong free;			/* what was left of it then */
	atomic_ullong turn;			/* counted over all devices, so that of two the later one is known */
	atomic_int	refs;			/* owners of its memory, which may outlive the model */
	void		(*end) (const Dev *dev);	/* no owner has it */
} DevLife;

/* Any thread. */
void		dev_ref(const Dev *dev);
void		dev_unref(const Dev *dev);

/*
 * Of the device's memory, any thread; NULL: there is not so much.  The caller gives its size when it frees
 * it.
 */
void	   *dev_take(const Dev *dev, size_t size, const char *what);
void		dev_give(const Dev *dev, void *p, size_t size);

/*
 * Calls fn now and then in all waits of a step (NULL: no call), to report that the step goes on and to do
 * other work.
 */
typedef struct DevWait
{
	void		(*fn) (void *ctx);
	bool		(*work) (void *ctx);	/* false: there is none; NULL = never any */
	void	   *ctx;
	int64_t		begun_us;
	int64_t		told_us;
} DevWait;

void		dev_wait_begin(DevWait *w, void (*fn) (void *ctx), bool (*work) (void *ctx), void *ctx);
/* Waits until done() returns true; returns at once without a callback, or if w is NULL. */
void		dev_wait_until(const Dev *dev, bool (*done) (KDevice *d), DevWait *w);

/* All that was asked for has been done.  False with *e set: the device is lost. */
bool		dev_wait(const Dev *dev, Err *e);

typedef struct DevMem
{
	const Dev  *dev;			/* NULL: the host's, in `arena` */
	void	   *base;			/* NULL: nothing is reserved, or it was given back */
	size_t		size;
	char		what[80];
	MArena		arena;
} DevMem;

/* As marena_reserve(), whose zeros a device doesn't have: there the content is anything. */
bool		devmem_reserve(DevMem *m, const Dev *dev, size_t size, HugePages huge, const char *what, Err *e);
void		devmem_free(DevMem *m);
/* The memory is given back, and with devmem_back() taken again.  The host's comes by itself. */
void		devmem_drop(DevMem *m);
bool		devmem_back(DevMem *m, Err *e);

typedef struct HostDev
{
	const Dev  *on;				/* NULL: CPUs, and both are one */
	float	   *dev;			/* what ops write, */
	float	   *host;			/* and what the host reads */
	size_t		n;
} HostDev;

/* n floats; ERR_NOMEM: what */
bool		hostdev_new(HostDev *h, const Dev *dev, size_t n, const char *what, Err *e);
void		hostdev_free(HostDev *h);
/* What the host has of n floats from there on goes to where ops are; host may be written again at once. */
void		hostdev_put(const HostDev *h, size_t from, size_t n);
/* Ask for n floats from there on. */
void		hostdev_get(const HostDev *h, size_t from, size_t n);
void		hostdev_drop(HostDev *h);
bool		hostdev_back(HostDev *h, Err *e);

#endif
