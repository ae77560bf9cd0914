/*
 * expert_balance.h
 *	  Where the experts of a mixture live when ranks share them: the balancer.
 *
 * A logical expert is one of the model's; a physical one is a slot of a rank that holds a copy of
 * one.  There are at least as many slots as experts, the same number on each rank; what is over
 * holds second copies of the experts that were asked most.  eplb_rearrange() says from the counted
 * load which expert each slot holds, such that the busiest rank of each layer has little more to do
 * than the others.
 *
 * Everything here is arithmetic on arrays of the caller: no state, no weights, no threads.  The
 * same numbers give the same map on every rank, so ranks need not tell each other the result.
 */
#ifndef VLLM_MODEL_PARALLEL_EXPERT_BALANCE_H
#define VLLM_MODEL_PARALLEL_EXPERT_BALANCE_H

#include <stdint.h>

#include "base/err.h"

typedef struct EplbShape
{
	int			layers;
	int			logical;		/* experts of a layer */
	int			physical;		/* slots of a layer: logical and the redundant ones */
	/* the router's groups of experts; they stay on one node if these divide them */
	int			groups;
	int			nodes;			/* machines, or sockets: 1 = all ranks are alike */
	int			ranks;
} EplbShape;

/* A map of all layers; arrays of the caller. */
typedef struct EplbMap
{
	int32_t    *expert;			/* [layers][physical]: the expert in this slot */
	/* [layers][logical][eplb_width()]: its slots, the first copy first; -1 behind */
	int32_t    *slots;
	int32_t    *count;			/* [layers][logical]: its copies, at least 1 */
} EplbMap;

/* Whether such a map exists; else ERR_INVALID with the numbers. */
bool		eplb_check(const EplbShape *s, Err *e);

/* Copies that an expert can have at most: columns of EplbMap.slots. */
int			eplb_width(const EplbShape *s);

/* The map to begin with: expert i in slot i, and the redundant slots from expert 0 on. */
void		eplb_first(const EplbShape *s, EplbMap *out);

/* The map for a load of load[layers][logical] tokens.  Of equal experts the lower one is served first. */
void		eplb_rearrange(const EplbShape *s, const int64_t *load, EplbMap *out);

/* Of what a rank has and keeps, each expert stays in its slot: within a rank any order does. */
void		eplb_settle(const EplbShape *s, const EplbMap *now, EplbMap *next);

#endif
