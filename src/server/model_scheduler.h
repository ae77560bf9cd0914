/*
 * model_scheduler.h
 *	  Which loaded model computes next: time by weight, latency first.
 *
 * Each model has an account with a virtual time: the time that its steps took, divided by its weight.
 * The model with the least virtual time is next, so models that always have work get time by their
 * weights, however long their steps are (start-time fair queueing, Goyal et al. 1996, on measured time).
 * A model that had no work for a while continues at the least virtual time of the models with work: idle
 * time earns nothing.
 *
 * Work has a class.  A model with latency work goes before the others, and preempts their steps in the
 * middle, as long as it is at most LEAD ahead of them.  Then the others catch up by a SLICE before it
 * continues.  So a request that takes less than LEAD of compute waits for no other model, and no model
 * waits forever: a lead is bounded, and shares are exact but for it.  Models with background work only
 * have together `share` percent of the time while others have work.
 *
 * Two steps may run at once, each on a part of the compute threads: each is charged that part of the
 * time.  Latency work that is not too far ahead gets all threads instead.  The second step belongs to a
 * model that is at most a SLICE ahead of the first, so shares are the same as with one step at a time.
 *
 * The caller measures time and has the clock; nothing here waits or locks.  Cost of a call: O(models).
 */
#ifndef VLLM_SERVER_MODEL_SCHEDULER_H
#define VLLM_SERVER_MODEL_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"

#define MODEL_WEIGHT	100		/* default */

#define MSCHED_LEAD_US	200000	/* lead of a model with the default weight */
#define MSCHED_SLICE_US 10000

typedef struct ModelAccount
{
	double		weight;			/* > 0; 1 = MODEL_WEIGHT */
	double		vtime;			/* us computed / weight, from some origin */
	WorkClass	work;			/* class of the work that is due; WORK_NONE: nothing is due */
	bool		running;		/* its step is running */
	bool		yields;			/* has latency work, but has used up its lead */
} ModelAccount;

typedef struct ModelScheduler
{
	ModelAccount *a;			/* [n], owned */
	int			n;
	int			cap;
	int			share;			/* percent of the time for background work while others have work; 0 = none */
	double		now;			/* least vtime of the models with work; never decreases */
} ModelScheduler;

/* Add a model as the last. */
void		msched_add(ModelScheduler *m, int weight);
/* Remove model i; the last one takes its index. */
void		msched_remove(ModelScheduler *m, int i);
void		msched_set_weight(ModelScheduler *m, int i, int weight);
/* Model i has work of that class now, or none. */
void		msched_set_work(ModelScheduler *m, int i, WorkClass work);
/* Return the model whose step is next, among those that do not run; -1: none has work. */
int			msched_next(ModelScheduler *m);
/*
 * Model i has computed for `us` since the last call.  The caller passes half the time if it had half of
 * the threads.
 */
void		msched_charge(ModelScheduler *m, int i, int64_t us);
/*
 * Model i's step, charged up to now, can be paused: return the model that may make steps meanwhile; -1:
 * none.
 */
int			msched_preempting(ModelScheduler *m, int i);
/* Does model i's latency work get all threads, so that model k's step must pause? */
bool		msched_alone(const ModelScheduler *m, int i, int k);
/*
 * Return the model whose step may run at the same time as the running ones, all charged up to now; -1:
 * none.
 */
int			msched_concurrent(ModelScheduler *m);

#endif
