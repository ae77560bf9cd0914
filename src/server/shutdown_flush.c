/*
 * shutdown_flush.c
 *	  Shutdown of the engine (shutdown_flush.h).
 *
 * The step thread owns the blocks, so a job on it puts them into the store between two steps; the
 * store's own thread writes them to files.  The shutdown waits for both, but not for a step that hangs.
 *
 * Tested by tests/t/099_offload_restart.pl.
 */
#include "server/shutdown_flush.h"

#include <pthread.h>
#include <time.h>

#include "base/clock.h"

typedef struct ShutdownFlush
{
	Job			j;
	Step	   *step;
	int64_t		deadline_us;
	pthread_mutex_t lock;
	pthread_cond_t over;
	bool		done;
} ShutdownFlush;

static void
keep_run(Job *j)
{
	ShutdownFlush *k = (ShutdownFlush *) j;

	step_keep(k->step, k->deadline_us);
	pthread_mutex_lock(&k->lock);
	k->done = true;
	pthread_cond_signal(&k->over);
	pthread_mutex_unlock(&k->lock);
}

static void
keep_done(Job *j)
{
	(void) j;
}

void
keep_all(Step *s, const Backend *be)
{
	/* static, because the job may still be queued when the wait times out */
	static ShutdownFlush k = {.j = {.run = keep_run,.done = keep_done},.lock = PTHREAD_MUTEX_INITIALIZER};
	pthread_condattr_t attr;
	struct timespec ts;

	if (be->control->flush_kv_to_tier == NULL || !be->control->has_tier_files())
		return;
	k.step = s;
	k.deadline_us = clock_us() + KEEP_US;
	ts = (struct timespec) {.tv_sec = k.deadline_us / 1000000,.tv_nsec = k.deadline_us % 1000000 * 1000};
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&k.over, &attr);
	step_run(s, &k.j);
	pthread_mutex_lock(&k.lock);
	while (!k.done && pthread_cond_timedwait(&k.over, &k.lock, &ts) == 0)
		;
	pthread_mutex_unlock(&k.lock);
	be->control->flush_tier(k.deadline_us);
}
