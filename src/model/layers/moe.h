/*
 * moe.h
 *	  Private to src/model: settings of a mixture's router, which chooses the experts of each row.
 *
 * A row's logits, one for each expert, become scores.  The router chooses the experts with the best
 * scores, perhaps only within the best groups of experts; their outputs are added up with weights
 * computed from their scores.
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
	int			shared_inter;	/* width of the shared expert, which computes all rows; 0 = none */
	bool		shared_gate;	/* the shared expert's output has a gate */
	KRouting	routing;
	bool		correction;		/* a learned bias is added to the scores for the choice, but not for the
								 * weights */
	KGroupBy	group_by;
	int			n_groups;		/* 0 or 1 = no groups */
	int			top_groups;		/* groups that experts are chosen from */
	bool		normalize;		/* weights add up to 1 */
	float		normalize_min;	/* least sum of the weights before they are normalized */
	float		scale;			/* factor of all weights */
	bool		on_input;		/* weights multiply the experts' inputs, not their outputs */
	float		jitter;			/* KROUTE_SPARSEMIXER: scores this far below the best one still count */
	bool		router_bias;
	bool		bias;			/* experts have biases */
	bool		plain;			/* experts have no gate */
} MoeConf;

#endif
