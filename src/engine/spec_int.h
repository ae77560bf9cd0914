/*
 * spec_int.h
 *	  A model's speculation, for the files that make it: spec.c and spec_choose.c.
 */
#ifndef VLLM_ENGINE_SPEC_INT_H
#define VLLM_ENGINE_SPEC_INT_H

#include "engine/spec.h"

#define SPEC_HITS		0.5		/* how often drafts are right, before there were any */
#define SPEC_SIZES		24		/* sizes of steps whose times are known */

struct Spec
{
	SpecConfig	conf;
	SpecEnv		env;
	void	   *proposer;
	SpecAsk    *asks;			/* [max_seqs] */
	/* spec_choose.c */
	double		hits;			/* how often drafts are right, of late, over all requests */
	double		us[SPEC_SIZES]; /* time of a step of so many rows; 0 = not seen */
	int			since_probe;	/* steps in which nobody was ahead though drafts were there */
};

/* How many drafts are worth being made?  asks[].most is cut; who is left comes first.  Returns their number. */
int			spec_afford(Spec *s, SpecAsk *asks, int n, int n_rows);

#endif
