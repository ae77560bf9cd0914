/*
 * detokenizer.h
 *	  Incremental detokenizer of one answer: token ids in, UTF-8 text out.
 *
 * Never hands out part of a character: bytes that may still become valid UTF-8
 * are held back; bytes that can't become valid are given as U+FFFD.  The last
 * prompt tokens serve as context, so that the first output token keeps its
 * space (SentencePiece), and no byte of the prompt ever appears in the output.
 *
 * Invariant (tested): the concatenation of all output of any chunking, with
 * detok_finish() at the end, equals tok_decode() of prompt+answer with the
 * decoded prompt cut off.
 */
#ifndef VLLM_TOKENIZER_DETOKENIZER_H
#define VLLM_TOKENIZER_DETOKENIZER_H

#include "tokenizer/tokenizer.h"

typedef struct Detok Detok;

/*
 * skip_special: special ids give no text.  context: last prompt ids; NULL: nobody knows them, but there are
 * n_context of them.
 */
Detok	   *detok_new(const Tok *t, const int32_t *context, size_t n_context, bool skip_special);
/* From here on no space stands between special tokens. */
void		detok_tighten(Detok *d);
void		detok_free(Detok *d);
void		detok_push(Detok *d, int32_t id, Buf *out);	/* appends finished characters to *out */
void		detok_finish(Detok *d, Buf *out);	/* flushes what is held back */

#endif
