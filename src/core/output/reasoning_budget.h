/*
 * reasoning_budget.h
 *	  Limit a model's reasoning tokens: thinking_token_budget.
 *
 * The request's reasoning parser processes each token's text, so exactly those tokens are counted that
 * the caller gets as reasoning.  When the budget is used up, the tokens of the end tag are forced, one
 * per step, whatever the model's logits are.
 *
 * The state is a function of the output's tokens alone, so batching and preemption do not affect it.
 */
#ifndef VLLM_CORE_OUTPUT_REASONING_BUDGET_H
#define VLLM_CORE_OUTPUT_REASONING_BUDGET_H

#include "base/buf.h"
#include "parsers/parsers.h"
#include "tokenizer/tokenizer.h"

#define THOUGHTS_NO_BUDGET	(-1)

typedef struct ReasoningBudget ReasoningBudget;

/*
 * end: the end tag's tokens, whose memory is taken over; kwargs: as for reason_parser_new(); tag_only:
 * only the end tag ends the reasoning.
 */
ReasoningBudget *rbudget_new(const ReasonFormat *f, const char *kwargs, size_t n_kwargs, ReasonAt at,
							 int budget, bool tag_only,
						 IntVec *end);
/* Copy the state for another answer to the same prompt, before it has reasoning tokens. */
ReasoningBudget *rbudget_fork(const ReasoningBudget *t);
void		rbudget_free(ReasoningBudget *t);

/* Process the newest of the output's n tokens. */
void		rbudget_token(ReasoningBudget *t, const Tok *tok, const int32_t *ids, int n);
/* Return true if there is a budget. */
bool		rbudget_limited(const ReasoningBudget *t);
/* Return the token that must come next, -1 = any. */
int32_t		rbudget_forced(const ReasoningBudget *t);
/* Return the largest of the end tag's ids. */
int32_t		rbudget_highest_id(const ReasoningBudget *t);
/* Return the number of reasoning tokens so far, without those of the tags. */
int			rbudget_count(const ReasoningBudget *t);

/* Return true if the prompt ends within reasoning, that is, if the last tag in it is a start tag. */
bool		rbudget_open(const int32_t *ids, size_t n, const IntVec *start, const IntVec *end);

#endif
