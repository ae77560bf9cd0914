/*
 * job_launcher.h
 *	  Starting and waking of the job workers (pg/jobs/job.h).
 *
 * Shared memory has an entry for each database whose queue has had rows.  When a transaction that
 * appended rows commits, its backend wakes the database's worker, or has the launcher start one.
 */
#ifndef VLLM_PG_JOBS_JOB_LAUNCHER_H
#define VLLM_PG_JOBS_JOB_LAUNCHER_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* _PG_init and the shared memory hooks */
Size		jobs_shared_size(void);
void		jobs_shared_init(void);
void		jobs_init(void);

/* Wake the worker when the transaction commits: the queue has rows, or jobs have changed. */
void		jobs_wake_at_commit(bool jobs_changed);

/* ---- the worker's part ---- */

/* Register as the worker of a database; return false if it has one. */
bool		jobs_worker_enter(Oid dbid);
/*
 * jobs_worker_stopped_by(): record that the worker ends itself because of a job's code.
 * jobs_worker_take_stopped(): return what the last worker recorded, once; 0 = nothing.
 */
void		jobs_worker_stopped_by(int32 job);
int32		jobs_worker_take_stopped(void);
/* Counters: wakes grows with every wake, changes with those that say that jobs have changed. */
typedef struct JobsGeneration
{
	uint32		wakes;
	uint32		changes;
} JobsGeneration;
JobsGeneration jobs_worker_generation(void);
/*
 * Return true if another session needs the database without the worker, or another database needs the
 * worker's place.
 */
bool		jobs_worker_must_leave(void);
/*
 * Announce that the worker exits, with or without work left.  `seen` is the generation of its last
 * look; a later wake starts a new worker.
 */
void		jobs_worker_leaves(JobsGeneration seen, bool work_left);

extern PGDLLEXPORT void vllm_jobs_launcher_main(Datum arg);
extern PGDLLEXPORT void vllm_jobs_worker_main(Datum arg);

#endif
