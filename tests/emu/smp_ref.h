/*
 * smp_ref.h
 *	  The engine's own sampler, and its staging for a device's sampler, for test_sample.cu: C++ can't
 *	  include the engine's headers.
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
	const uint32_t *mask;		/* a grammar's mask */
	const uint32_t *allowed;
	const int32_t *bad;			/* words of up to three tokens, each ended by 0 */
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
	int			logprobs;		/* -2 none, else the number of top log-probabilities */
	bool		logits;			/* report logits instead of log-probabilities */
} SmpCase;

typedef struct SmpReported
{
	int			n;
	int32_t		id[KSAMPLE_TOP + 1];
	int32_t		rank[KSAMPLE_TOP + 1];
	float		value[KSAMPLE_TOP + 1];
} SmpReported;

/* Sample a row's token; the logits are overwritten. */
int32_t		smp_ref_run(const SmpCase *c, float *logits, int width, int n_valid, SmpReported *reported);
/* Stage n rows, which are those of the logits, as smpdev_stage() does. */
size_t		smp_ref_stage(const SmpCase *c, int n, int n_valid, void *buffer);
void		smp_ref_reported(const KSampled *s, SmpReported *reported);

#ifdef __cplusplus
}
#endif
#endif
