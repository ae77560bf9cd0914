/*
 * pool.c
 *	  The compute threads.
 *
 * One 64-bit word holds (generation of the loop << 32 | next chunk).  A thread
 * takes a chunk by compare-and-swap on that word, so a thread that wakes up late
 * can't take a chunk of a loop that is over, and nobody has to wait for threads
 * that sleep: a loop ends when its chunks are done.  The caller always works
 * too; with one thread there is no atomic operation at all.
 *
 * The caller closes the word (chunk CLOSED, beyond every loop) before it writes fn,
 * arg and nchunks of the next loop, and publishes the word after.  So a thread that
 * comes late and sees anything of the next loop (release stores, acquire loads)
 * can't take a chunk of the one before: its compare-and-swap fails, and it uses
 * nothing of what it read.  Without the closing it could: the finished loop's word
 * and the next loop's larger nchunks would look like a chunk to take.
 *
 * Sleeping: a waiter counts itself in `sleepers`, then sleeps while `wake` is
 * unchanged; the caller bumps `wake`, then looks at `sleepers` (both
 * sequentially consistent, so one of them sees the other).
 *
 * Complexity: O(nchunks) compare-and-swaps.  Tested by tests/kernels/conform
 * (thousands of tiny loops, also under ThreadSanitizer).
 */
#include "pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS		50000
#define LINE		64
#define CLOSED		UINT32_MAX	/* as next chunk: none to be had */

typedef struct Worker
{
	KPool	   *pool;
	pthread_t	thread;
	int			ith;
} Worker;

struct KPool
{
	int			nthreads;
	int			nstarted;		/* workers to join */
	Worker	   *workers;		/* [nthreads - 1] */
	_Alignas(LINE) _Atomic uint64_t word;	/* generation << 32 | next chunk */
	_Atomic(KPoolFn) fn;
	_Atomic(void *) arg;
	_Atomic uint32_t nchunks;
	_Alignas(LINE) _Atomic uint32_t done;	/* chunks finished; the caller sleeps on it */
	_Atomic uint32_t caller_sleeps;
	_Alignas(LINE) _Atomic uint32_t wake;	/* workers sleep on it */
	_Atomic uint32_t sleepers;
	_Atomic uint32_t stop;
};

static void
futex_wait(_Atomic uint32_t *addr, uint32_t val)
{
	syscall(SYS_futex, addr, FUTEX_WAIT_PRIVATE, val, NULL, NULL, 0);
}

static void
futex_wake(_Atomic uint32_t *addr, int n)
{
	syscall(SYS_futex, addr, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static int64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t) ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static inline void
relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Take and run chunks until none is left. */
static void
work(KPool *p, int ith)
{
	uint64_t	w = atomic_load_explicit(&p->word, memory_order_acquire);

	for (;;)
	{
		/* partner: the stores in kpool_run() */
		KPoolFn		fn = atomic_load_explicit(&p->fn, memory_order_acquire);
		void	   *arg = atomic_load_explicit(&p->arg, memory_order_acquire);
		uint32_t	n = atomic_load_explicit(&p->nchunks, memory_order_acquire);

		if ((uint32_t) w >= n)
			return;
		if (!atomic_compare_exchange_weak_explicit(&p->word, &w, w + 1,
												   memory_order_acq_rel,
												   memory_order_acquire))
			continue;
		fn(arg, (int) (uint32_t) w, ith);
		/* pairs with the caller's wait in kpool_run */
		if (atomic_fetch_add(&p->done, 1) + 1 == n && ith != 0 &&
			atomic_load(&p->caller_sleeps))
			futex_wake(&p->done, 1);
		w = atomic_load_explicit(&p->word, memory_order_acquire);
	}
}

static void *
worker_main(void *arg)
{
	Worker	   *me = arg;
	KPool	   *p = me->pool;
	uint32_t	seen = 0;

	for (;;)
	{
		int64_t		until = 0;

		/* wait for a new loop: spin, then sleep */
		for (unsigned i = 1; atomic_load(&p->wake) == seen; i++)
		{
			relax();
			if (i % 64 != 0)
				continue;
			if (until == 0)
				until = now_ns() + SPIN_NS;
			else if (now_ns() > until)
			{
				atomic_fetch_add(&p->sleepers, 1);
				futex_wait(&p->wake, seen);
				atomic_fetch_sub(&p->sleepers, 1);
			}
		}
		seen = atomic_load(&p->wake);
		if (atomic_load(&p->stop))
			return NULL;
		work(p, me->ith);
	}
}

static void
wake_workers(KPool *p)
{
	atomic_fetch_add(&p->wake, 1);
	if (atomic_load(&p->sleepers) > 0)
		futex_wake(&p->wake, INT_MAX);
}

KPool *
kpool_new(int nthreads)
{
	KPool	   *p = NULL;
	sigset_t	all,
				old;

	if (posix_memalign((void **) &p, LINE, sizeof(KPool)) != 0)
		return NULL;
	*p = (KPool) {.nthreads = nthreads};
	p->workers = calloc(nthreads, sizeof(Worker));
	if (p->workers == NULL)
	{
		free(p);
		return NULL;
	}
	/* signals are the main thread's business */
	sigfillset(&all);
	/* a file truncated under its mapping faults in the thread that reads it */
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (int i = 0; i < nthreads - 1; i++)
	{
		Worker	   *w = &p->workers[i];

		w->pool = p;
		w->ith = i + 1;
		if (pthread_create(&w->thread, NULL, worker_main, w) != 0)
			break;
		p->nstarted++;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (p->nstarted < nthreads - 1)
	{
		kpool_free(p);
		return NULL;
	}
	return p;
}

void
kpool_free(KPool *p)
{
	if (p == NULL)
		return;
	atomic_store(&p->stop, 1);
	wake_workers(p);
	for (int i = 0; i < p->nstarted; i++)
		pthread_join(p->workers[i].thread, NULL);
	free(p->workers);
	free(p);
}

int
kpool_nthreads(const KPool *p)
{
	return p->nthreads;
}

void
kpool_run(KPool *p, KPoolFn fn, void *arg, int nchunks)
{
	uint64_t	gen;
	uint32_t	done;
	int64_t		until = 0;

	if (p->nthreads == 1 || nchunks <= 1)
	{
		for (int i = 0; i < nchunks; i++)
			fn(arg, i, 0);
		return;
	}
	gen = atomic_load_explicit(&p->word, memory_order_relaxed) >> 32;
	atomic_store(&p->word, (gen + 1) << 32 | CLOSED);
	atomic_store_explicit(&p->done, 0, memory_order_release);
	atomic_store_explicit(&p->fn, fn, memory_order_release);
	atomic_store_explicit(&p->arg, arg, memory_order_release);
	atomic_store_explicit(&p->nchunks, (uint32_t) nchunks, memory_order_release);
	atomic_store(&p->word, (gen + 2) << 32);
	wake_workers(p);
	work(p, 0);

	/* the others finish the chunks they hold */
	for (unsigned i = 1; (done = atomic_load(&p->done)) != (uint32_t) nchunks; i++)
	{
		relax();
		if (i % 64 != 0)
			continue;
		if (until == 0)
			until = now_ns() + SPIN_NS;
		else if (now_ns() > until)
		{
			atomic_store(&p->caller_sleeps, 1);
			futex_wait(&p->done, done);
			atomic_store(&p->caller_sleeps, 0);
		}
	}
}
