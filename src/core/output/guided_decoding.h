/*
 * guided_decoding.h
 *	  Apply a grammar to a sequence's output: masks for the sampler, the end of the output, and forced
 *	  tokens.
 *
 *	 Constraints	of a model: its tokens in the grammars' form, and the masks of a step
 *	 Constraint		of a sequence: the position of its output in the grammar
 *
 * A thread of its own computes the masks while the model computes the step: masks only depend
 * on tokens that exist already.  docs/user/structured-output.md describes the feature.
 */
#ifndef VLLM_CORE_OUTPUT_GUIDED_DECODING_H
#define VLLM_CORE_OUTPUT_GUIDED_DECODING_H

#include "core/core_internal.h"
#include "grammar/grammar.h"

/* n_valid: ids that may be sampled; end: ids that end an output; jump: append forced tokens. */
Constraints *constraints_new(const Tok *tok, const IntVec *end, int n_valid, int max_seqs, bool jump);
void		constraints_free(Constraints *cs);
/*
 * Prepare for grammars: makes the vocabulary at the first call, which takes some tenths of a second.  Any
 * thread.  ERR_UNSUPPORTED if the tokenizer does not allow grammars.
 */
bool		constraints_prepare(Constraints *cs, Err *e);

/*
 * Make the constraint of a sequence; call constraints_prepare() before.  Takes over the reference to the
 * grammar.  mark: the grammar applies only after the output contains this literal text, in which a
 * MARK_GAP matches any text; NULL = it applies from the start.  may_end: the output may also end before
 * that.  jump: forced tokens may be appended.
 */
Constraint *constraint_new(Constraints *cs, Grammar *g, const char *mark, bool may_end, bool jump);
Constraint *constraint_fork(const Constraint *c);
void		constraint_free(Constraint *c); /* accepts NULL */

/* ---- used by the step thread ---- */

/* Start to compute the plan's masks. */
void		constraints_begin(Constraints *cs, const Plan *plan);
/* Wait until the plan's masks are complete. */
void		constraints_wait(Constraints *cs);
/* Return the mask of the plan's i-th entry; NULL = all ids are allowed. */
const uint32_t *constraints_mask(const Constraints *cs, int i);
/* Return the error because of which the i-th entry has no mask; NULL = no error. */
const Err  *constraints_error(const Constraints *cs, int i);

/*
 * Process the newest token of r->tokens; *res is set to an end if the text is complete and can't
 * continue.  Returns false with *e set at a limit of the grammar.
 */
bool		constraint_token(Constraint *c, const Req *r, OutResult *res, Err *e);
/* Return true if the grammar applies to the next token: not before the reasoning has ended. */
bool		constraint_active(const Constraint *c);
/* Return true if only the end can follow. */
bool		constraint_finished(Constraint *c);
/*
 * Append to *out the tokens, at most max, of the text that must follow, as far as the tokenizer would
 * produce them whatever text comes after.
 */
void		constraint_forced(Constraint *c, const Req *r, int max, IntVec *out);

#endif
