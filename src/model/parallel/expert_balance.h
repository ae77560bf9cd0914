/*
 * expert_balance.h
 *	  Which rank has which experts of a mixture: the load balancer.
 *
 * A logical expert is one of the model's; a physical one is a slot of a rank that holds a copy of one.
 * There are at least as many slots as experts, the same number on each rank; the surplus holds second
 * copies of the busiest experts.  eplb_rearrange() computes from the counted load which expert each slot
 * holds, such that the busiest rank of each layer has little more to do than the others.
 *
 * All functions compute on arrays of the caller: no state, no weights, no threads.  The same numbers
 * give the same map on every rank, so ranks need not send each other the result.
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
	/* groups of experts in the router; a group stays on one node if the nodes divide their number */
	int			groups;
	int			nodes;			/* machines, or sockets; 1 = all ranks are equally near */
	int			ranks;
} EplbShape;

/* A map of all layers.  The caller owns the arrays. */
typedef struct EplbMap
{
	int32_t    *expert;			/* [layers][physical]: the expert in this slot */
	/* [layers][logical][eplb_width()]: the expert's slots, the first copy first, then -1 */
	int32_t    *slots;
	int32_t    *count;			/* [layers][logical]: copies of the expert, at least 1 */
} EplbMap;

/* Check that such a map exists; else ERR_INVALID with the numbers. */
bool		eplb_check(const EplbShape *s, Err *e);

/* Return the most copies that an expert can have: the columns of EplbMap.slots. */
int			eplb_width(const EplbShape *s);

/* Make the initial map: expert i in slot i, and copies of expert 0, 1, ... in the redundant slots. */
void		eplb_first(const EplbShape *s, EplbMap *out);

/* Make the map for a load of load[layers][logical] tokens.  Of experts with equal load the lower number
 * comes first. */
void		eplb_rearrange(const EplbShape *s, const int64_t *load, EplbMap *out);

/* Reorder the slots of each rank so that an expert that the rank keeps stays in its slot; the order
 * within a rank doesn't matter for the load. */
void		eplb_settle(const EplbShape *s, const EplbMap *now, EplbMap *next);

#endif
