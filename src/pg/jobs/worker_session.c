/*
 * worker_session.c
 *	  The session in which a worker runs the jobs of many owners.
 *
 * An owner's code runs in a restricted context.  There PostgreSQL refuses temporary tables, LISTEN,
 * PREPARE, cursors that outlive the transaction and changes of role, and settings are restored
 * afterwards (job_role_end()).  Other state would stay in the session: locks that don't belong to a
 * transaction, futures with their results, the sequences' last values, plans.  Such locks and futures
 * are released after the transaction that took them.  All session state is discarded, as by DISCARD
 * ALL, before code of another owner runs, and after an error, which may have prevented a cleanup.
 *
 * Tests: tests/t/065_jobs_hostile.pl.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "commands/async.h"
#include "commands/prepare.h"
#include "commands/sequence.h"
#include "storage/lock.h"
#include "utils/guc.h"
#include "utils/plancache.h"
#include "utils/portal.h"

#include "pg/compat.h"
#include "pg/jobs/job_worker.h"
#include "pg/call/futures.h"

/* the owner whose code the session has run since its reset; InvalidOid: to be reset */
static Oid	seen = InvalidOid;

/* Override settings that the configuration, or the database's owner by ALTER DATABASE, may have set. */
void
jobs_session_begin(void)
{
	static const char *const settings[][2] = {
		{"role", "none"}, {"row_security", "on"},
		{"search_path", "pg_catalog, pg_temp"}, {"client_encoding", "UTF8"},
		{"default_transaction_isolation", "read committed"}, {"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"}, {"lock_timeout", "200ms"}, {"statement_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"}, {"vllm.batch_window", "0"},
		{"standard_conforming_strings", "on"}, {"array_nulls", "on"},
		{"quote_all_identifiers", "off"}, {"transform_null_equals", "off"}, {"jit", "off"},
		{"vllm.batch_dedup", "on"}, COMPAT_TRANSACTION_TIMEOUT
		{"vllm.engine_timeout", "1s"}, {"vllm.queue_timeout", "1s"},
		/* code that crashes has to crash in this process, where the job is known */
		{"max_parallel_workers_per_gather", "0"}, {"max_parallel_maintenance_workers", "0"}
	};

	StartTransactionCommand();
	for (int i = 0; i < (int) lengthof(settings); i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
	CommitTransactionCommand();
}

void
jobs_session_for(Oid owner)
{
	if (seen == owner)
		return;
	StartTransactionCommand();
	PortalHashTableDeleteAll();
	/* the settings of jobs_session_begin() stay */
	ResetAllOptions();
	DropAllPreparedStatements();
	Async_UnlistenAll();
	LockReleaseAll(USER_LOCKMETHOD, true);
	ResetPlanCache();
	ResetTempTableNamespace();
	ResetSequenceCaches();
	CommitTransactionCommand();
	seen = owner;
}

void
jobs_session_after(bool failed)
{
	LockReleaseAll(USER_LOCKMETHOD, true);
	vllm_future_discard_all();
	if (failed)
		seen = InvalidOid;
}
