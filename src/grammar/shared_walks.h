/*
 * shared_walks.h
 *	  Results of the lexer's walks over a vocabulary, shared by all grammars.
 *
 * Each grammar has its own universe of expressions, but the inside of a string is the same in all of
 * them.  The vocabulary keeps the results of long walks, under a key made of the content of the lexer's
 * state.
 */
#ifndef VLLM_GRAMMAR_SHARED_WALKS_H
#define VLLM_GRAMMAR_SHARED_WALKS_H

#include "grammar/cfg/lexer.h"
#include "grammar/vocab_trie.h"

typedef struct Tokens
{
	uint32_t   *v;				/* ids, or a mask's words */
	uint32_t	n;				/* TOKENS_MASK: v is a mask */
} Tokens;

#define TOKENS_MASK	UINT32_MAX

typedef struct Ending
{
	uint32_t	node;			/* of the trie */
	uint32_t	done;			/* lexemes that end there */
	bool		all;			/* also at all nodes below where a character is complete */
} Ending;

/* The result of the lexer's walk over one slice. */
typedef struct Found
{
	Tokens		tokens;
	Ending	   *ending;
	uint32_t	n;
	bool		shared;			/* the vocabulary owns the tokens */
} Found;

#define SHARED_LEXEMES	32

/* A lexer state in a form that is the same in all grammars. */
typedef struct SharedKey
{
	Buf			text;
	ReNode		lexeme[SHARED_LEXEMES]; /* in the order of the key's text */
	uint32_t	n;
} SharedKey;

/* Make the key.  Return false if the state is too large to be shared.  The caller frees key->text in
 * either case. */
bool		shared_key(const Lexer *l, uint32_t slice, uint32_t state, SharedKey *key);
/* Return true if the result is known.  The caller owns *out, except for the tokens. */
bool		shared_find(GramVocab *v, const SharedKey *key, Lexer *l, Found *out);
/* Keep a result.  If there is room for it, the vocabulary owns the tokens afterwards. */
void		shared_keep(GramVocab *v, const SharedKey *key, const Lexer *l, Found *f);
struct VocabShared *shared_new(void);
void		shared_free(struct VocabShared *s);

#endif
