/*
 * split.h
 *	  Pre-tokenizers: cutting text into the words that are encoded on their own.
 *
 * A matcher is a hand-written function for one regex; splits.def maps the exact
 * regex of a tokenizer.json, and the names that GGUF files use, to matchers.
 * A regex that isn't there is refused by the caller, never approximated.
 */
#ifndef VLLM_TEXT_SPLIT_H
#define VLLM_TEXT_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Length of the match that begins at s, 0 if none does.  [s, end) is valid
 * UTF-8 and not empty.  Leftmost match, alternatives in the regex's order.
 */
typedef size_t (*SplitMatch) (const char *s, const char *end);

/* What becomes of the matches (names and meaning as in tokenizer.json). */
typedef enum SplitBehavior
{
	SPLIT_ISOLATED,				/* each match is a piece, so is what lies between */
	SPLIT_REMOVED,				/* matches are dropped */
	SPLIT_CONTIGUOUS,			/* adjacent matches are one piece */
	SPLIT_WITH_PREVIOUS,		/* a match ends the piece before it */
	SPLIT_WITH_NEXT				/* a match begins the piece after it */
} SplitBehavior;

typedef struct SplitStep
{
	SplitMatch	match;			/* NULL: the literal below */
	const char *lit;			/* not owned */
	size_t		lit_len;
	SplitBehavior behavior;
} SplitStep;

#define SPLIT_MAX_STEPS 8

/* A GGUF pre-tokenizer: steps applied one after the other to every piece. */
typedef struct SplitGguf
{
	const char *name;			/* tokenizer.ggml.pre */
	SplitMatch	step[6];		/* isolated matches; NULL-terminated */
	bool		ignore_merges;
	bool		add_bos;		/* when the file doesn't say */
} SplitGguf;

/* NULL if the regex is unknown.  *total: its matches cover any text. */
SplitMatch	split_by_regex(const char *regex, bool *total);
/* NULL if the name is unknown. */
const SplitGguf *split_by_gguf(const char *name);

/* GPT-2's regex (ByteLevel), runs and single numeric characters (Digits). */
size_t		split_gpt2(const char *s, const char *end);
size_t		split_number(const char *s, const char *end);
/* one character of Punctuation: ASCII punctuation or \p{P} */
size_t		split_punct(const char *s, const char *end);

/*
 * The next piece of s[0..n) at or after *pos: its start and length; advances
 * *pos.  false at the end of the text.
 */
bool		split_next(const SplitStep *st, const char *s, size_t n, size_t *pos,
					   size_t *start, size_t *len);

#endif
