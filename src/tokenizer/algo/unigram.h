/*
 * unigram.h
 *	  Unigram: the segmentation of a word with the highest sum of scores.
 */
#ifndef VLLM_TOKENIZER_ALGO_UNIGRAM_H
#define VLLM_TOKENIZER_ALGO_UNIGRAM_H

#include <stdbool.h>

#include "base/buf.h"
#include "tokenizer/token_table.h"

typedef struct Unigram Unigram;

typedef struct UnigramConf
{
	const StrTab *names;		/* vocabulary, indexed by spelling; outlives the Unigram */
	size_t		n_ids;
	const double *score;		/* [n_ids] */
	const bool *skip;			/* [n_ids] tokens that text can't become */
	double		min_score;		/* an unknown character costs 10 more */
	int32_t		unk;
	bool		byte_fallback;	/* unknown text becomes <0xXX>, if all of these exist */
	bool		words;			/* it encodes words: cache the words that are tokens */
} UnigramConf;

/* Scratch memory of one encoding; zeroed at first, freed with unigram_work_free(). */
typedef struct UnigramWork
{
	struct UnigramCell *cell;
	size_t		cap;
	IntVec		rev;			/* ids, last first */
} UnigramWork;

Unigram    *unigram_new(const UnigramConf *c);
void		unigram_free(Unigram *m);
/* Append the ids of a word (valid UTF-8, 0 < n < 2^31). */
void		unigram_encode(const Unigram *m, UnigramWork *w, const char *s, size_t n, IntVec *out);
void		unigram_work_free(UnigramWork *w);

#endif
