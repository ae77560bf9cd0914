/*
 * offsets.h
 *	  Private to src/text: where in a text its tokens stand.
 *
 * While a text is encoded each buffer that it goes through has an Align: of each of
 * its bytes, from where to where in the text it comes.  What a step of the normalizer
 * makes of a character is found by applying it to that character alone, or with those
 * behind it, so that no step has to know of this.
 */
#ifndef VLLM_TOKENIZER_OFFSETS_H
#define VLLM_TOKENIZER_OFFSETS_H

#include "tokenizer/tokenizer_internal.h"

typedef struct Align
{
	const char *base;			/* the buffer */
	size_t		len;
	IntVec		begin;			/* of each byte; empty: the buffer is the text */
	IntVec		end;
} Align;

/* Of the buffer's bytes [from, to): where in the text. */
int32_t		align_begin(const Align *a, const char *from);
int32_t		align_end(const Align *a, const char *from, const char *to);
void		align_free(Align *a);

/* to: of out, which the normalizer has made of s[0..n), a part of a's buffer. */
bool		align_normalized(const Tok *t, const Align *a, const char *s, size_t n, unsigned edges,
							 const Buf *out, Align *to, Err *e);
/* to: of b, which a step of the pre-tokenizer has made of s[0..n): by `kind` of it. */
void		align_pre(const PreStep *p, const Align *a, const char *s, size_t n, const Buf *b, Align *to);
/* Where the ids from number `first` on stand, of the word s[0..n); two offsets of bytes for each. */
void		align_word(const Tok *t, const Align *a, const char *s, size_t n, const IntVec *ids, size_t first,
					   IntVec *spans);

#endif
