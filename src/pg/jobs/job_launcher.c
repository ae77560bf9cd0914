/*
 * job_launcher.c
 *	  The launcher of the job workers, and waking of workers.
 *
 * A worker serves one database and ends when it has had no work for a while.  The launcher starts the
 * workers, at most vllm.job_workers at once.  If more databases than that have work, a worker that
 * has run for TURN ms ends when others wait.  The launcher runs only on a primary (RecoveryFinished),
 * so jobs rest on a standby and start when it is promoted.
 *
 *	entry of a database		set by
 *	wanted					a commit that leaves work to do; a worker that exits with work left
 *	starting				launcher: a worker was started and has not registered yet
 *	pid, procno				the worker, until it exits
 *	leave					DROP DATABASE and similar statements
 *	stopped					a worker that ended itself because of this job's code
 *	not_before				no worker is started before this time
 *
 * After a start of the server it is not known which databases have work left, so the launcher starts
 * a worker for every database once; where there are no jobs it exits at once.
 *
 * If a worker is killed with SIGKILL, PostgreSQL restarts, as with any process that is attached to
 * shared memory; the queue is a table and loses nothing.
 *
 * Tests: tests/t/060_jobs.pl, 061_jobs_kill.pl, 062_jobs_standby.pl.
 */
#include "postgres.h"

#include <signal.h>
#include <unistd.h>

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/assert.h"
#include "pg/jobs/job_launcher.h"
#include "pg/jobs/job_worker.h"
#include "pg/compat.h"
#include "pg/jobs/job.h"
#include "pg/vllm_pg.h"

/* databases with work waiting at the same time */
#define MAX_DATABASES	1024
/* ms after which a worker that has not registered counts as failed */
#define START_TIMEOUT	10000
/* ms from a failed start to the next */
#define START_RETRY		10000
/* ms that a database keeps its worker while others wait for one */
#define TURN			30000
/* ms that no worker is started for a database that another session needs without sessions */
#define STAY_AWAY		10000

typedef struct JobDatabase
{
	Oid			dbid;			/* InvalidOid: unused */
	JobsGeneration generation;
	bool		wanted;
	bool		leave;
	int32		stopped;		/* 0 = none */
	int			pid;			/* 0 = no worker runs */
	int			procno;
	TimestampTz starting;		/* 0 = none is starting */
	TimestampTz entered;
	TimestampTz not_before;
} JobDatabase;

typedef struct JobsShared
{
	LWLock	   *lock;
	int			launcher_procno;
	int			launcher_pid;	/* 0 = none */
	int			n;
	JobDatabase db[MAX_DATABASES];
} JobsShared;

static JobsShared *jobs = NULL;

/* in a worker: its entry, and the state that it leaves at its exit */
static JobDatabase *mine = NULL;
static JobsGeneration seen_generation;
static bool work_left = true;

static bool wake_pending = false;
static bool change_pending = false;
static ProcessUtility_hook_type prev_process_utility = NULL;

Size
jobs_shared_size(void)
{
	return sizeof(JobsShared);
}

void
jobs_shared_init(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	jobs = ShmemInitStruct("vllm_pg jobs", jobs_shared_size(), &found);
	if (!found)
	{
		memset(jobs, 0, sizeof(JobsShared));
		jobs->lock = &(GetNamedLWLockTranche("vllm_pg_jobs"))->lock;
	}
	LWLockRelease(AddinShmemInitLock);
}

/*
 * Find the entry of a database; with make, create it.  Return NULL if there is none, or no unused
 * entry is left.  The caller holds the lock.
 */
static JobDatabase *
find_entry(Oid dbid, bool make)
{
	JobDatabase *unused = NULL;

	ASSERT(LWLockHeldByMeInMode(jobs->lock, LW_EXCLUSIVE) && OidIsValid(dbid));
	for (int i = 0; i < jobs->n; i++)
	{
		if (jobs->db[i].dbid == dbid)
			return &jobs->db[i];
		if (!OidIsValid(jobs->db[i].dbid) && unused == NULL)
			unused = &jobs->db[i];
	}
	if (!make)
		return NULL;
	if (unused == NULL && jobs->n < MAX_DATABASES)
		unused = &jobs->db[jobs->n++];
	if (unused != NULL)
	{
		memset(unused, 0, sizeof(JobDatabase));
		unused->dbid = dbid;
	}
	return unused;
}

static void
wake_launcher_locked(void)
{
	ASSERT(LWLockHeldByMe(jobs->lock));
	if (jobs->launcher_pid != 0)
		SetLatch(compat_proc_latch(jobs->launcher_procno));
}

/* ---- waking ---- */

static void
wake(Oid dbid)
{
	JobDatabase *d;

	LWLockAcquire(jobs->lock, LW_EXCLUSIVE);
	d = find_entry(dbid, true);
	if (d != NULL)
	{
		d->generation.wakes++;
		d->generation.changes += change_pending;
		if (d->pid != 0)
			SetLatch(compat_proc_latch(d->procno));
		else
		{
			d->wanted = true;
			wake_launcher_locked();
		}
	}
	LWLockRelease(jobs->lock);
}

/* PREPARE TRANSACTION wakes no worker; COMMIT PREPARED does (jobs_process_utility). */
static void
xact_callback(XactEvent event, void *arg)
{
	if (!wake_pending)
		return;
	if (event == XACT_EVENT_COMMIT)
		wake(MyDatabaseId);
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		wake_pending = change_pending = false;
}

void
jobs_wake_at_commit(bool jobs_changed)
{
	static bool registered = false;

	if (jobs == NULL)
		return;					/* not preloaded: the rows stay in the queue */
	if (!registered)
		RegisterXactCallback(xact_callback, NULL);
	registered = true;
	wake_pending = true;
	change_pending = change_pending || jobs_changed;
}

/* ---- making way for statements on databases ---- */

/* A database whose worker was ended for a statement. */
typedef struct Cleared
{
	Oid			dbid;			/* InvalidOid: none */
	TimestampTz before;			/* not_before before the statement */
	TimestampTz since;			/* not_before as the statement set it */
} Cleared;

static bool
may_create_databases(void)
{
	HeapTuple	tup = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
	bool		may = superuser();

	if (HeapTupleIsValid(tup))
	{
		may = may || ((Form_pg_authid) GETSTRUCT(tup))->rolcreatedb;
		ReleaseSysCache(tup);
	}
	return may;
}

/*
 * Return true if the current user may execute the statement on the database; PostgreSQL checks the
 * same later.
 */
static bool
may_clear(Node *statement, Oid dbid)
{
	HeapTuple	tup;
	bool		is_template = false;

	/* the statement fails because of this session itself */
	if (dbid == MyDatabaseId && !IsA(statement, CreatedbStmt))
		return false;
	if ((IsA(statement, CreatedbStmt) || IsA(statement, RenameStmt)) && !may_create_databases())
		return false;
	if (compat_owns_database(dbid, GetUserId()))
		return true;
	if (!IsA(statement, CreatedbStmt))
		return false;
	tup = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(dbid));
	if (HeapTupleIsValid(tup))
	{
		is_template = ((Form_pg_database) GETSTRUCT(tup))->datistemplate;
		ReleaseSysCache(tup);
	}
	return is_template;
}

/* End the worker of a database, and let none start for a while. */
static Cleared
clear_database(Node *statement, const char *name)
{
	Cleared		c = {get_database_oid(name, true), 0, 0};
	JobDatabase *d;

	if (OidIsValid(c.dbid) && !may_clear(statement, c.dbid))
		c.dbid = InvalidOid;
	if (!OidIsValid(c.dbid))
		return c;
	LWLockAcquire(jobs->lock, LW_EXCLUSIVE);
	d = find_entry(c.dbid, true);
	if (d != NULL)
	{
		c.before = d->not_before;
		c.since = d->not_before = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), STAY_AWAY);
		d->leave = d->pid != 0;
		if (d->pid != 0)
			(void) kill(d->pid, SIGTERM);
	}
	LWLockRelease(jobs->lock);
	return c;
}

/*
 * The statement has failed: let a worker start at once, unless another statement needs the database,
 * too.
 */
static void
uncleared(const Cleared *c)
{
	JobDatabase *d;

	LWLockAcquire(jobs->lock, LW_EXCLUSIVE);
	d = find_entry(c->dbid, false);
	if (d != NULL && d->not_before == c->since)
	{
		d->not_before = c->before;
		wake_launcher_locked();
	}
	LWLockRelease(jobs->lock);
}

/*
 * Return the name of a database that the statement needs without sessions; core waits 5 s for them to
 * end.
 */
static const char *
wants_database(Node *statement)
{
	ListCell   *lc;

	switch (nodeTag(statement))
	{
		case T_DropdbStmt:
			return ((DropdbStmt *) statement)->dbname;
		case T_RenameStmt:
			return ((RenameStmt *) statement)->renameType == OBJECT_DATABASE ?
				((RenameStmt *) statement)->subname : NULL;
		case T_AlterDatabaseStmt:
			foreach(lc, ((AlterDatabaseStmt *) statement)->options)
				if (strcmp(lfirst_node(DefElem, lc)->defname, "tablespace") == 0)
					return ((AlterDatabaseStmt *) statement)->dbname;
			return NULL;
		case T_CreatedbStmt:
			foreach(lc, ((CreatedbStmt *) statement)->options)
			{
				DefElem    *e = lfirst_node(DefElem, lc);

				if (strcmp(e->defname, "template") == 0 && e->arg != NULL && IsA(e->arg, String))
					return strVal(e->arg);
			}
			return NULL;
		default:
			return NULL;
	}
}

static void
jobs_process_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree,
					 ProcessUtilityContext context, ParamListInfo params,
					 QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *statement = pstmt->utilityStmt;
	bool		prepared = IsA(statement, TransactionStmt) &&
		((TransactionStmt *) statement)->kind == TRANS_STMT_COMMIT_PREPARED;
	List	   *renames = IsA(statement, RenameStmt) && IsTransactionState() ?
		job_rename_begin((RenameStmt *) statement) : NIL;
	const char *database = jobs != NULL && context == PROCESS_UTILITY_TOPLEVEL ? wants_database(statement) :
		NULL;
	Cleared		cleared = {InvalidOid, 0, 0};

	job_trust_utility(statement);
	if (database != NULL)
		cleared = clear_database(statement, database);
	PG_TRY();
	{
		if (prev_process_utility)
			prev_process_utility(pstmt, query, read_only_tree, context, params, env, dest, qc);
		else
			standard_ProcessUtility(pstmt, query, read_only_tree, context, params, env, dest, qc);
	}
	PG_CATCH();
	{
		if (OidIsValid(cleared.dbid))
			uncleared(&cleared);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (renames != NIL)
		job_rename_end(renames, (RenameStmt *) statement);
	if (IsA(statement, ReassignOwnedStmt))
		job_follow_owners();
	if (prepared)
		jobs_wake_at_commit(true);
}

/* ---- the worker's part ---- */

/* before_shmem_exit callback: an exit that was not announced leaves work */
static void
worker_exit(int code, Datum arg)
{
	LWLockReleaseAll();
	LWLockAcquire(jobs->lock, LW_EXCLUSIVE);
	ASSERT(mine->pid == MyProcPid);
	jobs_crash_close();
	mine->pid = 0;
	mine->leave = false;
	if (work_left || mine->generation.wakes != seen_generation.wakes)
	{
		mine->wanted = true;
		/* a worker that fails at once must not be restarted at once */
		if (code != 0)
			mine->not_before = Max(mine->not_before,
								   TimestampTzPlusMilliseconds(GetCurrentTimestamp(), 1000));
	}
	wake_launcher_locked();
	LWLockRelease(jobs->lock);
}

bool
jobs_worker_enter(Oid dbid)
{
	JobDatabase *d;
	bool		entered = false;

	ASSERT(mine == NULL);
	LWLockAcquire(jobs->lock, LW_EXCLUSIVE);
	d = find_entry(dbid, true);
	if (d != NULL && d->pid == 0)
	{
		d->pid = MyProcPid;
		d->procno = compat_my_procno();
		d->starting = 0;
		d->wanted = false;
		d->leave = false;
		d->entered = GetCurrentTimestamp();
		entered = true;
	}
	LWLockRelease(jobs->lock);
	if (entered)
	{
		mine = d;
		before_shmem_exit(worker_exit, (Datum) 0);
		jobs_crash_open(dbid, jobs->lock);
	}
	return entered;
}

void
jobs_worker_stopped_by(int32 job)
{
	/*
	 * no lock, as this may run in a signal handler: there is one writer, and the next reader is the
	 * next worker
	 */
	mine->stopped = job;
}

int32
jobs_worker_take_stopped(void)
{
	int32		job = mine->stopped;

	mine->stopped = 0;
	return job;
}

JobsGeneration
jobs_worker_generation(void)
{
	JobsGeneration generation;

	LWLockAcquire(jobs->lock, LW_SHARED);
	generation = mine->generation;
	LWLockRelease(jobs->lock);
	return generation;
}

static int
count_workers_locked(void)
{
	int			n = 0;

	ASSERT(LWLockHeldByMe(jobs->lock));
	for (int i = 0; i < jobs->n; i++)
		if (OidIsValid(jobs->db[i].dbid) && (jobs->db[i].pid != 0 || jobs->db[i].starting != 0))
			n++;
	return n;
}

bool
jobs_worker_must_leave(void)
{
	bool		leave;
	bool		others = false;

	LWLockAcquire(jobs->lock, LW_SHARED);
	leave = mine->leave || count_workers_locked() > vllm_job_workers;
	for (int i = 0; i < jobs->n; i++)
		others = others || (OidIsValid(jobs->db[i].dbid) && jobs->db[i].wanted && jobs->db[i].pid == 0);
	if (others && count_workers_locked() >= vllm_job_workers &&
		TimestampDifferenceExceeds(mine->entered, GetCurrentTimestamp(), TURN))
		leave = true;
	LWLockRelease(jobs->lock);
	return leave;
}

void
jobs_worker_leaves(JobsGeneration seen, bool left)
{
	seen_generation = seen;
	work_left = left;
}

/* ---- the launcher ---- */

static void
launcher_exit(int code, Datum arg)
{
	LWLockReleaseAll();
	jobs->launcher_pid = 0;
}

/* Mark every database that allows connections as wanted, once. */
static void
want_all(void)
{
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		JobDatabase *d;

		if (!form->datallowconn || form->datistemplate)
			continue;
		LWLockAcquire(jobs->lock, LW_EXCLUSIVE);
		d = find_entry(form->oid, true);
		if (d != NULL && d->pid == 0)
			d->wanted = true;
		LWLockRelease(jobs->lock);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	PopActiveSnapshot();
	CommitTransactionCommand();
}

static bool
database_exists(Oid dbid)
{
	bool		exists;

	StartTransactionCommand();
	exists = get_database_name(dbid) != NULL;
	CommitTransactionCommand();
	return exists;
}

static bool
start_worker(Oid dbid)
{
	BackgroundWorker w;

	memset(&w, 0, sizeof(w));
	w.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	w.bgw_start_time = BgWorkerStart_RecoveryFinished;
	w.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(w.bgw_library_name, "vllm_pg", sizeof(w.bgw_library_name));
	strlcpy(w.bgw_function_name, "vllm_jobs_worker_main", sizeof(w.bgw_function_name));
	snprintf(w.bgw_name, sizeof(w.bgw_name), "vllm_pg job worker for database %u", dbid);
	strlcpy(w.bgw_type, "vllm_pg job worker", sizeof(w.bgw_type));
	w.bgw_main_arg = ObjectIdGetDatum(dbid);
	w.bgw_notify_pid = MyProcPid;
	return RegisterDynamicBackgroundWorker(&w, NULL);
}

/* Return the next database that may get a worker now; InvalidOid: none.  *nap: ms until the next look. */
static Oid
next_database(long *nap)
{
	static int	first = 0;
	TimestampTz now = GetCurrentTimestamp();
	Oid			dbid = InvalidOid;

	LWLockAcquire(jobs->lock, LW_EXCLUSIVE);
	for (int k = 0; k < jobs->n; k++)
	{
		int			i = (first + k) % jobs->n;
		JobDatabase *d = &jobs->db[i];

		if (!OidIsValid(d->dbid))
			continue;
		if (d->starting != 0 && TimestampDifferenceExceeds(d->starting, now, START_TIMEOUT))
		{
			d->starting = 0;
			d->wanted = true;
			d->not_before = TimestampTzPlusMilliseconds(now, START_RETRY);
		}
		if (d->starting != 0)
			*nap = Min(*nap, START_TIMEOUT);
		if (!d->wanted || d->pid != 0 || d->starting != 0)
			continue;
		if (d->not_before > now)
		{
			*nap = Min(*nap, TimestampDifferenceMilliseconds(now, d->not_before) + 1);
			continue;
		}
		if (count_workers_locked() >= vllm_job_workers)
			continue;
		d->starting = now;
		dbid = d->dbid;
		first = i + 1;
		break;
	}
	LWLockRelease(jobs->lock);
	return dbid;
}

static void
start_failed(Oid dbid, bool dropped)
{
	JobDatabase *d;

	LWLockAcquire(jobs->lock, LW_EXCLUSIVE);
	d = find_entry(dbid, false);
	if (d != NULL && d->pid == 0)
	{
		d->starting = 0;
		d->not_before = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), START_RETRY);
		if (dropped)
			d->dbid = InvalidOid;
	}
	LWLockRelease(jobs->lock);
}

static void
launch(long *nap)
{
	static TimestampTz logged_at = 0;
	Oid			dbid;

	while (OidIsValid(dbid = next_database(nap)))
	{
		if (!database_exists(dbid))
			start_failed(dbid, true);
		else if (!start_worker(dbid))
		{
			start_failed(dbid, false);
			if (logged_at == 0 || TimestampDifferenceExceeds(logged_at, GetCurrentTimestamp(), 60000))
				ereport(LOG,
						(errmsg("no background worker is free for the LLM jobs"),
						 errhint("Raise max_worker_processes.")));
			logged_at = GetCurrentTimestamp();
			return;
		}
	}
}

void
vllm_jobs_launcher_main(Datum arg)
{
	static uint32 wait_event = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	pgstat_report_appname("vllm_pg job launcher");
	LWLockAcquire(jobs->lock, LW_EXCLUSIVE);
	jobs->launcher_pid = MyProcPid;
	jobs->launcher_procno = compat_my_procno();
	LWLockRelease(jobs->lock);
	before_shmem_exit(launcher_exit, (Datum) 0);
	want_all();
	while (!ShutdownRequestPending)
	{
		long		nap = 60000;

		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		launch(&nap);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, Max(nap, 10),
						 compat_wait_event(&wait_event, "VllmJobLauncher"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	/* exit code 1: the postmaster restarts the launcher, unless the server is shutting down */
	proc_exit(1);
}

/* ---- start-up ---- */

void
jobs_init(void)
{
	BackgroundWorker w;

	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = jobs_process_utility;
	memset(&w, 0, sizeof(w));
	w.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	w.bgw_start_time = BgWorkerStart_RecoveryFinished;
	w.bgw_restart_time = 1;
	strlcpy(w.bgw_library_name, "vllm_pg", sizeof(w.bgw_library_name));
	strlcpy(w.bgw_function_name, "vllm_jobs_launcher_main", sizeof(w.bgw_function_name));
	strlcpy(w.bgw_name, "vllm_pg job launcher", sizeof(w.bgw_name));
	strlcpy(w.bgw_type, "vllm_pg job launcher", sizeof(w.bgw_type));
	RegisterBackgroundWorker(&w);
}
