/*
 * pool.c
 *	  The thread pool of the kernels (kpool_*): work stealing over contiguous ranges.
 *
 * A loop's chunks are assigned in advance: thread t gets the t-th contiguous range of them.  It takes
 * them from the front; when its range is empty it takes chunks from the end of others' ranges.  So a
 * thread works on the same part of a matrix in every loop (its caches, and with pinned threads the local
 * memory, which it touched first when it packed the weights), and yet a loop ends when the work ends,
 * however unequal or disturbed the threads are.
 *
 * A range is one 64-bit word on its own cache line:
 *
 *		number of the loop << 32 | end << 16 | next
 *
 * and a thread takes a chunk with a compare-and-swap on it.  A thread that wakes up late finds empty
 * ranges, so no thread waits for sleeping ones: a loop ends when its chunks are done.  With one thread
 * there is no atomic operation at all.
 *
 * Why a late thread does no harm: it takes chunks from a word that it has read as nonempty, and if the
 * swap succeeds that loop isn't over yet (a loop is over when all ranges are empty and all takers have
 * reported; the next loop has another number).  The caller writes fn, arg and the sizes before it
 * publishes the first word (release), and the thread reads them after the word (acquire): they belong to
 * that loop.
 *
 * Reporting: a thread counts the chunks it ran and adds the number to `done` when it finds no more.
 * Until then the loop can't end.
 *
 * Sleeping: a waiter increments `sleepers`, then sleeps while `wake` is unchanged; the caller increments
 * `wake`, then reads `sleepers` (both sequentially consistent, so one of them sees the other).  Waiters
 * spin first, except if there are more threads than CPUs: there they would take CPU time from working
 * threads.
 *
 * A part of the threads (kpool_use()): a loop assigns its chunks to the part that the pool had when the
 * loop began, and the caller takes the place of the part's first thread; thread 0 has no other place.  A
 * thread outside of the part sleeps on `part` until that changes.  A thread that has not noticed a
 * change yet may still help: it never matters which thread runs a chunk.
 *
 * Complexity: O(chunks + threads^2) compare-and-swaps and reads per loop.  Tested by
 * tests/unit/kernels/test_pool.c and tests/kernels/conform, also under ThreadSanitizer.
 */
#include "pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS		50000
#define LINE		64
#define MAX_UNITS	UINT16_MAX	/* limit of a range's counter; larger loops have several chunks per unit */

/* The threads first .. end - 1 of a pool. */
typedef struct Part
{
	int			first;
	int			end;
} Part;

typedef struct Worker
{
	KPool	   *pool;
	pthread_t	thread;
	int			ith;
} Worker;

typedef struct Range
{
	_Alignas(LINE) _Atomic uint64_t word;	/* loop << 32 | end << 16 | next */
} Range;

struct KPool
{
	int			nthreads;
	int			nstarted;		/* workers to join */
	int64_t		spin_ns;
	int		   *cpus;			/* [nthreads] where they run; NULL = anywhere */
	Worker	   *workers;		/* [nthreads - 1] */
	Range	   *ranges;			/* [nthreads] */
	KDevice    *device;			/* device of its ops; NULL = none */
	uint32_t	loop;			/* number of the loop; only the caller accesses it */
	/* the current loop: written by the caller, read by all threads */
	_Alignas(LINE) _Atomic(KPoolFn) fn;
	_Atomic(void *) arg;
	_Atomic uint32_t nchunks;
	_Atomic uint32_t grain;		/* chunks per unit */
	_Alignas(LINE) _Atomic uint32_t done;	/* units finished; the caller sleeps on it */
	_Atomic uint32_t nunits;
	_Atomic uint32_t caller_sleeps;
	/* threads that take part in loops: first << 16 | number, 0 = all; threads outside sleep on it */
	_Alignas(LINE) _Atomic uint32_t part;
	_Alignas(LINE) _Atomic uint32_t wake;	/* workers sleep on it */
	_Atomic uint32_t sleepers;
	_Atomic uint32_t stop;
};

/* The largest number of CPUs that Linux can be built for.  The kernel refuses to report a set in a
 * buffer smaller than its own, and accepts any size to set one. */
#define MOST_CPUS 8192

typedef struct CpuSet
{
	cpu_set_t	part[MOST_CPUS / CPU_SETSIZE];
} CpuSet;

/* CPU to which kpool_bind() has moved this thread, and the CPUs it had before. */
static _Thread_local int bound_cpu = -1;
static _Thread_local CpuSet unbound;

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

/* Take one unit of a range, from its front or its end, and run it.  Return false if the range is
 * empty. */
static bool
run_one(KPool *p, Range *r, bool front, int ith)
{
	uint64_t	w = atomic_load_explicit(&r->word, memory_order_acquire);

	for (;;)
	{
		uint32_t	next = w & 0xffff,
					end = w >> 16 & 0xffff;
		/* pairs with the stores in kpool_run() */
		KPoolFn		fn = atomic_load_explicit(&p->fn, memory_order_acquire);
		void	   *arg = atomic_load_explicit(&p->arg, memory_order_acquire);
		uint32_t	n = atomic_load_explicit(&p->nchunks, memory_order_acquire);
		uint32_t	grain = atomic_load_explicit(&p->grain, memory_order_acquire);
		uint32_t	unit = front ? next : end - 1;

		if (next == end)
			return false;
		if (!atomic_compare_exchange_weak_explicit(&r->word, &w, front ? w + 1 : w - (1 << 16),
												   memory_order_acq_rel, memory_order_acquire))
			continue;
		for (uint32_t i = unit * grain; i < n && i < (unit + 1) * grain; i++)
			fn(arg, (int) i, ith);
		return true;
	}
}

/* Run the units of the range of thread ith's place, then those left in other ranges. */
static void
work(KPool *p, int ith, int place)
{
	uint32_t	ran = 0,
				n;

	for (int i = 0; i < p->nthreads; i++)
	{
		Range	   *r = &p->ranges[(place + i) % p->nthreads];

		while (run_one(p, r, i == 0, ith))
			ran++;
	}
	if (ran == 0)
		return;
	/* until `ran` is reported this still belongs to the current loop */
	n = atomic_load_explicit(&p->nunits, memory_order_acquire);
	/* pairs with the caller's wait in kpool_run */
	if (atomic_fetch_add(&p->done, ran) + ran == n && ith != 0 && atomic_load(&p->caller_sleeps))
		futex_wake(&p->done, 1);
}

static void
move_to(int cpu)
{
	CpuSet		set;

	CPU_ZERO_S(sizeof(set), set.part);
	CPU_SET_S(cpu, sizeof(set), set.part);
	sched_setaffinity(0, sizeof(set), set.part);
}

static Part
part_of(const KPool *p, uint32_t part)
{
	int			n = (int) (part & 0xffff);
	Part		all = {0, p->nthreads};

	return n == 0 ? all : (Part) {(int) (part >> 16), (int) (part >> 16) + n};
}

void
kpool_bind(const KPool *p)
{
	int			cpu = p != NULL && p->cpus != NULL ? p->cpus[part_of(p, atomic_load(&p->part)).first] : -1;

	if (cpu == bound_cpu)
		return;
	if (bound_cpu < 0)
		sched_getaffinity(0, sizeof(unbound), unbound.part);
	if (cpu < 0)
		sched_setaffinity(0, sizeof(unbound), unbound.part);
	else
		move_to(cpu);
	bound_cpu = cpu;
}

/* Sleep if the thread is outside of the part that runs loops; the caller has the place of the part's
 * first thread. */
static bool
sleep_outside(KPool *p, int ith)
{
	uint32_t	part = atomic_load(&p->part);
	Part		now = part_of(p, part);

	if (ith > now.first && ith < now.end)
		return false;
	if (!atomic_load(&p->stop))
		futex_wait(&p->part, part);
	return true;
}

static void *
worker_main(void *arg)
{
	Worker	   *me = arg;
	KPool	   *p = me->pool;
	uint32_t	seen = 0;

	if (p->cpus != NULL)
		move_to(p->cpus[me->ith]);
	for (;;)
	{
		int64_t		until = 0;

		/* wait for a new loop: spin, then sleep */
		for (unsigned i = 1; atomic_load(&p->wake) == seen; i++)
		{
			relax();
			if (i % 64 != 0)
				continue;
			if (sleep_outside(p, me->ith))
				until = 0;
			else if (until == 0)
				until = now_ns() + p->spin_ns;
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
		work(p, me->ith, me->ith);
	}
}

static void
wake_workers(KPool *p)
{
	atomic_fetch_add(&p->wake, 1);
	if (atomic_load(&p->sleepers) > 0)
		futex_wake(&p->wake, INT_MAX);
}

static bool
start_workers(KPool *p)
{
	sigset_t	all,
				old;

	/* the main thread handles signals */
	sigfillset(&all);
	/* except SIGBUS: a file truncated while it is mapped faults in the thread that reads it */
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (int i = 0; i < p->nthreads - 1; i++)
	{
		Worker	   *w = &p->workers[i];
		char		name[24];	/* the kernel keeps 15 bytes */

		w->pool = p;
		w->ith = i + 1;
		if (pthread_create(&w->thread, NULL, worker_main, w) != 0)
			break;
		/* to identify threads in top -H */
		snprintf(name, sizeof(name), "compute %d", i + 1);
		pthread_setname_np(w->thread, name);
		p->nstarted++;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return p->nstarted == p->nthreads - 1;
}

/* Return the number of CPUs on which this thread, and so its children, may run. */
static int
allowed_cpus(void)
{
	CpuSet		set;

	return sched_getaffinity(0, sizeof(set), set.part) == 0 ? CPU_COUNT_S(sizeof(set), set.part) : 1;
}

KPool *
kpool_new_on(int nthreads, const int *cpus)
{
	KPool	   *p = NULL;
	size_t		n = (size_t) nthreads;

	if (posix_memalign((void **) &p, LINE, sizeof(KPool)) != 0)
		return NULL;
	*p = (KPool) {.nthreads = nthreads};
	p->spin_ns = cpus != NULL || nthreads <= allowed_cpus() ? SPIN_NS : 0;
	p->workers = calloc(n, sizeof(Worker));
	if (posix_memalign((void **) &p->ranges, LINE, n * sizeof(Range)) != 0)
		p->ranges = NULL;
	else
		memset(p->ranges, 0, n * sizeof(Range));
	if (cpus != NULL && (p->cpus = malloc(n * sizeof(int))) != NULL)
		memcpy(p->cpus, cpus, n * sizeof(int));
	if (p->workers == NULL || p->ranges == NULL || (cpus != NULL && p->cpus == NULL) || !start_workers(p))
	{
		kpool_free(p);
		return NULL;
	}
	return p;
}

KPool *
kpool_new(int nthreads)
{
	return kpool_new_on(nthreads, NULL);
}

void
kpool_use(KPool *p, int first, int n)
{
	uint32_t	part = (uint32_t) first << 16 | (uint32_t) n;

	if (atomic_exchange(&p->part, part) != part)
		futex_wake(&p->part, INT_MAX);
}

void
kpool_free(KPool *p)
{
	if (p == NULL)
		return;
	atomic_store(&p->stop, 1);
	kpool_use(p, 0, p->nthreads);
	kpool_use(p, 0, 0);
	wake_workers(p);
	for (int i = 0; i < p->nstarted; i++)
		pthread_join(p->workers[i].thread, NULL);
	free(p->workers);
	free(p->ranges);
	free(p->cpus);
	free(p);
}

int
kpool_nthreads(const KPool *p)
{
	return p->nthreads;
}

void
kpool_set_device(KPool *p, KDevice *d)
{
	p->device = d;
}

KDevice *
kpool_device(const KPool *p)
{
	return p != NULL ? p->device : NULL;
}

/* Publish a loop.  The order matters: first what a taker reads, last the words. */
static uint32_t
publish(KPool *p, Part part, KPoolFn fn, void *arg, uint32_t nchunks)
{
	uint64_t	nthreads = (uint64_t) (part.end - part.first);
	uint32_t	grain = (nchunks + MAX_UNITS - 1) / MAX_UNITS,
				nunits = (nchunks + grain - 1) / grain;

	p->loop++;
	atomic_store_explicit(&p->done, 0, memory_order_release);
	atomic_store_explicit(&p->nunits, nunits, memory_order_release);
	atomic_store_explicit(&p->fn, fn, memory_order_release);
	atomic_store_explicit(&p->arg, arg, memory_order_release);
	atomic_store_explicit(&p->nchunks, nchunks, memory_order_release);
	atomic_store_explicit(&p->grain, grain, memory_order_release);
	for (uint64_t t = 0; t < nthreads; t++)
	{
		uint64_t	next = t * nunits / nthreads,
					end = (t + 1) * nunits / nthreads;

		atomic_store_explicit(&p->ranges[part.first + (int) t].word,
							  (uint64_t) p->loop << 32 | end << 16 | next, memory_order_release);
	}
	return nunits;
}

void
kpool_run(KPool *p, KPoolFn fn, void *arg, int nchunks)
{
	uint32_t	nunits;
	uint32_t	done;
	int64_t		until = 0;
	Part		part = {0, 1};

	if (p != NULL)
		part = part_of(p, atomic_load(&p->part));
	if (part.end - part.first == 1 || nchunks <= 1)
	{
		for (int i = 0; i < nchunks; i++)
			fn(arg, i, 0);
		return;
	}
	/* the part has changed since kpool_bind() */
	if (p->cpus != NULL && bound_cpu >= 0)
		kpool_bind(p);
	nunits = publish(p, part, fn, arg, (uint32_t) nchunks);
	wake_workers(p);
	work(p, 0, part.first);

	/* wait until the others finish their chunks */
	for (unsigned i = 1; (done = atomic_load(&p->done)) != nunits; i++)
	{
		relax();
		if (i % 64 != 0)
			continue;
		if (until == 0)
			until = now_ns() + p->spin_ns;
		else if (now_ns() > until)
		{
			atomic_store(&p->caller_sleeps, 1);
			futex_wait(&p->done, done);
			atomic_store(&p->caller_sleeps, 0);
		}
	}
}
