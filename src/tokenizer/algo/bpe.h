/*
 * bpe.h
 *	  Byte-pair encoding of one pre-token by ranked merges.
 */
#ifndef VLLM_TOKENIZER_ALGO_BPE_H
#define VLLM_TOKENIZER_ALGO_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "tokenizer/merge_heap.h"
#include "tokenizer/token_table.h"

typedef struct Bpe Bpe;

/* Settings of the model object of a tokenizer.json. */
typedef struct BpeConf
{
	const StrTab *names;		/* vocabulary, indexed by spelling; outlives the Bpe */
	size_t		n_ids;
	size_t		n_merges;
	bool		byte_level;		/* the vocabulary spells bytes in GPT-2's alphabet */
	const char *prefix;			/* prefix of symbols that don't begin a word, "" = none */
	const char *suffix;			/* suffix of the symbol that ends a word; not with byte_level */
	bool		byte_fallback;	/* characters without a token become <0xXX> */
	bool		fuse_unk;
	bool		ignore_merges;	/* a word that equals a token becomes that token */
	int32_t		unk;			/* -1 = unknown characters are dropped */
} BpeConf;

/* Scratch memory of one encoding; zeroed at first, freed with bpe_work_free(). */
typedef struct BpeWork
{
	struct BpeSym *sym;
	size_t		cap;
	Heap		heap;
	Buf			name;
} BpeWork;

Bpe		   *bpe_new(const BpeConf *c);
void		bpe_free(Bpe *b);
/* Add a merge (n_merges in all); lower ranks come first; if a pair is added twice the last rank
 * counts. */
void		bpe_add_merge(Bpe *b, int32_t left, int32_t right, int32_t merged, uint32_t rank);
/*
 * Call after the last merge.  skip[id] excludes tokens from whole-word matches (they are special: text
 * must never become one).
 */
void		bpe_finish(Bpe *b, const bool *skip);
/* Append the ids of a word (valid UTF-8 unless byte-level; n < 2^31). */
void		bpe_encode(const Bpe *b, BpeWork *w, const char *s, size_t n, IntVec *out);
void		bpe_work_free(BpeWork *w);

/* Decode a spelling in GPT-2's alphabet; return false if it has other characters. */
bool		bpe_spelled_bytes(const char *s, size_t n, Buf *out);
/* Return the character that spells a byte. */
uint32_t	bpe_byte_char(unsigned char c);

#endif
