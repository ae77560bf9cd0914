/*
 * logit_rules.h
 *	  What a request's parameters do to a row of logits: penalties, biases, ids and words
 *	  that are allowed or forbidden (docs/user/sampling.md, stages 3 to 6).
 */
#ifndef VLLM_CORE_SAMPLE_LOGIT_RULES_H
#define VLLM_CORE_SAMPLE_LOGIT_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "tokenizer/tokenizer.h"

/* A request's, fixed once they are checked.  A request without any has none of these. */
typedef struct LogitRules
{
	double		presence_penalty;	/* 0 = off */
	double		frequency_penalty;
	double		repetition_penalty; /* 1 = off */
	int32_t    *bias_ids;		/* [n_bias], all different */
	float	   *bias;
	int			n_bias;
	bool		has_allowed;
	IntVec		allowed;		/* as given */
	char	  **words;			/* [n_words] bad_words as given, all different */
	int			n_words;
	size_t		words_bytes;
	/* made of the two by logit_rules_check() */
	uint32_t   *allowed_mask;	/* bit id % 32 of word id / 32; NULL = all */
	IntVec		bad;			/* token sequences, one behind the other */
	IntVec		bad_ends;		/* where each ends in `bad` */
} LogitRules;

LogitRules *logit_rules_new(void);
void		logit_rules_free(LogitRules *r);

/* Take a parameter; false: *e names it.  bias: a json object of ids and numbers. */
bool		logit_rules_bias(LogitRules *r, const char *json, size_t n, Err *e);
bool		logit_rules_bad_word(LogitRules *r, const char *s, size_t n, Err *e);

/* Check against the model, once, and make what application needs.  n_valid: ids that may be sampled. */
bool		logit_rules_check(LogitRules *r, const Tok *tok, int n_valid, Err *e);

/*
 * How often each token has come; a request's, made when a row first needs it and chasing the
 * request's tokens.
 */
typedef struct TokenCounts TokenCounts;

void		token_counts_free(TokenCounts *c);

/* Stage 4: bad_words.  Stage 3 is allowed_mask. */
void		logit_rules_ban_words(const LogitRules *r, const int32_t *output, int n_output, float *logits,
								  int n_valid);
/* Of stage 5: logit_bias. */
void		logit_rules_add_bias(const LogitRules *r, float *logits);
/* Stage 6.  counts: the request's; tokens: the request's, n_prompt of them its prompt's. */
void		logit_rules_penalize(const LogitRules *r, TokenCounts **counts, const int32_t *tokens,
								 int n_prompt, int n_tokens, float *logits, int n_valid);

/* The same for whoever applies them elsewhere (sample_device.c).  Stage 4, of bits as allowed_mask's: */
void		logit_rules_ban_bits(const LogitRules *r, const int32_t *output, int n_output, uint32_t *mask,
								 int n_valid);
/*
 * stage 6: the tokens that penalties are about, how often each is in the answer; returns their number.  ids
 * NULL: just that
 */
int			logit_rules_counts(const LogitRules *r, TokenCounts **counts, const int32_t *tokens, int n_prompt,
							   int n_tokens, int n_valid, int32_t *ids, int32_t *n_output);
/* The penalties, as they are applied to floats. */
void		logit_rules_factors(const LogitRules *r, float *presence, float *frequency, float *repetition);

/* Can stages 3 and 4 leave nothing? */
static inline bool
logit_rules_forbid(const LogitRules *r)
{
	return r->allowed_mask != NULL || r->bad_ends.len > 0;
}

#endif
