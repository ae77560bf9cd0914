/*
 * unigram.c
 *	  Unigram: the segmentation of a word with the highest sum of scores.
 *
 * A Viterbi search over the bytes of the word: for each reachable position one walk down the trie finds
 * all tokens that begin there, and each token offers a path to its end; the better path stays, of equal
 * ones the first.  A character that is no token itself may be passed as unknown, at the lowest score
 * less 10.  Adjacent unknown characters form one unknown piece: one unknown token, or byte tokens.
 * O(length * longest token).
 *
 * Sums are doubles, added from the start of the word: equal to the reference, also if two paths are
 * nearly equal.
 *
 * Most words of a text are tokens themselves.  For each token it is determined once whether the search
 * would give this token; then a hash lookup is the whole encoding.  Immutable after unigram_new().
 * Tested by tests/unit/tokenizer/test_tokenizer.c against Hugging Face.
 */
#include "tokenizer/algo/unigram.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "tokenizer/trie.h"
#include "text/utf8.h"

#define UNK_PENALTY 10.0

struct UnigramCell
{
	double		score;			/* of the best path that ends here */
	uint32_t	from;			/* where its last piece begins */
	int32_t		id;				/* -1 = no path ends here yet, or unknown */
	bool		reached;
};

struct Unigram
{
	UnigramConf c;
	Trie	   *trie;
	double	   *score;
	int32_t		byte_id[256];
	StrTab	   *whole;			/* words that are their own encoding; NULL = unused */
};

static void
viterbi(const Unigram *m, UnigramWork *w, const char *s, size_t n)
{
	struct UnigramCell *cell;
	const Trie *t = m->trie;

	if (n + 1 > w->cap)
	{
		w->cap = n + 1 > 256 ? (n + 1) * 2 : 256;
		mem_free(w->cell);
		w->cell = mem_alloc(w->cap * sizeof(struct UnigramCell));
	}
	cell = w->cell;
	for (size_t i = 0; i <= n; i++)
		cell[i].reached = false;
	cell[0].score = 0;
	for (size_t i = 0, len; i < n; i += len)
	{
		double		base = cell[i].score;
		uint32_t	node = 0;
		bool		single = false;

		len = utf8_len((unsigned char) s[i]);
		ALWAYS(cell[i].reached || i == 0);
		ALWAYS(i + len <= n);
		for (size_t j = i; j < n && (node = trie_step(t, node, s[j])) != 0; j++)
			if (t->id[node] >= 0)
			{
				struct UnigramCell *to = &cell[j + 1];
				double		sum = base + m->score[t->id[node]];

				if (!to->reached || sum > to->score)
					*to = (struct UnigramCell) {sum, (uint32_t) i, t->id[node], true};
				single = single || j + 1 - i == len;
			}
		if (!single)
		{
			struct UnigramCell *to = &cell[i + len];
			double		sum = base + (m->c.min_score - UNK_PENALTY);

			if (!to->reached || sum > to->score)
				*to = (struct UnigramCell) {sum, (uint32_t) i, -1, true};
		}
	}
}

/* Push the ids of the unknown text s[0..n), last first. */
static void
push_unknown(const Unigram *m, const char *s, size_t n, IntVec *rev)
{
	int32_t		id = strtab_find(m->c.names, s, n);
	bool		bytes = m->c.byte_fallback;

	if (id >= 0 && !m->c.skip[id])
	{
		intvec_push(rev, id);	/* together they are a token, with a very low score */
		return;
	}
	for (size_t i = 0; i < n && bytes; i++)
		bytes = m->byte_id[(unsigned char) s[i]] >= 0;
	if (!bytes)
		intvec_push(rev, m->c.unk);
	else
		while (n > 0)
			intvec_push(rev, m->byte_id[(unsigned char) s[--n]]);
}

static void
encode_word(const Unigram *m, UnigramWork *w, const char *s, size_t n, IntVec *out)
{
	size_t		end = n;

	viterbi(m, w, s, n);
	intvec_reset(&w->rev);
	while (end > 0)
	{
		const struct UnigramCell *at = &w->cell[end];
		size_t		from = at->from;

		/* each cell was reached from an earlier one, so this ends */
		ALWAYS(at->reached && from < end);
		if (at->id >= 0)
			intvec_push(&w->rev, at->id);
		else
		{
			while (from > 0 && w->cell[from].id < 0)
				from = w->cell[from].from;
			push_unknown(m, s + from, end - from, &w->rev);
		}
		end = from;
	}
	for (size_t i = w->rev.len; i > 0; i--)
		intvec_push(out, w->rev.data[i - 1]);
}

static void
find_whole(Unigram *m, const bool *usable)
{
	UnigramWork w = {0};
	IntVec		ids = {0};

	m->whole = strtab_new(m->c.n_ids);
	for (size_t id = 0; id < m->c.n_ids; id++)
	{
		size_t		n;
		const char *s = strtab_get(m->c.names, (int32_t) id, &n);

		if (!usable[id])
			continue;
		intvec_reset(&ids);
		encode_word(m, &w, s, n, &ids);
		if (ids.len == 1 && ids.data[0] == (int32_t) id)
		{
			strtab_set(m->whole, (int32_t) id, s, n);
			strtab_index(m->whole, (int32_t) id);
		}
	}
	intvec_free(&ids);
	unigram_work_free(&w);
}

Unigram *
unigram_new(const UnigramConf *c)
{
	Unigram    *m = mem_zalloc(sizeof(Unigram));
	TrieKey    *key = mem_alloc((c->n_ids + 1) * sizeof(TrieKey));
	bool	   *usable = mem_zalloc(c->n_ids + 1);
	bool	   *skip = mem_alloc(c->n_ids + 1);
	size_t		count = 0;

	memcpy(skip, c->skip, c->n_ids);
	m->c = *c;
	m->c.skip = skip;
	m->c.score = NULL;			/* the caller may free its arrays */
	m->score = mem_alloc((c->n_ids + 1) * sizeof(double));
	memcpy(m->score, c->score, c->n_ids * sizeof(double));
	for (int b = 0; b < 256; b++)
	{
		char		s[8];

		snprintf(s, sizeof(s), "<0x%02X>", b);
		m->byte_id[b] = strtab_find(c->names, s, 6);
	}
	for (size_t id = 0; id < c->n_ids; id++)
	{
		size_t		n;
		const char *s = strtab_get(c->names, (int32_t) id, &n);

		usable[id] = s != NULL && n > 0 && !c->skip[id] && strtab_find(c->names, s, n) == (int32_t) id;
		if (usable[id])
			key[count++] = (TrieKey) {s, (uint32_t) n, (int32_t) id};
	}
	m->trie = trie_new(key, count);
	if (c->words)
		find_whole(m, usable);
	mem_free(key);
	mem_free(usable);
	return m;
}

void
unigram_free(Unigram *m)
{
	if (m == NULL)
		return;
	trie_free(m->trie);
	strtab_free(m->whole);
	mem_free(m->score);
	mem_free((bool *) m->c.skip);
	mem_free(m);
}

void
unigram_encode(const Unigram *m, UnigramWork *w, const char *s, size_t n, IntVec *out)
{
	if (m->whole != NULL && n <= strtab_longest(m->whole))
	{
		int32_t		id = strtab_find(m->whole, s, n);

		if (id >= 0)
		{
			intvec_push(out, id);
			return;
		}
	}
	encode_word(m, w, s, n, out);
}

void
unigram_work_free(UnigramWork *w)
{
	mem_free(w->cell);
	intvec_free(&w->rev);
	memset(w, 0, sizeof(*w));
}
