/*
 * plamo.h
 *	  PLaMo 2's segmentation: the cheapest sequence of tokens, read from the end.
 */
#ifndef VLLM_TOKENIZER_ALGO_PLAMO_H
#define VLLM_TOKENIZER_ALGO_PLAMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "tokenizer/token_table.h"

typedef struct Plamo Plamo;

/* Scratch memory of one encoding; zeroed at first, freed with plamo_work_free(). */
typedef struct PlamoWork
{
	struct PlamoCell *cell;
	size_t		cap;
} PlamoWork;

/*
 * names: the vocabulary, indexed by spelling; not used after plamo_new().  skip[id]: text can't become
 * this token.  byte_id[256] must be tokens.
 */
Plamo	   *plamo_new(const StrTab *names, const int32_t *byte_id, const float *scores, const bool *skip,
					  size_t n_ids);
void		plamo_free(Plamo *m);
/* Append the ids of s (valid UTF-8, n > 0). */
void		plamo_encode(const Plamo *m, PlamoWork *w, const char *s, size_t n, IntVec *out);
void		plamo_work_free(PlamoWork *w);

#endif
