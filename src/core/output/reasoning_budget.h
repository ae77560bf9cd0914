/*
 * reasoning_budget.h
 *	  How long a model may think: thinking_token_budget.
 *
 * A request's tokens are read as its reasoning parser reads their text, so the thoughts that
 * are counted are those that the caller gets as reasoning.  When the budget is used up, the
 * tokens of the end tag must come, one a step, whatever the model's logits are.
 *
 * It is a function of the answer's tokens alone, so batches and preemption leave it as it is.
 */
#ifndef VLLM_CORE_OUTPUT_REASONING_BUDGET_H
#define VLLM_CORE_OUTPUT_REASONING_BUDGET_H

#include "base/buf.h"
#include "parsers/parsers.h"
#include "tokenizer/tokenizer.h"

#define THOUGHTS_NO_BUDGET	(-1)

typedef struct ReasoningBudget ReasoningBudget;

/*
 * end: the end tag's tokens, taken over; kwargs: as of reason_parser_new(); tag_only: nothing else ends them.
 */
ReasoningBudget *rbudget_new(const ReasonFormat *f, const char *kwargs, size_t n_kwargs, ReasonAt at,
							 int budget, bool tag_only,
						 IntVec *end);
/* Of another answer to the same prompt, which has no thoughts yet. */
ReasoningBudget *rbudget_fork(const ReasoningBudget *t);
void		rbudget_free(ReasoningBudget *t);

/* Take in the newest of the answer's n tokens. */
void		rbudget_token(ReasoningBudget *t, const Tok *tok, const int32_t *ids, int n);
/* Is there a budget? */
bool		rbudget_limited(const ReasoningBudget *t);
/* What must come next, -1 = anything. */
int32_t		rbudget_forced(const ReasoningBudget *t);
/* The largest of the end tag's ids. */
int32_t		rbudget_highest_id(const ReasoningBudget *t);
/* Tokens of the thoughts so far, without those of the tags. */
int			rbudget_count(const ReasoningBudget *t);

/* Do the prompt's tokens end within thoughts?  By which of the tags comes last. */
bool		rbudget_open(const int32_t *ids, size_t n, const IntVec *start, const IntVec *end);

#endif
