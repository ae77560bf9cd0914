/*
 * spec_config.h
 *	  How to speculate: what the object speculative_config says.
 */
#ifndef VLLM_CORE_SPEC_SPEC_CONFIG_H
#define VLLM_CORE_SPEC_SPEC_CONFIG_H

#include <stdbool.h>

#include "base/err.h"

#define SPEC_MAX_DRAFTS	32		/* tokens that a request may be ahead */
#define SPEC_PATH		1024

struct ProposerType;

/* Zeroed: no speculation. */
typedef struct SpecConfig
{
	const struct ProposerType *type;	/* "method"; NULL = off */
	bool		asked;			/* by the model's own options: what can't be done is an error */
	int			n_drafts;		/* most tokens that a request may be ahead */
	int			max_batch;		/* while more requests decode nobody is ahead; 0 = no limit */
	/* ngram */
	int			lookup_max;
	int			lookup_min;
	/* suffix */
	int			depth;			/* of the tree: tokens compared and proposed, together */
	int			max_cached;		/* answers that are remembered; 0 = none */
	double		max_factor;		/* so many drafts for each token that was the same */
	double		min_prob;		/* a draft's least estimated probability */
	/*
	 * of what has weights; drafter_loader.c says the method, if only the path is given, and how many drafts
	 */
	char		model[SPEC_PATH];	/* path; "" = none */
	char		quantization[16];	/* of its weights: a QuantScheme's name, "" = as they are */
} SpecConfig;

/* text: the object, "" or "null" = no speculation.  Errors name the key. */
bool		spec_config_parse(const char *text, SpecConfig *out, Err *e);

#endif
