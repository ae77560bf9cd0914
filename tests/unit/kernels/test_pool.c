/*
 * test_pool.c
 *	  Every chunk of every loop runs exactly once, whatever the sizes; threads
 *	  begin with their own range and help each other; pinned threads stay put.
 *
 * Loops of changing length, function and argument follow each other without a
 * pause, so that threads which come late meet the next loop while it is being
 * prepared: a late thread must never take a chunk of it, nor of the one before.
 */
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

/* ---- who runs what ---- */

#define MAX_THREADS 8

typedef struct Share
{
	int			nthreads;
	int			nchunks;
	int			slow;			/* this thread takes its time; -1 = none */
	bool		meet;			/* first chunks wait for each other */
	atomic_int	here;
	int			first[MAX_THREADS]; /* [ith] first chunk, -1 = none */
	int			last[MAX_THREADS];
	int			ran[MAX_THREADS];
	int			stolen[MAX_THREADS];	/* of those, from others' ranges */
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

/* One thread is slow, the caller or a worker: others take what it can't get to. */
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
	for (int i = 0; i < n / 2; i++)	/* any order will do */
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
	for (int n = 1; n <= 6; n++)
		RUN(stress(n));
	return check_done("pool");
}
