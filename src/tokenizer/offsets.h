/*
 * offsets.h
 *	  Private to src/tokenizer: the positions of tokens in the text.
 *
 * While a text is encoded, each buffer that it passes through has an Align: for each byte of the buffer,
 * the range of the text from which it comes.  To find which characters a step of the normalizer makes of
 * a character, the step is applied to that character alone, or together with the following ones, so that
 * no step needs code for this.
 */
#ifndef VLLM_TOKENIZER_OFFSETS_H
#define VLLM_TOKENIZER_OFFSETS_H

#include "tokenizer/tokenizer_internal.h"

typedef struct Align
{
	const char *base;			/* the buffer */
	size_t		len;
	IntVec		begin;			/* of each byte; empty: the buffer is the text itself */
	IntVec		end;
} Align;

/* Return where in the text the buffer's bytes [from, to) begin and end. */
int32_t		align_begin(const Align *a, const char *from);
int32_t		align_end(const Align *a, const char *from, const char *to);
void		align_free(Align *a);

/* Set `to` to the alignment of out, which the normalizer has made of s[0..n), a part of a's buffer. */
bool		align_normalized(const Tok *t, const Align *a, const char *s, size_t n, unsigned edges,
							 const Buf *out, Align *to, Err *e);
/* Set `to` to the alignment of b, which the pre-tokenizer step p has made of s[0..n). */
void		align_pre(const PreStep *p, const Align *a, const char *s, size_t n, const Buf *b, Align *to);
/* Append the positions of the ids from number `first` on, of the word s[0..n); two byte offsets for
 * each. */
void		align_word(const Tok *t, const Align *a, const char *s, size_t n, const IntVec *ids, size_t first,
					   IntVec *spans);

#endif
