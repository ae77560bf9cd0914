/*
 * doorbell_fd.c
 *	  The arena's doorbell as a file descriptor: a thread sleeps on the futex and writes to an eventfd.
 *
 * No ring is missed. A backend that rings pushes its slot, adds 1 to doorbell, and looks at engine_sleeping;
 * the sleeper sets engine_sleeping and looks at the ring (all sequentially consistent).
 *
 * 1. The backend finds 0: then it pushed before the sleeper looked, and the sleeper saw that.
 * 2. It finds 1 and wakes the futex.  If our thread waits there, it goes on and finds a doorbell other than
 *    the
 *	  one it knows.  If it doesn't, it is on its way to the comparison that the kernel makes of the two
 *	  under the futex's lock.  Unless it knew this doorbell already it writes now; if it did, it has written,
 *	  or is about to, behind the addition.  So each time it writes behind the push.
 * 3. doorbell_awake() may take that write away, but then the sleeper looks at the ring behind it.
 *
 * While the sleeper is awake nobody makes a system call for it: the thread stays where it is, with an old
 * doorbell.
 *
 * Tested by tests/unit/remote/test_remote_server.c.
 */
#include "remote/doorbell_fd.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"

struct DoorbellFd
{
	WireHeader *h;
	int			fd;
	pthread_t	thread;
	uint32_t	known;			/* the thread's */
	_Atomic bool stop;
};

static void *
bell_main(void *arg)
{
	DoorbellFd *b = arg;
	const uint64_t one = 1;

	while (!atomic_load(&b->stop))
	{
		uint32_t	now;

		syscall(SYS_futex, &b->h->doorbell, FUTEX_WAIT, b->known, NULL, NULL, 0);
		now = atomic_load(&b->h->doorbell);
		if (now == b->known)
			continue;
		b->known = now;
		/* it fails only when there is a very large number in it, and then it is readable */
		if (write(b->fd, &one, sizeof(one)) < 0)
			continue;
	}
	return NULL;
}

DoorbellFd *
doorbell_new(WireHeader *h, Err *e)
{
	DoorbellFd *b = mem_zalloc(sizeof(DoorbellFd));

	b->h = h;
	b->known = atomic_load(&h->doorbell);
	b->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->fd < 0)
	{
		err_set(e, ERR_INTERNAL, "could not make an event descriptor: %s", strerror(errno));
		mem_free(b);
		return NULL;
	}
	if (pthread_create(&b->thread, NULL, bell_main, b) != 0)
	{
		err_set(e, ERR_INTERNAL, "could not start the doorbell's thread");
		close(b->fd);
		mem_free(b);
		return NULL;
	}
	pthread_setname_np(b->thread, "bell");
	return b;
}

void
doorbell_free(DoorbellFd *b)
{
	if (b == NULL)
		return;
	atomic_store(&b->stop, true);
	atomic_fetch_add(&b->h->doorbell, 1);
	syscall(SYS_futex, &b->h->doorbell, FUTEX_WAKE, 1, NULL, NULL, 0);
	pthread_join(b->thread, NULL);
	close(b->fd);
	mem_free(b);
}

int
doorbell_fd(const DoorbellFd *b)
{
	return b->fd;
}

void
doorbell_sleep(DoorbellFd *b)
{
	atomic_store(&b->h->engine_sleeping, 1);
}

void
doorbell_awake(DoorbellFd *b, bool readable)
{
	uint64_t	n;

	atomic_store(&b->h->engine_sleeping, 0);
	if (readable && read(b->fd, &n, sizeof(n)) < 0)
		return;					/* there was nothing */
}
