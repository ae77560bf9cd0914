/*
 * doorbell_fd.c
 *	  The arena's doorbell as a file descriptor: a thread sleeps on the futex and writes to an eventfd.
 *
 * No ring is missed.  A backend that rings pushes its slot, adds 1 to doorbell, and reads
 * engine_sleeping.  The sleeper sets engine_sleeping and then reads the ring (all sequentially
 * consistent).
 *
 * 1. The backend reads 0.  Then it pushed its slot before the sleeper read the ring, and the sleeper saw
 *    the slot.
 * 2. The backend reads 1 and wakes the futex.  If our thread waits there, it wakes up and finds a
 *    doorbell that differs from the value it knows.  If it does not wait there, it is about to wait, and
 *    the kernel compares the doorbell with the known value under the futex's lock.  If the thread did
 *    not know the new value, it writes now.  If it knew it, it has written, or is about to, after the
 *    addition.  So in each case it writes after the push.
 * 3. doorbell_awake() may consume that write, but then the sleeper reads the ring after it.
 *
 * While the sleeper is awake nobody makes a system call for it: the thread stays in the futex with an
 * old value of the doorbell.
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
	uint32_t	known;			/* last doorbell value that the thread has seen */
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
		/* write fails only if the counter is near its maximum, and then the descriptor is readable anyway */
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
		return;					/* nothing to consume */
}
