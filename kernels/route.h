/*
 * route.h
 *	  Choose the experts of a mixture that compute a row, and their weights.  Private to kernels/.
 *
 * A row's logits, one for each expert, become scores; the experts with the best scores are chosen,
 * perhaps only within the best groups of experts; the weights are computed from their scores.
 */
#ifndef VLLM_KERNELS_ROUTE_H
#define VLLM_KERNELS_ROUTE_H

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Compute the experts of one row, ascending, and their weights.  logits [n_experts] is overwritten;
 * space: [n_experts].  A NaN leads to some choice and to a weight of NaN.
 */
void		kroute(const KRoute *c, float *logits, float *space, int32_t *experts, float *weights);

float		kroute_sigmoid(float x);

#ifdef __cplusplus
}
#endif
#endif
