/*
 * step_loop.h
 *	  The step thread: runs the loaded instances that have work, in the order of model_scheduler.h.
 */
#ifndef VLLM_SERVER_STEP_LOOP_H
#define VLLM_SERVER_STEP_LOOP_H

#include "backend/backend.h"
#include "server/server_call.h"
#include "server/worker_pool.h"
#include "server/server_stats.h"

typedef struct Step Step;

Step	   *step_new(Link *link, const Backend *be, SettingsBox *box, Stats *stats, Jobs *jobs);
/* Wake the step thread: a request was submitted or cancelled.  Any thread. */
void		step_wake(Step *s);
/* Run j->run() on the step thread between two steps, then post j to the jobs' mailbox. */
void		step_run(Step *s, Job *j);

/* The following are for jobs that run on the step thread. */
/* weight: for the scheduler, MODEL_WEIGHT by default; must live until step_detach(). */
void		step_attach(Step *s, BackendModel *in, const _Atomic int *weight);
void		step_detach(Step *s, BackendModel *in);	/* frees the instance; its live requests end first */
bool		step_check(Step *s, Err *e);	/* calls check_state of all instances */
void		step_reset_prefix_cache(Step *s);	/* of all instances */
void		step_keep(Step *s, int64_t deadline_us);	/* of all instances */
void		step_pins(Step *s, void (*emit) (void *ctx, const BackendModel *in, const PinInfo *i), void *ctx);
bool		step_unpin(Step *s, uint64_t id);
/* Return the live requests (running + waiting) of all instances. */
int64_t		step_live(Step *s);
/* Sleep before the next step (for tests). */
void		step_sleep(Step *s, int ms);

/* For sinks: the call's final frame is staged; send it after this step or round of events. */
void		step_dirty(Step *s, ServerCall *c);

/* by = 1: from now on wake the server thread whenever a request has ended; by = -1: stop that. */
void		step_watch(Step *s, int by);
bool		step_watched(Step *s);

/* Number of submitted requests whose final event has not been seen. */
_Atomic int64_t *step_inflight(Step *s);

#endif
