/*
 * added_tokens.h
 *	  Find added tokens ("<|im_end|>") in text.
 */
#ifndef VLLM_TOKENIZER_ADDED_TOKENS_H
#define VLLM_TOKENIZER_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDED_SPECIAL		1
#define ADDED_SINGLE_WORD	2	/* only if no \w is next to it */
#define ADDED_LSTRIP		4	/* includes the white space before it */
#define ADDED_RSTRIP		8	/* includes the white space after it */
#define ADDED_CONTROL		16	/* named like a special token; set by added_put() */

typedef struct Added Added;

Added	   *added_new(void);
void		added_free(Added *a);
/* Return true if it has a name that only control tokens have: "<|user|>", the same with U+FF5C,
 * "[|user|]". */
bool		added_looks_special(const char *s, size_t n);
/* Add a pattern (not empty).  If it is added twice the last id and flags count. */
void		added_put(Added *a, const char *s, size_t n, int32_t id, unsigned flags);

/*
 * Find the next token in s[0..n) (valid UTF-8).  *scan is where the search continues, *done the end of
 * the last token found; the caller sets both to 0 before the first call.  The text before the token is
 * [old *done, *start), which is empty if *start is before old *done. no_special: special tokens count as
 * text.  marks (NULL, or [n]): special tokens with a marked byte count as text, and so do other tokens
 * that are named like special ones (some files declare the tokens that begin turns as ordinary).
 */
bool		added_next(const Added *a, const char *s, size_t n, bool no_special, const uint8_t *marks,
					   size_t *scan, size_t *done, size_t *start, int32_t *id);

#endif
