/*
 * job_launcher.h
 *	  Workers of the jobs (pg/jobs/job.h): who starts them, who wakes them.
 *
 * Shared memory has an entry for each database whose queue somebody has put something
 * in.  A backend that does so wakes the database's worker, or has the launcher start
 * one, when its transaction has committed.
 */
#ifndef VLLM_PG_JOBS_JOB_LAUNCHER_H
#define VLLM_PG_JOBS_JOB_LAUNCHER_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* _PG_init and the shared memory hooks */
Size		jobs_shared_size(void);
void		jobs_shared_init(void);
void		jobs_init(void);

/* There is something in the queue, or jobs have changed, once the transaction commits. */
void		jobs_wake_at_commit(bool jobs_changed);

/* ---- the worker's part ---- */

/* Enter as the worker of a database; false: it has one. */
bool		jobs_worker_enter(Oid dbid);
/* The worker ends itself because of a job's code; what the last one said, once; 0 = nothing. */
void		jobs_worker_stopped_by(int32 job);
int32		jobs_worker_take_stopped(void);
/* What changes with every wake, and with those that say that jobs have changed. */
typedef struct JobsGeneration
{
	uint32		wakes;
	uint32		changes;
} JobsGeneration;
JobsGeneration jobs_worker_generation(void);
/* Somebody wants the worker out of the database, or of its place. */
bool		jobs_worker_must_leave(void);
/* Leave at the next exit, with work left or without; with `seen` the generation that was
 * looked at last: a later wake starts a new worker. */
void		jobs_worker_leaves(JobsGeneration seen, bool work_left);

extern PGDLLEXPORT void vllm_jobs_launcher_main(Datum arg);
extern PGDLLEXPORT void vllm_jobs_worker_main(Datum arg);

#endif
