/*
 * spec_internal.h
 *	  A model's speculation, for the files that make it: spec.c and draft_length.c.
 */
#ifndef VLLM_CORE_SPEC_SPEC_INTERNAL_H
#define VLLM_CORE_SPEC_SPEC_INTERNAL_H

#include "core/spec/spec.h"

#define SPEC_HITS		0.7		/* how often drafts are right, before there were any */

/*
 * Sums over the latest steps: their number, rows, microseconds, and products of these; old ones count less.
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
	SpecAsk    *asks;			/* [max_seqs] */
	int			max_rows;		/* of a step that decodes: beyond these there are no logits */
	/* draft_length.c */
	double		hits[2];		/* as SpecReq's, over all requests */
	double		graded[SPEC_GRADES][2]; /* the same for drafts of each grade */
	SpecTimes	times;
	/* that it takes to make drafts one token further (SPEC_DEAR); 0 = not known, or none */
	double		draft_us;
	int64_t		made_us;		/* time to make the drafts of the current step */
	bool		mixed;			/* the last plan had rows of prompts */
};

/*
 * How many drafts are worth being made, in a step of n_rows rows, with prompts or without?  asks[].most is
 * cut; who is left comes first.  Returns their number.
 */
int			spec_afford(Spec *s, SpecAsk *asks, int n, int n_rows, bool prompts);
/* They have been made, the longest of so many tokens. */
void		spec_made(Spec *s, int depth, int64_t us);

#endif
