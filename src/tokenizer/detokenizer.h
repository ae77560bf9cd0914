/*
 * detokenizer.h
 *	  Incremental detokenizer of one output: token ids in, UTF-8 text out.
 *
 * It never emits part of a character: bytes that may still become valid UTF-8 are held back; bytes that
 * can't become valid are emitted as U+FFFD.  The last prompt tokens serve as context, so that the first
 * output token keeps its space (SentencePiece), and no byte of the prompt ever appears in the output.
 *
 * Invariant (tested): the concatenation of all emitted text, however the ids are split into calls, with
 * detok_finish() at the end, equals tok_decode() of prompt and output without the decoded prompt.
 */
#ifndef VLLM_TOKENIZER_DETOKENIZER_H
#define VLLM_TOKENIZER_DETOKENIZER_H

#include "tokenizer/tokenizer.h"

typedef struct Detok Detok;

/*
 * skip_special: special ids give no text.  context: last prompt ids; NULL: unknown, but there are
 * n_context of them.
 */
Detok	   *detok_new(const Tok *t, const int32_t *context, size_t n_context, bool skip_special);
/* From now on put no space between special tokens. */
void		detok_tighten(Detok *d);
void		detok_free(Detok *d);
void		detok_push(Detok *d, int32_t id, Buf *out);	/* appends finished characters to *out */
void		detok_finish(Detok *d, Buf *out);	/* emits what is held back */

#endif
