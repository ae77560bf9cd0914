/*
 * moe.h
 *	  Private to src/model: which experts of a mixture compute a row.
 *
 * A row's logits, one for each expert, become scores; the experts with the best ones
 * are chosen, perhaps only within the best groups of experts; what they compute is
 * added up with weights that follow from their scores.
 */
#ifndef VLLM_MODEL_LAYERS_MOE_H
#define VLLM_MODEL_LAYERS_MOE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels.h"

#define MOE_MAX_ALL		(1 << 17)	/* experts of all layers */

typedef struct MoeConf
{
	int			n_experts;		/* 0 = the model has none */
	int			top_k;			/* experts for each row */
	int			inter;			/* width of an expert */
	int			shared_inter;	/* width of the one that computes all rows, 0 = none */
	bool		shared_gate;	/* the shared expert has a weight of its own */
	KRouting	routing;
	bool		correction;		/* the choice is by score plus a learned bias, the weight isn't */
	KGroupBy	group_by;
	int			n_groups;		/* 0 or 1 = no groups */
	int			top_groups;		/* the groups that are chosen from */
	bool		normalize;		/* weights add up to 1 */
	float		normalize_min;	/* least sum of the weights before they are normalized */
	float		scale;			/* factor of all weights */
	bool		on_input;		/* weights are factors of what experts get, not of what they give */
	float		jitter;			/* KROUTE_SPARSEMIXER: how far behind the best one counts */
	bool		router_bias;
	bool		bias;			/* of the experts */
	bool		plain;			/* they have no gate */
} MoeConf;

#endif
