/*
 * logit_rules.h
 *	  Rules of a request that change a row of logits: penalties, biases, allowed and forbidden ids and
 *	  words (docs/user/sampling.md, stages 3 to 6).
 */
#ifndef VLLM_CORE_SAMPLE_LOGIT_RULES_H
#define VLLM_CORE_SAMPLE_LOGIT_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "tokenizer/tokenizer.h"

/* The rules of a request, constant once they are checked.  A request without such parameters has none. */
typedef struct LogitRules
{
	double		presence_penalty;	/* 0 = off */
	double		frequency_penalty;
	double		repetition_penalty; /* 1 = off */
	int32_t    *bias_ids;		/* [n_bias], all different */
	float	   *bias;
	int			n_bias;
	bool		has_allowed;
	IntVec		allowed;		/* as given by the caller */
	char	  **words;			/* [n_words] bad_words as given by the caller, all different */
	int			n_words;
	size_t		words_bytes;
	/* derived from `allowed` and `words` by logit_rules_check(): */
	uint32_t   *allowed_mask;	/* bit id % 32 of word id / 32; NULL = all */
	IntVec		bad;			/* token sequences, one after the other */
	IntVec		bad_ends;		/* end of each sequence in `bad` */
} LogitRules;

LogitRules *logit_rules_new(void);
void		logit_rules_free(LogitRules *r);

/* Add a parameter; returns false with *e naming it.  bias: a JSON object of ids and numbers. */
bool		logit_rules_bias(LogitRules *r, const char *json, size_t n, Err *e);
bool		logit_rules_bad_word(LogitRules *r, const char *s, size_t n, Err *e);

/* Check the rules against the model, once, and prepare them for use.  n_valid: ids that may be sampled. */
bool		logit_rules_check(LogitRules *r, const Tok *tok, int n_valid, Err *e);

/* Counts of a request's tokens; made when a row first needs them, and updated from the request's tokens. */
typedef struct TokenCounts TokenCounts;

void		token_counts_free(TokenCounts *c);

/* Stage 4: bad_words.  Stage 3 only needs allowed_mask. */
void		logit_rules_ban_words(const LogitRules *r, const int32_t *output, int n_output, float *logits,
								  int n_valid);
/* The part of stage 5 that adds logit_bias. */
void		logit_rules_add_bias(const LogitRules *r, float *logits);
/* Stage 6.  counts, tokens: the request's; the first n_prompt tokens are the prompt's. */
void		logit_rules_penalize(const LogitRules *r, TokenCounts **counts, const int32_t *tokens,
								 int n_prompt, int n_tokens, float *logits, int n_valid);

/*
 * The same for code that applies the rules elsewhere (sample_device.c).  Stage 4, on bits like those of
 * allowed_mask:
 */
void		logit_rules_ban_bits(const LogitRules *r, const int32_t *output, int n_output, uint32_t *mask,
								 int n_valid);
/*
 * Stage 6: get the tokens that penalties apply to, and how often each is in the output; returns their
 * number.  ids NULL: only return the number.
 */
int			logit_rules_counts(const LogitRules *r, TokenCounts **counts, const int32_t *tokens, int n_prompt,
							   int n_tokens, int n_valid, int32_t *ids, int32_t *n_output);
/* Get the penalties as floats. */
void		logit_rules_factors(const LogitRules *r, float *presence, float *frequency, float *repetition);

/* Return true if stages 3 and 4 may leave no token. */
static inline bool
logit_rules_forbid(const LogitRules *r)
{
	return r->allowed_mask != NULL || r->bad_ends.len > 0;
}

#endif
