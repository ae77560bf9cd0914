/*
 * sequence_ids.h
 *	  Numbers for sequences of 32-bit words: equal sequences have equal numbers.
 */
#ifndef VLLM_GRAMMAR_CFG_SEQUENCE_IDS_H
#define VLLM_GRAMMAR_CFG_SEQUENCE_IDS_H

#include <stddef.h>
#include <stdint.h>

typedef struct Ids
{
	uint32_t   *word;			/* all sequences, one after the other */
	uint32_t	n_words,
				cap_words;
	uint32_t   *first;			/* [n + 1] */
	uint32_t	n,
				cap;
	uint32_t   *hash;
	uint32_t	hash_cap;
} Ids;

void		ids_init(Ids *s);
void		ids_free(Ids *s);
size_t		ids_memory(const Ids *s);
/* Return the number of w[0..n); new sequences get the numbers 0, 1, ... */
uint32_t	ids_get(Ids *s, const uint32_t *w, uint32_t n);

static inline const uint32_t *
ids_words(const Ids *s, uint32_t i, uint32_t *n)
{
	*n = s->first[i + 1] - s->first[i];
	return s->word + s->first[i];
}

#endif
