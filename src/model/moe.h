/*
 * moe.h
 *	  Private to src/model: which experts of a mixture compute a row.
 *
 * A row's logits, one for each expert, become scores; the experts with the best ones
 * are chosen, perhaps only within the best groups of experts; what they compute is
 * added up with weights that follow from their scores.
 */
#ifndef VLLM_MODEL_MOE_H
#define VLLM_MODEL_MOE_H

#include <stdbool.h>
#include <stdint.h>

/* How logits become scores and scores weights: rows of the table in route.c. */
typedef enum MoeRouting
{
	MOE_SOFTMAX,				/* scores are the softmax of all logits */
	MOE_SIGMOID,				/* scores are each logit's sigmoid */
	MOE_TOPK_SOFTMAX,			/* scores are the logits, weights the softmax of the chosen ones */
	MOE_TOPK_SIGMOID,			/* ... weights the sigmoid of each */
	MOE_SPARSEMIXER				/* Phi-3.5-MoE's */
} MoeRouting;

typedef enum MoeGroups
{
	MOE_GROUP_MAX,				/* a group is as good as its best expert */
	MOE_GROUP_TOP2				/* ... as its two best together */
} MoeGroups;

#define MOE_MAX_EXPERTS 1024
#define MOE_MAX_ALL		(1 << 17)	/* experts of all layers */
#define MOE_MAX_CHOSEN	64

typedef struct MoeConf
{
	int			n_experts;		/* 0 = the model has none */
	int			top_k;			/* experts for each row */
	int			inter;			/* width of an expert */
	int			shared_inter;	/* width of the one that computes all rows, 0 = none */
	bool		shared_gate;	/* ... and has a weight of its own */
	MoeRouting	routing;
	bool		correction;		/* the choice is by score plus a learned bias, the weight isn't */
	MoeGroups	group_by;
	int			n_groups;		/* 0 or 1 = no groups */
	int			top_groups;		/* the groups that are chosen from */
	bool		normalize;		/* weights add up to 1 */
	float		normalize_min;	/* ... unless their sum is less than this */
	float		scale;			/* factor of all weights */
	bool		on_input;		/* weights are factors of what experts get, not of what they give */
	float		jitter;			/* MOE_SPARSEMIXER: how far behind the best one counts */
	bool		router_bias;
	bool		bias;			/* of the experts */
	bool		plain;			/* they have no gate */
} MoeConf;

/*
 * The experts of one row, ascending, and their weights.  logits [n_experts] is
 * overwritten; correction [n_experts] or NULL; space [n_experts].  Of equally good
 * experts the first is chosen.  A NaN leads to some choice and to a weight of NaN.
 */
void		moe_route(const MoeConf *c, float *logits, const float *correction, float *space,
					  int32_t *experts, float *weights);

float		moe_sigmoid(float x);

#endif
