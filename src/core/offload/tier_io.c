/*
 * tier_io.c
 *	  The offload tier's thread.
 *
 * It does one thing at a time, without the lock, and then chooses the most urgent next one: an entry to
 * read, a file to remove, an entry to write, memory to return to the system.  So operations on one key
 * never overlap, and only this file accesses the tier's files.
 *
 *	state		means								until
 *	KVF_LOCKED	another process uses the directory,	it can be opened and locked: tried each second
 *				or it does not exist
 *	KVF_OPENING	the files are being scanned			the scan ends
 *	KVF_READY
 *	KVF_DOWN	a write has failed					a write succeeds: tried after 1, 2, 4 ... 60 seconds
 *
 * Tested by tests/unit/core/offload/test_kvtier.c.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/alloc.h"
#include "core/offload/tier_file.h"
#include "core/offload/tier_internal.h"

#define SECOND INT64_C(1000000)
#define MAX_PAUSE (60 * SECOND)
#define LOG_EVERY (60 * SECOND)
#define MAX_FILES ((size_t) 1 << 20)	/* their entries take 250 MB of memory */
#define BATCH 256				/* entries processed under one lock */
#define YIELD_US 20
#define READS_IN_A_ROW 4		/* before a write gets a turn */
#define RATE_WEIGHT 0.125		/* weight of the newest measurement */

/* ---- when ---- */

static bool
writable(const KvTier *t, int64_t now)
{
	return t->stats.files == KVF_READY || (t->stats.files == KVF_DOWN && now >= t->retry_us);
}

/*
 * Return true if there is an entry to write now: enough memory must be free, or written to files, that a
 * quarter of it is available at once.
 */
static bool
wants_write(const KvTier *t, int64_t now)
{
	size_t		ready = t->o.memory_bytes - t->used_bytes + t->cool_bytes;

	return t->lists[L_DIRTY].n > 0 && (t->flushing > 0 || t->eager || ready < t->o.memory_bytes / 4) &&
		writable(t, now);
}

bool
tier_wants_write(const KvTier *t)
{
	return wants_write(t, clock_us());
}

static void
measure(double *rate, size_t bytes, int64_t ns)
{
	double		now = (double) bytes * 1e9 / (double) (ns > 0 ? ns : 1);

	*rate = *rate > 0 ? *rate + RATE_WEIGHT * (now - *rate) : now;
}

/*
 * Called in long operations under the lock: let a waiting thread take it.  Unlocking alone would not
 * ensure that.
 */
static void
yield_lock(KvTier *t)
{
	pthread_mutex_unlock(&t->lock);
	usleep(YIELD_US);
	pthread_mutex_lock(&t->lock);
}

/* Log a failure, at most once a minute.  Call it without the lock. */
static void
complain(KvTier *t, const char *what, const char *why)
{
	int64_t		now = clock_us();

	if (t->complained_us != 0 && now - t->complained_us < LOG_EVERY)
		return;
	t->complained_us = now;
	log_line('W', "KV cache offload: could not %s in directory \"%s\": %s; the engine continues without the "
				  "directory", what,
			 t->o.directory, why);
}

static const char *
reason(int why)
{
	return why == EBADMSG ? "it is damaged" : strerror(why);
}

/* ---- files ---- */

/* Open the folder of a model; returns 0 or an errno. */
static int
open_model(KvTier *t, KvTierModel *m, bool create)
{
	if (m->dir >= 0 && !kvfile_dir_alive(m->dir))
	{
		close(m->dir);
		m->dir = -1;
	}
	return m->dir >= 0 ? 0 : kvfile_open_model(t->dir, m->id, m->bytes, create, &m->dir);
}

/* Call it without the lock; a missing file is no error. */
static int
remove_file(KvTier *t, KvTierModel *m, const unsigned char *key)
{
	int			why = open_model(t, m, false);

	if (why == 0)
		why = kvfile_remove(m->dir, key);
	if (why == ENOENT)
		return 0;
	if (why != 0)
		complain(t, "remove a file", reason(why));
	return why;
}

/* The directory has been removed: forget its files, and open it again when it is back. */
static void
lose_files(KvTier *t)
{
	Entry	   *e;
	int			n = 0;

	t->stats.files = KVF_LOCKED;
	t->shut_epoch = t->epoch;
	t->retry_us = clock_us() + SECOND;
	while ((e = t->filed.tail) != NULL || (e = t->lists[L_DROPPED].tail) != NULL)
	{
		if (e->dropped)
			tier_list_remove(t, e);
		tier_drop_file(t, e);
		if (e->dropped || (e->at == NULL && !e->reading))
			tier_settle(t, e, L_NONE);
		if (++n % BATCH == 0)
			yield_lock(t);
	}
	t->file_bytes = 0;
	for (KvTierModel *m = t->models; m != NULL; m = m->next)
		if (m->dir >= 0)
		{
			close(m->dir);
			m->dir = -1;
		}
	close(t->lock_fd);
	close(t->dir);
	t->lock_fd = t->dir = -1;
}

/* Report that some fetches have ended. */
static void
notify(KvTier *t)
{
	t->must_notify = false;
	if (t->o.notify == NULL)
		return;
	pthread_mutex_unlock(&t->lock);
	t->o.notify(t->o.notify_ctx);
	pthread_mutex_lock(&t->lock);
}

static void
read_one(KvTier *t)
{
	Entry	   *e = t->lists[L_READ].tail;
	KvTierModel *m = e->model;
	int64_t		began;
	int			why;

	/* it has memory to read into, which is not freed meanwhile */
	ALWAYS(e->at != NULL && e->reading);
	tier_list_remove(t, e);
	pthread_mutex_unlock(&t->lock);
	began = clock_ns();
	why = t->dir >= 0 ? open_model(t, m, false) : ENOENT;
	if (why == 0)
		why = kvfile_read(m->dir, m->id, e->key, e->at, m->bytes);
	began = clock_ns() - began;
	if (why != 0 && why != ENOENT)
		complain(t, "use a file", reason(why));
	pthread_mutex_lock(&t->lock);
	if (why == 0)
	{
		t->stats.n_read++;
		t->stats.read_bytes += m->bytes;
		measure(&t->stats.read_rate, m->bytes, began);
		t->read_at_us = clock_us();
	}
	t->stats.n_damaged += why == EBADMSG;
	t->stats.n_errors += why != 0 && why != EBADMSG && why != ENOENT;
	tier_read_done(t, e, why == 0);
	t->reads_in_a_row++;
	notify(t);
}

static void
remove_dropped(KvTier *t)
{
	Entry	   *e = t->lists[L_DROPPED].tail;
	int			why;

	/* it has a file, so it is not freed meanwhile */
	tier_list_remove(t, e);
	pthread_mutex_unlock(&t->lock);
	why = remove_file(t, e->model, e->key);
	pthread_mutex_lock(&t->lock);
	t->stats.n_errors += why != 0;
	t->file_bytes -= kvfile_size(e->model->bytes);
	tier_drop_file(t, e);
	tier_settle(t, e, L_NONE);
}

/* Remove the least recently used file. */
static void
remove_oldest(KvTier *t)
{
	Entry	   *e = t->filed.tail;
	KvTierModel *m = e->model;
	unsigned char key[KVTIER_KEY];
	int			why;

	memcpy(key, e->key, KVTIER_KEY);
	tier_drop_file(t, e);
	if (e->at == NULL)
		tier_settle(t, e, L_NONE);
	pthread_mutex_unlock(&t->lock);
	why = remove_file(t, m, key);
	pthread_mutex_lock(&t->lock);
	t->stats.n_removed++;
	t->stats.n_errors += why != 0;
	t->file_bytes -= kvfile_size(m->bytes);
}

static void
write_failed(KvTier *t, int why)
{
	bool		alive;

	pthread_mutex_unlock(&t->lock);
	complain(t, "write a file", reason(why));
	alive = kvfile_dir_alive(t->dir);
	pthread_mutex_lock(&t->lock);
	t->stats.n_errors++;
	if (!alive)
	{
		lose_files(t);
		return;
	}
	t->pause_us = t->pause_us == 0 ? SECOND : t->pause_us * 2 < MAX_PAUSE ? t->pause_us * 2 : MAX_PAUSE;
	t->retry_us = clock_us() + t->pause_us;
	t->stats.files = KVF_DOWN;
}

static void
write_one(KvTier *t)
{
	Entry	   *e = t->lists[L_DIRTY].tail;
	KvTierModel *m = e->model;
	uint64_t	size = kvfile_size(m->bytes);
	uint64_t	used = e->used;
	int64_t		began;
	bool		shed;
	int			why;

	t->reads_in_a_row = 0;
	if (t->filed.n > 0 && (t->file_bytes + size > t->o.disk_bytes || t->filed.n >= MAX_FILES))
	{
		remove_oldest(t);
		return;
	}
	tier_list_remove(t, e);
	if (size > t->o.disk_bytes)
	{
		tier_written(t, e);		/* it can't be written */
		tier_settle(t, e, L_WARM);
		return;
	}
	e->writing = true;
	t->writing = e;
	pthread_mutex_unlock(&t->lock);
	began = clock_ns();
	if ((why = open_model(t, m, true)) == 0)
		why = kvfile_write(m->dir, m->id, e->key, e->at, m->bytes);
	began = clock_ns() - began;
	pthread_mutex_lock(&t->lock);
	e->writing = false;
	t->writing = NULL;
	if (why == 0)
	{
		t->stats.files = KVF_READY;
		t->pause_us = 0;
		t->stats.n_written++;
		t->stats.written_bytes += m->bytes;
		measure(&t->stats.write_rate, m->bytes, began);
		t->file_bytes += size;
		tier_written(t, e);
		tier_add_file(t, e, true);
	}
	shed = why == 0 && m->shedding && !e->dropped;
	tier_settle(t, e, e->used == used ? L_COOL : L_WARM);
	if (shed && e->list != L_NONE)
		tier_evict(t, e);
	if (why != 0)
		write_failed(t, why);
	pthread_cond_broadcast(&t->done);
}

/* ---- opening the directory ---- */

static bool
stopping(void *ctx)
{
	KvTier	   *t = ctx;
	bool		stop;

	pthread_mutex_lock(&t->lock);
	stop = t->stop;
	pthread_mutex_unlock(&t->lock);
	return stop;
}

/* Add an entry for a file of an earlier start. */
static void
take_up(KvTier *t, const KvFound *f, uint64_t epoch)
{
	KvTierModel *m = tier_model(t, f->id, f->bytes);
	Entry	   *e = tier_lookup(t, m, f->key);

	if (e != NULL && e->has_file)
		return;
	t->file_bytes += kvfile_size(f->bytes);
	if (e == NULL)
	{
		e = tier_new_entry(t, m, f->key);
		e->epoch = epoch;
		tier_add_file(t, e, false);
		if (epoch < m->epoch)
			tier_forget(t, e);
		return;
	}
	/* the same block has been put meanwhile */
	tier_written(t, e);
	tier_add_file(t, e, false);
	if (e->list == L_DIRTY)
	{
		tier_list_remove(t, e);
		tier_settle(t, e, L_WARM);
	}
}

static void
scan(KvTier *t)
{
	KvFound    *found = NULL;
	size_t		n = 0;
	int			why;

	t->stats.files = KVF_OPENING;
	pthread_mutex_unlock(&t->lock);
	why = kvfile_scan(t->dir, MAX_FILES, stopping, t, &found, &n);
	if (why != 0)
		complain(t, "look for files", reason(why));
	pthread_mutex_lock(&t->lock);
	t->stats.n_errors += why != 0;
	tier_reserve(t, n);
	for (size_t i = 0; i < n; i++)
	{
		take_up(t, &found[i], t->shut_epoch);
		if (i % BATCH == 0)
			yield_lock(t);
	}
	mem_free(found);
	t->pause_us = 0;
	t->stats.files = KVF_READY;
	pthread_mutex_unlock(&t->lock);
	log_line('I', "KV cache offload: directory \"%s\" has %zu blocks", t->o.directory, n);
	pthread_mutex_lock(&t->lock);
}

/* Call it without the lock.  Returns 0 if the directory exists and is locked now. */
static int
lock_directory(KvTier *t)
{
	unsigned char secret[KVTIER_KEY];
	Err			e;
	int			why;

	if (t->dir < 0 && (t->dir = kvfile_open_dir(t->o.directory, &e)) >= 0 &&
		!kvfile_secret(t->dir, t->o.directory, t->secret, secret, &e))
	{
		close(t->dir);
		t->dir = -1;
	}
	if (t->dir < 0)
	{
		complain(t, "open files", e.msg);
		return ENOENT;
	}
	why = kvfile_lock(t->dir, &t->lock_fd);
	if (why != 0 && why != EWOULDBLOCK)
		complain(t, "lock files", reason(why));
	if (why == EWOULDBLOCK && !t->logged_locked)
		log_line('I', "KV cache offload: another engine uses directory \"%s\"; until it ends, this engine "
					  "offloads to memory only", t->o.directory);
	t->logged_locked = why == EWOULDBLOCK;
	return why;
}

/* Open the directory that kvtier_open() has checked, or that has come back. */
static void
try_open(KvTier *t)
{
	int			why;

	t->retry_us = clock_us() + SECOND;
	t->trying = true;
	pthread_mutex_unlock(&t->lock);
	why = lock_directory(t);
	pthread_mutex_lock(&t->lock);
	t->stats.n_errors += why != 0 && why != EWOULDBLOCK;
	if (why == 0)
		scan(t);
	t->trying = false;
}

/* ---- the thread ---- */

static void
give_back(KvTier *t, MArena *area)
{
	pthread_mutex_unlock(&t->lock);
	marena_free(area);
	pthread_mutex_lock(&t->lock);
}

/* Do one thing; returns false if there was nothing to do. */
static bool
work(KvTier *t)
{
	int64_t		now = clock_us();
	bool		open = t->stats.files >= KVF_READY;
	MArena		area;

	if (t->lists[L_READ].n > 0 && (t->reads_in_a_row < READS_IN_A_ROW || !wants_write(t, now)))
		read_one(t);
	else if (t->lists[L_DROPPED].n > 0 && open)
		remove_dropped(t);
	else if (t->stats.files == KVF_LOCKED && now >= t->retry_us)
		try_open(t);
	else if (open && t->file_bytes > t->o.disk_bytes && t->filed.n > 0)
		remove_oldest(t);
	else if (t->must_notify)
		notify(t);
	else if (tier_sweep(t))
		yield_lock(t);
	else if (wants_write(t, now))
		write_one(t);
	else if (tier_take_idle_area(t, &area))
		give_back(t, &area);
	else
		return false;
	return true;
}

static void *
tier_main(void *arg)
{
	KvTier	   *t = arg;
	struct timespec ts;

	pthread_mutex_lock(&t->lock);
	while (!t->stop)
	{
		if (work(t))
			continue;
		tier_drop_models(t);
		t->reads_in_a_row = 0;
		pthread_cond_broadcast(&t->done);
		ts = (struct timespec) {.tv_sec = t->retry_us / SECOND,.tv_nsec = t->retry_us % SECOND * 1000};
		if (t->stats.files == KVF_LOCKED || (t->stats.files == KVF_DOWN && clock_us() < t->retry_us))
			pthread_cond_timedwait(&t->more, &t->lock, &ts);
		else
			pthread_cond_wait(&t->more, &t->lock);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* Open the directory, if one is set, and read its secret. */
static bool
open_directory(KvTier *t, Err *e)
{
	unsigned char random[KVTIER_KEY];

	if (getrandom(random, sizeof(random), 0) != (ssize_t) sizeof(random))
		return err_set(e, ERR_INTERNAL, "could not get random numbers: %m");
	memcpy(t->secret, random, KVTIER_KEY);
	if (t->o.directory == NULL)
		return true;
	t->stats.files = KVF_LOCKED;
	t->dir = kvfile_open_dir(t->o.directory, e);
	return t->dir >= 0 && kvfile_secret(t->dir, t->o.directory, random, t->secret, e);
}

bool
tier_start(KvTier *t, Err *e)
{
	sigset_t	all;
	sigset_t	old;
	int			r;

	t->dir = t->lock_fd = -1;
	if (!open_directory(t, e))
		return false;
	/* other threads handle signals; exceeding a limit of file sizes must only be an error */
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
	if (t->started)
	{
		pthread_mutex_lock(&t->lock);
		t->stop = true;
		pthread_cond_signal(&t->more);
		pthread_mutex_unlock(&t->lock);
		pthread_join(t->thread, NULL);
	}
	for (KvTierModel *m = t->models; m != NULL; m = m->next)
		if (m->dir >= 0)
			close(m->dir);
	if (t->lock_fd >= 0)
		close(t->lock_fd);
	if (t->dir >= 0)
		close(t->dir);
}
