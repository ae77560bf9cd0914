/*
 * worker_crash.c
 *	  Counting the crashes of workers by job.
 *
 * If a job's code makes a process crash, PostgreSQL restarts, the worker starts again and claims the
 * same row, and PostgreSQL restarts again, for all users and for ever.  So a job at which workers
 * have crashed JOBS_CRASHES times within MEMORY is set aside (worker.c).
 *
 * This information must survive the loss of shared memory, and must be recorded before the job's code
 * runs.  It is in a file that workers have mapped: a store there is in the kernel's page cache at
 * once, without a system call and without a flush, and survives any process (but not the machine,
 * whose failure is not a job's fault).
 *
 *	at		for each running worker: the job that it runs, 0 = none
 *	seen	jobs at which workers have crashed
 *
 * The mark is removed at an exit, and by SIGQUIT: PostgreSQL sends that to all processes when another
 * one has crashed.  So a remaining mark means that the worker died of a signal of its own, or was
 * killed.
 *
 * Tests: tests/t/065_jobs_hostile.pl.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libpq/pqsignal.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/fd.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#include "base/assert.h"
#include "pg/jobs/job_launcher.h"
#include "pg/jobs/job_worker.h"

#define CRASH_FILE	PGSTAT_STAT_PERMANENT_DIRECTORY "/vllm_pg.jobs"
/* changes with the layout of the file */
#define MAGIC		0x766a0001
/* workers, and jobs that are remembered; when full, the oldest is overwritten */
#define MAX_AT		1024
#define MAX_SEEN	256
/* ms */
#define MEMORY		3600000

typedef struct At
{
	Oid			dbid;			/* InvalidOid: unused */
	volatile int32 job;
} At;

typedef struct Seen
{
	Oid			dbid;			/* InvalidOid: unused */
	int32		job;
	int32		crashes;
	TimestampTz last;
} Seen;

typedef struct CrashFile
{
	uint32		magic;
	At			at[MAX_AT];
	Seen		seen[MAX_SEEN];
} CrashFile;

/* NULL: the file could not be mapped, and nothing is remembered */
static CrashFile *file = NULL;
static At  *mine = NULL;
static Oid	my_database = InvalidOid;

static CrashFile *
map_file(void)
{
	int			fd = BasicOpenFile(CRASH_FILE, O_RDWR | O_CREAT | PG_BINARY);
	void	   *p = MAP_FAILED;

	/*
	 * the blocks are allocated before they are written, because a write to the mapping on a full disk
	 * would raise a signal
	 */
	if (fd >= 0 && (errno = posix_fallocate(fd, 0, sizeof(CrashFile))) == 0)
		p = mmap(NULL, sizeof(CrashFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not map file \"%s\": %m", CRASH_FILE),
				 errdetail("A job that crashes its workers will not be set to failed.")));
	if (fd >= 0)
		(void) close(fd);
	return p == MAP_FAILED ? NULL : p;
}

/* Return the database's entry, which a crashed worker may have left, or an unused one. */
static At *
find_place(Oid dbid)
{
	At		   *unused = NULL;

	for (int i = 0; i < MAX_AT; i++)
	{
		if (file->at[i].dbid == dbid)
			return &file->at[i];
		if (!OidIsValid(file->at[i].dbid) && unused == NULL)
			unused = &file->at[i];
	}
	return unused;
}

static bool
is_past(const Seen *s)
{
	return !OidIsValid(s->dbid) || TimestampDifferenceExceeds(s->last, GetCurrentTimestamp(), MEMORY);
}

static Seen *
find_seen(int32 job)
{
	for (int i = 0; i < MAX_SEEN; i++)
		if (file->seen[i].dbid == my_database && file->seen[i].job == job && !is_past(&file->seen[i]))
			return &file->seen[i];
	return NULL;
}

static void
count_crash(int32 job)
{
	Seen	   *s = find_seen(job);

	if (s == NULL)
	{
		s = &file->seen[0];
		for (int i = 1; i < MAX_SEEN && !is_past(s); i++)
			if (is_past(&file->seen[i]) || file->seen[i].last < s->last)
				s = &file->seen[i];
		s->dbid = my_database;
		s->job = job;
		s->crashes = 0;
	}
	s->crashes++;
	s->last = GetCurrentTimestamp();
}

/* SIGQUIT: another process has crashed, or the server stops immediately. */
static void
quit(SIGNAL_ARGS)
{
	jobs_crash_mark(0);
	SignalHandlerForCrashExit(postgres_signal_arg);
}

void
jobs_crash_open(Oid dbid, LWLock *lock)
{
	/* once for each worker: a second entry would keep its mark for ever */
	ASSERT(file == NULL && mine == NULL);
	file = map_file();
	if (file == NULL)
		return;
	my_database = dbid;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (file->magic != MAGIC)
	{
		memset(file, 0, sizeof(CrashFile));
		file->magic = MAGIC;
	}
	mine = find_place(dbid);
	if (mine != NULL)
	{
		if (mine->dbid == dbid && mine->job != 0)
			count_crash(mine->job);
		mine->job = 0;
		mine->dbid = dbid;
	}
	LWLockRelease(lock);
	pqsignal(SIGQUIT, quit);
}

/* Clear the job first: the entry may get a new owner as soon as dbid is cleared. */
void
jobs_crash_close(void)
{
	jobs_crash_mark(0);
	if (mine != NULL)
		mine->dbid = InvalidOid;
	mine = NULL;
}

void
jobs_crash_mark(int32 job)
{
	if (mine != NULL)
		mine->job = job;
}

/*
 * Only the database's own worker, this process, writes its entries; others may overwrite entries that
 * have expired.
 */
int
jobs_crash_times(int32 job)
{
	const Seen *s = file ? find_seen(job) : NULL;

	return s ? s->crashes : 0;
}

void
jobs_crash_forget(int32 job)
{
	Seen	   *s = file ? find_seen(job) : NULL;

	if (s != NULL)
		s->dbid = InvalidOid;
}
