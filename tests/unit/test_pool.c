/*
 * test_pool.c
 *	  Every chunk of every loop runs exactly once, whatever the sizes.
 *
 * Loops of changing length, function and argument follow each other without a
 * pause, so that threads which come late meet the next loop while it is being
 * prepared: a late thread must never take a chunk of it, nor of the one before.
 */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "pool.h"

#define MAX_CHUNKS 64
#define LOOPS 200000

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

int
main(void)
{
	alarm(120);					/* a loop that never ends is a failure, too */
	for (int n = 1; n <= 6; n++)
		stress(n);
	return check_done("pool");
}
