/*
 * sequence_ids.c
 *	  Numbers for sequences of words; see sequence_ids.h.
 */
#include "grammar/cfg/sequence_ids.h"

#include <string.h>

#include "base/alloc.h"

#define FREE	UINT32_MAX

void
ids_init(Ids *s)
{
	memset(s, 0, sizeof(*s));
	s->cap_words = 256;
	s->word = mem_alloc(s->cap_words * sizeof(uint32_t));
	s->cap = 32;
	s->first = mem_alloc((s->cap + 1) * sizeof(uint32_t));
	s->first[0] = 0;
	s->hash_cap = 64;
	s->hash = mem_alloc(s->hash_cap * sizeof(uint32_t));
	memset(s->hash, 0xff, s->hash_cap * sizeof(uint32_t));
}

void
ids_free(Ids *s)
{
	mem_free(s->word);
	mem_free(s->first);
	mem_free(s->hash);
}

size_t
ids_memory(const Ids *s)
{
	return ((size_t) s->cap_words + s->cap + s->hash_cap) * sizeof(uint32_t);
}

static uint32_t
hash_words(const uint32_t *w, uint32_t n)
{
	uint64_t	h = n * 0x9E3779B97F4A7C15u;

	for (uint32_t i = 0; i < n; i++)
		h = ((h ^ h >> 32) + w[i]) * 0x9E3779B97F4A7C15u;
	return (uint32_t) (h ^ h >> 32);
}

static void
rehash(Ids *s)
{
	s->hash_cap *= 2;
	s->hash = mem_realloc(s->hash, s->hash_cap * sizeof(uint32_t));
	memset(s->hash, 0xff, s->hash_cap * sizeof(uint32_t));
	for (uint32_t i = 0; i < s->n; i++)
	{
		uint32_t	n;
		const uint32_t *w = ids_words(s, i, &n);
		uint32_t	h = hash_words(w, n) & (s->hash_cap - 1);

		while (s->hash[h] != FREE)
			h = (h + 1) & (s->hash_cap - 1);
		s->hash[h] = i;
	}
}

uint32_t
ids_get(Ids *s, const uint32_t *w, uint32_t n)
{
	uint32_t	h;

	if ((s->n + 1) * 2 > s->hash_cap)
		rehash(s);
	h = hash_words(w, n) & (s->hash_cap - 1);
	for (; s->hash[h] != FREE; h = (h + 1) & (s->hash_cap - 1))
	{
		uint32_t	len;
		const uint32_t *v = ids_words(s, s->hash[h], &len);

		if (len == n && (n == 0 || memcmp(v, w, n * sizeof(uint32_t)) == 0))
			return s->hash[h];
	}
	if (s->cap_words - s->n_words < n)
	{
		while (s->cap_words - s->n_words < n)
			s->cap_words *= 2;
		s->word = mem_realloc(s->word, s->cap_words * sizeof(uint32_t));
	}
	if (s->n == s->cap)
	{
		s->cap *= 2;
		s->first = mem_realloc(s->first, (s->cap + 1) * sizeof(uint32_t));
	}
	if (n > 0)
		memcpy(s->word + s->n_words, w, n * sizeof(uint32_t));
	s->n_words += n;
	s->hash[h] = s->n++;
	s->first[s->n] = s->n_words;
	return s->n - 1;
}
