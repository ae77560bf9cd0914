/*
 * thoughts.h
 *	  How long a model may think: thinking_token_budget.
 *
 * A request's tokens are read as its reasoning parser reads their text, so the thoughts that
 * are counted are those that the asker gets as reasoning.  When the budget is used up, the
 * tokens of the end tag must come, one a step, whatever the model's logits are.
 *
 * It is a function of the answer's tokens alone, so batches and preemption leave it as it is.
 */
#ifndef VLLM_ENGINE_THOUGHTS_H
#define VLLM_ENGINE_THOUGHTS_H

#include "base/buf.h"
#include "parse/parse.h"
#include "text/tokenizer.h"

#define THOUGHTS_NO_BUDGET	(-1)

typedef struct Thoughts Thoughts;

/* end: the end tag's tokens, taken over; kwargs: as of reason_parser_new(); tag_only: nothing else ends them. */
Thoughts   *thoughts_new(const ReasonFormat *f, const char *kwargs, size_t n_kwargs, ReasonAt at, int budget, bool tag_only,
						 IntVec *end);
/* Of another answer to the same prompt, which has no thoughts yet. */
Thoughts   *thoughts_fork(const Thoughts *t);
void		thoughts_free(Thoughts *t);

/* Take in the newest of the answer's n tokens. */
void		thoughts_token(Thoughts *t, const Tok *tok, const int32_t *ids, int n);
/* Is there a budget? */
bool		thoughts_limited(const Thoughts *t);
/* What must come next, -1 = anything. */
int32_t		thoughts_forced(const Thoughts *t);
/* The largest of the end tag's ids. */
int32_t		thoughts_highest_id(const Thoughts *t);
/* Tokens of the thoughts so far, without those of the tags. */
int			thoughts_count(const Thoughts *t);

/* Do the prompt's tokens end within thoughts?  By which of the tags comes last. */
bool		thoughts_open(const int32_t *ids, size_t n, const IntVec *start, const IntVec *end);

#endif
