/*
 * pretokenizer.h
 *	  Pre-tokenizers: cut text into the words that are encoded separately.
 *
 * A matcher is a hand-written function for one regex; pretokenizers.def maps the exact regex of a
 * tokenizer.json to it, and the names that GGUF files use to regexes. pcre_pattern.c handles regexes
 * without a matcher.
 */
#ifndef VLLM_TOKENIZER_PRETOK_PRETOKENIZER_H
#define VLLM_TOKENIZER_PRETOK_PRETOKENIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "tokenizer/pretok/pcre_pattern.h"

/*
 * Return the length of the match that begins at s, 0 if there is none.  [s, end) is valid UTF-8 and not
 * empty.  Leftmost match, alternatives in the regex's order.
 */
typedef size_t (*SplitMatch) (const char *s, const char *end);

/* What happens to the matches (names and meaning as in tokenizer.json). */
typedef enum SplitBehavior
{
	SPLIT_ISOLATED,				/* each match is a piece, and so is the text between */
	SPLIT_REMOVED,				/* matches are dropped */
	SPLIT_CONTIGUOUS,			/* adjacent matches are one piece */
	SPLIT_WITH_PREVIOUS,		/* a match is the end of the piece before it */
	SPLIT_WITH_NEXT				/* a match is the beginning of the piece after it */
} SplitBehavior;

typedef struct SplitStep
{
	SplitMatch	match;			/* one of three: a function, */
	PcrePattern *rx;				/* a regular expression, */
	const char *lit;			/* or a literal; not owned */
	size_t		lit_len;
	SplitBehavior behavior;
	bool		invert;			/* the text between matches counts as matches */
} SplitStep;

#define SPLIT_MAX_STEPS 16

/* A GGUF pre-tokenizer: regexes applied one after the other to every piece. */
typedef struct SplitGguf
{
	const char *name;			/* tokenizer.ggml.pre */
	const char *regex[SPLIT_MAX_STEPS]; /* isolated matches; NULL-terminated */
	bool		ignore_merges;
	bool		add_bos;		/* if the file doesn't say */
	bool		add_sep;		/* SEP or EOS after the text, if the file doesn't say */
	bool		spm;			/* plain text, with spaces as U+2581 */
} SplitGguf;

/* Return the matcher for a regex; NULL if there is none. */
SplitMatch	split_by_regex(const char *regex);
/* Return NULL if the name is unknown. */
const SplitGguf *split_by_gguf(const char *name);

/* GPT-2's regex (ByteLevel); one numeric character (Digits). */
size_t		split_gpt2(const char *s, const char *end);
size_t		split_digit(const char *s, const char *end);
/* Punctuation's splits: ASCII punctuation or P; one white space character; a run of \w. */
size_t		split_punct(const char *s, const char *end);
size_t		split_space(const char *s, const char *end);
size_t		split_word(const char *s, const char *end);
/* A run of characters of one script, as in UnicodeScripts. */
size_t		split_script(const char *s, const char *end);

/* A segment of the text being cut; see split_begin(). */
typedef struct SplitSeg
{
	size_t		start;
	size_t		end;
	bool		match;
} SplitSeg;

typedef struct SplitIter
{
	const SplitStep *st;
	RxWork	   *rx;				/* for steps that need it */
	const char *s;
	size_t		n;
	size_t		pos;			/* segments have been made up to here */
	SplitSeg	next[2];		/* segments not yet returned */
	int			n_next;
	bool		ended;
	Err		   *e;
	bool		failed;			/* *e is set */
} SplitIter;

/* Begin to cut s[0..n), which must not move.  rx: scratch memory of this step. */
void		split_begin(SplitIter *it, const SplitStep *st, RxWork *rx, const char *s, size_t n, Err *e);
/* Return the next piece (never empty): its start and length.  Return false at the end, or if it
 * failed. */
bool		split_next(SplitIter *it, size_t *start, size_t *len);

#endif
