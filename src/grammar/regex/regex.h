/*
 * regex.h
 *	  Regular expressions as values: built, combined with and, or, not, and matched byte by byte with
 *	  derivatives.
 *
 * An expression is a number (ReNode) in a universe (Regex); expressions that are equal by a handful of
 * laws (derivative.c) have the same number.  The derivative of x by a byte b is the expression of what
 * may follow b in x, so an expression is its own automaton, made as far as texts need it.  Nothing
 * backtracks, and nothing is unrolled: x{2,1000} is one node.
 *
 * Characters are code points but expressions are over bytes.  In mode RE_RAW a character stands for its
 * UTF-8 bytes; in mode RE_JSON for every spelling between the quotes of a JSON string: itself unless it
 * must be escaped, its short escape (\n \" \/ ...), \uXXXX with hex digits in either case, a pair of
 * surrogates.  So a pattern for the *value* of a string becomes one for its text in JSON, and and, or
 * and not keep their meaning if a negated expression is intersected with all strings:
 * re_and(re_any_text(RE_JSON), re_not(x)).  In mode RE_JSON_USUAL each character has one spelling.
 *
 * A universe has a maximum number of nodes, and a unit of work a maximum number of steps.  Above either
 * limit every operation returns RE_NONE and re_check() fails: call it before using a result.
 *
 * Not thread-safe; a universe belongs to one grammar, which locks.
 */
#ifndef VLLM_GRAMMAR_REGEX_REGEX_H
#define VLLM_GRAMMAR_REGEX_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

typedef struct Regex Regex;
typedef uint32_t ReNode;

#define RE_NONE		0			/* matches nothing */
#define RE_EMPTY	1			/* the empty text */
#define RE_ALL		2			/* any bytes, also none */
#define RE_INF		UINT32_MAX	/* no upper bound of a repetition */

typedef enum ReMode
{
	RE_RAW,						/* UTF-8 */
	RE_JSON,					/* the inside of a JSON string */
	RE_JSON_USUAL				/* the same with one spelling for each character: escapes only where needed */
} ReMode;

typedef struct ReRange
{
	uint32_t	lo,
				hi;				/* code points, both inclusive */
} ReRange;

Regex	   *re_new(uint32_t max_nodes);	/* 0 = the default */
void		re_free(Regex *re);
/* Return false with *e set if a limit of the universe has been exceeded since re_new(). */
bool		re_check(const Regex *re, Err *e);
/* Begin a new unit of work: its steps are counted from 0. */
void		re_begin(Regex *re);
uint64_t	re_work(const Regex *re);	/* steps since re_new() */
size_t		re_memory(const Regex *re);	/* bytes */

/* ---- building ---- */

/* Exclude U+0000, which PostgreSQL's texts can't hold, from all characters built from now on. */
void		re_without_nul(Regex *re);

/* One byte of the set (bit b % 32 of word b / 32). */
ReNode		re_byte_set(Regex *re, const uint32_t set[8]);
/* These bytes unchanged. */
ReNode		re_bytes(Regex *re, const char *s, size_t n);
/* One of n texts; common prefixes are shared, so thousands of texts are fine. */
ReNode		re_texts(Regex *re, const char *const *s, const size_t *len, size_t n, ReMode mode);
/* One character of the ranges (any order, may overlap; surrogates are excluded). */
ReNode		re_class(Regex *re, const ReRange *r, size_t n, ReMode mode);
/* Any single character; any number of characters, also none. */
ReNode		re_any_char(Regex *re, ReMode mode);
ReNode		re_any_text(Regex *re, ReMode mode);

ReNode		re_cat(Regex *re, ReNode a, ReNode b);
ReNode		re_or(Regex *re, ReNode a, ReNode b);
ReNode		re_or_list(Regex *re, const ReNode *a, size_t n);	/* all at once; RE_NONE if n = 0 */
ReNode		re_and(Regex *re, ReNode a, ReNode b);
ReNode		re_not(Regex *re, ReNode a);	/* all other byte strings */
/* Digits that, appended to a number with remainder r, give a multiple of m; "." and "-" are skipped. */
ReNode		re_residue(Regex *re, uint32_t m, uint32_t r);
/* Repeat min .. max times; RE_INF = no upper bound.  min > max matches nothing. */
ReNode		re_repeat(Regex *re, ReNode a, uint32_t min, uint32_t max);

/* ---- patterns (regex_parse.c) ---- */

typedef struct ReSyntax
{
	ReMode		mode;
	bool		search;			/* may match anywhere unless anchored; else must match the whole text */
	/* Rust's notation, else ECMA-262's: they differ in . and [] and in ECMA-262's white space */
	bool		rust;
	/* \d, \w and \s are Unicode's, as after (?u); else ASCII's (but ECMA-262's white space) */
	bool		unicode;
	bool		dot_all;		/* . matches line ends, too */
	bool		no_case;		/* letters match in both cases */
} ReSyntax;

/*
 * Parse a pattern of ECMA-262 or Rust.  Constructs that aren't regular (look-around, back-references,
 * word boundaries) are ERR_UNSUPPORTED by name, malformed patterns ERR_INVALID. ^ and $ may be anywhere.
 * In search mode the result is all texts (characters of the mode) that contain a match.
 */
bool		re_parse(Regex *re, const char *pattern, size_t n, const ReSyntax *syntax, ReNode *out, Err *e);

/* ---- matching ---- */

bool		re_nullable(const Regex *re, ReNode a);	/* matches the empty text */
ReNode		re_deriv(Regex *re, ReNode a, uint8_t b);	/* what may follow b; RE_NONE = nothing */
/* Return true if it matches any text.  Searches for one; if that takes too many steps, a limit is
 * exceeded (re_check()). */
bool		re_live(Regex *re, ReNode a);
/* Return true if it matches the whole of s. */
bool		re_match(Regex *re, ReNode a, const char *s, size_t n);

/*
 * Bytes that no expression distinguishes form one class.  Classes are valid until an expression is built
 * that splits one; so keep them only after building has ended.
 */
const uint8_t *re_classes(Regex *re, uint32_t *n);	/* [256] class of each byte */
ReNode		re_deriv_class(Regex *re, ReNode a, uint32_t cls);
/*
 * Return the same expression without bounds that k bytes can't reach: lower bounds above k become k + 1,
 * upper ones infinite.  It is equivalent for the next k bytes.  (Not inside and/not, where several
 * counts interact; those stay.)
 */
ReNode		re_clamp(Regex *re, ReNode a, uint32_t k);

/*
 * Append the structure of an expression, in a form that is the same in every universe.  Return false if
 * it would take more than max bytes.
 */
bool		re_write(const Regex *re, ReNode a, size_t max, Buf *out);

#endif
