/*
 * module.c
 *	  Loading the library.
 *
 * With shared_preload_libraries the postmaster reserves shared memory, creates the arenas and
 * registers the supervisor.  If it is loaded later (CREATE EXTENSION without preload), the library
 * only defines its settings, and every function raises an error that says what is missing.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/guc.h"

#include "pg/jobs/job.h"
#include "pg/jobs/job_launcher.h"
#include "pg/batch/batch.h"
#include "pg/call/default_params.h"
#include "pg/call/loglikelihood.h"
#include "pg/client/spend.h"
#include "pg/call/futures.h"
#include "pg/client/client.h"
#include "pg/client/query_stats.h"
#include "pg/vllm_pg.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(vllm_shared_size());
	RequestAddinShmemSpace(batch_progress_shared_size());
	RequestAddinShmemSpace(selectivity_shared_size());
	RequestAddinShmemSpace(jobs_shared_size());
	RequestAddinShmemSpace(request_stat_shared_size());
	RequestNamedLWLockTranche("vllm_pg", 1);
	RequestNamedLWLockTranche("vllm_pg_jobs", 1);
	RequestAddinShmemSpace(cost_shared_size());
	RequestNamedLWLockTranche("vllm_pg_stat", 1);
	RequestNamedLWLockTranche("vllm_pg_cost", 1);
}

static void
shmem_startup(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	vllm_shared_init();
	batch_progress_shared_init();
	selectivity_shared_init();
	jobs_shared_init();
	request_stat_shared_init();
	cost_shared_init();
}

void
_PG_init(void)
{
	/* settings of PGC_POSTMASTER context can only be defined while preloading */
	/* jobs can be created without preload, too */
	job_trust_init();
	if (!process_shared_preload_libraries_in_progress)
		return;
	vllm_guc_init();
	vllm_guc_http_init();
	vllm_guc_remote_init();
	vllm_sql_init();
	vllm_future_init();
	vcall_generate_hint = default_params_hint;
	request_note_init();
	batch_init();
	MarkGUCPrefixReserved("vllm");
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;
	vllm_supervisor_register();
	jobs_init();
}
