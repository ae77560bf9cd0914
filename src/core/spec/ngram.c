/*
 * ngram.c
 *	  Drafts from the request's own text: the tokens that followed an earlier occurrence of its last
 *	  tokens.
 *
 * The proposer takes the longest n-gram, of lookup_max down to lookup_min tokens, that the tokens end
 * with and that occurred before; the drafts are the tokens after its first occurrence
 * (docs/user/speculative-decoding.md).
 *
 * For each length there is a table of the first occurrence of each n-gram.  It is updated with the
 * request's new tokens, so a step costs O(lengths), not O(tokens).  An n-gram is found by a hash of its
 * tokens, computed from hashes of the request's prefixes in constant time; tokens are then compared.
 *
 * Owner: the request, on the step thread.  Tested by tests/unit/core/spec/test_spec_propose.c.
 */
#include "core/spec/spec.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/rng.h"

#define FIRST_SLOTS	64

/* n-grams of one length. */
typedef struct NgramTable
{
	int32_t    *at;				/* [n_slots] index after the n-gram's last token, + 1; 0 = free */
	uint32_t	n_slots;		/* a power of two, at least twice n */
	uint32_t	n;
} NgramTable;

/* State of a request. */
typedef struct Ngram
{
	int			from;			/* first token that counts */
	/* number of tokens in the tables: n-grams that end before the last token */
	int			seen;
	uint64_t   *sum;			/* [cap] hashes of tokens [from .. from + i) */
	size_t		cap;
	NgramTable	tables[];		/* [lengths], shortest first */
} Ngram;

typedef struct NgramProposer
{
	int			min;
	int			max;
	uint64_t	base;			/* base of the hash polynomial: odd and random, so that no client can choose
								 * tokens whose n-grams have the same hash */
	uint64_t	power[];		/* [max + 1] powers of base */
} NgramProposer;

static uint64_t
hash_of(const NgramProposer *p, const Ngram *g, int end, int n)
{
	uint64_t	h = g->sum[end - g->from] - g->sum[end - n - g->from] * p->power[n];

	h ^= h >> 32;
	h *= UINT64_C(0xD6E8FEB86659FD93);
	return h ^ h >> 32;
}

static bool
same(const int32_t *tokens, int a, int b, int n)
{
	return memcmp(tokens + a - n, tokens + b - n, (size_t) n * sizeof(int32_t)) == 0;
}

/* Return the slot of the n-gram that ends at `end`, or a free slot for it. */
static uint32_t
slot_of(const NgramProposer *p, const Ngram *g, const NgramTable *t, const int32_t *tokens, int end, int n)
{
	uint32_t	at = (uint32_t) hash_of(p, g, end, n) & (t->n_slots - 1);

	while (t->at[at] != 0 && !same(tokens, t->at[at] - 1, end, n))
		at = (at + 1) & (t->n_slots - 1);
	return at;
}

static void
grow(const NgramProposer *p, const Ngram *g, NgramTable *t, const int32_t *tokens, int n)
{
	NgramTable	old = *t;

	t->n_slots = old.n_slots == 0 ? FIRST_SLOTS : old.n_slots * 2;
	t->at = mem_zalloc((size_t) t->n_slots * sizeof(int32_t));
	for (uint32_t i = 0; i < old.n_slots; i++)
		if (old.at[i] != 0)
			t->at[slot_of(p, g, t, tokens, old.at[i] - 1, n)] = old.at[i];
	mem_free(old.at);
}

/* Add the n-grams of new tokens that end before the last one. */
static void
catch_up(const NgramProposer *p, Ngram *g, const Req *r)
{
	const int32_t *tokens = r->tokens.data;
	int			len = (int) r->tokens.len;

	if ((size_t) (len - g->from) >= g->cap)
	{
		g->cap = (size_t) (len - g->from + 1) * 3 / 2;
		g->sum = mem_realloc(g->sum, g->cap * sizeof(uint64_t));
	}
	for (int i = g->seen; i < len; i++)
		g->sum[i + 1 - g->from] = g->sum[i - g->from] * p->base + (uint64_t) (uint32_t) tokens[i] + 1;
	for (int n = p->min; n <= p->max; n++)
	{
		NgramTable *t = &g->tables[n - p->min];
		int			first = g->seen > g->from + n ? g->seen : g->from + n;

		for (int end = first; end < len; end++)
		{
			uint32_t	at;

			if ((t->n + 1) * 2 > t->n_slots)
				grow(p, g, t, tokens, n);
			/* otherwise the search for a slot would not end */
			ASSERT(t->n < t->n_slots);
			at = slot_of(p, g, t, tokens, end, n);
			if (t->at[at] == 0)
			{
				t->at[at] = end + 1;
				t->n++;
			}
		}
	}
	g->seen = len;
}

static Ngram *
ngram_of(const NgramProposer *p, Req *r)
{
	Ngram	   *g = r->spec->own;

	if (g != NULL)
		return g;
	r->spec->own = g = mem_zalloc(sizeof(*g) + (size_t) (p->max - p->min + 1) * sizeof(NgramTable));
	/* rows of embeddings have no token ids */
	g->from = g->seen = r->in.embeds != NULL ? r->in.n_prompt : 0;
	g->cap = 64;
	g->sum = mem_zalloc(g->cap * sizeof(uint64_t));
	return g;
}

static void
propose_one(const NgramProposer *p, Req *r, int most)
{
	Ngram	   *g = ngram_of(p, r);
	int			len = (int) r->tokens.len;

	catch_up(p, g, r);
	for (int n = p->max; n >= p->min; n--)
	{
		const NgramTable *t = &g->tables[n - p->min];
		int			end;

		if (t->n == 0 || n > len - g->from)
			continue;
		end = t->at[slot_of(p, g, t, r->tokens.data, len, n)] - 1;
		if (end < 0)
			continue;
		r->spec->grade = spec_grade(n);
		intvec_add(&r->spec->drafts, r->tokens.data + end, (size_t) (len - end < most ? len - end : most));
		return;
	}
}

static void
ngram_propose(void *p, DraftRequest *reqs, int n)
{
	for (int i = 0; i < n; i++)
		propose_one(p, reqs[i].r, reqs[i].most);
}

static void
ngram_forget(void *self, Req *r)
{
	const NgramProposer *p = self;
	Ngram	   *g = r->spec->own;

	if (g == NULL)
		return;
	for (int i = 0; i <= p->max - p->min; i++)
		mem_free(g->tables[i].at);
	mem_free(g->sum);
	mem_free(g);
	r->spec->own = NULL;
}

static bool
ngram_open(const SpecEnv *env, void **out, Err *e)
{
	int			max = env->conf->lookup_max;
	NgramProposer *p = mem_zalloc(sizeof(*p) + ((size_t) max + 1) * sizeof(uint64_t));

	(void) e;
	p->min = env->conf->lookup_min;
	p->max = max;
	p->base = rng_seed() | 1;
	p->power[0] = 1;
	for (int i = 1; i <= max; i++)
		p->power[i] = p->power[i - 1] * p->base;
	*out = p;
	return true;
}

const ProposerType proposer_ngram = {
	.name = "ngram", .open = ngram_open, .close = mem_free, .propose = ngram_propose, .forget = ngram_forget
};
