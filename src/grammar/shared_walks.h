/*
 * shared_walks.h
 *	  What the lexer has found in a vocabulary, for all grammars.
 *
 * Grammars have universes of their own, but the inside of a string is the same in all of
 * them.  Walks that take long are kept with the vocabulary under what the state is made of.
 */
#ifndef VLLM_GRAMMAR_SHARED_WALKS_H
#define VLLM_GRAMMAR_SHARED_WALKS_H

#include "grammar/cfg/lexer.h"
#include "grammar/vocab_trie.h"

typedef struct Tokens
{
	uint32_t   *v;				/* ids, or a mask's words */
	uint32_t	n;				/* TOKENS_MASK: it is a mask */
} Tokens;

#define TOKENS_MASK	UINT32_MAX

typedef struct Ending
{
	uint32_t	node;			/* of the trie */
	uint32_t	done;			/* lexemes that end there */
	bool		all;			/* and at all nodes below where a character is complete */
} Ending;

/* What the lexer finds in one slice. */
typedef struct Found
{
	Tokens		tokens;
	Ending	   *ending;
	uint32_t	n;
	bool		shared;			/* the tokens are the vocabulary's */
} Found;

#define SHARED_LEXEMES	32

/* A state as others know it. */
typedef struct SharedKey
{
	Buf			text;
	ReNode		lexeme[SHARED_LEXEMES]; /* in the order of the text */
	uint32_t	n;
} SharedKey;

/* False if the state is too large to be shared.  Free key->text either way. */
bool		shared_key(const Lexer *l, uint32_t slice, uint32_t state, SharedKey *key);
/* True if it is known; *out is the caller's then, but for the tokens. */
bool		shared_find(GramVocab *v, const SharedKey *key, Lexer *l, Found *out);
/* Keep what has been found; if there is room the tokens are the vocabulary's afterwards. */
void		shared_keep(GramVocab *v, const SharedKey *key, const Lexer *l, Found *f);
struct VocabShared *shared_new(void);
void		shared_free(struct VocabShared *s);

#endif
