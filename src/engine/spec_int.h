/*
 * spec_int.h
 *	  A model's speculation, for the files that make it: spec.c and spec_choose.c.
 */
#ifndef VLLM_ENGINE_SPEC_INT_H
#define VLLM_ENGINE_SPEC_INT_H

#include "engine/spec.h"

#define SPEC_HITS		0.7		/* how often drafts are right, before there were any */

/* Sums over the latest steps: their number, rows, microseconds, and products of these; old ones count less. */
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
	/* spec_choose.c */
	double		hits[2];		/* as SpecReq's, over all requests */
	double		graded[SPEC_GRADES][2]; /* ... and of drafts of each grade */
	SpecTimes	times;
};

/* How many drafts are worth being made?  asks[].most is cut; who is left comes first.  Returns their number. */
int			spec_afford(Spec *s, SpecAsk *asks, int n, int n_rows);

#endif
