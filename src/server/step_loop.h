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
/* Something was submitted or cancelled; any thread. */
void		step_poke(Step *s);
/* Run j->run() between two steps, then j goes to the jobs' mailbox. */
void		step_run(Step *s, Job *j);

/* For jobs that run on the step thread: */
/* weight: of its share of the time, MODEL_WEIGHT when nobody has said; lives until step_detach() */
void		step_attach(Step *s, BackendModel *in, const _Atomic int *weight);
void		step_detach(Step *s, BackendModel *in);	/* frees it; live requests end first */
bool		step_check(Step *s, Err *e);	/* check_state of all instances */
void		step_reset_prefix_cache(Step *s);	/* of all instances */
void		step_keep(Step *s, int64_t deadline_us);	/* of all instances */
void		step_pins(Step *s, void (*tell) (void *ctx, const BackendModel *in, const PinInfo *i), void *ctx);
bool		step_unpin(Step *s, uint64_t id);
/* live requests (running + waiting) of all instances */
int64_t		step_live(Step *s);
/* The next step is preceded by a sleep (tests). */
void		step_sleep(Step *s, int ms);

/* Sinks: the conversation's final frame is staged; send it after this step or round of events. */
void		step_dirty(Step *s, ServerCall *c);

/* +1, -1: from now on, or no longer, the server thread is woken whenever a request has ended. */
void		step_watch(Step *s, int by);
bool		step_watched(Step *s);

/* Requests submitted whose final event has not been seen. */
_Atomic int64_t *step_inflight(Step *s);

#endif
