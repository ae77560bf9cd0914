/*
 * kvtier_io.c
 *	  The offload tier's thread.
 *
 * It does one thing at a time, without the lock, and then looks what is most urgent: a read somebody waits for, a file
 * that must go, an entry to be written, memory to be given back.
 *
 * Tested by tests/unit/test_kvtier.c.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/mem.h"
#include "engine/kvtier_int.h"

bool
tier_wants_write(const KvTier *t)
{
	(void) t;
	return false;
}

/* Something has been done; false: there was nothing to do. */
static bool
work(KvTier *t)
{
	MArena		area;

	if (tier_sweep(t))
		return true;
	if (tier_take_idle_area(t, &area))
	{
		pthread_mutex_unlock(&t->lock);
		marena_free(&area);
		pthread_mutex_lock(&t->lock);
		return true;
	}
	return false;
}

static void *
tier_main(void *arg)
{
	KvTier	   *t = arg;

	pthread_mutex_lock(&t->lock);
	while (!t->stop)
		if (!work(t))
		{
			tier_drop_models(t);
			pthread_cond_wait(&t->more, &t->lock);
		}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

bool
tier_start(KvTier *t, Err *e)
{
	sigset_t	all;
	sigset_t	old;
	int			r;

	if (t->o.directory != NULL)
		return err_set(e, ERR_UNSUPPORTED, "the KV cache's offload tier has no files yet");
	if (getrandom(t->secret, sizeof(t->secret), 0) != (ssize_t) sizeof(t->secret))
		return err_set(e, ERR_INTERNAL, "could not get random numbers: %m");
	/* signals are for others */
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	sigdelset(&all, SIGABRT);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&t->thread, NULL, tier_main, t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r != 0)
		return err_set(e, ERR_NOMEM, "could not start a thread: %s", strerror(r));
	t->started = true;
	pthread_setname_np(t->thread, "kv tier");
	return true;
}

void
tier_stop(KvTier *t)
{
	if (!t->started)
		return;
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
}
