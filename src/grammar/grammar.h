/*
 * grammar.h
 *	  The interface of constrained decoding: which tokens may come next.
 *
 *	 Grammar	the language of the allowed texts; compiled once from a request's option
 *	 GramVocab	the bytes of a model's tokens as a trie; built once for each model
 *	 GramMatch	the position of one sequence: accept tokens, compute the mask
 *
 * A Grammar grows while it is used: it makes states and masks when they are first needed and keeps them.
 * Any number of matches in any threads may share it (it locks inside); a GramMatch belongs to one thread
 * at a time; a GramVocab never changes.
 *
 * The mask of a state has a bit for every token whose bytes keep the text completable, and the bits of
 * the end tokens if the text is complete; it never has a bit of another special token.
 */
#ifndef VLLM_GRAMMAR_GRAMMAR_H
#define VLLM_GRAMMAR_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

typedef struct Grammar Grammar;
typedef struct GramVocab GramVocab;
typedef struct GramMatch GramMatch;

typedef enum GramKind
{
	GRAM_JSON_SCHEMA,			/* text: the schema */
	GRAM_JSON_OBJECT,			/* no text */
	GRAM_REGEX,					/* text: matched against the whole output */
	GRAM_CHOICE,				/* choice[] */
	GRAM_GRAMMAR,				/* text: EBNF (rule `root`), or Lark if no line has ::= */
	GRAM_STRUCTURAL_TAG			/* text: JSON */
} GramKind;

/* All false and NULL is the default of a request without options, except for strict. */
typedef struct GramOptions
{
	bool		validate;		/* JSON Schema's own meaning (any order, any white space), for checking
								 * existing texts: its masks may lead to dead ends; else the language for
								 * generation */
	bool		strict;			/* generate: objects without additionalProperties are closed */
	bool		disable_any_whitespace; /* generate: white space only after , and : */
	bool		disable_additional_properties;	/* generate: as if additionalProperties were false
												 * everywhere */
	const char *whitespace_pattern; /* generate: a regex for white space between tokens; NULL = default */
} GramOptions;

typedef struct GramSpec
{
	GramKind	kind;
	const char *text;			/* UTF-8 */
	size_t		len;
	const char *const *choice;
	const size_t *choice_len;
	size_t		n_choices;
	GramOptions opt;
} GramSpec;

/* Compile a grammar.  Return NULL with *e set if the specification is malformed, unsupported (the error
 * names it), or exceeds a limit. */
Grammar    *grammar_new(const GramSpec *spec, Err *e);
Grammar    *grammar_ref(Grammar *g);
void		grammar_unref(Grammar *g);	/* NULL is allowed */
/* Set *yes if the whole text belongs to the language. */
bool		grammar_accepts(Grammar *g, const char *s, size_t n, bool *yes, Err *e);
/* Return the bytes of memory that it uses now. */
size_t		grammar_memory(Grammar *g);

/* ---- vocabulary ---- */

typedef struct GramToken
{
	const char *bytes;
	size_t		len;			/* 0 = never allowed */
	bool		special;		/* never allowed as text */
} GramToken;

/* tokens[i] has id i; end[]: ids that end a text, special or not. */
GramVocab  *gram_vocab_new(const GramToken *tokens, size_t n, const int32_t *end, size_t n_end);
GramVocab  *gram_vocab_ref(GramVocab *v);
void		gram_vocab_unref(GramVocab *v);
/* Return the number of 32-bit words of a mask: (n + 31) / 32. */
size_t		gram_vocab_words(const GramVocab *v);

/* ---- matches ---- */

GramMatch  *gram_match_new(Grammar *g, GramVocab *v);	/* takes its own references */
GramMatch  *gram_match_fork(const GramMatch *m);
void		gram_match_free(GramMatch *m);

/*
 * Advance by a token.  *ok = the token was allowed; if not, nothing changes.  Return false with *e set
 * only if a limit was exceeded.  After an end token nothing more is allowed.
 */
bool		gram_match_token(GramMatch *m, int32_t id, bool *ok, Err *e);
/* Advance by n bytes as one step (rolled back as one). */
bool		gram_match_bytes(GramMatch *m, const char *s, size_t n, bool *ok, Err *e);
/* Take back the last n steps (tokens or gram_match_bytes()), at most all. */
void		gram_match_rollback(GramMatch *m, size_t n);
size_t		gram_match_steps(const GramMatch *m);

/* Compute the mask of the next token: gram_vocab_words() words, bit id % 32 of word id / 32. */
bool		gram_match_mask(GramMatch *m, uint32_t *words, Err *e);

bool		gram_match_accepting(GramMatch *m); /* the text is complete; it may continue */
bool		gram_match_finished(GramMatch *m);	/* only an end token may follow, or one has come */
/*
 * Append the longest run of bytes, at most max, with which every continuation begins (none if the text
 * may end here).  The match does not advance.
 */
bool		gram_match_forced(GramMatch *m, size_t max, Buf *out, Err *e);

#endif
