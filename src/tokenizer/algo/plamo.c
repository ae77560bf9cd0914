/*
 * plamo.c
 *	  PLaMo 2's segmentation: the cheapest sequence of tokens, read from the end.
 *
 * Like Unigram it is a Viterbi search over the scores of tokens, but with different rules.  Scores are
 * whole numbers (times 10,000, rounded).  Paths are built from the end of the text; of equally good ones
 * the one that begins with the longer token wins.  A character without a token costs as much as a score
 * of -1,000 and becomes its bytes; a token with a score of -2,000 or less is ignored.  A byte order mark
 * at the beginning of the text is dropped.
 *
 * The reference walks an automaton over the reversed text.  At each position it visits the tokens that
 * begin there; here a trie finds them.  Both are O(length * longest token).  Immutable after
 * plamo_new().
 *
 * Tested by tests/unit/tokenizer/test_tokenizer_kinds.c against the reference's algorithm.
 */
#include "tokenizer/algo/plamo.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "tokenizer/trie.h"
#include "text/utf8.h"

#define SCALE			1e4
#define UNKNOWN_COST	10000000
#define INVALID_SCORE	(-20000000)

/* The best path from a position to the end. */
struct PlamoCell
{
	int64_t		cost;
	int32_t		id;				/* its first token, -1 = the bytes of a character */
	uint32_t	len;			/* bytes of that token */
};

struct Plamo
{
	Trie	   *trie;
	int32_t    *score;
	int32_t		byte_id[256];
};

/* Convert a score to a whole number; return false if it can't be used. */
static bool
whole_score(float score, int32_t *out)
{
	double		x = round((double) score * SCALE);

	if (!isfinite(score) || x <= INVALID_SCORE || x > INT32_MAX)
		return false;
	*out = (int32_t) x;
	return true;
}

Plamo *
plamo_new(const StrTab *names, const int32_t *byte_id, const float *scores, const bool *skip, size_t n_ids)
{
	Plamo	   *m = mem_zalloc(sizeof(Plamo));
	TrieKey    *key = mem_alloc((n_ids + 1) * sizeof(TrieKey));
	size_t		count = 0;

	m->score = mem_zalloc((n_ids + 1) * sizeof(int32_t));
	memcpy(m->byte_id, byte_id, sizeof(m->byte_id));
	for (size_t id = 0; id < n_ids; id++)
	{
		size_t		n;
		const char *s = strtab_get(names, (int32_t) id, &n);

		if (s != NULL && n > 0 && !skip[id] && strtab_find(names, s, n) == (int32_t) id &&
			whole_score(scores[id], &m->score[id]))
			key[count++] = (TrieKey) {s, (uint32_t) n, (int32_t) id};
	}
	m->trie = trie_new(key, count);
	mem_free(key);
	return m;
}

void
plamo_free(Plamo *m)
{
	if (m == NULL)
		return;
	trie_free(m->trie);
	mem_free(m->score);
	mem_free(m);
}

static void
find_paths(const Plamo *m, struct PlamoCell *cell, const char *s, size_t n)
{
	const Trie *t = m->trie;

	cell[n] = (struct PlamoCell) {0};
	for (size_t i = n; i-- > 0;)
	{
		struct PlamoCell best;
		uint32_t	node = 0;
		uint32_t	len;

		if (((unsigned char) s[i] & 0xC0) == 0x80)
			continue;
		len = (uint32_t) utf8_len((unsigned char) s[i]);
		best = (struct PlamoCell) {cell[i + len].cost + UNKNOWN_COST, -1, len};
		for (size_t j = i; j < n && (node = trie_step(t, node, s[j])) != 0; j++)
			if (t->id[node] >= 0)
			{
				int64_t		cost = cell[j + 1].cost - m->score[t->id[node]];

				if (cost <= best.cost)
					best = (struct PlamoCell) {cost, t->id[node], (uint32_t) (j + 1 - i)};
			}
		cell[i] = best;
	}
}

void
plamo_encode(const Plamo *m, PlamoWork *w, const char *s, size_t n, IntVec *out)
{
	if (n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0)
	{
		s += 3;
		n -= 3;
	}
	if (n + 1 > w->cap)
	{
		w->cap = n + 1 > 256 ? (n + 1) * 2 : 256;
		mem_free(w->cell);
		w->cell = mem_alloc(w->cap * sizeof(struct PlamoCell));
	}
	find_paths(m, w->cell, s, n);
	for (size_t i = 0; i < n; i += w->cell[i].len)
		if (w->cell[i].id >= 0)
			intvec_push(out, w->cell[i].id);
		else
			for (size_t k = 0; k < w->cell[i].len; k++)
				intvec_push(out, m->byte_id[(unsigned char) s[i + k]]);
}

void
plamo_work_free(PlamoWork *w)
{
	mem_free(w->cell);
	memset(w, 0, sizeof(*w));
}
