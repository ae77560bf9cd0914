/*
 * spec_config.h
 *	  Configuration of speculation: the object speculative_config.
 */
#ifndef VLLM_CORE_SPEC_SPEC_CONFIG_H
#define VLLM_CORE_SPEC_SPEC_CONFIG_H

#include <stdbool.h>

#include "base/err.h"

#define SPEC_MAX_DRAFTS	32		/* most draft tokens of a request */
#define SPEC_PATH		1024

struct ProposerType;

/* Zeroed: no speculation. */
typedef struct SpecConfig
{
	const struct ProposerType *type;	/* from "method"; NULL = off */
	bool		requested;		/* set in the model's own options, so it is an error if it is not possible */
	int			n_drafts;		/* most draft tokens of a request */
	int			max_batch;		/* no drafts while more requests decode; 0 = no limit */
	/* for ngram: */
	int			lookup_max;
	int			lookup_min;
	/* for suffix: */
	int			depth;			/* depth of the tree: matching tokens plus draft tokens */
	int			max_cached;		/* outputs that are kept; 0 = none */
	double		max_factor;		/* drafts per matching token */
	double		min_prob;		/* least estimated probability of a draft */
	/*
	 * for methods with weights; drafter_loader.c finds out the method if only the path is given, and the
	 * number of drafts
	 */
	char		model[SPEC_PATH];	/* path; "" = none */
	char		quantization[16];	/* scheme for its weights: a QuantScheme's name, "" = not converted */
} SpecConfig;

/* Parse the object; "" or "null" = no speculation.  Errors name the key. */
bool		spec_config_parse(const char *text, SpecConfig *out, Err *e);

#endif
