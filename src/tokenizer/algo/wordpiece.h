/*
 * wordpiece.h
 *	  WordPiece: the longest token at each position of a word, or the unknown token.
 */
#ifndef VLLM_TOKENIZER_ALGO_WORDPIECE_H
#define VLLM_TOKENIZER_ALGO_WORDPIECE_H

#include <stdbool.h>

#include "base/buf.h"
#include "tokenizer/token_table.h"

typedef struct WordPiece WordPiece;

typedef struct WordPieceConf
{
	const StrTab *names;		/* vocabulary, indexed by spelling; not used after wordpiece_new() */
	size_t		n_ids;
	const bool *skip;			/* [n_ids] tokens that text can't become */
	const char *first;			/* prefix of tokens that begin a word */
	const char *rest;			/* prefix of tokens that continue a word; "" = none */
	size_t		max_chars;		/* longer words are unknown */
	int32_t		unk;
} WordPieceConf;

WordPiece  *wordpiece_new(const WordPieceConf *c);
void		wordpiece_free(WordPiece *m);
/* Append the ids of a word (valid UTF-8, n > 0). */
void		wordpiece_encode(const WordPiece *m, const char *s, size_t n, IntVec *out);

#endif
