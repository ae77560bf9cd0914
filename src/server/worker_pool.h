/*
 * worker_pool.h
 *	  Work that must not block the server thread, and its mailbox.
 *
 * A job's run() executes on a worker thread of its queue, then its done() on the
 * server thread (jobs_drain()), which owns the job before and after.
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
	JQ_TEXT,					/* tokenizing: two threads, never behind a step */
	/* the same for requests with grammars, which may take a second: two threads */
	JQ_GRAMMAR,
	JQ_LOAD,					/* model loads: one at a time */
	JQ_CHECK,					/* looks at model files without loading */
	JQ_LORA,					/* loads adapters, or checks their files: two threads */
	/* looks whether adapters' files are the same: never behind a load; two threads */
	JQ_LOOK,
	JQ_COUNT
} WorkerQueue;

typedef struct Jobs Jobs;

/* notify(ctx): called on any thread when the mailbox has something */
Jobs	   *jobs_new(void (*notify) (void *ctx), void *ctx);
void		jobs_submit(Jobs *js, WorkerQueue q, Job *j);
/* Put a job into the mailbox directly (its run() is somebody else's affair). */
void		jobs_post(Jobs *js, Job *j);
/* Server thread: run done() of everything in the mailbox; true if there was any. */
bool		jobs_drain(Jobs *js);
bool		jobs_mail(Jobs *js);	/* is there anything? */

#endif
