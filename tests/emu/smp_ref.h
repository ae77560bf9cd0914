/*
 * smp_ref.h
 *	  The engine's own sampler, and what it stages for a device's, for test_sample.cu: C++ can't
 *	  read the engine's headers.
 */
#ifndef VLLM_TESTS_SMP_REF_H
#define VLLM_TESTS_SMP_REF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels.h"

#ifdef __cplusplus
extern "C"
{
#endif

/* A row and its request's parameters; pointers may be NULL. */
typedef struct SmpCase
{
	double		temperature,
				top_p,
				min_p;
	int			top_k;
	uint64_t	seed;
	int			position;
	const uint32_t *mask;		/* a grammar's */
	const uint32_t *allowed;
	const int32_t *bad;			/* words of up to three tokens, 0 ends one */
	int			n_bad;
	int			min_tokens;
	int32_t    *min_ids;
	int			n_min_ids;
	const int32_t *bias_ids;
	const float *bias;
	int			n_bias;
	double		presence,
				frequency,
				repetition;
	const int32_t *tokens;
	int			n_prompt;
	int			n_tokens;
	int			logprobs;		/* -2 none, else of how many of the likeliest */
	bool		logits;			/* not log-probabilities */
} SmpCase;

typedef struct SmpTold
{
	int			n;
	int32_t		id[KSAMPLE_TOP + 1];
	int32_t		rank[KSAMPLE_TOP + 1];
	float		value[KSAMPLE_TOP + 1];
} SmpTold;

/* A row's token; logits are overwritten. */
int32_t		smp_ref_run(const SmpCase *c, float *logits, int width, int n_valid, SmpTold *told);
/* What smpdev_stage() makes of n rows, which are those of the logits. */
size_t		smp_ref_stage(const SmpCase *c, int n, int n_valid, void *buffer);
void		smp_ref_told(const KSampled *s, SmpTold *told);

#ifdef __cplusplus
}
#endif
#endif
