/*
 * worker_pool.h
 *	  Worker threads for jobs that must not block the server thread, and the mailbox of finished jobs.
 *
 * A job's run() executes on a worker thread of its queue, then its done() on the server thread
 * (jobs_drain()).  The server thread owns the job before and after.
 */
#ifndef VLLM_SERVER_WORKER_POOL_H
#define VLLM_SERVER_WORKER_POOL_H

#include <stdbool.h>

typedef struct Job Job;
struct Job
{
	void		(*run) (Job *j);
	void		(*done) (Job *j);
	Job		   *next;
};

typedef enum WorkerQueue
{
	JQ_TEXT,					/* tokenizing: two threads, so it never waits for a step */
	/* the same for requests with grammars, which may take a second to compile: two threads */
	JQ_GRAMMAR,
	JQ_LOAD,					/* model loads: one at a time */
	JQ_CHECK,					/* reads model files without loading them */
	JQ_LORA,					/* loads adapters, or checks their files: two threads */
	/* checks whether adapters' files are unchanged: never waits for a load; two threads */
	JQ_LOOK,
	JQ_COUNT
} WorkerQueue;

typedef struct Jobs Jobs;

/* notify(ctx): called on any thread when the mailbox has a job. */
Jobs	   *jobs_new(void (*notify) (void *ctx), void *ctx);
void		jobs_submit(Jobs *js, WorkerQueue q, Job *j);
/* Put a job into the mailbox directly (another thread has executed its run()). */
void		jobs_post(Jobs *js, Job *j);
/* Server thread: run done() of all jobs in the mailbox.  Returns true if there was any. */
bool		jobs_drain(Jobs *js);
bool		jobs_mail(Jobs *js);	/* is there any job in the mailbox? */

#endif
