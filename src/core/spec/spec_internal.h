/*
 * spec_internal.h
 *	  The private state of a model's speculation, for spec.c and draft_length.c.
 */
#ifndef VLLM_CORE_SPEC_SPEC_INTERNAL_H
#define VLLM_CORE_SPEC_SPEC_INTERNAL_H

#include "core/spec/spec.h"

#define SPEC_HITS		0.7		/* assumed acceptance rate of drafts before any was made */

/*
 * Weighted sums over recent steps: number of steps, rows, microseconds, and products of these.  Older
 * steps have less weight.
 */
typedef struct SpecTimes
{
	double		weight;
	double		n;
	double		nn;
	double		us;
	double		n_us;
} SpecTimes;

struct Spec
{
	SpecConfig	conf;
	SpecEnv		env;
	void	   *proposer;
	DraftRequest *reqs;			/* [max_seqs] */
	int			max_rows;		/* of a step that only decodes: there are no logits for more rows */
	/* used by draft_length.c: */
	double		hits[2];		/* like SpecReq.hits, over all requests */
	double		graded[SPEC_GRADES][2]; /* the same for drafts of each grade */
	SpecTimes	times;
	/* time to make drafts one token longer (SPEC_COSTLY); 0 = unknown, or none */
	double		draft_us;
	int64_t		drafting_us;	/* time that making the current step's drafts took */
	bool		mixed;			/* the last plan had rows of prompts */
};

/*
 * Choose how many drafts are worth making in a step of n_rows rows, with or without prompts.  Reduces
 * asks[].most, and moves the requests that still get drafts to the front; returns their number.
 */
int			spec_afford(Spec *s, DraftRequest *reqs, int n, int n_rows, bool prompts);
/* Drafts were made; the longest has `depth` tokens. */
void		spec_drafted(Spec *s, int depth, int64_t us);

#endif
