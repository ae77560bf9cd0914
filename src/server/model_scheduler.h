/*
 * model_scheduler.h
 *	  Which loaded model computes next: time by weight, latency first.
 *
 * Each model has an account with a virtual time: the time that its steps took, divided by its weight.  The
 * model with the least virtual time is next, so models that always have work get time by their weights,
 * however long their steps are (start-time fair queueing, Goyal et al. 1996, on measured time).  A model that
 * had no work for a while goes on at the least virtual time of those that had: idle time earns nothing.
 *
 * Work has a class.  A model with latency work goes before the others, and into the middle of their steps, as
 * long as it is at most LEAD ahead of them; then they catch up by a SLICE before it goes on.  So an answer
 * that takes less than LEAD of compute waits for nobody, and nobody waits for ever: a lead is bounded, and
 * shares are exact but for it.  Models whose work is all in the background have together `share` percent of
 * the time while others have work.
 *
 * Two steps may run at once, each on a part of the compute threads: it is charged that part of the time.
 * Latency work that is not too far ahead has all threads instead.  The second step is of a model that is at
 * most a SLICE ahead of the first, so shares are the same as with one step at a time.
 *
 * The caller measures and has the clock; nothing here waits or locks.  Cost of a call: O(models).
 */
#ifndef VLLM_SERVER_MODEL_SCHEDULER_H
#define VLLM_SERVER_MODEL_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"

#define MODEL_WEIGHT	100		/* default */

#define MSCHED_LEAD_US	200000	/* of a model of the default weight */
#define MSCHED_SLICE_US 10000

typedef struct ModelAccount
{
	double		weight;			/* > 0; 1 = MODEL_WEIGHT */
	double		vtime;			/* us had / weight, from some start on */
	WorkClass	work;			/* of what is due; WORK_NONE: nothing */
	bool		running;		/* its step is on the way */
	bool		yields;			/* latency work that has had its lead */
} ModelAccount;

typedef struct ModelScheduler
{
	ModelAccount *a;			/* [n], owned */
	int			n;
	int			cap;
	int			share;			/* percent that background work gets while others have work; 0 = none */
	double		now;			/* least vtime of those that have work; never goes back */
} ModelScheduler;

/* A model comes, as the last. */
void		msched_add(ModelScheduler *m, int weight);
/* Model i goes; the last takes its place. */
void		msched_remove(ModelScheduler *m, int i);
void		msched_set_weight(ModelScheduler *m, int i, int weight);
/* Model i has work of that class now, or none. */
void		msched_set_work(ModelScheduler *m, int i, WorkClass work);
/* The model whose step is next, of those that do not run; -1: none has work. */
int			msched_next(ModelScheduler *m);
/* Model i has computed for so long since the last call; half as long if it had half of the threads. */
void		msched_charge(ModelScheduler *m, int i, int64_t us);
/* Model i's step, charged up to now, could stand still: the model that may make steps meanwhile; -1: none. */
int			msched_preempting(ModelScheduler *m, int i);
/* Has model i's latency work all threads, so that model k's step doesn't run beside it? */
bool		msched_alone(const ModelScheduler *m, int i, int k);
/* The model whose step may run beside those that run, all charged up to now; -1: none. */
int			msched_beside(ModelScheduler *m);

#endif
