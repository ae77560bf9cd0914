/*
 * test_pool.c
 *	  Every chunk of every loop runs exactly once, whatever the sizes; threads begin with their own range
 *	  and take chunks of others; pinned threads stay on their CPU.
 *
 * Loops of changing length, function and argument follow each other without a pause, so that late
 * threads find the next loop while it is being prepared: a late thread must never take a chunk of it,
 * nor of the previous one.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/check.h"
#include "pool.h"

#define MAX_CHUNKS 64
#ifdef __SANITIZE_THREAD__
#define LOOPS 30000				/* each takes ten times as long */
#else
#define LOOPS 200000
#endif

typedef struct Loop
{
	int			id;
	atomic_int	ran[MAX_CHUNKS];
	atomic_int	wrong;
} Loop;

static void
run_even(void *arg, int chunk, int ith)
{
	Loop	   *l = arg;

	(void) ith;
	if (l->id % 2 != 0 || chunk < 0 || chunk >= MAX_CHUNKS)
		atomic_fetch_add(&l->wrong, 1);
	else
		atomic_fetch_add(&l->ran[chunk], 1);
}

static void
run_odd(void *arg, int chunk, int ith)
{
	Loop	   *l = arg;

	(void) ith;
	if (l->id % 2 != 1 || chunk < 0 || chunk >= MAX_CHUNKS)
		atomic_fetch_add(&l->wrong, 1);
	else
		atomic_fetch_add(&l->ran[chunk], 1);
}

static void
stress(int nthreads)
{
	KPool	   *p = kpool_new(nthreads);
	unsigned	x = 12345;
	int			bad = 0;
	Loop		loops[4];

	CHECK(p != NULL, "%d threads", nthreads);
	if (p == NULL)
		return;
	for (int i = 0; i < LOOPS; i++)
	{
		Loop	   *l = &loops[i % 4];
		int			n;

		x = x * 1664525 + 1013904223;
		n = 1 + (int) ((x >> 16) % (i % 3 == 0 ? 3 : MAX_CHUNKS));
		memset(l, 0, sizeof(*l));
		l->id = i;
		kpool_run(p, i % 2 ? run_odd : run_even, l, n);
		for (int c = 0; c < MAX_CHUNKS; c++)
			bad += atomic_load(&l->ran[c]) != (c < n);
		bad += atomic_load(&l->wrong);
		if (i % 997 == 0)
			usleep(100);		/* let the threads fall asleep */
	}
	CHECK(bad == 0, "%d chunks ran twice, never or in the wrong loop with %d threads", bad, nthreads);
	kpool_free(p);
}

/* ---- a part of the threads ---- */

typedef struct Changer
{
	KPool	   *p;
	int			nthreads;
	atomic_bool stop;
} Changer;

static void *
change_parts(void *arg)
{
	Changer    *c = arg;
	unsigned	x = 777;

	while (!atomic_load(&c->stop))
	{
		int			first;

		x = x * 1664525 + 1013904223;
		first = (int) ((x >> 16) % (unsigned) c->nthreads);
		x = x * 1664525 + 1013904223;
		kpool_use(c->p, first, (int) ((x >> 16) % (unsigned) (c->nthreads - first + 1)));
		if (x % 8 == 0)
			usleep(100);
	}
	return NULL;
}

/* Another thread changes the part all the time: every chunk runs once, and no two threads use one scratch. */
static void
parts_change(int nthreads)
{
	Changer		c = {.p = kpool_new(nthreads), .nthreads = nthreads};
	pthread_t	t;
	int			bad = 0;
	Loop		loop;

	CHECK(pthread_create(&t, NULL, change_parts, &c) == 0, "no thread");
	for (int i = 0; i < LOOPS / 4; i++)
	{
		int			n = 1 + i % MAX_CHUNKS;

		memset(&loop, 0, sizeof(loop));
		loop.id = i;
		kpool_run(c.p, i % 2 ? run_odd : run_even, &loop, n);
		for (int k = 0; k < MAX_CHUNKS; k++)
			bad += atomic_load(&loop.ran[k]) != (k < n);
		bad += atomic_load(&loop.wrong);
	}
	atomic_store(&c.stop, true);
	pthread_join(t, NULL);
	CHECK(bad == 0, "%d chunks ran twice, never or in the wrong loop with %d threads", bad, nthreads);
	kpool_free(c.p);
}

typedef struct Used
{
	atomic_int	inside[8];		/* functions that use this scratch now */
	atomic_int	ran[8];
	atomic_int	shared;
} Used;

static void
use_scratch(void *arg, int chunk, int ith)
{
	Used	   *u = arg;

	(void) chunk;
	if (atomic_fetch_add(&u->inside[ith], 1) != 0)
		atomic_fetch_add(&u->shared, 1);
	atomic_fetch_add(&u->ran[ith], 1);
	usleep(200);
	atomic_fetch_sub(&u->inside[ith], 1);
}

/*
 * Only the threads of the part run loops, once those that were awake have noticed, until the part is all
 * threads again.
 */
static void
parts(void)
{
	static const int part[][2] = {{0, 1}, {0, 2}, {2, 2}, {1, 3}, {3, 1}, {0, 0}};
	KPool	   *p = kpool_new(4);

	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++)
	{
		Used		u = {0};
		int			threads = 0;

		kpool_use(p, part[i][0], part[i][1]);
		for (int k = 0; k < 10; k++)
		{
			kpool_run(p, use_scratch, &u, 16);
			usleep(1000);
		}
		memset(&u, 0, sizeof(u));
		for (int k = 0; k < 10; k++)
			kpool_run(p, use_scratch, &u, 16);
		for (int t = 0; t < 4; t++)
		{
			bool		in = t == 0 || part[i][1] == 0 || (t > part[i][0] && t < part[i][0] + part[i][1]);

			threads += atomic_load(&u.ran[t]) > 0;
			CHECK(in || atomic_load(&u.ran[t]) == 0, "part %d, %d: thread %d is outside", part[i][0],
				  part[i][1], t);
		}
		CHECK(atomic_load(&u.shared) == 0, "two threads with one scratch");
		CHECK(part[i][1] == 1 ? threads == 1 : threads > 1, "part %d, %d: %d threads", part[i][0], part[i][1],
			  threads);
	}
	kpool_free(p);
}

/* ---- which thread runs what ---- */

#define MAX_THREADS 8

typedef struct Share
{
	int			nthreads;
	int			nchunks;
	int			slow;			/* index of a slow thread; -1 = none */
	bool		meet;			/* the first chunks wait for each other */
	atomic_int	here;
	int			first[MAX_THREADS]; /* [ith] first chunk, -1 = none */
	int			last[MAX_THREADS];
	int			ran[MAX_THREADS];
	int			stolen[MAX_THREADS];	/* part of ran: chunks of other threads' ranges */
	int			stepped_back[MAX_THREADS];	/* own chunks not in ascending order */
	int			cpu[MAX_THREADS];
} Share;

static void
share_chunk(void *arg, int chunk, int ith)
{
	Share	   *s = arg;
	int			lo = ith * s->nchunks / s->nthreads,
				hi = (ith + 1) * s->nchunks / s->nthreads;

	if (s->first[ith] < 0)
	{
		s->first[ith] = chunk;
		if (s->meet)
			for (atomic_fetch_add(&s->here, 1); atomic_load(&s->here) < s->nthreads;)
				sched_yield();
	}
	s->cpu[ith] = sched_getcpu();
	s->ran[ith]++;
	if (chunk < lo || chunk >= hi)
		s->stolen[ith]++;
	else
	{
		s->stepped_back[ith] += chunk < s->last[ith];
		s->last[ith] = chunk;
	}
	if (ith == s->slow)
		usleep(10000);
}

static void
share_run(KPool *p, Share *s, int nchunks, int slow, bool meet)
{
	*s = (Share) {.nthreads = kpool_nthreads(p), .nchunks = nchunks, .slow = slow, .meet = meet};
	for (int t = 0; t < MAX_THREADS; t++)
		s->first[t] = s->last[t] = s->cpu[t] = -1;
	kpool_run(p, share_chunk, s, nchunks);
}

static void
own_ranges(int nthreads)
{
	KPool	   *p = kpool_new(nthreads);
	Share		s;

	for (int n = 2 * nthreads; n < 200; n += 13)
	{
		int			bad = 0,
					total = 0;

		share_run(p, &s, n, -1, true);
		for (int t = 0; t < nthreads; t++)
		{
			bad += s.first[t] != t * n / nthreads || s.stepped_back[t] > 0;
			total += s.ran[t];
		}
		CHECK(bad == 0 && total == n, "%d threads, %d chunks: %d don't begin with their range, %d chunks in "
									  "all",
			  nthreads, n, bad, total);
	}
	kpool_free(p);
}

/* One thread is slow, the caller or a worker: others take the chunks that it does not get to. */
static void
stealing(int nthreads, int slow)
{
	KPool	   *p = kpool_new(nthreads);
	Share		s;
	int			stolen = 0;

	share_run(p, &s, 32 * nthreads, slow, true);
	for (int t = 0; t < nthreads; t++)
		if (t != slow)
			stolen += s.stolen[t];
	CHECK(s.ran[slow] < 32 && stolen >= 32 - s.ran[slow] && stolen > 0,
		  "%d threads: thread %d, slow, ran %d of its 32 chunks, others took %d", nthreads, slow,
		  s.ran[slow], stolen);
	kpool_free(p);
}

static void
count_chunk(void *arg, int chunk, int ith)
{
	(void) ith;
	atomic_fetch_add(&((_Atomic unsigned char *) arg)[chunk], 1);
}

/* more chunks than a range can count */
static void
large_loops(void)
{
	static _Atomic unsigned char ran[300000];
	static const int sizes[] = {65534, 65535, 65536, 131070, 131071, 300000};
	KPool	   *p = kpool_new(3);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		int			bad = 0;

		memset(ran, 0, sizeof(ran));
		kpool_run(p, count_chunk, ran, sizes[i]);
		for (int c = 0; c < 300000; c++)
			bad += atomic_load(&ran[c]) != (c < sizes[i]);
		CHECK(bad == 0, "%d of %d chunks not run exactly once", bad, sizes[i]);
	}
	kpool_free(p);
}

static void
pinned(void)
{
	cpu_set_t	before,
				after;
	int			cpus[MAX_THREADS],
				n = 0;
	KPool	   *p;
	Share		s;

	sched_getaffinity(0, sizeof(before), &before);
	for (int c = 0; c < CPU_SETSIZE && n < MAX_THREADS; c++)
		if (CPU_ISSET(c, &before))
			cpus[n++] = c;
	for (int i = 0; i < n / 2; i++)	/* in any order */
	{
		int			c = cpus[i];

		cpus[i] = cpus[n - 1 - i];
		cpus[n - 1 - i] = c;
	}
	if (n < 2)
	{
		check_skip(2, "one CPU only");
		return;
	}
	p = kpool_new_on(n, cpus);
	kpool_bind(p);
	for (int i = 0; i < 20; i++)
	{
		int			bad = 0;

		share_run(p, &s, 4 * n, -1, true);
		for (int t = 0; t < n; t++)
			bad += s.cpu[t] != cpus[t];
		CHECK(bad == 0, "%d of %d pinned threads ran elsewhere", bad, n);
	}
	/* the caller is the part's first thread */
	kpool_use(p, n - 1, 1);
	kpool_bind(p);
	CHECK(sched_getcpu() == cpus[n - 1], "the caller runs on CPU %d, not %d", sched_getcpu(), cpus[n - 1]);
	kpool_use(p, 0, 0);
	share_run(p, &s, 4 * n, -1, true);
	CHECK(s.cpu[0] == cpus[0] && sched_getcpu() == cpus[0], "with all threads it is on its CPU again");
	kpool_bind(NULL);
	sched_getaffinity(0, sizeof(after), &after);
	CHECK(CPU_EQUAL(&before, &after), "the caller is free again");
	kpool_free(p);
}

int
main(void)
{
	for (int n = 2; n <= 5; n++)
	{
		RUN(own_ranges(n));
		RUN(stealing(n, 0));
		RUN(stealing(n, n - 1));
	}
	RUN(large_loops());
	RUN(pinned());
	RUN(parts());
	for (int n = 2; n <= 5; n++)
		RUN(parts_change(n));
	for (int n = 1; n <= 6; n++)
		RUN(stress(n));
	return check_done("pool");
}
