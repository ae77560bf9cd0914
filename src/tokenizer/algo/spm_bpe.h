/*
 * spm_bpe.h
 *	  SentencePiece BPE: merge by scores, as for GGUF's "llama" vocabularies.
 */
#ifndef VLLM_TOKENIZER_ALGO_SPM_BPE_H
#define VLLM_TOKENIZER_ALGO_SPM_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "tokenizer/merge_heap.h"
#include "tokenizer/token_table.h"

typedef struct Spm Spm;

/* Scratch memory of one encoding; zeroed at first, freed with spm_work_free(). */
typedef struct SpmWork
{
	struct SpmSym *sym;
	size_t		cap;
	Heap		heap;
} SpmWork;

/*
 * names: the index has the tokens that text may become; byte_id[256]: tokens of single bytes or -1;
 * scores[n]: by id; unk: -1 = bytes without a token are dropped; fuse_unk: adjacent unknown characters
 * become one unknown token, otherwise each byte becomes one.
 */
Spm		   *spm_new(const StrTab *names, const int32_t *byte_id, const float *scores,
					size_t n, int32_t unk, bool fuse_unk);
void		spm_free(Spm *m);
/* Append the ids of s[0..n) (valid UTF-8, spaces already U+2581; n < 2^31). */
void		spm_encode(const Spm *m, SpmWork *w, const char *s, size_t n, IntVec *out);
void		spm_work_free(SpmWork *w);

#endif
