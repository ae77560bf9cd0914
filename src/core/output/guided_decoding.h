/*
 * guided_decoding.h
 *	  A grammar over a sequence's output: masks for the sampler, the end, and what is
 *	  forced.
 *
 *	 Constraints	a model's side: its tokens as grammars see them, and the masks of a step
 *	 Constraint		a sequence's: where its output stands in the grammar
 *
 * Masks are made on a thread of their own while the model computes the step: they depend
 * on nothing but tokens that are there already.  docs/user/structured-output.md tells the whole.
 */
#ifndef VLLM_CORE_OUTPUT_GUIDED_DECODING_H
#define VLLM_CORE_OUTPUT_GUIDED_DECODING_H

#include "core/core_internal.h"
#include "grammar/grammar.h"

/* n_valid: ids that may be sampled; end: those that end an answer; jump: append what is forced. */
Constraints *constraints_new(const Tok *tok, const IntVec *end, int n_valid, int max_seqs, bool jump);
void		constraints_free(Constraints *cs);
/*
 * Be ready for grammars: the vocabulary is made when it is first wanted.  Any thread; takes
 * some tenths of a second the first time.  ERR_UNSUPPORTED: not with this tokenizer.
 */
bool		constraints_prepare(Constraints *cs, Err *e);

/*
 * After constraints_prepare().  Takes over the reference.  mark: the output is free until it has this text,
 * a literal, in which anything may stand at a MARK_GAP; NULL = it isn't.  may_end: it may also end before
 * that.  jump: what is forced may be appended.
 */
Constraint *constraint_new(Constraints *cs, Grammar *g, const char *mark, bool may_end, bool jump);
Constraint *constraint_fork(const Constraint *c);
void		constraint_free(Constraint *c); /* NULL will do */

/* ---- the step thread ---- */

/* The plan's masks begin to be made. */
void		constraints_begin(Constraints *cs, const Plan *plan);
/* The plan's masks are complete. */
void		constraints_wait(Constraints *cs);
/* Of the plan's i-th entry; NULL = everything may come. */
const uint32_t *constraints_mask(const Constraints *cs, int i);
/* Why there is none of the i-th entry, which then has one that allows everything; NULL = there is. */
const Err  *constraints_error(const Constraints *cs, int i);

/*
 * The newest token of r->tokens: *res becomes an end if the text is complete and can't go on.
 * False with *e set: a limit.
 */
bool		constraint_token(Constraint *c, const Req *r, OutResult *res, Err *e);
/* Does it say what may come next?  Not before the thoughts are over. */
bool		constraint_active(const Constraint *c);
/* Can nothing but the end follow? */
bool		constraint_finished(Constraint *c);
/*
 * Append to *out the tokens, at most max, of the text that must follow, as far as the
 * tokenizer would make them of it whatever comes after.
 */
void		constraint_forced(Constraint *c, const Req *r, int max, IntVec *out);

#endif
