/*
 * added_tokens.h
 *	  Finding added tokens ("<|im_end|>") in text.
 */
#ifndef VLLM_TOKENIZER_ADDED_TOKENS_H
#define VLLM_TOKENIZER_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDED_SPECIAL		1
#define ADDED_SINGLE_WORD	2	/* only where no \w is next to it */
#define ADDED_LSTRIP		4	/* takes the white space before it */
#define ADDED_RSTRIP		8	/* takes the white space after it */
#define ADDED_CONTROL		16	/* called like a special token, set by added_put() */

typedef struct Added Added;

Added	   *added_new(void);
void		added_free(Added *a);
/* Is it called as only control tokens are?  "<|user|>", the same with U+FF5C, "[|user|]". */
bool		added_looks_special(const char *s, size_t n);
/* A pattern (not empty) given twice has its last id and flags. */
void		added_put(Added *a, const char *s, size_t n, int32_t id, unsigned flags);

/*
 * The next token in s[0..n) (valid UTF-8).  *scan is where to look on, *done
 * the end of the last token found; both begin at 0 and are advanced.  The text
 * before the token is [old *done, *start), which is empty if *start lies before
 * it.  no_special: special tokens are taken for text.  marks (NULL, or [n]): so are
 * those with a byte that is marked, and other tokens that are called like special ones (some
 * files call the tokens that begin turns ordinary).
 */
bool		added_next(const Added *a, const char *s, size_t n, bool no_special, const uint8_t *marks,
					   size_t *scan, size_t *done, size_t *start, int32_t *id);

#endif
